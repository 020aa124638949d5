//! Two office servers as processes on a real Redis, behind one address: one of them is killed and comes back.
//!
//! Where there is no `redis-server`, the tests say so and end.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use platform::Tasks;
use serde_json::json;
use smcp::{
    LinkConfig,
    agent::{Agent, Call},
};
use testkit::{PATIENCE, eventually};
use tokio_util::sync::CancellationToken;
use wire::smcp::Profile;

use super::{AGENT, Running, Scene, TOOLS};

/// Calls that are under way when a server is killed.
pub(super) const IN_FLIGHT: usize = 100;

/// A Redis of the test's own; killed with it.
struct Redis {
    child: Child,
    url: String,
}

impl Redis {
    fn start(scene: &Scene) -> Option<Self> {
        let folder = scene.home.scratch("redis");
        fs::create_dir_all(&folder).unwrap();
        let url = format!("redis+unix://{}/r.sock", folder.display());
        let started = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .args(["--unixsocket", "r.sock"])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else {
            println!("skipped: there is no redis-server, which ./test installs");
            return None;
        };
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready = lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.contains("eady to accept connections"));
        let redis = Self { child, url };
        assert!(is_ready, "Redis starts");
        thread::spawn(move || lines.for_each(drop)); // It goes on writing.
        Some(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended already.
        let _ = self.child.wait();
    }
}

/// One address in front of several servers: a connection goes to the first that takes it.
struct Front {
    address: SocketAddr,
    servers: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Front {
    fn of(servers: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let servers = Arc::new(Mutex::new(servers));
        let known = Arc::clone(&servers);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let servers = known.lock().unwrap().clone();
                let server = servers
                    .iter()
                    .find_map(|server| TcpStream::connect(server).ok());
                if let Some(server) = server {
                    pipe(&client, &server);
                    pipe(&server, &client);
                }
            }
        });
        Self { address, servers }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn pipe(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to); // Either may be killed.
        let _ = to.shutdown(std::net::Shutdown::Both);
        let _ = from.shutdown(std::net::Shutdown::Both);
    });
}

fn serve(scene: &Scene, address: &str) -> (Running, SocketAddr) {
    let (tokens, redis) = (scene.path("tokens"), scene.path("redis.url"));
    let mut arguments = vec!["office", "serve", "--listen", address];
    arguments.extend(["--token-file", &tokens, "--redis-file", &redis]);
    let server = Running::start(scene.home.command(&arguments));
    let said = server.until("office server at ");
    let address = said.trim_start_matches("office server at http://");
    (server, address.parse().unwrap())
}

/// An agent that stays in the office.
pub(super) async fn agent(address: SocketAddr, tasks: &Tasks) -> Agent {
    let link = LinkConfig {
        url: format!("http://{address}"),
        token: AGENT.to_owned(),
        profile: Profile::Shipped,
        office: "studio".to_owned(),
        name: "agentcraft".to_owned(),
        connector: None,
    };
    let (agent, mut news) = Agent::start(link, tasks);
    agent.joined().await.unwrap();
    tasks.spawn(|_| async move { while news.recv().await.is_some() {} });
    agent
}

pub(super) async fn until_tools(agent: &Agent) {
    let there = async {
        while agent.tools("nova").await.map_or(0, |tools| tools.len()) != TOOLS.len() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let there = tokio::time::timeout(PATIENCE, there).await;
    there.expect("the computer is there by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_loses_no_call_unheard_and_its_computers_come_back() {
    let Some(mut scene) = Scene::start() else {
        return;
    };
    let Some(redis) = Redis::start(&scene) else {
        return;
    };
    scene.write("redis.url", &redis.url);
    let (_kept, first) = serve(&scene, "127.0.0.1:0");
    let (mut doomed, second) = serve(&scene, "127.0.0.1:0");
    let front = Front::of(vec![second, first]);
    scene.url = front.url();
    let _computer = scene.lending_computer();
    let tasks = Tasks::new();
    let agent = agent(first, &tasks).await;
    until_tools(&agent).await;
    let call = |tool: &str, body: serde_json::Value| {
        let body = body.as_object().cloned().unwrap_or_default();
        Call::new("nova", tool, body, Duration::from_secs(60))
    };
    let never = CancellationToken::new();
    let sum = || call("scripted__plus", json!({"a": 1, "b": 2}));
    let result = agent.call(&sum(), &never).await.unwrap();
    assert_eq!(result.content[0]["text"], "3");
    let begun = scene.home.scratch("cancelled.begun");
    let calls: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (agent, never) = (agent.clone(), never.clone());
            let slow = call("scripted__slow", json!({}));
            tokio::spawn(async move { agent.call(&slow, &never).await })
        })
        .collect();
    let has_begun =
        tokio::task::spawn_blocking(move || eventually("the calls have begun", || begun.exists()));
    has_begun.await.unwrap();
    assert_eq!(doomed.end("KILL"), None);
    for under_way in calls {
        let ended = tokio::time::timeout(PATIENCE, under_way).await;
        let lost = ended.expect("every call ends").unwrap().unwrap_err();
        let words = lost.to_string();
        assert!(
            words.contains("left") || words.contains("not found"),
            "{words}"
        );
    }
    // It has found the server that lives, through the same address.
    until_tools(&agent).await;
    let result = agent.call(&sum(), &never).await.unwrap();
    assert_eq!(result.content[0]["text"], "3");
    // The one that was killed is back, and takes part.
    let (_back, second) = serve(&scene, &second.to_string());
    front.servers.lock().unwrap().clone_from(&vec![second]);
    assert_eq!(tasks.drain(PATIENCE).await, platform::Drained::Clean);
    assert_eq!(scene.tools(), TOOLS);
}

#[test]
fn a_password_is_no_argument_and_a_redis_that_is_not_there_is_told() {
    let Some(scene) = Scene::start() else { return };
    let serve = |more: &[&str]| {
        let mut arguments = vec!["office", "serve", "--listen", "127.0.0.1:0"];
        arguments.extend(more);
        scene.home.cli(&arguments)
    };
    let refused = serve(&["--redis", "redis://:sesame@127.0.0.1:1/0"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("--redis-file"), "{refused:?}");
    assert!(!refused.stderr.contains("sesame"), "{refused:?}");
    scene.write("redis.url", "redis://:sesame@127.0.0.1:1/0");
    let away = serve(&["--redis-file", &scene.path("redis.url")]);
    assert_ne!(away.code, 0);
    assert!(
        away.stderr.contains("127.0.0.1:1 cannot be reached"),
        "{away:?}"
    );
    assert!(!away.stderr.contains("sesame"), "{away:?}");
}
