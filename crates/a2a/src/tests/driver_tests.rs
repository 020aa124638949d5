//! Another node's agent as an agent here: the same scripted agent, twice as far away.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
    routing::{get, post},
};
use futures_util::stream;

use super::*;

/// A node whose agent `tck` is the agent at `url`.
pub(super) async fn behind(config_of_agent: Value) -> Scene {
    let home = tempfile::tempdir().unwrap();
    let tasks = Tasks::new();
    let engine = open(&home, &tasks).await;
    scripted::add_agent(&engine, home.path(), "tck", config_of_agent).await;
    // What the far agent is told must not have our id before it.
    let config = A2aConfig {
        prompt: crate::prompt,
        ..config()
    };
    Scene::serve(
        home,
        tasks,
        engine,
        config,
        Vec::new(),
        Some(Caller::owner()),
    )
    .await
}

async fn two_nodes() -> (Scene, Scene) {
    let far = Scene::new().await;
    let near = behind(json!({ "url": far.url, "agent": "tck" })).await;
    (far, near)
}

#[tokio::test]
async fn what_a_far_agent_says_asks_and_makes_arrives_here() {
    let (_far, near) = two_nodes().await;
    let said = near.send("say over there").await;
    assert_eq!(
        (state(&said), text(&said).as_str()),
        ("TASK_STATE_COMPLETED", "over there")
    );
    let made = near.send("data thing").await;
    let data = made["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|artifact| artifact["parts"][0].get("data").cloned());
    assert_eq!(data, Some(json!({ "said": "thing" })), "{made}");
    let failed = near.send("fail on purpose").await;
    assert_eq!(state(&failed), "TASK_STATE_FAILED");
    assert_eq!(
        failed["status"]["message"]["parts"][0]["text"],
        "on purpose"
    );
    let asked = near.send("ask how many?").await;
    assert_eq!(state(&asked), "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(asked["status"]["message"]["parts"][0]["text"], "how many?");
    assert!(text(&near.answer(&asked, "three").await).contains("three"));
    let asked = near.send("permission dig").await;
    assert_eq!(state(&asked), "TASK_STATE_AUTH_REQUIRED");
    assert_eq!(text(&near.answer(&asked, "no").await), "chosen: reject");
}

#[tokio::test]
async fn a_cancel_here_cancels_there() {
    let (far, near) = two_nodes().await;
    let mut params = send("wait for ever");
    params["configuration"] = json!({ "returnImmediately": true });
    let task = near.call("SendMessage", params).await["result"]["task"].clone();
    let working = json!({ "status": "TASK_STATE_WORKING" });
    while far.call("ListTasks", working.clone()).await["result"]["totalSize"] != 1 {
        tokio::task::yield_now().await;
    }
    let cancelled = near.call("CancelTask", json!({ "id": task["id"] })).await;
    assert_eq!(state(&cancelled["result"]), "TASK_STATE_CANCELED");
    let gone = json!({ "status": "TASK_STATE_CANCELED" });
    while far.call("ListTasks", gone.clone()).await["result"]["totalSize"] != 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_agent_that_is_not_there_fails_the_task_in_words() {
    let near = behind(json!({ "url": "http://127.0.0.1:9" })).await;
    let failed = near.send("say x").await;
    assert_eq!(state(&failed), "TASK_STATE_FAILED");
    let words = failed["status"]["message"]["parts"][0]["text"]
        .as_str()
        .unwrap();
    assert!(words.contains("127.0.0.1:9"), "{words}");
}

#[tokio::test]
async fn a_template_without_an_address_or_token_is_refused_in_words() {
    let near = behind(json!({ "url": "http://127.0.0.1:9", "tokenEnv": "NO_SUCH_TOKEN" })).await;
    let failed = near.send("say x").await;
    assert!(failed.to_string().contains("NO_SUCH_TOKEN"), "{failed}");
}

/// An agent of 0.3 whose stream breaks after the first chunk.
#[derive(Clone, Default)]
struct Breaking(Arc<AtomicUsize>);

async fn old_card(headers: axum::http::HeaderMap) -> Json<Value> {
    let host = headers["host"].to_str().unwrap();
    Json(json!({
        "name": "old", "description": "", "version": "1", "url": format!("http://{host}/rpc"),
        "protocolVersion": "0.3.0", "capabilities": { "streaming": true },
        "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
    }))
}

async fn old_rpc(State(breaking): State<Breaking>, Json(request): Json<Value>) -> Response {
    let calls = breaking.0.fetch_add(1, Ordering::SeqCst);
    let task = |state: &str, text: &str| {
        json!({
            "kind": "task", "id": "t", "contextId": "c", "status": { "state": state },
            "artifacts": [{ "artifactId": "a", "parts": [{ "kind": "text", "text": text }] }],
        })
    };
    let id = request["id"].clone();
    let results = match (request["method"].as_str().unwrap(), calls) {
        ("message/stream", _) => vec![task("working", "one ")],
        // A follower that comes later is told only what is new: words between the two would be lost.
        ("tasks/get", 1) => return StatusCode::BAD_GATEWAY.into_response(),
        ("tasks/get", calls) => {
            let now = match calls {
                2 => task("working", "one two "),
                _ => task("completed", "one two three"),
            };
            return Json(json!({ "jsonrpc": "2.0", "id": id, "result": now })).into_response();
        }
        (method, _) => panic!("{method}"),
    };
    let events = results.into_iter().map(move |result| {
        let body = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        Ok::<_, Infallible>(Event::default().data(body.to_string()))
    });
    Sse::new(stream::iter(events.collect::<Vec<_>>())).into_response()
}

#[tokio::test]
async fn a_broken_stream_is_taken_up_again_and_nothing_is_said_twice() {
    let tasks = Tasks::new();
    let app = Router::new()
        .route("/.well-known/agent.json", get(old_card))
        .route("/rpc", post(old_rpc))
        .with_state(Breaking::default());
    let url = serve(app, &tasks).await;
    let near = behind(json!({ "url": url })).await;
    let done = near.send("go").await;
    assert_eq!(
        (state(&done), text(&done).as_str()),
        ("TASK_STATE_COMPLETED", "one two three")
    );
}
