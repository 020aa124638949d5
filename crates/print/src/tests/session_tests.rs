//! Conversations over several turns and several lives of the driver.

use domain::turn::EventKind;
use engine::Continuity;

use super::*;

/// Shell: plays Claude with a conversation called `own-1`.
fn claude() -> String {
    let line = r#"{"type":"result","subtype":"success","session_id":"own-1","result":"yes"}"#;
    format!("{RECORD}; echo '{line}'")
}

fn has_resume(args: &[String]) -> bool {
    args.windows(2).any(|pair| pair == ["--resume", "own-1"])
}

#[tokio::test]
async fn the_second_turn_goes_on_with_the_conversation_of_the_first() {
    let scene = Scene::new();
    let driver = scene.driver("claude-code", &claude());
    let opened = scene.open(&driver, None).await;
    assert_eq!(opened.continuity, Continuity::Fresh);
    assert!(opened.id.starts_with("print-"));
    for wanted in [false, true] {
        driver.turn(turn(&opened.id, "hello")).await.unwrap();
        assert_eq!(has_resume(&scene.args()), wanted);
    }
    let other = scene.open(&driver, None).await;
    driver.turn(turn(&other.id, "hello")).await.unwrap();
    assert!(!has_resume(&scene.args()), "conversations are apart");
}

#[tokio::test]
async fn a_conversation_survives_the_driver() {
    let scene = Scene::new();
    let driver = scene.driver("claude-code", &claude());
    let opened = scene.open(&driver, None).await;
    driver.turn(turn(&opened.id, "hello")).await.unwrap();
    driver.close(&opened.id).await;
    drop(driver);
    let driver = scene.driver("claude-code", &claude());
    let again = scene.open(&driver, Some(&opened.id)).await;
    let wanted = Opened {
        id: opened.id,
        continuity: Continuity::Resumed,
    };
    assert_eq!(again, wanted);
    driver.turn(turn(&again.id, "hello")).await.unwrap();
    assert!(has_resume(&scene.args()));
}

#[tokio::test]
async fn the_programs_own_id_can_be_taken_up_and_a_lost_one_is_said_to_be() {
    let scene = Scene::new();
    let driver = scene.driver("claude-code", &claude());
    let opened = scene.open(&driver, Some("own-1")).await;
    assert_eq!(opened.continuity, Continuity::Resumed);
    driver.turn(turn(&opened.id, "hello")).await.unwrap();
    assert!(has_resume(&scene.args()));
    for lost in ["print-unknown", "--continue", ""] {
        let opened = scene.open(&driver, Some(lost)).await;
        let is_lost = matches!(opened.continuity, Continuity::Lost { .. });
        assert!(is_lost && opened.id != lost, "{lost:?}");
    }
    let command = scene.command("cat", &[]);
    let opened = scene.open(&command, Some("print-1")).await;
    let why = "the program remembers nothing from one turn to the next".to_owned();
    assert_eq!(opened.continuity, Continuity::Lost { why });
}

#[tokio::test]
async fn an_id_is_not_kept_before_the_agent_has_done_anything() {
    let scene = Scene::new();
    let body = format!(r#"{RECORD}; echo '{{"type":"system","session_id":"own-1"}}'; exit 1"#);
    let driver = scene.driver("claude-code", &body);
    let opened = scene.open(&driver, None).await;
    for _ in 0..2 {
        let stop = driver.turn(turn(&opened.id, "hello")).await.unwrap();
        assert_eq!(stop, failed("claude-code-program ended with exit code 1"));
        assert!(!has_resume(&scene.args()));
    }
}

#[tokio::test]
async fn an_id_that_could_be_an_option_is_not_taken_from_a_program() {
    let scene = Scene::new();
    let line = r#"{"type":"result","subtype":"success","session_id":"--yolo","result":"yes"}"#;
    let driver = scene.driver("claude-code", &format!("{RECORD}; echo '{line}'"));
    let opened = scene.open(&driver, None).await;
    for _ in 0..2 {
        driver.turn(turn(&opened.id, "hello")).await.unwrap();
        assert!(!scene.args().contains(&"--yolo".to_owned()));
    }
}

#[tokio::test]
async fn calls_of_a_later_codex_turn_do_not_take_the_ids_of_the_first() {
    let scene = Scene::new();
    let recording = fixture("codex.jsonl");
    let driver = scene.driver("codex", &format!("cat '{}'", recording.display()));
    let opened = scene.open(&driver, None).await;
    for _ in 0..2 {
        driver.turn(turn(&opened.id, "hello")).await.unwrap();
    }
    let mut ids: Vec<String> = Vec::new();
    for event in scene.events() {
        match &event.kind {
            EventKind::ToolCall(call) => ids.push(call.id.clone()),
            EventKind::ToolUpdate(update) => assert_eq!(ids.last(), Some(&update.id)),
            _ => {}
        }
    }
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], "item_3");
    assert!(ids[1].starts_with("item_3-"));
}

#[tokio::test]
async fn a_conversation_that_is_not_open_takes_no_turn() {
    let scene = Scene::new();
    let driver = scene.driver("claude-code", &claude());
    let error = driver.turn(turn("print-1", "hello")).await.unwrap_err();
    let words = "this agent cannot go on with \"print-1\", which is not open";
    assert_eq!(error.to_string(), words);
}
