//! MCP on the node's port: the official client, in both ways to begin.

use serde_json::{Value, json};

use super::{
    http::{Answer, Http},
    listening, passes,
};

const CLIENT: &str = include_str!("mcp_client.py");

/// A client that begins with `initialize`, frame by frame.
pub(crate) struct McpClient {
    http: Http,
    session: String,
    calls: u32,
}

impl McpClient {
    pub(crate) fn new(http: Http) -> Self {
        let mut client = Self {
            http,
            session: String::new(),
            calls: 0,
        };
        let who = json!({"name": "raw", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who});
        let answer = client
            .post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        client.session = answer.header("mcp-session-id");
        client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn post(&self, message: &Value) -> Answer {
        let mut headers = vec![("Accept", "application/json, text/event-stream")];
        if !self.session.is_empty() {
            headers.push(("Mcp-Session-Id", &self.session));
            headers.push(("MCP-Protocol-Version", "2025-06-18"));
        }
        let answer = self.http.call("POST", "/mcp", &headers, Some(message));
        assert!((200..300).contains(&answer.status), "{answer:?}");
        answer
    }

    /// The result of a tool.
    pub(crate) fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        self.tool_with(name, arguments, &json!({}))
    }

    /// The same, with what the call says beside its arguments.
    pub(crate) fn tool_with(&mut self, name: &str, arguments: &Value, meta: &Value) -> Value {
        self.calls += 1;
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        let request =
            json!({"jsonrpc": "2.0", "id": self.calls, "method": "tools/call", "params": params});
        let answer = self.post(&request);
        let told = answer
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"));
        let told = told.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut answers = told.filter(|message| message["id"] == self.calls);
        let found = answers.next().unwrap_or_else(|| panic!("{answer:?}"));
        found["result"].clone()
    }
}

#[test]
fn the_official_client_uses_every_tool_over_http_after_initialize() {
    passes("main", CLIENT, &listening(), &["legacy"]);
}

#[test]
fn the_official_client_uses_every_tool_over_http_without_initialize() {
    passes("main", CLIENT, &listening(), &["auto"]);
}

#[test]
fn a_token_without_the_right_may_not_use_mcp() {
    let daemon = listening();
    let made = daemon.cli(&[
        "token", "create", "runner", "--right", "runs", "-f", "quiet",
    ]);
    let http = Http::with_token(&daemon.url(), Some(made.stdout.trim()));
    let answer = http.post(
        "/mcp",
        &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    );
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(answer.json()["error"]["code"], "forbidden");
}
