//! Whoever may use the agents of a node reaches none of those that work in folders which others have lent to it.

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::{Pair, read};
use crate::network::http::{Answer, Http};

/// Everything that a node gives to somebody who may use its agents, and nothing of the owner's.
const RIGHTS: [&str; 3] = ["runs", "a2a", "mcp"];

#[test]
fn an_agent_in_a_lent_folder_is_reached_by_nobody_else_through_any_face() {
    let pair = Pair::new();
    let remote = &pair.remote;
    assert_eq!(
        remote
            .cli(&["agent", "create", "desk", "-t", "worker"])
            .code,
        0
    );
    let http = stranger(remote);
    let before = http.get("/manifest").ok();
    let folder = pair.folder(&[("secret.txt", "the lender's secret\n")]);
    let id = pair.begin(&folder, "/run sleep 600", &[]);
    let lent = lent_agent(remote);
    unseen_by_runs(&http, &lent);
    assert_eq!(http.get("/manifest").ok(), before);
    unseen_by_a2a(&http, remote, &lent);
    unseen_by_mcp(&http, remote, &lent);
    // Where there is one agent for everybody, it need not be named.
    let run = json!({"mode": "sync", "input": [{"role": "user", "parts": [{"content": "/pwd"}]}]});
    assert!(http.post("/runs", &run).text.contains("instances/desk"));
    let ranked = Http::owner(remote).post("/intents/route", &json!({"text": lent}));
    assert!(!ranked.text.contains(&lent), "{ranked:?}");
    // The owner sees it.
    let shown = remote.cli(&["agent", "status", &lent, "-f", "json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["private"], true, "{shown}");
    assert_eq!(pair.host.cli(&["delegation", "cancel", &id]).code, 0);
    pair.ended(&id);
    assert!(!folder.join("planted.txt").exists());
    assert_eq!(read(folder.join("secret.txt")), "the lender's secret\n");
}

#[test]
fn an_agent_made_for_one_prompt_is_private_also_when_it_is_kept() {
    let pair = Pair::new();
    let remote = &pair.remote;
    let args = [
        "agent",
        "run",
        "--template",
        "worker",
        "--prompt",
        "/pwd",
        "--keep",
    ];
    let ran = remote.cli(&args);
    assert_eq!(ran.code, 0, "{ran:?}");
    let listed = remote.cli(&["agent", "list", "-f", "quiet"]);
    let made = listed.stdout.trim();
    assert!(made.starts_with("run-"), "{listed:?}");
    unseen_by_runs(&stranger(remote), made);
}

fn stranger(remote: &TestDaemon) -> Http {
    let mut args = vec!["token", "create", "stranger", "-f", "quiet"];
    for right in RIGHTS {
        args.extend(["--right", right]);
    }
    let made = remote.cli(&args);
    assert_eq!(made.code, 0, "{made:?}");
    Http::with_token(&remote.url(), Some(made.stdout.trim()))
}

/// The agent that works in the lent folder, once it does.
fn lent_agent(remote: &TestDaemon) -> String {
    let mut found = None;
    eventually("somebody works in the lent folder", || {
        let listed = remote.cli(&["agent", "list", "-f", "json"]);
        let agents: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        let agents = agents.as_array().cloned().unwrap_or_default();
        let lent = agents.iter().find(|agent| {
            let name = agent["name"].as_str().unwrap_or_default();
            name.starts_with("lent-") && agent["status"] == "running"
        });
        found = lent.map(|agent| agent["name"].as_str().unwrap().to_owned());
        found.is_some()
    });
    found.unwrap()
}

fn unseen_by_runs(http: &Http, name: &str) {
    let listed = http.get("/agents").ok();
    assert!(!listed.to_string().contains(name), "{listed}");
    assert_eq!(http.get(&format!("/agents/{name}")).status, 404);
    for words in ["/read secret.txt", "/write planted.txt it was me"] {
        for key in ["agent_name", "agent_id"] {
            let input = json!([{"role": "user", "parts": [{"content": words}]}]);
            let refused = http.post("/runs", &json!({key: name, "mode": "sync", "input": input}));
            assert_eq!(refused.status, 404, "{refused:?}");
        }
    }
}

fn unseen_by_a2a(http: &Http, remote: &TestDaemon, name: &str) {
    let nobody = Http::stranger(remote);
    for reader in [http, &nobody] {
        for path in [
            "/a2a/NAME",
            "/a2a/1.0/NAME",
            "/a2a/NAME/.well-known/agent-card.json",
        ] {
            let card = reader.get(&path.replace("NAME", name));
            assert_eq!(card.status, 404, "{path}: {card:?}");
        }
    }
    assert!(!http.get("/a2a").text.contains(name));
    let said = |metadata: Value| {
        let message = json!({
            "messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "/read secret.txt"}], "metadata": metadata,
        });
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}})
    };
    let version = [("A2A-Version", "1.0")];
    let to_it = (format!("/a2a/{name}"), said(json!({})));
    let by_the_node = ("/a2a".to_owned(), said(json!({"agent": name})));
    for (path, body) in [to_it, by_the_node] {
        let refused = http.call("POST", &path, &version, Some(&body));
        assert!(!refused.text.contains("the lender's secret"), "{refused:?}");
        assert!(
            refused.text.contains("there is no public agent"),
            "{refused:?}"
        );
    }
}

fn unseen_by_mcp(http: &Http, remote: &TestDaemon, name: &str) {
    let listed = mcp(
        http,
        "tools/call",
        tool("agentcraft_list_agents", json!({})),
    );
    assert!(
        listed.contains("desk") && !listed.contains(name),
        "{listed}"
    );
    let asked = [
        ("agentcraft_agent_status", json!({"name": name})),
        (
            "agentcraft_prompt_agent",
            json!({"name": name, "message": "/read secret.txt"}),
        ),
    ];
    for (called, arguments) in asked {
        let refused = mcp(http, "tools/call", tool(called, arguments));
        assert!(refused.contains("AGENT_NOT_FOUND"), "{called}: {refused}");
    }
    let sessions = remote.cli(&["session", "list", "--agent", name, "-f", "quiet"]);
    let session = sessions.stdout.trim();
    assert!(!session.is_empty(), "{sessions:?}");
    let listed = mcp(http, "resources/list", json!({}));
    assert!(
        !listed.contains(name) && !listed.contains(session),
        "{listed}"
    );
    for uri in [format!("agent/{name}"), format!("session/{session}")] {
        let params = json!({"uri": format!("agentcraft://{uri}")});
        let refused = mcp(http, "resources/read", params.clone());
        assert!(refused.contains("there is no resource"), "{uri}: {refused}");
        let owners = mcp(&Http::owner(remote), "resources/read", params);
        assert!(owners.contains("contents"), "{uri}: {owners}");
    }
}

fn tool(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

/// One request in a session of its own, and all that is answered to it.
fn mcp(http: &Http, method: &str, params: Value) -> String {
    let both = "application/json, text/event-stream";
    let send = |session: Option<&str>, body: Value| -> Answer {
        let mut headers = vec![("Accept", both)];
        headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
        http.call("POST", "/mcp", &headers, Some(&body))
    };
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let begun = send(
        None,
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
    );
    assert_eq!(begun.status, 200, "{begun:?}");
    let session = begun.header("mcp-session-id");
    send(
        Some(&session),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    );
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
    send(Some(&session), body).text
}
