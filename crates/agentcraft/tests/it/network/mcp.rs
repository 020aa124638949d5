//! MCP on the node's port: the official client, in both ways to begin.

use serde_json::json;

use super::{http::Http, listening, passes};

const CLIENT: &str = include_str!("mcp_client.py");

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
