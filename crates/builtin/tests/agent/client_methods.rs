//! What goes through the client's own files and terminals.

use serde_json::json;

use crate::support::{Answer, Client, patiently, statuses};

#[tokio::test]
async fn files_go_through_a_client_that_declared_them() {
    let folder = tempfile::tempdir().unwrap();
    let capabilities = json!({ "fs": { "readTextFile": true, "writeTextFile": true } });
    let client = Client::start_with(folder.path(), capabilities).await;
    let session = client.new_session().await;
    client.will_answer([
        Answer::Result(json!({ "content": "unsaved" })),
        Answer::Result(json!({})),
        Answer::Result(json!(null)),
        Answer::Error(-32002, "no such file"),
    ]);
    assert_eq!(
        client.ask(&session, "/fs read a.txt").await,
        "a.txt, as the client has it:\nunsaved"
    );
    assert_eq!(
        client.ask(&session, "/fs write a.txt 'x y'").await,
        "The client wrote 3 bytes to a.txt."
    );
    client.ask(&session, "/fs write a.txt z").await;
    assert!(
        client
            .ask(&session, "/fs read b.txt")
            .await
            .contains("no such file")
    );
    let (method, params) = &client.requests()[1];
    assert_eq!(method, "fs/write_text_file");
    let path = folder.path().join("a.txt");
    assert_eq!(
        params,
        &json!({ "sessionId": session, "path": path, "content": "x y" })
    );
    assert!(!path.exists());
}

#[tokio::test]
async fn a_client_that_declared_nothing_is_not_asked() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    for text in ["/fs read a", "/fs write a b", "/terminal ls"] {
        assert!(
            client.ask(&session, text).await.contains("did not declare"),
            "{text}"
        );
    }
    assert!(client.requests().is_empty());
}

#[tokio::test]
async fn a_terminal_is_created_awaited_read_and_released() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start_with(folder.path(), json!({ "terminal": true })).await;
    let session = client.new_session().await;
    client.will_answer([
        Answer::Result(json!({ "terminalId": "t1" })),
        Answer::Result(json!({ "exitCode": 0 })),
        Answer::Result(json!({ "output": "hi\n", "truncated": false })),
        Answer::Result(json!({})),
    ]);
    assert_eq!(
        client.ask(&session, "/terminal echo hi").await,
        "hi\nThe client's terminal: exit code 0."
    );
    let requests = client.requests();
    let methods: Vec<&str> = requests.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(
        methods,
        [
            "terminal/create",
            "terminal/wait_for_exit",
            "terminal/output",
            "terminal/release"
        ]
    );
    assert_eq!(requests[0].1["args"], json!(["-c", "echo hi"]));
    assert_eq!(
        statuses(&client.updates(), &session),
        ["pending", "in_progress", "completed"]
    );
}

#[tokio::test]
async fn a_cancelled_turn_releases_its_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start_with(folder.path(), json!({ "terminal": true })).await;
    let session = client.new_session().await;
    client.will_answer([
        Answer::Result(json!({ "terminalId": "t1" })),
        Answer::Hold,
        Answer::Result(json!({})),
    ]);
    let turn = client.start_prompt(&session, "/terminal sleep 1000");
    client.until(|client| client.requests().len() == 2).await;
    client.cancel(&session).await;
    assert_eq!(
        patiently(turn).await.unwrap().unwrap()["stopReason"],
        "cancelled"
    );
    client.until(|client| client.requests().len() == 3).await;
    let (method, params) = client.requests().pop().unwrap();
    assert_eq!(
        (method.as_str(), &params["terminalId"]),
        ("terminal/release", &json!("t1"))
    );
}
