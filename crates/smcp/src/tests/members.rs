//! Our agent and our computer in our office.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;
use wire::smcp::{
    Change, Profile,
    Profile::{Seed, Shipped},
};

use super::support::{FakeTools, Office, SOON, computer_config, params};
use crate::{
    LinkError, Listener, Standing,
    agent::{Agent, Call, News},
    computer::Computer,
};

const BOTH: [Profile; 2] = [Seed, Shipped];

pub(super) async fn news(listening: &mut mpsc::Receiver<News>, expected: &News) {
    loop {
        let heard = timeout(SOON, listening.recv()).await;
        let heard = heard
            .unwrap_or_else(|_| panic!("{expected:?} never comes"))
            .unwrap();
        if heard == *expected {
            return;
        }
    }
}

struct Meeting {
    office: Office,
    tools: Arc<FakeTools>,
    agent: Agent,
    listening: mpsc::Receiver<News>,
    computer: Computer,
}

impl Meeting {
    async fn start(agent: Profile, computer: Profile) -> Self {
        let office = Office::start().await;
        let tools = FakeTools::new();
        let config = computer_config(office.link(computer, "pc", "o"));
        let computer = Computer::start(config, tools.clone(), &office.tasks);
        computer.joined().await.unwrap();
        let (agent, listening) = Agent::start(office.link(agent, "ann", "o"), &office.tasks);
        agent.joined().await.unwrap();
        Self {
            office,
            tools,
            agent,
            listening,
            computer,
        }
    }

    fn call(&self, tool: &str) -> Call {
        Call::new(
            "pc",
            tool,
            params(json!({"k": "é"})),
            Duration::from_secs(20),
        )
    }
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    for (a, c) in [
        (Seed, Seed),
        (Shipped, Shipped),
        (Seed, Shipped),
        (Shipped, Seed),
    ] {
        let meeting = Meeting::start(a, c).await;
        let names: Vec<String> = meeting
            .agent
            .tools("pc")
            .await
            .unwrap()
            .into_iter()
            .map(|t| t.name)
            .collect();
        assert_eq!(
            names,
            [
                "one__ask",
                "one__denied",
                "one__fail",
                "one__hang",
                "one__image",
                "one__say"
            ]
        );
        let never = CancellationToken::new();
        let result = meeting
            .agent
            .call(&meeting.call("one__say"), &never)
            .await
            .unwrap();
        assert_eq!(
            result.content,
            [json!({"type": "text", "text": "{\"k\":\"é\"}"})]
        );
        assert!(!result.is_error);
        let failed = meeting
            .agent
            .call(&meeting.call("one__fail"), &never)
            .await
            .unwrap();
        assert!(
            failed.is_error
                && failed.content[0]["text"]
                    .as_str()
                    .unwrap()
                    .contains("on purpose")
        );
        let denied = meeting
            .agent
            .call(&meeting.call("one__denied"), &never)
            .await
            .unwrap();
        assert_eq!(denied.meta.unwrap()["error_code"], 4006);
        meeting.office.stop().await;
    }
}

#[tokio::test]
async fn what_may_not_be_called_is_not() {
    for profile in BOTH {
        let meeting = Meeting::start(profile, profile).await;
        let never = CancellationToken::new();
        for tool in ["one__burn", "off__any"] {
            let error = meeting
                .agent
                .call(&meeting.call(tool), &never)
                .await
                .unwrap_err();
            assert!(
                matches!(error, LinkError::Refused(body) if body.code == 403),
                "{tool}"
            );
        }
        let asked = meeting
            .agent
            .call(&meeting.call("one__ask"), &never)
            .await
            .unwrap();
        assert!(asked.is_error, "nobody is there to confirm it");
        match meeting
            .agent
            .call(&meeting.call("one__unknown"), &never)
            .await
        {
            Err(LinkError::Refused(body)) => assert_eq!((profile, body.code), (Seed, 404)),
            Ok(result) => assert!(profile == Shipped && result.is_error),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(meeting.tools.calls(), 0);
        meeting.office.stop().await;
    }
}

#[tokio::test]
async fn a_confirmed_call_is_carried_out() {
    let office = Office::start().await;
    let tools = FakeTools::new();
    let mut config = computer_config(office.link(Seed, "pc", "o"));
    config.confirm = Some(Arc::new(|asked| {
        let is_fine = asked.agent == "ann" && asked.params["k"] == "yes" && !asked.is_applied;
        Box::pin(async move { is_fine.then_some(()).ok_or("not this one".to_owned()) })
    }));
    let computer = Computer::start(config, tools.clone(), &office.tasks);
    computer.joined().await.unwrap();
    let (agent, _listening) = Agent::start(office.link(Seed, "ann", "o"), &office.tasks);
    agent.joined().await.unwrap();
    for (said, is_error) in [("yes", false), ("no", true)] {
        let call = Call::new("pc", "one__ask", params(json!({"k": said})), SOON);
        let result = agent.call(&call, &CancellationToken::new()).await.unwrap();
        assert_eq!(result.is_error, is_error);
    }
    assert_eq!(tools.calls(), 1);
    office.stop().await;
}

#[tokio::test]
async fn a_cancel_reaches_the_running_call() {
    for profile in BOTH {
        let meeting = Meeting::start(profile, profile).await;
        let cancel = CancellationToken::new();
        let call = meeting.call("one__hang");
        let (result, ()) = tokio::join!(meeting.agent.call(&call, &cancel), async {
            meeting.tools.begun.notified().await;
            cancel.cancel();
        });
        timeout(SOON, meeting.tools.cancelled.notified())
            .await
            .unwrap();
        assert_eq!(result.unwrap().meta.unwrap()["a2c_cancelled"], true);
        meeting.office.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_hangs_ends_in_its_time() {
    for profile in BOTH {
        let meeting = Meeting::start(profile, profile).await;
        let mut call = meeting.call("one__hang");
        call.timeout = Duration::from_secs(1);
        match meeting.agent.call(&call, &CancellationToken::new()).await {
            Err(LinkError::Refused(body)) => assert_eq!((profile, body.code), (Seed, 408)),
            Ok(result) => assert_eq!(
                (profile, &result.meta.unwrap()["a2c_timeout"]),
                (Shipped, &json!(true))
            ),
            Err(error) => panic!("{error}"),
        }
        timeout(SOON, meeting.tools.cancelled.notified())
            .await
            .unwrap();
        meeting.office.stop().await;
    }
}

#[tokio::test]
async fn a_large_binary_arrives_whole() {
    let meeting = Meeting::start(Shipped, Shipped).await;
    let result = meeting
        .agent
        .call(&meeting.call("one__image"), &CancellationToken::new())
        .await
        .unwrap();
    let data = result.content[0]["data"].as_str().unwrap();
    assert_eq!(data.len(), 700_000_usize.div_ceil(3) * 4);
    assert_eq!(result.content[0]["_meta"], json!({}));
    let gone = meeting.agent.blob("pc", "unknown").await.unwrap_err();
    assert!(matches!(gone, LinkError::Refused(body) if body.code == 4018));
    meeting.office.stop().await;
}

#[tokio::test]
async fn a_configuration_travels_without_its_secrets() {
    for (a, c) in [
        (Seed, Seed),
        (Shipped, Shipped),
        (Seed, Shipped),
        (Shipped, Seed),
    ] {
        let meeting = Meeting::start(a, c).await;
        let config = meeting.agent.config("pc").await.unwrap();
        let keys: Vec<&str> = config.servers.keys().map(String::as_str).collect();
        assert_eq!(keys, ["off", "one"]);
        assert!(config.servers["off"].disabled);
        let told = config.to_value(a).to_string();
        assert!(!told.contains("SECRET"), "{told}");
        meeting.office.stop().await;
    }
}

#[tokio::test]
async fn windows_make_a_desktop() {
    for profile in BOTH {
        let meeting = Meeting::start(profile, profile).await;
        let all = meeting.agent.desktop("pc", None, None).await.unwrap();
        let (high, low) = (
            "window://one/high\n\nbody of window://one/high",
            "window://one/low\n\nbody of window://one/low",
        );
        assert_eq!(all, [high, low]);
        assert_eq!(
            meeting.agent.desktop("pc", Some(1), None).await.unwrap(),
            [high]
        );
        assert_eq!(
            meeting
                .agent
                .desktop("pc", None, Some("window://one/low"))
                .await
                .unwrap(),
            [low]
        );
        let page = meeting.agent.resources("pc", "one", None).await.unwrap();
        assert_eq!(
            (page.resources.len(), page.next_cursor.as_deref()),
            (2, Some("2"))
        );
        let wrong = meeting
            .agent
            .resources("pc", "off", None)
            .await
            .unwrap_err();
        assert!(matches!(wrong, LinkError::Refused(body) if body.code == 4014));
        meeting.office.stop().await;
    }
}

#[tokio::test]
async fn an_agent_hears_what_happens() {
    let Meeting {
        office,
        tools,
        agent,
        mut listening,
        computer,
    } = Meeting::start(Seed, Shipped).await;
    let pc = || "pc".to_owned();
    news(&mut listening, &News::Joined).await;
    computer.announce(Change::ToolList).await.unwrap();
    news(&mut listening, &News::ToolsChanged { computer: pc() }).await;
    computer.announce(Change::Desktop).await.unwrap();
    news(&mut listening, &News::DesktopChanged { computer: pc() }).await;
    drop(computer);
    news(&mut listening, &News::Left { computer: pc() }).await;
    let config = computer_config(office.link(Shipped, "pc", "o"));
    let computer = Computer::start(config, tools, &office.tasks);
    news(&mut listening, &News::Entered { computer: pc() }).await;
    computer.joined().await.unwrap();
    let members = agent.members().await.unwrap();
    assert_eq!(members.len(), 2);
    office.stop().await;
}

#[tokio::test]
async fn a_refused_member_is_told_why() {
    let office = Office::start().await;
    let mut link = office.link(Shipped, "ann", "o");
    link.token = "wrong".to_owned();
    let (agent, _listening) = Agent::start(link, &office.tasks);
    let error = agent.joined().await.unwrap_err();
    assert!(error.to_string().contains("token"), "{error}");
    let (first, _listening) = Agent::start(office.link(Shipped, "ann", "o"), &office.tasks);
    first.joined().await.unwrap();
    let (second, _listening) = Agent::start(office.link(Shipped, "bob", "o"), &office.tasks);
    assert!(
        second
            .joined()
            .await
            .unwrap_err()
            .to_string()
            .contains("agent already")
    );
    drop(first);
    let mut standing = second.standing();
    let joined = standing.wait_for(|standing| *standing == Standing::Joined);
    timeout(SOON, joined)
        .await
        .expect("it tries again")
        .unwrap();
    office.stop().await;
}

#[tokio::test]
async fn files_go_to_the_computer_and_skills_come_from_it() {
    let (files, skills) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let tidy = skills.path().join("tidy");
    std::fs::create_dir(&tidy).unwrap();
    std::fs::write(
        tidy.join("SKILL.md"),
        "---\ndescription: Tidies up.\n---\nNow.\n",
    )
    .unwrap();
    std::fs::write(tidy.join("long.bin"), [0xff; 600_000]).unwrap();
    for profile in BOTH {
        let office = Office::start().await;
        let mut config = computer_config(office.link(profile, "pc", "o"));
        config.uploads = Some(files.path().to_owned());
        config.skills = Some(skills.path().to_owned());
        let computer = Computer::start(config, FakeTools::new(), &office.tasks);
        computer.joined().await.unwrap();
        let (agent, _listening) = Agent::start(office.link(profile, "ann", "o"), &office.tasks);
        agent.joined().await.unwrap();
        for size in [1, 256 * 1024, 600_000] {
            let file = vec![7; size];
            let path = agent.upload("pc", &file, "a.bin").await.unwrap();
            assert_eq!(std::fs::read(path).unwrap(), file);
        }
        assert!(agent.upload("pc", b"", "none").await.is_err());
        let found = agent.skills("pc").await.unwrap();
        assert_eq!((found.len(), &found[0]["name"]), (1, &json!("tidy")));
        let entry = agent.skill("pc", "tidy", None).await.unwrap();
        assert_eq!(entry.bytes, b"Now.\n");
        let long = agent.skill("pc", "tidy", Some("long.bin")).await.unwrap();
        assert_eq!((long.bytes.len(), long.bytes[0]), (600_000, 0xff));
        assert!(agent.skill("pc", "none", None).await.is_err());
        office.stop().await;
    }
}

#[tokio::test]
async fn an_agent_that_asks_hears_how_far_its_call_is() {
    for (a, c) in [(Seed, Shipped), (Shipped, Seed), (Shipped, Shipped)] {
        let meeting = Meeting::start(a, c).await;
        let never = CancellationToken::new();
        let (telling, mut told) = mpsc::channel(8);
        let mut call = meeting.call("one__say");
        call.listener = Some(Listener::new(move |said| {
            let _ = telling.try_send(said); // There is room for all of it.
        }));
        assert!(!meeting.agent.call(&call, &never).await.unwrap().is_error);
        drop(call);
        for step in [1.0, 2.0] {
            let said = timeout(SOON, told.recv()).await.unwrap().unwrap();
            assert_eq!((said.progress, said.total), (step, Some(2.0)));
            assert_eq!(said.message, Some(format!("step {step}")));
        }
        // Nobody is told of a call that nobody listens to.
        let quiet = meeting.call("one__say");
        assert!(!meeting.agent.call(&quiet, &never).await.unwrap().is_error);
        assert_eq!(timeout(SOON, told.recv()).await.unwrap(), None);
        meeting.office.stop().await;
    }
}

#[tokio::test]
async fn a_cancel_right_behind_its_call_finds_it_at_the_computer() {
    let office = Office::start().await;
    let tools = FakeTools::new();
    let config = computer_config(office.link(Shipped, "pc", "o"));
    let computer = Computer::start(config, tools.clone(), &office.tasks);
    computer.joined().await.unwrap();
    let agent = office
        .member(Shipped, domain::office::Role::Agent, "ann", "o")
        .await;
    for n in 0..20 {
        let id = format!("r{n}");
        let answered = agent.begin(&json!(["client:tool_call", {
            "agent": "ann", "req_id": id, "computer": "pc", "tool_name": "one__hang",
            "params": {}, "timeout": 600
        }]));
        let cancel = json!({"agent": "ann", "req_id": id});
        agent.emit("server:tool_call_cancel", &cancel);
        let answer = timeout(SOON, answered).await.expect("it is cancelled");
        assert_eq!(answer.unwrap()[0]["isError"], true);
    }
    office.stop().await;
}
