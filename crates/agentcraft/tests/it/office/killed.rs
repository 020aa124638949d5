//! A server that is killed with many calls under way, and is started again.

use std::time::Duration;

use platform::Tasks;
use serde_json::json;
use smcp::agent::Call;
use testkit::{PATIENCE, eventually};
use tokio_util::sync::CancellationToken;

use super::{
    Scene,
    several::{IN_FLIGHT, agent, until_tools},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_under_way_when_the_server_is_killed_end_in_words_and_everybody_comes_back() {
    let Some(mut scene) = Scene::start() else {
        return;
    };
    let _computer = scene.lending_computer();
    let address = scene.url.trim_start_matches("http://").to_owned();
    let tasks = Tasks::new();
    let agent = agent(address.parse().unwrap(), &tasks).await;
    until_tools(&agent).await;
    let call = |tool: &str, body: serde_json::Value| {
        let body = body.as_object().cloned().unwrap_or_default();
        Call::new("nova", tool, body, Duration::from_secs(60))
    };
    let never = CancellationToken::new();
    let calls: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (agent, never) = (agent.clone(), never.clone());
            let slow = call("scripted__slow", json!({}));
            tokio::spawn(async move { agent.call(&slow, &never).await })
        })
        .collect();
    let begun = scene.home.scratch("cancelled.begun");
    let has_begun =
        tokio::task::spawn_blocking(move || eventually("the calls have begun", || begun.exists()));
    has_begun.await.unwrap();
    assert_eq!(scene.server.take().unwrap().end("KILL"), None);
    for under_way in calls {
        let ended = tokio::time::timeout(PATIENCE, under_way).await;
        let lost = ended.expect("every call ends").unwrap().unwrap_err();
        assert!(lost.to_string().contains("lost"), "{lost}");
    }
    scene.serve(&address);
    // Nobody has told them.
    until_tools(&agent).await;
    let sum = call("scripted__plus", json!({"a": 1, "b": 2}));
    let result = agent.call(&sum, &never).await.unwrap();
    assert_eq!(result.content[0]["text"], "3");
    assert_eq!(tasks.drain(PATIENCE).await, platform::Drained::Clean);
}
