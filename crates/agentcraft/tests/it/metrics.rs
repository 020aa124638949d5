//! What Prometheus reads of a node: every family with its unit, read by Prometheus' own parser.

use std::{
    env,
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use crate::{network::http::Http, node};

/// Reads a page with the parser of Prometheus' own library, and says each sample as JSON.
const READER: &str = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families as families
for family in families(sys.stdin.read()):
    assert family.documentation and family.type != 'unknown', family
    for sample in family.samples:
        print(json.dumps([family.type, sample.name, sample.labels, sample.value]))
";

/// The samples of a page; nothing where the parser is not there.
fn samples(page: &str) -> Option<Vec<Value>> {
    let Some(python) = env::var_os("AGENTCRAFT_TEST_PYTHON") else {
        println!(
            "skipped: ./test sets AGENTCRAFT_TEST_PYTHON to a Python that has Prometheus' parser"
        );
        return None;
    };
    let mut reader = Command::new(python)
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = reader.stdin.take().unwrap();
    input.write_all(page.as_bytes()).unwrap();
    drop(input);
    let read = reader.wait_with_output().unwrap();
    assert!(read.status.success(), "{page}");
    let text = String::from_utf8(read.stdout).unwrap();
    let lines = text.lines();
    Some(
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

fn value(samples: &[Value], name: &str, labels: &Value) -> Option<f64> {
    let found = samples
        .iter()
        .find(|sample| sample[1] == name && &sample[2] == labels);
    found.and_then(|sample| sample[3].as_f64())
}

/// A node with an agent that has taken a turn, asked through the network.
fn used() -> TestDaemon {
    let daemon = node().listening().start();
    daemon.template("echo", json!({"backend": {"type": "builtin"}}));
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "echo", "template": "echo"}));
    client.ok("agent.start", json!({"name": "echo"}));
    let run = json!({
        "agent_name": "echo", "mode": "sync",
        "input": [{"parts": [{"content": "hello"}]}],
    });
    let run = Http::owner(&daemon).post("/runs", &run).ok();
    assert_eq!(run["status"], "completed");
    daemon
}

#[test]
fn every_family_is_read_by_prometheus_own_parser_and_counts_what_happened() {
    let daemon = used();
    let waiting = json!({
        "agent_name": "echo", "mode": "async",
        "input": [{"parts": [{"content": "/write notes.md # Notes"}]}],
    });
    Http::owner(&daemon).post("/runs", &waiting).ok();
    let page = || Http::owner(&daemon).get("/metrics");
    eventually("the run waits", || {
        let text = page().text;
        text.contains("agentcraft_runs{state=\"awaiting\"} 1")
    });
    assert_eq!(Http::stranger(&daemon).get("/runs").status, 401);
    let Some(samples) = samples(&page().text) else {
        return;
    };
    for (name, labels, wanted) in [
        ("agentcraft_agents", json!({"status": "running"}), 1.0),
        ("agentcraft_turns_running", json!({}), 1.0),
        ("agentcraft_asks_waiting", json!({}), 1.0),
        ("agentcraft_turns_total", json!({"stop": "end_turn"}), 1.0),
        ("agentcraft_turn_duration_seconds_count", json!({}), 1.0),
        (
            "agentcraft_turn_duration_seconds_bucket",
            json!({"le": "+Inf"}),
            1.0,
        ),
        (
            "agentcraft_notes_total",
            json!({"kind": "run.completed"}),
            1.0,
        ),
        (
            "agentcraft_http_requests_total",
            json!({"face": "runs", "code": "200"}),
            1.0,
        ),
        (
            "agentcraft_http_requests_total",
            json!({"face": "runs", "code": "202"}),
            1.0,
        ),
        (
            "agentcraft_http_refusals_total",
            json!({"reason": "unauthorized"}),
            1.0,
        ),
        ("agentcraft_offices", json!({}), 0.0),
    ] {
        let told = value(&samples, name, &labels);
        assert_eq!(told, Some(wanted), "{name} {labels}");
    }
    for name in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
        "agentcraft_agents_resident_memory_bytes",
        "agentcraft_store_size_bytes",
        "agentcraft_journal_lines_total",
    ] {
        let told = value(&samples, name, &json!({}));
        assert!(told.is_some_and(|value| value > 0.0), "{name}: {told:?}");
    }
    let counters = samples.iter().filter(|sample| sample[0] == "counter");
    for sample in counters {
        assert!(sample[1].as_str().unwrap().ends_with("_total"), "{sample}");
    }
}

#[test]
fn metrics_are_for_those_who_may_read_them() {
    let daemon = used();
    let answer = Http::owner(&daemon).get("/metrics");
    assert!(answer.header("content-type").starts_with("text/plain"));
    assert_eq!(Http::stranger(&daemon).get("/metrics").status, 401);
    let with_right = |right: &str| {
        let made = daemon.cli(&["token", "create", right, "--right", right, "-f", "quiet"]);
        let http = Http::with_token(&daemon.url(), Some(made.stdout.trim()));
        http.get("/metrics").status
    };
    assert_eq!(with_right("runs"), 403);
    assert_eq!(with_right("metrics"), 200);
}
