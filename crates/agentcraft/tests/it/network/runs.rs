//! The runs API with the built-in agent: the standard client, bodies as callers on a local network write them, and what is
//! left of a run when the daemon is killed.

use std::process::Command;

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::{http::Http, listening, passes, python, with_echo, with_phone, workspace_file};
use crate::node;

#[test]
fn the_standard_client_runs_streams_answers_cancels_and_keeps_sessions() {
    let daemon = listening();
    if !passes("acp_rest", include_str!("acp_client.py"), &daemon, &[]) {
        return;
    }
    for (file, there) in [
        ("sync.txt", true),
        ("async.txt", true),
        ("stream.txt", true),
        ("denied.txt", false),
        ("never.txt", false),
    ] {
        assert_eq!(
            workspace_file(&daemon, "echo", file).exists(),
            there,
            "{file}"
        );
    }
}

pub(super) fn text(run: &Value) -> String {
    let messages = run["output"].as_array().unwrap().iter();
    let parts = messages.flat_map(|message| message["parts"].as_array().unwrap());
    parts.filter_map(|part| part["content"].as_str()).collect()
}

/// As a caller on a local network writes it: the agent by id, no roles, where it comes from.
pub(super) fn intent(words: &str, mode: &str) -> Value {
    json!({
        "agent_id": "echo",
        "input": [{"parts": [{"content_type": "text/plain", "content": words}]}],
        "metadata": {
            "source_agent_id": "lemon-desktop-9169e2e8",
            "master_session_id": "desktop-20260227-main",
            "locale": "zh-CN",
            "preferred_output": "application/pdf",
        },
        "session_id": null,
        "mode": mode,
    })
}

pub(super) fn resume(words: &str) -> Value {
    json!({"input": [{"parts": [{"content_type": "text/plain", "content": words}]}]})
}

#[test]
fn a_caller_on_the_local_network_is_understood_in_its_own_words() {
    let daemon = listening();
    let http = Http::owner(&daemon);
    let manifest = http.get("/manifest").ok();
    for field in ["agent_id", "name", "version", "endpoints", "capabilities"] {
        assert!(!manifest[field].is_null(), "{field}: {manifest}");
    }
    let run = http.post("/runs", &intent("播放轻音乐电台", "sync")).ok();
    assert_eq!(run["status"], "completed", "{run}");
    assert!(text(&run).contains("播放轻音乐电台"), "{run}");

    let events: Vec<Value> = http
        .stream(
            "POST",
            "/runs",
            &[],
            Some(&intent("/write 新闻.md 前三条", "stream")),
        )
        .collect();
    let awaiting = events.last().unwrap();
    assert_eq!(awaiting["type"], "run.awaiting", "{events:?}");
    assert_eq!(awaiting["status"], "awaiting");
    let question = &awaiting["await"]["message"]["parts"][0]["content"];
    assert!(question.as_str().unwrap().contains("新闻.md"), "{awaiting}");
    let id = awaiting["run_id"].as_str().unwrap();
    let done = http.post(&format!("/runs/{id}/resume"), &resume("好")).ok();
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["session_id"], awaiting["session_id"]);
    eventually("the file is written", || {
        workspace_file(&daemon, "echo", "新闻.md").exists()
    });

    let mut next = intent("还记得吗", "sync");
    next["session_id"] = awaiting["session_id"].clone();
    let next = http.post("/runs", &next).ok();
    assert_eq!(
        (&next["status"], &next["session_id"]),
        (&json!("completed"), &awaiting["session_id"])
    );
    let mut own = intent("hello", "sync");
    own["metadata"]["source_agent_id"] = manifest["agent_id"].clone();
    let refused = http.post("/runs", &own);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], "self_loop_rejected");
    let mut unknown = intent("hello", "sync");
    unknown["session_id"] = json!("nova9-20260227-a3f1");
    let refused = http.post("/runs", &unknown);
    assert!((400..500).contains(&refused.status), "{refused:?}");
    assert!(
        refused.json()["error"]["message"].is_string(),
        "{refused:?}"
    );
}

#[test]
fn a_stream_is_also_what_the_accept_header_asks_for() {
    let daemon = listening();
    let http = Http::owner(&daemon);
    let mut body = intent("/slow 3 50", "sync");
    body.as_object_mut().unwrap().remove("mode");
    let accept = [("accept", "text/event-stream")];
    let events: Vec<Value> = http.stream("POST", "/runs", &accept, Some(&body)).collect();
    let parts = events
        .iter()
        .filter(|event| event["type"] == "message.part");
    assert!(parts.count() >= 3, "{events:?}");
    assert_eq!(events.last().unwrap()["type"], "run.completed");
}

pub(super) fn until(http: &Http, id: &str, status: &str) -> Value {
    let mut run = Value::Null;
    eventually(&format!("the run is {status}"), || {
        run = http.get(&format!("/runs/{id}")).ok();
        run["status"] == status
    });
    run
}

pub(super) fn begin(http: &Http, words: &str) -> String {
    let run = http.post("/runs", &intent(words, "async"));
    assert_eq!(run.status, 202, "{run:?}");
    run.json()["run_id"].as_str().unwrap().to_owned()
}

/// How often the agent was told this.
pub(super) fn turns(daemon: &TestDaemon, prompt: &str) -> usize {
    let lines = daemon
        .client()
        .ok("journal.query", json!({"kind": "turn.started"}));
    let lines = lines.as_array().unwrap().iter();
    lines
        .filter(|line| line.to_string().contains(prompt))
        .count()
}

#[test]
fn a_run_that_awaits_outlives_a_kill_and_no_work_is_done_twice() {
    let mut daemon = listening();
    let http = Http::owner(&daemon);
    let awaiting = begin(&http, "/write later.txt yes");
    until(&http, &awaiting, "awaiting");
    let working = begin(&http, "/hang");
    until(&http, &working, "in-progress");
    eventually("the agent is at work", || turns(&daemon, "/hang") == 1);
    daemon.kill();
    daemon.start();

    let http = Http::owner(&daemon);
    let run = http.get(&format!("/runs/{working}")).ok();
    assert_eq!(run["status"], "failed", "{run}");
    assert_eq!(run["error"]["code"], "interrupted", "{run}");
    let run = http.get(&format!("/runs/{awaiting}")).ok();
    assert_eq!(run["status"], "awaiting", "{run}");
    assert!(!workspace_file(&daemon, "echo", "later.txt").exists());
    assert_eq!(
        (turns(&daemon, "/write later.txt"), turns(&daemon, "/hang")),
        (1, 1)
    );

    let mut answer = resume("yes");
    answer["mode"] = json!("sync");
    let done = http.post(&format!("/runs/{awaiting}/resume"), &answer).ok();
    assert_eq!(done["status"], "completed", "{done}");
    let again = http.post(&format!("/runs/{awaiting}/resume"), &answer);
    assert!(
        (400..500).contains(&again.status),
        "it was answered already: {again:?}"
    );
    let events = http.get(&format!("/runs/{awaiting}/events")).ok();
    let kinds = events["events"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds
        .filter_map(|event| event["type"].as_str()?.strip_prefix("run."))
        .collect();
    assert_eq!(
        kinds,
        [
            "created",
            "in-progress",
            "awaiting",
            "in-progress",
            "completed"
        ]
    );
    assert_eq!(
        turns(&daemon, "/hang"),
        1,
        "what was broken off is not begun again"
    );
}

#[test]
fn a_history_is_read_from_servers_that_the_settings_name_and_from_no_other() {
    let there = listening();
    let first = Http::owner(&there);
    let run = first
        .post("/runs", &intent("the word is plum", "sync"))
        .ok();
    let session = run["session_id"].as_str().unwrap();
    let session = first.get(&format!("/sessions/{session}")).ok();

    let settings = format!("[runs]\nhistory_from = [\"{}/resources/\"]\n", there.url());
    let here = node().listening().file("config.toml", settings).start();
    with_echo(&here);
    let mut brought = intent("go on", "sync");
    brought["session"] = json!({"id": session["id"], "history": session["history"]});
    let answered = Http::owner(&here).post("/runs", &brought).ok();
    assert_eq!(answered["status"], "completed", "{answered}");
    assert_eq!(
        turns(&here, "the word is plum"),
        1,
        "the agent is told what was said"
    );

    let careful = listening();
    let refused = Http::owner(&careful).post("/runs", &brought);
    assert!((400..500).contains(&refused.status), "{refused:?}");
    assert!(
        refused.text.contains("not one that this node may ask"),
        "{refused:?}"
    );
}

#[test]
fn the_same_request_with_the_same_key_runs_once() {
    let daemon = listening();
    let http = Http::owner(&daemon);
    let key = [("idempotency-key", "k-1")];
    let body = intent("only once", "sync");
    let ids =
        [(); 2].map(|()| http.call("POST", "/runs", &key, Some(&body)).ok()["run_id"].clone());
    assert_eq!(ids[0], ids[1]);
    assert_eq!(turns(&daemon, "only once"), 1);
}

/// Sends what schemathesis makes of a description, and has every answer looked at; nothing where it is not installed.
fn generated(daemon: &TestDaemon, description: &str, arguments: &[&str]) -> Option<()> {
    let Some(python) = python("schema") else {
        println!("skipped: ./test installs the packages of tests/python/schema.txt");
        return None;
    };
    let token = format!("Authorization: Bearer {}", daemon.token());
    let output = Command::new(python.with_file_name("schemathesis"))
        .args(["run", description, "--header", &token])
        .args(["--phases", "examples,fuzzing", "--max-examples", "8"])
        .args(["--request-timeout", "20", "--rate-limit", "50/s"])
        .args(["--generation-deterministic", "--no-color"])
        // A busy machine is no defect of the description.
        .args(["--suppress-health-check", "all"])
        .args(arguments)
        .current_dir(daemon.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(())
}

#[test]
fn no_request_generated_from_its_description_is_a_server_error() {
    let daemon = listening();
    let ours = format!("{}/openapi.json", daemon.url());
    generated(&daemon, &ours, &["--checks", "not_a_server_error"]);
}

#[test]
#[ignore = "slow: schemathesis takes a minute to make its requests"]
fn slow_requests_generated_from_its_description_are_answered_as_it_says() {
    let daemon = listening();
    generated(&daemon, &format!("{}/openapi.json", daemon.url()), &[]);
}

#[test]
#[ignore = "slow: schemathesis takes a minute to make its requests"]
fn slow_requests_generated_from_the_description_of_the_standards_server_are_answered_as_it_says() {
    let Some(python) = python("acp_rest") else {
        println!("skipped: ./test installs the packages of tests/python/acp_rest.txt");
        return;
    };
    let describe = "import json; from acp_sdk.server.app import create_app; print(json.dumps(create_app().openapi()))";
    let described = Command::new(python).args(["-c", describe]).output();
    let described = described.unwrap();
    assert!(described.status.success(), "{described:?}");
    let daemon = listening();
    let file = daemon.home().join("standard.json");
    std::fs::write(&file, described.stdout).unwrap();
    // It answers 404 and does not say so.
    let unsaid = ["--exclude-checks", "status_code_conformance"];
    let url = daemon.url();
    let arguments = [&["--url", &url], &unsaid[..]].concat();
    generated(&daemon, file.to_str().unwrap(), &arguments);
}

/// Reads the standard's own document and makes it sound where it is not: one path names no parameter, and another names it
/// otherwise than the path does.
const SOUND: &str = include_str!("official.py");

#[test]
#[ignore = "slow: schemathesis takes a minute to make its requests"]
fn slow_requests_generated_from_the_standards_own_document_are_answered_as_it_says() {
    let Some(document) = std::env::var_os("AGENTCRAFT_TEST_ACP_DOCUMENT") else {
        println!("skipped: AGENTCRAFT_TEST_ACP_DOCUMENT names no openapi.yaml of the standard");
        return;
    };
    let Some(python) = python("schema") else {
        println!("skipped: ./test installs the packages of tests/python/schema.txt");
        return;
    };
    let daemon = listening();
    let file = daemon.home().join("official.json");
    let made = Command::new(python)
        .args(["-c", SOUND])
        .args([document.as_os_str(), file.as_os_str()])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    generated(&daemon, file.to_str().unwrap(), &["--url", &daemon.url()]);
}

#[test]
fn runs_at_an_agent_that_is_started_for_them_never_meet_its_end() {
    let daemon = listening();
    let mut client = daemon.client();
    client.ok("agent.stop", json!({"name": "echo"}));
    // One after the other: each may come while the agent of the one before it is about to stop.
    let http = Http::owner(&daemon);
    for time in 0..12 {
        let run = http.post("/runs", &intent("again", "sync")).ok();
        assert_eq!(run["status"], "completed", "{time}: {run}");
    }
    // And several at once.
    let (url, token) = (daemon.url(), daemon.token());
    let callers = (0..6).map(|_| {
        let http = Http::with_token(&url, Some(&token));
        std::thread::spawn(move || {
            for _ in 0..3 {
                let run = http.post("/runs", &intent("at once", "sync")).ok();
                assert_eq!(run["status"], "completed", "{run}");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.join().unwrap();
    }
    eventually("nobody needs it any more", || {
        client.ok("agent.status", json!({"name": "echo"}))["status"] == "stopped"
    });
}

#[test]
fn an_agent_that_the_owner_has_named_writes_what_others_read_once_for_what_there_is() {
    let settings = "[lan]\ndescriber = \"phone\"\n";
    let mut daemon = node().listening().file("config.toml", settings).start();
    with_echo(&daemon);
    with_phone(&daemon);
    let told = |daemon: &TestDaemon| {
        let manifest = Http::owner(daemon).get("/manifest").ok();
        let capabilities = manifest["capabilities"].as_array().unwrap().clone();
        let of = |id: &str| {
            let capability = capabilities.iter().find(|it| it["id"] == id);
            capability.map(|it| it["description"].clone())
        };
        assert_eq!(of("money"), None, "{manifest}");
        // What it did not write of keeps its own words.
        assert_eq!(of("phone").unwrap(), "电台、新闻、日历", "{manifest}");
        (of("echo").unwrap(), manifest["version"].clone())
    };
    eventually("it has written", || told(&daemon).0 == "复述任何一句话");
    let (asked, before) = (turns(&daemon, "one line of JSON"), told(&daemon));
    daemon.kill();
    daemon.start();
    assert_eq!(
        told(&daemon),
        before,
        "it is there at once, and is the same version"
    );
    assert_eq!(
        turns(&daemon, "one line of JSON"),
        asked,
        "nobody was asked again"
    );
    // Something else can be done now, and is written of anew.
    daemon.template("more", json!({"backend": {"type": "builtin"}}));
    let made = json!({"name": "more", "template": "more"});
    daemon.client().ok("agent.create", made);
    eventually("it was asked again", || {
        told(&daemon);
        turns(&daemon, "one line of JSON") > asked
    });
}
