//! What leads to other nodes or lends them folders needs the right to that, through every face and under every name.

use std::fs;

use serde_json::{Value, json};
use testkit::TestDaemon;

use super::{added, agents, with_echo};
use crate::{
    network::{http::Http, mcp::McpClient},
    node,
};

/// Two nodes of which one knows the other, and how the first one calls an agent of the second and a folder that it lends it.
struct Neighbours {
    here: TestDaemon,
    _peer: TestDaemon,
    far: String,
    lent: String,
}

impl Neighbours {
    /// The node has agents that were made of both targets by its owner: `far` and `lender`.
    fn with(settings: &str) -> Self {
        let peer = with_echo();
        let here = node().listening().file("config.toml", settings).start();
        let alias = added(&here, &peer);
        let folder = here.scratch("private");
        fs::create_dir_all(&folder).unwrap();
        let far = format!("peer:{alias}/echo");
        let lent = format!("peer:{alias}?workspace={}", folder.display());
        for (name, target) in [("far", &far), ("lender", &lent)] {
            let made = here.cli(&["agent", "create", name, "-t", target]);
            assert_eq!(made.code, 0, "{made:?}");
        }
        Self {
            here,
            _peer: peer,
            far,
            lent,
        }
    }

    fn token(&self, rights: &[&str]) -> String {
        let name = rights.join("-");
        let mut args = vec!["token", "create", &name, "-f", "quiet"];
        args.extend(rights.iter().flat_map(|right| ["--right", right]));
        let made = self.here.cli(&args);
        assert_eq!(made.code, 0, "{made:?}");
        made.stdout.trim().to_owned()
    }

    fn http(&self, rights: &[&str]) -> Http {
        Http::with_token(&self.here.url(), Some(&self.token(rights)))
    }

    /// Who is named, and which right it takes.
    fn cases(&self) -> [(&str, &str); 4] {
        [
            (&self.far, "peers"),
            ("far", "peers"),
            (&self.lent, "delegations"),
            ("lender", "delegations"),
        ]
    }
}

fn run(http: &Http, agent: &str) -> (u16, Value) {
    let parts = json!([{"content_type": "text/plain", "content": "hello from afar"}]);
    let input = json!([{"role": "user", "parts": parts}]);
    let body = json!({"agent_name": agent, "mode": "sync", "input": input});
    let answer = http.post("/runs", &body);
    (answer.status, answer.json())
}

fn message(http: &Http, agent: &str) -> (u16, Value) {
    let parts = json!([{"text": "hello from afar"}]);
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": parts,
        "metadata": {"agent": agent}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": {"message": message}});
    let version = [("A2A-Version", "1.0")];
    let answer = http.call("POST", "/a2a", &version, Some(&request));
    (answer.status, answer.json())
}

#[test]
fn every_tool_of_mcp_that_is_given_a_target_or_its_agent_asks_for_the_right_to_it() {
    let nodes = Neighbours::with("");
    let before = agents(&nodes.here);
    let mut client = McpClient::new(nodes.http(&["mcp"]));
    for (named, right) in nodes.cases() {
        let mut calls = vec![(
            "agentcraft_prompt_agent",
            json!({"name": named, "message": "hello"}),
        )];
        if named.starts_with("peer:") {
            let run = json!({"template": named, "prompt": "hello"});
            let create = json!({"name": "mine", "template": named});
            calls.push(("agentcraft_run_agent", run));
            calls.push(("agentcraft_create_agent", create));
        }
        for (tool, arguments) in calls {
            let refused = client.tool(tool, &arguments);
            assert_eq!(refused["isError"], true, "{tool} {named}: {refused}");
            let words = refused.to_string();
            assert!(words.contains("FORBIDDEN"), "{tool} {named}: {refused}");
            let needed = format!("needs the right {right}");
            assert!(words.contains(&needed), "{tool} {named}: {refused}");
        }
    }
    assert_eq!(agents(&nodes.here), before, "nothing was made");
    let mut client = McpClient::new(nodes.http(&["mcp", "peers"]));
    for (named, right) in nodes.cases() {
        let arguments = json!({"name": named, "message": "hello from afar"});
        let told = client.tool("agentcraft_prompt_agent", &arguments);
        let is_refused = told.to_string().contains("FORBIDDEN");
        assert_eq!(is_refused, right != "peers", "{named}: {told}");
    }
}

#[test]
fn runs_and_a2a_ask_for_it_too_whoever_made_the_agent() {
    let nodes = Neighbours::with("");
    for face in ["runs", "a2a"] {
        let ask = match face {
            "runs" => run,
            _ => message,
        };
        // Whoever may have agents made may have none made of these.
        let http = nodes.http(&[face, "mcp"]);
        for (named, right) in nodes.cases() {
            let (status, told) = ask(&http, named);
            assert!(matches!(status, 403 | 404), "{face} {named}: {told}");
            if !named.starts_with("peer:") {
                assert!(told.to_string().contains(right), "{face} {named}: {told}");
            }
        }
        let http = nodes.http(&[face, "mcp", "peers"]);
        for named in ["far", nodes.far.as_str()] {
            let (status, told) = ask(&http, named);
            assert_eq!(status, 200, "{face} {named}: {told}");
            let words = told.to_string();
            assert!(words.contains("hello from afar"), "{face} {named}: {told}");
        }
    }
    let seen = nodes.http(&["runs"]).get("/agents").ok();
    assert_eq!(seen["agents"], json!([]), "{seen}");
}

#[test]
fn the_dashboard_asks_for_it_too_and_makes_nothing() {
    let nodes = Neighbours::with("");
    let before = agents(&nodes.here);
    let http = nodes.http(&["dashboard"]);
    for (named, right) in nodes.cases() {
        let mut bodies = vec![("/api/sessions", json!({"agent": named}))];
        if named.starts_with("peer:") {
            let create = json!({"name": "mine", "template": named});
            bodies.push(("/api/agents", create));
        }
        for (path, body) in bodies {
            let answer = http.post(path, &body);
            let told = answer.json().to_string();
            assert_eq!(answer.status, 403, "{path} {named}: {told}");
            let needed = format!("does not allow {right}");
            assert!(told.contains(&needed), "{path} {named}: {told}");
        }
    }
    assert_eq!(agents(&nodes.here), before, "nothing was made");
    // The session of whoever may have one is no way in for others.
    let begun = nodes.http(&["dashboard", "peers"]);
    let begun = begun.post("/api/sessions", &json!({"agent": "far"})).ok();
    let path = format!(
        "/api/sessions/{}/prompt",
        begun["sessionId"].as_str().unwrap()
    );
    let refused = http.post(&path, &json!({"text": "hello"}));
    assert_eq!(refused.status, 403, "{}", refused.json());
}

#[test]
fn an_agent_that_the_owner_offers_by_its_name_needs_no_further_right() {
    let nodes = Neighbours::with("[http]\npublic = [\"far\"]\n");
    let (status, told) = run(&nodes.http(&["runs"]), "far");
    assert_eq!(status, 200, "{told}");
    assert!(told.to_string().contains("hello from afar"), "{told}");
}
