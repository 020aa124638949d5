//! Runs that wait for words: several conversations at once, and a cancel while nobody drives them.

use domain::turn::{EventKind, Stop};
use serde_json::json;

use super::scene::{Scene, Talking, told};
use crate::RunState;

fn scene() -> Scene {
    let scene = Scene::with(&[("PART", "echoes")]);
    let agent = |after: &str| {
        format!(
            "{{type: agent, provider: 'acp: sleep 600', prompt: hi, mode: conversation{after}}}"
        )
    };
    let two = format!(
        "states:\n  initial: both\n  both: {{type: parallel, parallel: [x, y], on_success: done}}\n  x: {}\n  y: {}\n  done: {{type: terminal, message: both over}}\n",
        agent(""),
        agent("")
    );
    scene.workflow("two", &two);
    let one = format!(
        "states:\n  initial: chat\n  chat: {}\n  done: {{type: terminal, message: over}}\n",
        agent(", on_success: done")
    );
    scene.workflow("chat", &one);
    let echo = "states:\n  initial: a\n  a: {type: command, command: 'echo a', on_success: done}\n  done: {type: terminal, message: echoed}\n";
    scene.workflow("echo", echo);
    scene
}

#[tokio::test]
async fn two_conversations_at_once_are_ended_one_after_the_other() {
    let scene = scene();
    let talk = Talking::with(scene.keeper(json!({})).unwrap(), scene.project()).await;
    assert_eq!(talk.say("/two").await, Stop::EndTurn);
    assert_eq!(talk.say("quit").await, Stop::EndTurn);
    assert!(!talk.words().contains("both over"), "{}", talk.words());
    assert_eq!(talk.say("quit").await, Stop::EndTurn);
    assert!(talk.words().contains("both over"), "{}", talk.words());
}

#[tokio::test]
async fn a_run_that_waits_is_cancelled_at_once_and_the_next_prompt_is_taken() {
    let scene = scene();
    let talk = Talking::with(scene.keeper(json!({})).unwrap(), scene.project()).await;
    assert_eq!(talk.say("/chat").await, Stop::EndTurn);
    let history = scene.history();
    let run = history.list(1).await.unwrap().remove(0);
    assert_eq!(run.state, RunState::Waiting);
    history.cancel(&run.id, &scene.node.folder).await.unwrap();
    scene.until_state(&run.id, RunState::Cancelled).await;
    assert_eq!(talk.say("/echo").await, Stop::EndTurn);
    assert!(talk.words().ends_with("echoed"), "{}", talk.words());
}

#[tokio::test]
async fn runs_of_one_conversation_do_not_share_the_ids_of_their_calls() {
    let scene = scene();
    let talk = Talking::with(scene.keeper(json!({})).unwrap(), scene.project()).await;
    for _ in 0..2 {
        assert_eq!(talk.say("/echo").await, Stop::EndTurn);
    }
    let calls = told(&talk.log).into_iter().filter_map(|kind| match kind {
        EventKind::ToolCall(call) => Some(call.id),
        _ => None,
    });
    let mut calls: Vec<String> = calls.collect();
    calls.dedup();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls.iter().all(|id| id.ends_with(":a")), "{calls:?}");
}
