//! Sessions beside each other, and after a restart.

use std::{
    fs::File,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};

use crate::support::{Client, allow, patiently, spoken};

#[tokio::test]
async fn two_sessions_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let (one, two) = (client.new_session().await, client.new_session().await);
    assert_ne!(one, two);
    let hanging = client.start_prompt(&one, "/hang");
    client
        .until_update(|update| {
            update["sessionId"] == one.as_str() && update.to_string().contains("cancel.")
        })
        .await;
    client.ask(&two, "/mode auto").await;
    client.ask(&two, "/ask Why?").await;
    client.cancel(&two).await;
    assert!(
        client
            .ask(&two, "because")
            .await
            .contains("You answered: because")
    );
    client.cancel(&one).await;
    assert_eq!(
        patiently(hanging).await.unwrap().unwrap()["stopReason"],
        "cancelled"
    );
    assert!(client.ask(&one, "/mode").await.contains("`ask`"));
    assert!(
        client
            .ask(&one, "because")
            .await
            .contains("You said: because")
    );
    let (slow, fast) = tokio::join!(
        client.prompt(&one, "/slow 5 10"),
        client.prompt(&two, "/slow 5 10")
    );
    assert_eq!(
        slow.1,
        (1..=5)
            .map(|number| format!("chunk {number} of 5\n"))
            .collect::<String>()
    );
    assert_eq!(slow, fast);
}

#[tokio::test]
async fn a_session_is_loaded_after_a_restart_with_its_history_and_mode() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.will_answer([allow("allow_once")]);
    client.ask(&session, "/think deep").await;
    client.ask(&session, "/write a.txt x").await;
    client.ask(&session, "/plan a; b").await;
    client
        .call(
            "session/set_mode",
            json!({ "sessionId": session, "modeId": "plan" }),
        )
        .await
        .unwrap();
    client.ask(&session, "good night").await;
    client.leave().await.unwrap();

    let client = Client::start(folder.path()).await;
    let params = json!({ "sessionId": session, "cwd": client.cwd, "mcpServers": [] });
    let answer = client.call("session/load", params.clone()).await.unwrap();
    assert_eq!(answer["modes"]["currentModeId"], "plan");
    let updates = client.updates();
    let users = spoken(&updates, &session, "user_message_chunk");
    assert_eq!(users, "/think deep/write a.txt x/plan a; bgood night");
    let said = spoken(&updates, &session, "agent_message_chunk");
    assert!(
        said.starts_with("I thought about it: deepDone: a.txt now has 1 bytes.Step 1"),
        "{said}"
    );
    let kinds: Vec<&str> = updates
        .iter()
        .map(|update| update["update"]["sessionUpdate"].as_str().unwrap())
        .collect();
    let expected_start = [
        "user_message_chunk",
        "agent_thought_chunk",
        "agent_message_chunk",
        "user_message_chunk",
        "tool_call",
    ];
    assert_eq!(kinds[..5], expected_start);
    assert_eq!(updates[4]["update"]["status"], "completed");
    assert!(kinds.contains(&"plan") && !kinds.contains(&"current_mode_update"));
    client.ask(&session, "and more").await;

    let before = client.updates().len();
    client.call("session/resume", params.clone()).await.unwrap();
    client.ask(&session, "/pwd").await;
    let users = spoken(&client.updates()[before..], &session, "user_message_chunk");
    assert_eq!(users, "", "resume replays nothing");
    client
        .call("session/close", json!({ "sessionId": session }))
        .await
        .unwrap();
    let before = client.updates().len();
    client.call("session/load", params).await.unwrap();
    assert!(
        spoken(&client.updates()[before..], &session, "user_message_chunk")
            .ends_with("and more/pwd")
    );
}

#[tokio::test]
async fn sessions_are_listed_with_their_titles_newest_first() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let (one, two) = (client.new_session().await, client.new_session().await);
    client.ask(&two, "second").await;
    client.ask(&one, "first\nof all").await;
    client.leave().await.unwrap();
    // Files that were written in the same tick of the clock have no order.
    let now = SystemTime::now();
    for (session, hours) in [(&one, 1), (&two, 2)] {
        let path = format!(".agentcraft/sessions/{session}.jsonl");
        let file = File::options().append(true).open(folder.path().join(path));
        let earlier = now - Duration::from_secs(hours * 60 * 60);
        file.unwrap().set_modified(earlier).unwrap();
    }
    let client = Client::start(folder.path()).await;
    let three = client.new_session().await;
    let list = client.call("session/list", json!({})).await.unwrap();
    let rows: Vec<(&str, Option<&str>)> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            assert_eq!(row["cwd"], client.cwd);
            assert!(row["updatedAt"].is_string());
            (row["sessionId"].as_str().unwrap(), row["title"].as_str())
        })
        .collect();
    let expected = [
        (three.as_str(), None),
        (one.as_str(), Some("first")),
        (two.as_str(), Some("second")),
    ];
    assert_eq!(rows, expected);
    let list = client
        .call("session/list", json!({ "cwd": "/elsewhere" }))
        .await
        .unwrap();
    assert_eq!(list["sessions"], Value::Array(Vec::new()));
    for _ in 0..50 {
        client.new_session().await;
    }
    let list = client.call("session/list", json!({})).await.unwrap();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 50);
    let list = client
        .call("session/list", json!({ "cursor": list["nextCursor"] }))
        .await
        .unwrap();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 3);
    assert_eq!(list["nextCursor"], Value::Null);
}

#[tokio::test]
async fn only_so_many_session_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    for _ in 0..120 {
        client.new_session().await;
    }
    let files = std::fs::read_dir(folder.path().join(".agentcraft/sessions"))
        .unwrap()
        .count();
    assert_eq!(files, 100);
}

#[tokio::test]
async fn a_torn_file_loses_only_its_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.ask(&session, "/think one").await;
    client.leave().await.unwrap();
    let path = folder
        .path()
        .join(format!(".agentcraft/sessions/{session}.jsonl"));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"sessionUpdate\":\"user_mess");
    std::fs::write(&path, bytes).unwrap();
    let params = json!({ "sessionId": session, "cwd": "/", "mcpServers": [] });
    for expected in ["/think one", "/think one/think two"] {
        let client = Client::start(folder.path()).await;
        client.call("session/load", params.clone()).await.unwrap();
        assert_eq!(
            spoken(&client.updates(), &session, "user_message_chunk"),
            expected
        );
        client.ask(&session, "/think two").await;
        client.leave().await.unwrap();
    }
    std::fs::write(&path, "not ours").unwrap();
    let client = Client::start(folder.path()).await;
    assert!(
        client
            .call("session/load", params)
            .await
            .unwrap_err()
            .message
            .contains("not one of ours")
    );
}
