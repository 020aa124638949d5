//! The daemon is killed at every point where a crash would be interesting, and at random moments: nothing is lost,
//! nothing is left, and the next daemon tells the truth.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use testkit::{RawClient, TestDaemon, eventually};

use crate::node;

/// How long a process of a killed daemon may outlive it.
const LEFT_AFTER: Duration = Duration::from_secs(2);

/// A program with a child in its group and a grandchild that left it.
const FAMILY: &str = r#"sleep 1000 & setsid sh -c 'sleep 1000 & wait' & touch set; wait"#;

fn prepared(daemon: &TestDaemon) {
    daemon.script_template("family", FAMILY);
    daemon.script_template("brief", "exit 1");
}

/// A life with everything in it. Stops where the daemon dies; says whether it lived to the end.
fn live(client: &mut RawClient, work_dir: &std::path::Path) -> bool {
    let service = json!({"launchMode": "acp-service"});
    let lent = json!({"workDir": work_dir, "workDirConflict": "overwrite"});
    let steps = [
        ("agent.create", json!({"name": "a1", "template": "family"})),
        ("agent.start", json!({"name": "a1"})),
        (
            "agent.create",
            json!({"name": "s1", "template": "family", "overrides": service}),
        ),
        ("agent.start", json!({"name": "s1"})),
        (
            "agent.create",
            json!({"name": "w1", "template": "family", "overrides": lent}),
        ),
        (
            "agent.attach",
            json!({"name": "w1", "pid": std::process::id()}),
        ),
        ("agent.detach", json!({"name": "w1"})),
        (
            "agent.create",
            json!({"name": "c1", "template": "brief", "overrides": service}),
        ),
        ("agent.start", json!({"name": "c1"})),
        ("agent.stop", json!({"name": "a1"})),
        ("agent.destroy", json!({"name": "w1"})),
        ("agent.destroy", json!({"name": "a1"})),
        ("agent.destroy", json!({"name": "s1"})),
        ("agent.destroy", json!({"name": "c1"})),
    ];
    steps
        .into_iter()
        .all(|(method, params)| client.call_if_alive(method, params).is_some())
}

/// What must hold after any crash, once the daemon is back.
fn check(daemon: &TestDaemon, story: &str) {
    let mut client = daemon.client();
    // A creation or removal that was under way is taken back or finished in the background.
    eventually("every agent is settled", || {
        let agents = client.ok("agent.list", json!({}));
        let settled = agents
            .as_array()
            .unwrap()
            .iter()
            .all(|agent| agent["status"] != "starting");
        settled && on_disk(daemon) == names(&agents)
    });
    let agents = client.ok("agent.list", json!({}));
    for agent in agents.as_array().unwrap() {
        let status = agent["status"].as_str().unwrap();
        let allowed: &[&str] = match agent["name"].as_str().unwrap() {
            "s1" => &["created", "running"],
            "c1" => &["created", "running", "crashed", "error", "starting"],
            "w1" => &["created", "running", "stopped"],
            _ => &["created", "stopped"],
        };
        assert!(allowed.contains(&status), "{story}: {agent}");
        // A service that keeps crashing changes while we look.
        eventually("the instance file tells the truth", || {
            let now = client.ok("agent.status", json!({"name": agent["name"]}));
            let file = format!(
                "{}/.agentcraft.json",
                agent["workspaceDir"].as_str().unwrap()
            );
            let shown: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            shown["status"] == now["status"]
        });
    }
    for agent in agents.as_array().unwrap() {
        client.ok(
            "agent.destroy",
            json!({"name": agent["name"], "force": true}),
        );
    }
    assert_eq!(on_disk(daemon), Vec::<String>::new(), "{story}");
    let work_dir = daemon.scratch("lent");
    assert_eq!(
        fs::read_to_string(work_dir.join("mine.txt")).unwrap(),
        "mine",
        "{story}"
    );
    assert!(!work_dir.join(".agentcraft.json").exists(), "{story}");
    let temps = |dir: &std::path::Path| {
        fs::read_dir(dir)
            .unwrap()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().contains("tmp"))
    };
    assert!(
        !temps(&work_dir) && !temps(&daemon.home()) && !temps(&daemon.home().join("instances")),
        "{story}"
    );
}

fn names(agents: &Value) -> Vec<String> {
    agents
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["name"].as_str().unwrap().to_owned())
        .collect()
}

fn on_disk(daemon: &TestDaemon) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(daemon.home().join("instances"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Within two seconds of the daemon's death every process of its agents is gone.
fn nothing_is_left(daemon: &TestDaemon, story: &str) {
    let died = Instant::now();
    while !daemon.agent_processes().is_empty() {
        assert!(
            died.elapsed() < LEFT_AFTER,
            "{story}: {:?} are left",
            daemon.agent_processes()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lent_dir(daemon: &TestDaemon) -> std::path::PathBuf {
    let dir = daemon.scratch("lent");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("mine.txt"), "mine").unwrap();
    dir
}

/// Every point that one whole life passes, and how often.
fn points() -> BTreeMap<String, u32> {
    let mut daemon = node().stopped();
    let trace = daemon.scratch("trace");
    fs::create_dir_all(trace.parent().unwrap()).unwrap();
    prepared(&daemon);
    let dir = lent_dir(&daemon);
    daemon.set_env("AGENTCRAFT_CRASH_TRACE", trace.to_str());
    daemon.start();
    assert!(
        live(&mut daemon.client(), &dir),
        "a life without a crash point goes to its end"
    );
    daemon.stop();
    let mut points = BTreeMap::new();
    for line in fs::read_to_string(&trace).unwrap().lines() {
        *points.entry(line.to_owned()).or_default() += 1;
    }
    points
}

#[test]
fn a_crash_at_any_point_loses_nothing_and_leaves_nothing() {
    let points = points();
    for expected in [
        "lifecycle.before-commit",
        "lifecycle.after-commit",
        "process.spawned",
        "create.materialised",
    ] {
        assert!(points.contains_key(expected), "{points:?}");
    }
    let stories: Vec<String> = points
        .iter()
        .flat_map(|(name, times)| (1..=*times).map(move |time| format!("{name}:{time}")))
        .collect();
    // Several lives at once: each has its own home, and most of their time is waiting.
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(story) =
                    stories.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    crash_at(story);
                }
            });
        }
    });
}

fn crash_at(story: &str) {
    let mut daemon = node().stopped();
    prepared(&daemon);
    let dir = lent_dir(&daemon);
    daemon.set_env("AGENTCRAFT_CRASH_AT", Some(story));
    daemon.start();
    if live(&mut daemon.client(), &dir) {
        // How often a crashing service comes by varies; a point that was not reached is no crash.
        daemon.stop();
    } else {
        daemon.wait_for_death();
    }
    nothing_is_left(&daemon, story);
    daemon.set_env("AGENTCRAFT_CRASH_AT", None);
    daemon.start();
    check(&daemon, story);
}

#[test]
fn kill_9_at_random_moments_loses_nothing_and_leaves_nothing() {
    let mut daemon = node().stopped();
    prepared(&daemon);
    let dir = lent_dir(&daemon);
    for round in 0..20u64 {
        daemon.start();
        let pid = daemon.pid();
        // Spread over the life, the same in every run: the moments are random to the daemon, not to us.
        let moment = Duration::from_millis((round * 37) % 250);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(moment);
            testkit::kill(pid, "KILL");
        });
        let mut client = daemon.client();
        while live(&mut client, &dir) {}
        killer.join().unwrap();
        daemon.wait_for_death();
        nothing_is_left(&daemon, &format!("after {moment:?}"));
        daemon.start();
        check(&daemon, &format!("after {moment:?}"));
        daemon.stop();
    }
}

#[test]
fn a_service_comes_back_after_kill_9_and_after_a_stop_of_the_daemon() {
    let mut daemon = node().start();
    prepared(&daemon);
    let mut client = daemon.client();
    for (name, mode) in [("s1", "acp-service"), ("b1", "acp-background")] {
        client.ok(
            "agent.create",
            json!({"name": name, "template": "family", "overrides": {"launchMode": mode}}),
        );
        client.ok("agent.start", json!({"name": name}));
    }
    for end in [TestDaemon::kill, TestDaemon::stop] {
        end(&mut daemon);
        nothing_is_left(&daemon, "the daemon is gone");
        daemon.start();
        let mut client = daemon.client();
        eventually("the service runs", || {
            client.ok("agent.status", json!({"name": "s1"}))["status"] == "running"
        });
        assert_eq!(
            client.ok("agent.status", json!({"name": "b1"}))["status"],
            "stopped"
        );
    }
}

#[test]
fn a_clients_process_is_recognised_after_a_crash_and_a_reused_number_is_not() {
    let mut daemon = node().start();
    daemon.script_template("own", "exec sleep 1000");
    let mut client = daemon.client();
    let mut child = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    client.ok("agent.create", json!({"name": "x1", "template": "own"}));
    client.ok("agent.attach", json!({"name": "x1", "pid": child.id()}));
    daemon.kill();
    daemon.start();
    assert_eq!(
        daemon.client().ok("agent.status", json!({"name": "x1"}))["status"],
        "running"
    );
    daemon.kill();
    child.kill().unwrap();
    child.wait().unwrap();
    daemon.start();
    eventually("the death is known", || {
        daemon.client().ok("agent.status", json!({"name": "x1"}))["status"] == "crashed"
    });
}

#[test]
fn the_guardian_is_replaced_when_it_dies_and_leftovers_of_both_are_ended_by_the_next_daemon() {
    let mut daemon = node().start();
    prepared(&daemon);
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "family"}));
    client.ok("agent.start", json!({"name": "a1"}));
    let guardian = guardian_of(daemon.pid()).expect("there is a guardian");
    testkit::kill(guardian, "KILL");
    eventually("there is another guardian", || {
        guardian_of(daemon.pid()).is_some_and(|other| other != guardian)
    });
    daemon.kill();
    nothing_is_left(&daemon, "the second guardian does its work");

    daemon.start();
    let mut client = daemon.client();
    client.ok("agent.start", json!({"name": "a1"}));
    let guardian = guardian_of(daemon.pid()).expect("there is a guardian");
    testkit::kill(daemon.pid(), "STOP"); // It must not replace the guardian before it dies itself.
    testkit::kill(guardian, "KILL");
    daemon.kill();
    assert!(
        !daemon.agent_processes().is_empty(),
        "with both gone at once the agent is left"
    );
    daemon.start();
    eventually("the next daemon has ended it", || {
        daemon.agent_processes().is_empty()
    });
}

/// The child of the daemon that is the guardian.
fn guardian_of(daemon: u32) -> Option<u32> {
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if parent == Some(daemon)
            && command.windows(8).any(|word| word == b"guardian")
            && !testkit::zombie_or_gone(pid)
        {
            return Some(pid);
        }
    }
    None
}
