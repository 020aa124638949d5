//! A computer whose files change while it is in the office, and files that go to it and come from it.

use std::{fs, process::Stdio, time::Duration};

use platform::Tasks;
use serde_json::{Value, json};
use smcp::{
    LinkConfig,
    agent::{Agent, News},
};
use testkit::{PATIENCE, eventually};
use tokio::sync::mpsc;
use wire::smcp::Profile;

use super::{AGENT, SERVER, Scene};

/// An agent that stays in the office, and looks only when it is told to.
struct Listener {
    agent: Agent,
    news: mpsc::Receiver<News>,
    _tasks: Tasks,
}

impl Listener {
    async fn join(scene: &Scene) -> Self {
        let link = LinkConfig {
            url: scene.url.clone(),
            token: AGENT.to_owned(),
            profile: Profile::Shipped,
            office: "studio".to_owned(),
            // The name of the commands, whose place it may take while they leave.
            name: "agentcraft".to_owned(),
            connector: None,
        };
        let tasks = Tasks::new();
        let (agent, news) = Agent::start(link, &tasks);
        agent.joined().await.unwrap();
        Self {
            agent,
            news,
            _tasks: tasks,
        }
    }

    async fn hear(&mut self) -> News {
        let heard = tokio::time::timeout(PATIENCE, self.news.recv()).await;
        heard.expect("the office says something").unwrap()
    }

    /// Waits until the computer has these tools.
    async fn until_tools(&mut self, expected: &[&str]) {
        loop {
            let tools = self.agent.tools("nova").await.unwrap();
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            if names == expected {
                return;
            }
            while !matches!(self.hear().await, News::ToolsChanged { .. }) {}
        }
    }
}

impl Scene {
    /// As editors do it: whole, and in one step.
    fn replace(&self, name: &str, content: &str) {
        let new = format!("{name}.new");
        self.write(&new, content);
        fs::rename(self.path(&new), self.path(name)).unwrap();
    }

    fn second(&self, word: &str) -> Value {
        let mark = self.home.mark();
        let (key, value) = mark.split_once('=').unwrap();
        json!({
            "type": "stdio", "command": self.python, "args": [SERVER, "stdio"],
            "env": {(key): value, "WORD": word}, "forbidden_tools": ["slow", "die", "variable"],
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_come_change_and_go_without_a_word_to_the_others() {
    let Some(scene) = Scene::start() else { return };
    let _computer = scene.lending_computer();
    let [first] = scene.home.agent_processes()[..] else {
        panic!("one server runs");
    };
    let mut listener = Listener::join(&scene).await;
    let one = ["scripted__plus", "scripted__slow", "scripted__variable"];
    let both = [&one[..], &["second__add"]].concat();
    listener.until_tools(&one).await;

    let mut servers = scene.servers();
    servers["servers"]["second"] = scene.second("one");
    scene.replace("servers.json", &servers.to_string());
    listener.until_tools(&both).await;
    let [second] = others(&scene, first)[..] else {
        panic!("two servers run");
    };

    servers["servers"]["second"] = scene.second("two");
    scene.replace("servers.json", &servers.to_string());
    eventually(
        "the changed server is another process",
        || matches!(others(&scene, first)[..], [other] if other != second),
    );
    listener.until_tools(&both).await;

    // Half a file changes nothing.
    scene.replace("servers.json", "{\"servers\": ");
    servers["servers"]["second"] = Value::Null;
    servers["servers"].as_object_mut().unwrap().remove("second");
    servers["servers"]["scripted"]["forbidden_tools"] = json!(["die", "slow"]);
    scene.replace("servers.json", &servers.to_string());
    listener
        .until_tools(&["scripted__plus", "scripted__variable"])
        .await;
    eventually("the server that is gone has ended", || {
        scene.home.agent_processes() == [first]
    });
    let config = listener.agent.config("nova").await.unwrap();
    assert_eq!(config.servers["scripted"].forbidden_tools.len(), 2);
}

/// The processes of servers but this one.
fn others(scene: &Scene, first: u32) -> Vec<u32> {
    let processes = scene.home.agent_processes();
    assert!(processes.contains(&first), "{processes:?}");
    processes.into_iter().filter(|pid| *pid != first).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_go_to_a_computer_and_its_skills_are_read() {
    let Some(scene) = Scene::start() else { return };
    let entry = |words: &str| format!("---\ndescription: {words}\n---\nPut things away.\n");
    scene.write("skills/tidy/SKILL.md", &entry("Tidies up."));
    scene.write("notes.md", "the notes");
    let (skills, uploads) = (scene.path("skills"), scene.path("uploads"));
    let computer = scene.computer(&["--yes", "--skills", &skills, "--uploads", &uploads]);
    computer.until("joined");
    let notes = scene.path("notes.md");
    let sent = scene.office("upload", &["nova", &notes]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let landed = sent.stdout.trim();
    assert!(
        landed.starts_with(&uploads) && landed.ends_with("_notes.md"),
        "{landed}"
    );
    assert_eq!(fs::read_to_string(landed).unwrap(), "the notes");
    assert_eq!(scene.json("skills", &["nova"])[0]["name"], "tidy");
    let read = scene.office("skills", &["nova", "tidy"]);
    assert_eq!(read.stdout, "Put things away.\n");
    let refused = scene.office("skills", &["nova", "tidy", "../../agent.token"]);
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (1, ""),
        "{refused:?}"
    );
    let mut listener = Listener::join(&scene).await;
    scene.write("skills/tidy/SKILL.md", &entry("Tidies up well."));
    while !matches!(listener.hear().await, News::SkillsChanged { .. }) {}
    let skills = listener.agent.skills("nova").await.unwrap();
    assert_eq!(skills[0]["description"], "Tidies up well.");
    drop(computer);
    let mute = scene.computer(&["--yes"]);
    mute.until("joined");
    let refused = tokio::time::timeout(Duration::from_secs(30), async {
        // Until the first computer's place is given up the second waits for it, so that one answer may still be its.
        listener.agent.upload("nova", b"x", "x").await
    });
    let refused = refused.await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("takes no files"), "{refused}");
}

#[test]
fn a_call_whose_computer_is_killed_ends_in_words() {
    let Some(scene) = Scene::start() else { return };
    let mut computer = scene.lending_computer();
    let token = scene.path("agent.token");
    let mut arguments = vec!["office", "call", &scene.url, "studio", "nova"];
    arguments.extend(["scripted__slow", "--timeout", "600", "--token-file", &token]);
    let calling = scene
        .home
        .command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = scene.home.scratch("cancelled.begun");
    eventually("the call has begun", || begun.exists());
    assert_eq!(computer.end("KILL"), None);
    let ended = calling.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("has left before it answered"), "{said}");
}
