//! What is too much: bodies, events, histories, connections, logs, a disk that is full. Nothing of it ends a session.

use std::{fs, io::Write as _, os::unix::net::UnixStream, path::Path, process::Command};

use serde_json::{Value, json};
use testkit::{RawClient, eventually};

use super::{Watcher, session, with_agent};
use crate::node;

/// A file system of its own for the home of a daemon, gone with this value.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// Nothing, with the reason told, where we may not mount.
    fn mount(place: &'a Path) -> Option<Self> {
        fs::create_dir_all(place).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m,mode=0700", "tmpfs"])
            .arg(place)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(place)),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                println!(
                    "left out: no small disk can be mounted here: {}",
                    why.trim()
                );
                None
            }
            Err(error) => {
                println!("left out: there is no mount: {error}");
                None
            }
        }
    }

    /// Takes all the room there is.
    fn fill(&self) -> std::path::PathBuf {
        let filler = self.0.join("filler");
        let mut file = fs::File::create(&filler).unwrap();
        let mut size = 1024 * 1024;
        while size > 0 {
            if file.write_all(&vec![b'x'; size]).is_err() {
                size /= 2;
            }
        }
        filler
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status(); // A test that has failed already has said why.
    }
}

#[test]
fn a_full_disk_fails_the_turn_in_words_and_the_session_goes_on_when_there_is_room() {
    let mut daemon = node().stopped();
    let home = daemon.home();
    let Some(disk) = SmallDisk::mount(&home) else {
        return;
    };
    daemon.template("plain", json!({"backend": {"type": "builtin"}}));
    daemon.start();
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "plain"}));
    client.ok("agent.start", json!({"name": "a1"}));
    let id = session(&mut client);
    client.ok("session.prompt", json!({"sessionId": id, "text": "first"}));
    let filler = disk.fill();
    let much = "much ".repeat(100_000);
    let failed = client.ok("session.prompt", json!({"sessionId": id, "text": much}));
    assert_eq!(failed["stopReason"], "failed", "{failed}");
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("is the disk full?"), "{error}");
    fs::remove_file(filler).unwrap();
    eventually("there is room again", || {
        let text = json!({"sessionId": id, "text": "second"});
        let answered = client.ok("session.prompt", text);
        answered["stopReason"] == "end_turn"
    });
    let events = history(&mut client, &id);
    assert!(
        events
            .iter()
            .zip(1..)
            .all(|(event, seq)| event["seq"] == seq),
        "the history has a gap"
    );
    let prompts: Vec<&str> = events
        .iter()
        .filter_map(|event| event["prompt"].as_str())
        .collect();
    assert_eq!((prompts[0], prompts[1]), ("first", much.as_str()));
    daemon.stop();
}

/// Every event of a session, page by page.
fn history(client: &mut RawClient, id: &str) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    loop {
        let from = all
            .last()
            .map_or(1, |event| event["seq"].as_u64().unwrap() + 1);
        let page = client.ok("session.events", json!({"sessionId": id, "fromSeq": from}));
        let page = page.as_array().unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page.iter().cloned());
    }
}

#[test]
fn a_huge_output_is_a_file_beside_the_store_and_whole_for_everybody_who_reads() {
    let mut daemon = with_agent(json!({"allow": ["read"]}));
    let text = "a line of a long file\n".repeat(20_000);
    fs::write(daemon.home().join("instances/a1/long.txt"), &text).unwrap();
    let mut client = daemon.client();
    let id = session(&mut client);
    client.ok(
        "session.prompt",
        json!({"sessionId": id, "text": "/read long.txt"}),
    );
    let blobs = daemon.home().join("state/state.blobs");
    assert!(fs::read_dir(&blobs).unwrap().count() >= 1);
    let before = history(&mut client, &id);
    let whole = |events: &[Value]| {
        let content = |event: &Value| {
            let shown = event["content"][0]["text"].as_str();
            shown.is_some_and(|shown| shown.contains(text.trim_end()))
        };
        events.iter().any(content)
    };
    assert!(whole(&before));
    daemon.kill();
    daemon.start();
    assert_eq!(history(&mut daemon.client(), &id), before);
    let exported = daemon.cli(&["session", "export", &id, "--format", "json"]);
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    let lines: Vec<Value> = exported
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(whole(&lines));
}

#[test]
fn more_conversations_than_an_agent_keeps_are_answered_and_a_long_journal_gives_its_newest_lines() {
    let daemon = with_agent(json!({}));
    let mut client = daemon.client();
    let words = "long ".repeat(3_400);
    let count = 257;
    for number in 1..=count {
        let message = format!("{number} {words}");
        let answer = client.ok("agent.prompt", json!({"name": "a1", "message": message}));
        assert_eq!(answer["stopReason"], "end_turn", "the {number}th: {answer}");
    }
    let query = |client: &mut RawClient, more: Value| {
        let mut params = json!({"kind": "turn.started"});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let lines = client.ok("journal.query", params);
        lines.as_array().unwrap().clone()
    };
    let newest = query(&mut client, json!({}));
    assert!(
        (100..count).contains(&newest.len()),
        "{} lines of {count} are not what fits",
        newest.len()
    );
    let last = newest.last().unwrap()["body"].to_string();
    assert!(
        last.contains(&format!("{count} long")),
        "the newest is there"
    );
    let first = newest[0]["seq"].as_i64().unwrap();
    let rest = query(&mut client, json!({"afterSeq": first, "limit": 5}));
    assert_eq!(rest[..], newest[1..6], "the next page");
}

/// An agent that tells of one tool call whose input is a long text of quotes, each of which is escaped once more on its way.
const CHATTERBOX: &str = r#"
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case $line in
    *'"initialize"'*) answer '{"protocolVersion":1}' ;;
    *'"session/new"'*) answer '{"sessionId":"x"}' ;;
    *'"session/prompt"'*)
      printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"x","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"much","rawInput":{"text":"'
      yes '\"' | head -n 2700000 | tr -d '\n'
      printf '"}}}}\n'
      answer '{"stopReason":"end_turn"}' ;;
  esac
done
"#;

#[test]
#[ignore = "ten megabytes of quotes take long in a build for tests; `./test --all` runs it"]
fn an_event_too_long_for_a_line_keeps_its_place_and_says_so() {
    let daemon = node().start();
    daemon.template(
        "much",
        json!({"backend": {"type": "custom", "config": {"executablePath": "/bin/sh", "args": ["-c", CHATTERBOX], "protocol": "acp"}}, "stopGraceMs": 200}),
    );
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "a1", "template": "much"}));
    client.ok("agent.start", json!({"name": "a1"}));
    let id = session(&mut client);
    let mut watcher = Watcher::attach(&daemon, &id, 1, false);
    client.ok("session.prompt", json!({"sessionId": id, "text": "go"}));
    watcher.until(|watcher| !watcher.of("turn-ended").is_empty());
    let seqs: Vec<u64> = watcher
        .events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<u64>>());
    let other = watcher.of("other");
    let cut = other.iter().find_map(|event| {
        event["name"]
            .as_str()
            .filter(|name| name.contains("too long"))
    });
    assert!(cut.is_some(), "{other:?}");
    let read = history(&mut client, &id);
    assert_eq!(read.len(), seqs.len(), "the history is read past it");
}

#[test]
fn the_connection_that_is_one_too_many_is_told_so() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = 4096;
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        println!("left out: this machine allows no process {wanted} open files");
        return;
    }
    let raised = rustix::process::Rlimit {
        current: Some(wanted),
        ..limit
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let daemon = node().start();
    let connect = |_| UnixStream::connect(daemon.socket()).unwrap();
    let others: Vec<UnixStream> = (0..1024).map(connect).collect();
    let words = daemon.client().receive();
    assert_eq!(words["id"], Value::Null, "{words}");
    let message = words["error"]["message"].as_str().unwrap();
    assert!(message.contains("1024 connections"), "{words}");
    let told = daemon.cli(&["agent", "list"]);
    assert_ne!(told.code, 0);
    assert!(told.stderr.contains("1024 connections"), "{}", told.stderr);
    drop(others);
    eventually("there is room again", || {
        daemon.cli(&["agent", "list"]).code == 0
    });
}

#[test]
fn a_log_that_has_grown_becomes_the_former_one() {
    let daemon = node()
        .file("logs/daemon.log", vec![b'x'; 11 * 1024 * 1024])
        .stopped();
    let started = daemon.cli(&["daemon", "start"]);
    assert_eq!(started.code, 0, "{started:?}");
    let size = |name: &str| {
        fs::metadata(daemon.home().join("logs").join(name))
            .unwrap()
            .len()
    };
    assert_eq!(size("daemon.log.old"), 11 * 1024 * 1024);
    assert!(size("daemon.log") < 1024 * 1024);
    let stopped = daemon.cli(&["daemon", "stop"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
}

#[test]
fn folders_of_the_system_and_of_the_daemon_are_nobodys_to_work_in() {
    let daemon = node().start();
    daemon.template("plain", json!({"backend": {"type": "builtin"}}));
    let link = daemon.scratch("link");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(daemon.home(), &link).unwrap();
    let home = daemon.home();
    let forbidden = [
        home.clone(),
        home.join("instances/other"),
        home.parent().unwrap().to_owned(),
        link.join("configs"),
        "/".into(),
        "/etc/agents".into(),
        "/proc/self".into(),
    ];
    let mut client = daemon.client();
    for dir in forbidden {
        let create = json!({"name": "w1", "template": "plain", "overrides": {"workDir": dir}});
        let error = client.call("agent.create", create).unwrap_err();
        assert_eq!(error.code, -32005, "{}: {error:?}", dir.display());
    }
    assert_eq!(client.ok("agent.list", json!({})), json!([]));
    assert_eq!(fs::read_dir(home.join("instances")).unwrap().count(), 0);
}

#[test]
fn a_number_that_is_no_process_of_a_clients_is_not_attached() {
    let daemon = node().start();
    daemon.script_template("own", "exec sleep 1000");
    let mut client = daemon.client();
    client.ok("agent.resolve", json!({"name": "x1", "template": "own"}));
    // The harness waits in another thread than the test runs in; a thread has a number and is no process.
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let mut threads = tasks.filter_map(|task| task.unwrap().file_name().to_str()?.parse().ok());
    let thread = threads.find(|thread: &u32| *thread != std::process::id());
    let thread = thread.expect("the test runs beside its harness");
    for pid in [0, 1, daemon.pid(), thread, u32::MAX] {
        let attach = json!({"name": "x1", "pid": pid});
        let error = client.call("agent.attach", attach).unwrap_err();
        assert!(error.message.contains("process"), "{pid}: {error:?}");
    }
    for pid in [
        json!(-1),
        json!(1.5),
        json!("1"),
        json!(null),
        json!(u64::MAX),
    ] {
        let attach = json!({"name": "x1", "pid": pid});
        let error = client.call("agent.attach", attach).unwrap_err();
        assert_eq!(error.code, -32602, "{pid}: {error:?}");
    }
    let status = client.ok("agent.status", json!({"name": "x1"}));
    assert_eq!(status["pid"], Value::Null, "{status}");
}

#[test]
fn a_client_has_a_name_that_others_can_be_shown() {
    let daemon = with_agent(json!({}));
    let mut client = daemon.client();
    for name in ["x".repeat(200), "a\nb".to_owned()] {
        let params = json!({"agentName": "a1", "clientId": name});
        let refused = client.call("session.create", params).unwrap_err();
        assert_eq!(refused.code, -32602, "{refused:?}");
    }
}
