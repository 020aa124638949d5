//! The commands for testers.

use builtin::ServeError;
use serde_json::json;

use crate::support::{Answer, Client, patiently};

#[tokio::test]
async fn a_burst_arrives_complete_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    let said = client.ask(&session, "/burst 5000").await;
    assert_eq!(
        said,
        (1..=5000)
            .map(|number| format!("chunk {number} of 5000\n"))
            .collect::<String>()
    );
    let said = client.ask(&session, "burst 3 1000").await;
    let lengths: Vec<usize> = said.lines().map(|line| line.len() + 1).collect();
    assert_eq!(lengths, [1000; 3]);
    assert!(
        client
            .ask(&session, "/burst many")
            .await
            .contains("Write it like this")
    );
}

#[tokio::test]
async fn turns_end_in_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "/refuse").await.0, "refusal");
    assert_eq!(client.prompt(&session, "/limit").await.0, "max_tokens");
    let error = client
        .try_prompt(&session, "/fail 'no luck'")
        .await
        .unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (-32603, "no luck"));
    let error = client.try_prompt(&session, "/fail").await.unwrap_err();
    assert_eq!(error.message, "failed, as you asked");
    client.ask(&session, "/pwd").await;
}

#[tokio::test]
async fn what_nobody_knows_is_sent_and_the_answer_reported() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.will_answer([Answer::Result(json!({ "seen": [1] }))]);
    assert_eq!(
        client.ask(&session, "/unknown").await,
        "The client answered the probe: {\"seen\":[1]}"
    );
    assert!(
        client
            .ask(&session, "/unknown")
            .await
            .starts_with("The client answered the probe with error -32601: ")
    );
    let (method, params) = &client.requests()[0];
    assert_eq!(
        (method.as_str(), &params["text"]),
        ("_agentcraft/probe", &json!("probe"))
    );
    let strange = client
        .updates()
        .into_iter()
        .find(|update| update["update"]["sessionUpdate"] == "agentcraft_unknown");
    assert_eq!(strange.unwrap()["extraBesideUpdate"], true);
}

#[tokio::test]
async fn a_late_update_follows_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.ask(&session, "/late").await;
    let is_late =
        |update: &serde_json::Value| update["update"]["sessionUpdate"] == "session_info_update";
    assert!(!client.updates().iter().any(is_late));
    client.until_update(is_late).await;
}

#[tokio::test]
async fn a_crash_ends_the_service_in_the_middle_of_the_turn() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    let turn = client.start_prompt(&session, "/crash 42");
    let ended = patiently(client.server).await.unwrap();
    assert!(
        matches!(ended, Err(ServeError::Crashed { code: 42 })),
        "{ended:?}"
    );
    assert!(patiently(turn).await.unwrap().is_err());
}

#[tokio::test]
async fn usage_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    client.ask(&session, "/usage").await;
    let updates = client.updates();
    let usage = updates
        .iter()
        .find(|update| update["update"]["sessionUpdate"] == "usage_update")
        .unwrap();
    assert!(usage["update"]["used"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn a_fork_leaves_a_process_behind() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start(folder.path()).await;
    let session = client.new_session().await;
    let said = client.ask(&session, "/fork").await;
    let pid: u32 = said
        .strip_prefix("Left behind pid ")
        .unwrap()
        .trim_end_matches('.')
        .parse()
        .unwrap();
    let process = platform::ProcessRef::of(pid).unwrap();
    client.leave().await.unwrap();
    assert!(process.alive());
    process.signal(platform::pid::Signal::KILL).unwrap();
    patiently(process.exited()).await;
}
