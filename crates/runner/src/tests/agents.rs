//! Agents of steps that do not do what they are told, and those that die.

use domain::turn::{AskKind, EventKind};
use workflow::Outcome;

use super::scene::{Running, Scene, nothing, patiently};

fn asking(more: &str) -> String {
    format!(
        "states:\n  initial: talk\n  talk: {{type: agent, provider: 'acp: sh agent.sh', prompt: hello{more}, on_success: done}}\n  done: {{type: terminal}}\n"
    )
}

/// A program that lives until it is told to end, and the part that is played for it.
fn scene(part: &str) -> Scene {
    let scene = Scene::with(&[("PART", part)]);
    scene.write(
        "agent.sh",
        "echo here >> here.txt; while ! test -e die; do sleep 0.02; done\n",
    );
    scene.workflow("ask", &asking(""));
    scene
}

async fn begun(scene: &Scene) -> Running {
    let running = scene.begin("ask", nothing()).await;
    scene.until_file("here.txt", &["here"]).await;
    running
}

#[tokio::test]
async fn a_cancel_is_heard_whatever_the_agent_is_doing() {
    for part in ["never connects", "never opens", "ignores cancel"] {
        let scene = scene(part);
        let running = begun(&scene).await;
        running.cancel.cancel();
        let (finish, _) = running.end().await;
        assert_eq!(finish.outcome, Outcome::Cancelled, "{part}");
        assert_eq!(scene.left(), 0, "{part}");
    }
}

#[tokio::test]
async fn a_timeout_ends_a_step_whose_agent_never_connects() {
    let scene = scene("never connects");
    scene.workflow("ask", &asking(", timeout: 100ms"));
    let (finish, _) = scene.run("ask", nothing()).await;
    assert_eq!(finish.outcome, Outcome::Failed);
    assert!(finish.message.contains("timed out"), "{}", finish.message);
    assert_eq!(scene.left(), 0);
}

#[tokio::test]
async fn an_agent_that_dies_with_a_question_open_ends_its_step_and_the_question_is_withdrawn() {
    let scene = scene("asks and dies");
    let mut running = begun(&scene).await;
    let mut asked = patiently(running.watcher.asks.recv()).await.unwrap();
    scene.write("die", "");
    patiently(asked.answer.closed()).await;
    let (finish, _) = running.end().await;
    assert_eq!(finish.outcome, Outcome::Failed);
    assert!(finish.message.contains("it died"), "{}", finish.message);
}

#[tokio::test]
async fn what_an_agent_asks_about_is_the_call_that_was_told_of() {
    let scene = scene("asks");
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut running = scene.begin("ask", nothing()).await;
        let asked = patiently(running.watcher.asks.recv()).await.unwrap();
        let AskKind::Permission { tool, .. } = &asked.kind else {
            panic!("{asked:?}");
        };
        let told = running.watcher.told().into_iter();
        let calls: Vec<String> = told
            .filter_map(|kind| match kind {
                EventKind::ToolCall(call) => Some(call.id),
                _ => None,
            })
            .collect();
        assert!(calls.contains(&tool.id), "{calls:?} {}", tool.id);
        ids.extend(calls);
        let yes = domain::turn::Answer::Option {
            id: "yes".to_owned(),
        };
        asked.answer.send(yes).unwrap();
        scene.write("die", "");
        running.succeeds().await;
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), all), (4, 4), "{ids:?}");
}
