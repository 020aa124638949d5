//! Claims about sessions over HTTP, with hours that pass at once.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, Response},
};
use engine::{
    DriverFuture, ServerState, ServerStatus, Tool, ToolCall, ToolError, ToolOutput, ToolSource,
};
use platform::Tasks;
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time};
use tower::ServiceExt;

use super::IDLE_MAX;
use crate::{Hosts, OfficeFace, office_router};

const HOUR: Duration = Duration::from_secs(60 * 60);

const BODY_MAX: usize = 1024 * 1024;

/// A tool that says nothing for three hours, and then that it is done.
#[derive(Debug)]
struct Silent(watch::Sender<u64>);

impl ToolSource for Silent {
    fn tools(&self) -> Vec<Tool> {
        vec![Tool {
            server: "s".to_owned(),
            name: "work".to_owned(),
            description: None,
            input_schema: Map::from_iter([("type".to_owned(), json!("object"))]),
            raw: json!({"name": "work", "inputSchema": {"type": "object"}}),
        }]
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    fn servers(&self) -> Vec<ServerState> {
        vec![ServerState {
            name: "s".to_owned(),
            status: ServerStatus::Ready,
        }]
    }

    fn call(&self, _call: ToolCall) -> DriverFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async {
            time::sleep(3 * HOUR).await;
            Ok(ToolOutput {
                raw: json!({"content": [{"type": "text", "text": "done at last"}]}),
                is_error: false,
            })
        })
    }

    fn resources<'a>(&'a self, _: &'a str) -> DriverFuture<'a, Result<Vec<Value>, ToolError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn read<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> DriverFuture<'a, Result<Vec<Value>, ToolError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

fn router() -> Router {
    let face = OfficeFace {
        version: "1".to_owned(),
        instructions: String::new(),
    };
    let source = Arc::new(Silent(watch::channel(0).0));
    office_router(face, source, Hosts::Any, &Tasks::new())
}

async fn post(router: &Router, session: &str, message: Value) -> Response<Body> {
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if !session.is_empty() {
        request = request
            .header("mcp-session-id", session)
            .header("mcp-protocol-version", "2025-06-18");
    }
    let request = request.body(Body::from(message.to_string())).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

/// A client that has begun; the name of its session.
async fn begin(router: &Router) -> String {
    let who = json!({"name": "c", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
    let answer = post(router, "", hello).await;
    assert!(answer.status().is_success(), "{answer:?}");
    let session = answer.headers()["mcp-session-id"]
        .to_str()
        .unwrap()
        .to_owned();
    to_bytes(answer.into_body(), BODY_MAX).await.unwrap();
    let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    post(router, &session, begun).await;
    session
}

async fn is_there(router: &Router, session: &str) -> bool {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    post(router, session, ping).await.status().is_success()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_silent_for_hours_is_answered_and_others_who_come_meanwhile_end_nothing() {
    let router = router();
    let session = begin(&router).await;
    let call = json!({"name": "s__work", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let answer = post(&router, &session, call).await;
    time::sleep(IDLE_MAX + HOUR).await;
    begin(&router).await;
    time::sleep(HOUR).await;
    // Read only now: what keeps the connection alive goes by another clock.
    let told = to_bytes(answer.into_body(), BODY_MAX).await.unwrap();
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("done at last"), "{told}");
    assert!(is_there(&router, &session).await);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_is_over_when_the_next_client_comes() {
    let router = router();
    let (left, used) = (begin(&router).await, begin(&router).await);
    time::sleep(IDLE_MAX / 2).await;
    assert!(is_there(&router, &used).await);
    time::sleep(IDLE_MAX / 2).await;
    begin(&router).await;
    assert!(!is_there(&router, &left).await);
    assert!(is_there(&router, &used).await);
}
