//! An agent here that is an agent on another node: two nodes, each with its own engine.

use domain::chain::Ourselves;
use reqwest::StatusCode;
use serde_json::{Value, json};
use wire::runs::{Message, Part};

use super::scene::{NODE, Scene, Wish, output};
use crate::client::{self, Client, ClientError, PeerAddress};

async fn two_nodes() -> (Scene, Scene) {
    let far = Scene::new().await;
    let near = Scene::with(Wish {
        node: Ourselves {
            id: "5b1f2ad0-0000-4000-8000-000000000001".to_owned(),
            name: "desk".to_owned(),
        },
        ..Wish::default()
    })
    .await;
    near.agent("phone", &far.url).await;
    (near, far)
}

fn phone() -> Value {
    json!({ "agent_name": "phone" })
}

#[tokio::test]
async fn a_turn_here_is_a_run_there_and_sessions_go_on() {
    let (near, far) = two_nodes().await;
    let id = uuid::Uuid::new_v4().to_string();
    let more = json!({ "agent_name": "phone", "session_id": id });
    let (_, run) = near.run("sync", "count\nthink hm", more.clone()).await;
    assert_eq!(output(&run), "turn 1", "{run}");
    let (_, run) = near.run("sync", "count", more).await;
    assert_eq!(output(&run), "turn 2");
    assert_eq!(far.engine.sessions().list(Some("echo")).len(), 1);
}

#[tokio::test]
async fn what_is_asked_there_is_awaited_here_with_its_weight() {
    let (near, _far) = two_nodes().await;
    let (_, run) = near.run("sync", "delete all", phone()).await;
    assert_eq!(run["status"], "awaiting", "{run}");
    assert_eq!(run["await"]["metadata"]["severity"], "destructive");
    let id = run["run_id"].as_str().unwrap();
    let resume = json!({ "input": [{ "parts": [{ "content": "allow" }] }] });
    let (_, run) = near.post(&format!("/runs/{id}/resume"), resume).await;
    assert_eq!(output(&run), "chose allow");
    let (_, run) = near.run("sync", "ask which?", phone()).await;
    let id = run["run_id"].as_str().unwrap();
    let resume = json!({ "input": [{ "parts": [{ "content": "this" }] }] });
    let (_, run) = near.post(&format!("/runs/{id}/resume"), resume).await;
    assert_eq!(output(&run), "heard this");
}

#[tokio::test]
async fn a_cancel_here_ends_the_run_there() {
    let (near, far) = two_nodes().await;
    let (_, run) = near.run("async", "wait", phone()).await;
    let id = run["run_id"].as_str().unwrap();
    let begun = async {
        while far.script.0.turns.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::scene::PATIENCE, begun)
        .await
        .unwrap();
    near.post(&format!("/runs/{id}/cancel"), json!({})).await;
    near.until(id, "cancelled").await;
    let there = far.engine.sessions().list(Some("echo"));
    let idle = async {
        while far
            .engine
            .sessions()
            .list(Some("echo"))
            .iter()
            .any(|session| session.busy)
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::scene::PATIENCE, idle)
        .await
        .unwrap();
    assert_eq!(there.len(), 1);
}

#[tokio::test]
async fn a_circle_over_two_nodes_is_caught_where_it_closes() {
    let (near, far) = two_nodes().await;
    far.agent("back", &near.url).await;
    near.agent("around", &far.url).await;
    // desk asks its agent `around`, which asks nova9; a caller before desk was nova9 itself.
    let metadata = json!({ "source_agent_id": NODE, "call_chain": [NODE] });
    let more = json!({ "agent_name": "around", "metadata": metadata });
    let (status, run) = near.run("sync", "say x", more).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(run["status"], "failed");
    let message = run["error"]["message"].as_str().unwrap();
    assert!(message.contains("circular_call_detected"), "{message}");
}

#[tokio::test]
async fn a_peer_that_is_away_is_told_in_words() {
    let near = Scene::new().await;
    near.agent("phone", "http://127.0.0.1:9").await;
    let (_, run) = near.run("sync", "say x", phone()).await;
    assert_eq!(run["status"], "failed");
    let message = run["error"]["message"].as_str().unwrap();
    assert!(message.contains("cannot be reached"), "{message}");
}

#[tokio::test]
async fn the_client_follows_a_run_by_itself() {
    let far = Scene::new().await;
    let client = Client::new(PeerAddress {
        url: far.url.clone(),
        token: None,
        fingerprint: None,
    })
    .unwrap();
    client.ping().await.unwrap();
    assert_eq!(client.manifest().await.unwrap().name, "nova9");
    assert_eq!(client.agents().await.unwrap()[0].name, "echo");
    let create = client::prompt(None, "say a\nask which?");
    let mut stream = client.run(&create, &[], None).await.unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = stream.next().await.unwrap() {
        kinds.push(event.kind);
    }
    assert_eq!(kinds.last().map(String::as_str), Some("run.awaiting"));
    let run = stream.run_id().unwrap().to_owned();
    let message = Message::new("user", vec![Part::text("b")]);
    let mut stream = client
        .resume(&run, None, message, stream.seen())
        .await
        .unwrap();
    let mut last = None;
    while let Some(event) = stream.next().await.unwrap() {
        last = Some(event);
    }
    assert_eq!(last.unwrap().kind, "run.completed");
    assert_eq!(client.read(&run).await.unwrap().status, "completed");
    let unknown = client::prompt(Some("nobody".to_owned()), "x");
    let refused = client.run(&unknown, &[], None).await.unwrap_err();
    assert!(
        matches!(refused, ClientError::Refused { status: 404, .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn a_peer_that_asks_for_ever_is_stopped_and_its_run_cancelled() {
    let (near, far) = two_nodes().await;
    let prompt = "edit it\n".repeat(60);
    let (_, mut run) = near.run("sync", &prompt, phone()).await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    let mut refused = 0;
    while run["status"] == "awaiting" {
        refused += 1;
        let resume = json!({ "input": [{ "parts": [{ "content": "reject" }] }] });
        (_, run) = near.post(&format!("/runs/{id}/resume"), resume).await;
    }
    assert_eq!((refused, &run["status"]), (20, &json!("failed")), "{run}");
    let message = run["error"]["message"].as_str().unwrap();
    assert!(message.contains("asked 20 questions"), "{message}");
    let idle = async {
        while far
            .engine
            .sessions()
            .list(Some("echo"))
            .iter()
            .any(|session| session.busy)
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::scene::PATIENCE, idle)
        .await
        .unwrap();
}
