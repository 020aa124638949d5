//! Asking first: allowed, rejected, remembered, and the modes that do not ask.

use serde_json::{Value, json};

use crate::support::{Answer, Client, allow, statuses};

#[tokio::test]
async fn an_allowed_write_shows_its_diff_and_happens() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "old").unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.will_answer([allow("allow_once")]);
    assert_eq!(
        client.ask(&session, "/write a.txt new text").await,
        "Done: a.txt now has 8 bytes."
    );
    assert_eq!(
        std::fs::read_to_string(folder.path().join("a.txt")).unwrap(),
        "new text"
    );
    let (method, params) = &client.requests()[0];
    assert_eq!(method, "session/request_permission");
    let options: Vec<(&str, &str)> = params["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| {
            (
                option["optionId"].as_str().unwrap(),
                option["kind"].as_str().unwrap(),
            )
        })
        .collect();
    let kinds = ["allow_once", "allow_always", "reject_once", "reject_always"];
    assert_eq!(options, kinds.map(|kind| (kind, kind)));
    let diff = json!([{ "type": "diff", "path": folder.path().join("a.txt"), "oldText": "old", "newText": "new text" }]);
    assert_eq!(params["toolCall"]["content"], diff);
    assert_eq!(params["toolCall"]["kind"], "edit");
    assert_eq!(
        statuses(&client.updates(), &session),
        ["pending", "in_progress", "completed"]
    );
}

#[tokio::test]
async fn a_rejected_tool_fails_in_words_and_the_turn_ends_well() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.will_answer([
        allow("reject_once"),
        Answer::Result(json!({ "outcome": { "outcome": "cancelled" } })),
        allow("made_up"),
        Answer::Error(-32601, "no such method"),
        Answer::Result(json!({ "strange": true })),
    ]);
    let reasons = [
        "you rejected it",
        "dismissed",
        "was not offered",
        "no such method",
        "not what the protocol says",
    ];
    for reason in reasons {
        let said = client.ask(&session, "/write a.txt x").await;
        assert!(
            said.starts_with("That did not work: a.txt was not changed, because "),
            "{said}"
        );
        assert!(said.contains(reason), "{reason}: {said}");
    }
    assert!(!folder.path().join("a.txt").exists());
    assert_eq!(
        statuses(&client.updates(), &session),
        ["pending", "failed"].repeat(5)
    );
}

#[tokio::test]
async fn always_is_remembered_for_the_tool_and_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.will_answer([allow("allow_always"), allow("reject_always")]);
    client.ask(&session, "/write a.txt 1").await;
    client.ask(&session, "/write a.txt 2").await;
    assert!(
        client
            .ask(&session, "/run true")
            .await
            .contains("you rejected it")
    );
    assert!(
        client
            .ask(&session, "/run true")
            .await
            .contains("you rejected run for this session")
    );
    assert_eq!(client.requests().len(), 2);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("a.txt")).unwrap(),
        "2"
    );
    let other = client.new_session().await;
    client.will_answer([allow("allow_once"), allow("allow_once")]);
    client.ask(&other, "/write a.txt 3").await;
    client.ask(&other, "/append deep/er/b.txt 3").await;
    assert_eq!(client.requests().len(), 4);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("deep/er/b.txt")).unwrap(),
        "3\n"
    );
}

#[tokio::test]
async fn auto_does_not_ask_and_plan_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    let set = |mode: &str| json!({ "sessionId": session, "modeId": mode });
    client.call("session/set_mode", set("auto")).await.unwrap();
    client
        .until_update(|update| update["update"]["currentModeId"] == "auto")
        .await;
    client.ask(&session, "/append log one").await;
    client.ask(&session, "/append log 'two words'").await;
    assert_eq!(
        std::fs::read_to_string(folder.path().join("log")).unwrap(),
        "one\ntwo words\n"
    );
    assert_eq!(
        client.ask(&session, "/mode plan").await,
        "The mode is `plan`. Changes nothing and says what it would do."
    );
    assert!(
        client
            .ask(&session, "/write log x")
            .await
            .contains("I would write 1 bytes to log")
    );
    assert!(
        client
            .ask(&session, "/run rm log")
            .await
            .contains("I would run `rm log`")
    );
    assert!(folder.path().join("log").exists());
    assert_eq!(client.requests(), Vec::<(String, Value)>::new());
}

#[tokio::test]
async fn a_command_shows_its_output_and_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.will_answer([allow("allow_always")]);
    let cases = [
        (
            "/run echo one; echo two >&2; pwd >/dev/null",
            "one\ntwo\n`echo one; echo two >&2; pwd >/dev/null`: exit code 0.",
        ),
        (
            "/run printf x; exit 3",
            "x\n`printf x; exit 3`: exit code 3.",
        ),
        ("/run kill -9 $$", "`kill -9 $$`: signal 9."),
        (
            "/run echo \"$GREETING\" > f; cat f",
            "hello\n`echo \"$GREETING\" > f; cat f`: exit code 0.",
        ),
        // A child in the background does not hold the turn.
        (
            "/run echo a; sleep 1000 &",
            "a\n`echo a; sleep 1000 &`: exit code 0.",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(client.ask(&session, text).await, expected, "{text}");
    }
    assert!(folder.path().join("f").exists());
    let said = client
        .ask(&session, "/run head -c 200000 /dev/zero | tr '\\0' x")
        .await;
    assert!(said.len() < 20_000, "{}", said.len());
    let last = client
        .updates()
        .into_iter()
        .rfind(|update| update["update"]["sessionUpdate"] == "tool_call_update")
        .unwrap();
    assert_eq!(last["update"]["rawOutput"]["exitCode"], 0);
    assert!(
        last["update"]["rawOutput"]["output"]
            .as_str()
            .unwrap()
            .ends_with("134464 bytes left out")
    );
}

#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.will_answer([allow("allow_once")]);
    let turn = client.start_prompt(&session, "/run echo early; cat gate; echo late");
    // The gate is a pipe, so the command waits there until somebody writes.
    let gate = folder.path().join("gate");
    std::process::Command::new("mkfifo")
        .arg(&gate)
        .status()
        .unwrap();
    client
        .until_update(|update| update.to_string().contains("early\\n"))
        .await;
    client.cancel(&session).await;
    assert_eq!(turn.await.unwrap().unwrap()["stopReason"], "cancelled");
}
