//! How a run ends: by itself, by cancellation, by the limit, and never with anybody left behind.

use std::time::Duration;

use super::*;

/// Shell: a grandchild outside the group, one inside, and words that say that both run.
const FAMILY: &str =
    r#"setsid sleep 600 >/dev/null 2>&1 & sleep 600 & echo '{"type":"ready"}'; wait"#;

/// Takes a turn of a script that prints something and waits, and does `act` when it has printed.
async fn interrupted(body: &str, act: impl FnOnce(&Scene, &CancellationToken)) -> (Scene, Stop) {
    let scene = Scene::new();
    let driver = scene.driver("claude-code", body);
    let opened = scene.open(&driver, None).await;
    let turn = turn(&opened.id, "hello");
    let cancel = turn.cancel.clone();
    let acting = async {
        scene.log.newer_than(0).await;
        act(&scene, &cancel);
    };
    let (stop, ()) = patiently(async { tokio::join!(driver.turn(turn), acting) }).await;
    (scene, stop.unwrap())
}

#[tokio::test]
async fn cancelling_ends_the_program_and_all_it_has_started() {
    let (scene, stop) = interrupted(FAMILY, |_, cancel| cancel.cancel()).await;
    assert_eq!(stop, Stop::Cancelled);
    assert_eq!(scene.left(), []);
}

#[tokio::test]
async fn what_a_cancelled_program_says_on_its_way_out_is_heard() {
    let body = r#"trap 'echo "{\"type\":\"bye\"}"; exit 0' TERM; echo '{"type":"ready"}'; sleep 600 & wait"#;
    let (scene, stop) = interrupted(body, |_, cancel| cancel.cancel()).await;
    assert_eq!(stop, Stop::Cancelled);
    assert_eq!(scene.events().len(), 2);
    assert_eq!(scene.left(), []);
}

#[tokio::test]
async fn the_end_of_the_daemon_ends_the_turn() {
    let (scene, stop) = interrupted(FAMILY, |scene, _| scene.tasks.cancel()).await;
    assert_eq!(stop, Stop::Cancelled);
    assert_eq!(scene.left(), []);
}

#[tokio::test]
async fn a_turn_that_takes_too_long_fails_in_words() {
    let scene = Scene::new();
    let driver = scene.driver("claude-code", FAMILY);
    let opened = scene.open(&driver, None).await;
    let mut turn = turn(&opened.id, "hello");
    turn.options.timeout = Some(Duration::from_millis(500));
    let stop = patiently(driver.turn(turn)).await;
    let message = "claude-code-program did not finish within 0.5 s and was ended";
    assert_eq!(stop, Ok(failed(message)));
    assert_eq!(scene.left(), []);
}

#[tokio::test]
async fn a_turn_takes_as_long_as_it_takes_where_nobody_sets_a_limit() {
    let scene = Scene::new();
    let body = "printf 'one, '; while [ ! -e late ]; do sleep 0.01; done; printf two";
    let driver = scene.command(body, &[]);
    let a_day_later = async {
        scene.log.newer_than(0).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(24 * 3600)).await;
        tokio::time::resume();
        std::fs::write(scene.path("late"), "").unwrap();
    };
    let opened = scene.open(&driver, None).await;
    let taking = driver.turn(turn(&opened.id, "hello"));
    let (stop, ()) = tokio::join!(taking, a_day_later);
    assert_eq!(stop, Ok(Stop::EndTurn));
    assert_eq!(scene.answer(), "one, two");
    assert_eq!(scene.left(), []);
}

#[tokio::test]
async fn a_program_that_leaves_somebody_with_its_output_does_not_hang_the_turn() {
    let scene = Scene::new();
    let driver = scene.command("sleep 600 & echo done", &[]);
    assert_eq!(scene.once(&driver, "hello").await, Ok(Stop::EndTurn));
    assert_eq!(scene.answer(), "done\n");
    assert_eq!(scene.left(), []);
}

#[tokio::test]
async fn dropping_a_turn_ends_its_program() {
    let scene = Scene::new();
    let driver = scene.driver("claude-code", FAMILY);
    let opened = scene.open(&driver, None).await;
    tokio::select! {
        _ = driver.turn(turn(&opened.id, "hello")) => panic!("it waits"),
        () = scene.log.newer_than(0) => {}
    }
    let gone = async {
        while !scene.left().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    patiently(gone).await;
}

#[tokio::test]
async fn a_failing_command_fails_with_the_end_of_its_complaints() {
    let scene = Scene::new();
    let body = "echo some; i=0; while [ $i -lt 2000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; echo worst >&2; exit 3";
    let driver = scene.command(body, &[]);
    let Ok(Stop::Failed { message }) = scene.once(&driver, "hello").await else {
        panic!("it did not fail");
    };
    let begin = "command-program ended with exit code 3: ";
    assert!(message.starts_with(begin), "{message}");
    assert!(message.ends_with("line 1999\nworst"), "{message}");
    assert!(message.len() < 3000, "{}", message.len());
    assert_eq!(scene.answer(), "some\n");
}

#[tokio::test]
async fn a_known_program_that_fails_without_a_result_says_why() {
    let scene = Scene::new();
    let driver = scene.driver("codex", "echo 'not logged in' >&2; exit 1");
    let wanted = failed("codex-program ended with exit code 1: not logged in");
    assert_eq!(scene.once(&driver, "hello").await, Ok(wanted));
    let driver = scene.driver("gemini", "kill -9 $$");
    let wanted = failed("gemini-program was ended by signal 9");
    assert_eq!(scene.once(&driver, "hello").await, Ok(wanted));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error() {
    let scene = Scene::new();
    let missing = scene.path("missing");
    let driver = crate::driver(scene.program("claude-code", Some(missing))).unwrap();
    let error = scene.once(&driver, "hello").await.unwrap_err();
    assert!(matches!(&error, DriverError::Program { why } if why.contains("no such program")));
}

#[tokio::test]
async fn a_command_is_heard_while_it_speaks() {
    let scene = Scene::new();
    // It goes on only when its first words were heard.
    let body = "printf 'one, '; while [ ! -e heard ]; do sleep 0.01; done; printf 'two'";
    let driver = scene.command(body, &[]);
    let hearing = async {
        scene.log.newer_than(0).await;
        assert_eq!(scene.answer(), "one, ");
        std::fs::write(scene.path("heard"), "").unwrap();
    };
    let (stop, ()) = tokio::join!(scene.once(&driver, "hello"), hearing);
    assert_eq!(stop, Ok(Stop::EndTurn));
    assert_eq!(scene.answer(), "one, two");
}

#[tokio::test]
async fn a_program_that_has_said_all_and_does_not_end_is_ended_and_its_result_counts() {
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"all done","session_id":"s"}"#;
    let ways = [
        "sleep 600",
        "exec >&- 2>&-; sleep 600",
        r#"while :; do echo '{"type":"system"}'; sleep 1; done"#,
    ];
    let taken = ways.map(async |way| {
        let scene = Scene::new();
        let driver = scene.driver("claude-code", &format!("echo '{result}'; {way}"));
        assert_eq!(
            scene.once(&driver, "hello").await,
            Ok(Stop::EndTurn),
            "{way}"
        );
        assert_eq!(scene.left(), [], "{way}");
    });
    let [first, second, third] = taken;
    tokio::join!(first, second, third);
}
