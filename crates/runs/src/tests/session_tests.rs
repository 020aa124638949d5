//! Sessions: going on, whose they are, their history, and their end.

use std::time::Duration;

use domain::Timestamp;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::scene::{PATIENCE, Scene, Wish, output};

#[tokio::test]
async fn a_session_goes_on_and_its_history_is_one_address_per_message() {
    let scene = Scene::new().await;
    let id = uuid::Uuid::new_v4().to_string();
    let inline = json!({ "session": { "id": id, "history": [] } });
    let (_, run) = scene.run("sync", "count", inline).await;
    assert_eq!(run["session_id"], id);
    assert_eq!(output(&run), "turn 1");
    let (_, run) = scene
        .run("sync", "count", json!({ "session_id": id }))
        .await;
    assert_eq!(output(&run), "turn 2");
    for path in ["session", "sessions"] {
        let (status, session) = scene.get(&format!("/{path}/{id}")).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(session["id"], id);
        assert_eq!(session["lifetime"], "persistent");
        assert_eq!(session["history"].as_array().unwrap().len(), 4);
    }
    let (_, session) = scene.get(&format!("/sessions/{id}")).await;
    let mut roles = Vec::new();
    for url in session["history"].as_array().unwrap() {
        let message = scene.http.get(url.as_str().unwrap()).send().await.unwrap();
        let message: Value = message.json().await.unwrap();
        roles.push(message["role"].as_str().unwrap().to_owned());
    }
    assert_eq!(roles, ["user", "agent/echo", "user", "agent/echo"]);
    let (_, history) = scene.get(&format!("/sessions/{id}/history")).await;
    assert_eq!(history.as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn without_a_session_each_run_has_its_own_and_one_that_awaited_goes_on() {
    let scene = Scene::new().await;
    let (_, one) = scene
        .run("sync", "count", json!({ "session_id": null }))
        .await;
    let (_, two) = scene.run("sync", "count", json!({})).await;
    assert_ne!(one["session_id"], two["session_id"]);
    assert_eq!(
        (output(&one), output(&two)),
        ("turn 1".to_owned(), "turn 1".to_owned())
    );
    let lifetime = async |run: &Value| {
        let id = run["session_id"].as_str().unwrap();
        scene.get(&format!("/sessions/{id}")).await.1["lifetime"].clone()
    };
    assert_eq!(lifetime(&one).await, "ephemeral");
    let (_, run) = scene.run("sync", "ask which?", json!({})).await;
    let id = run["run_id"].as_str().unwrap();
    let resume = json!({ "input": [{ "parts": [{ "content": "x" }] }] });
    let (_, run) = scene.post(&format!("/runs/{id}/resume"), resume).await;
    assert_eq!(run["status"], "completed");
    assert_eq!(lifetime(&run).await, "persistent");
}

#[tokio::test]
async fn a_session_that_nobody_used_for_too_long_has_expired() {
    let scene = Scene::with(Wish {
        session_ttl: Duration::ZERO,
        ..Wish::default()
    })
    .await;
    let (_, run) = scene.run("sync", "count", json!({})).await;
    let id = run["session_id"].as_str().unwrap();
    let (status, error) = scene
        .run("sync", "count", json!({ "session_id": id }))
        .await;
    assert_eq!(status, StatusCode::GONE);
    assert_eq!(error["error"]["code"], "session_expired");
    assert_eq!(error["error"]["details"]["session_id"], id);
    let (status, _) = scene.get(&format!("/sessions/{id}")).await;
    assert_eq!(status, StatusCode::GONE);
}

#[tokio::test]
async fn a_closed_session_is_gone_with_its_run_and_its_history() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("sync", "say a\nask which?", json!({})).await;
    let (id, run) = (
        run["session_id"].as_str().unwrap(),
        run["run_id"].as_str().unwrap(),
    );
    let (_, session) = scene.get(&format!("/sessions/{id}")).await;
    let message = session["history"][0].as_str().unwrap();
    let (status, _) = scene
        .ask(Method::DELETE, &format!("/sessions/{id}"), None)
        .await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    scene.until(run, "cancelled").await;
    let (status, _) = scene.get(&format!("/sessions/{id}")).await;
    assert_eq!(status, StatusCode::GONE);
    let more = json!({ "session_id": id });
    let (status, error) = scene
        .as_caller("stranger")
        .await
        .run("sync", "count", more)
        .await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{error}");
    assert_eq!(error["error"]["code"], "session_not_found");
    let read = scene.http.get(message).send().await.unwrap();
    assert_eq!(read.status(), StatusCode::NOT_FOUND);
    assert!(scene.engine.sessions().list(Some("echo")).is_empty());
}

#[tokio::test]
async fn two_runs_of_one_session_do_not_cross() {
    let scene = Scene::new().await;
    let id = uuid::Uuid::new_v4().to_string();
    let (_, _) = scene
        .run("async", "wait", json!({ "session_id": id }))
        .await;
    let (status, error) = scene
        .run("sync", "say x", json!({ "session_id": id }))
        .await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(error["error"]["code"], "session_busy");
}

#[tokio::test]
async fn a_history_from_a_server_that_is_not_named_is_not_fetched() {
    let scene = Scene::new().await;
    let id = uuid::Uuid::new_v4().to_string();
    let session = json!({ "id": id, "history": [format!("{}/ping", scene.url)] });
    let (status, error) = scene
        .run("sync", "say x", json!({ "session": session }))
        .await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(error["error"]["code"], "history_not_read");
}

#[tokio::test]
async fn sessions_that_nobody_uses_hold_no_task_and_go_on_when_they_are_asked_for() {
    const COUNT: usize = 80;
    let scene = Scene::new().await;
    let mut ids = Vec::new();
    for _ in 0..COUNT {
        let (_, run) = scene.run("sync", "count", json!({})).await;
        assert_eq!(output(&run), "turn 1");
        ids.push(run["session_id"].as_str().unwrap().to_owned());
    }
    // The engine keeps 64 conversations open that somebody may come back to; the others rest.
    let rest = async {
        while scene.engine.sessions().list(Some("echo")).len() > 64 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, rest).await.unwrap();
    let last = json!({ "session_id": ids[COUNT - 1] });
    let (_, run) = scene.run("sync", "count", last.clone()).await;
    assert_eq!(output(&run), "turn 2", "it is the same conversation");
    let (_, run) = scene.run("sync", "count", last.clone()).await;
    assert_eq!(output(&run), "turn 3");
    let (_, session) = scene.get(&format!("/sessions/{}", ids[COUNT - 1])).await;
    assert_eq!(session["history"].as_array().unwrap().len(), 6);

    let scene = scene.restarted(Wish::default()).await;
    assert!(
        scene.engine.sessions().list(Some("echo")).is_empty(),
        "they rest"
    );
    let (_, run) = scene.run("sync", "say again", last).await;
    assert_eq!(output(&run), "again");
}

#[tokio::test]
async fn many_sessions_run_out_at_once_and_leave_nothing() {
    let scene = Scene::new().await;
    let mut ids = Vec::new();
    for _ in 0..100 {
        let (_, run) = scene.run("sync", "say hi", json!({})).await;
        ids.push(run["session_id"].as_str().unwrap().to_owned());
    }
    let (_, session) = scene.get(&format!("/sessions/{}", ids[0])).await;
    let message = session["history"][0].as_str().unwrap().to_owned();
    let later = Timestamp(crate::record::now().0 + 3 * 60 * 1000);
    scene.runs.tidy(later).await;
    for id in &ids {
        let (status, error) = scene.get(&format!("/sessions/{id}")).await;
        assert_eq!(status, StatusCode::GONE, "{error}");
    }
    let gone = scene.http.get(message).send().await.unwrap();
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    assert!(scene.engine.sessions().list(Some("echo")).is_empty());
}

/// A server of messages elsewhere, and a way to count how often each is read.
async fn other_server(scene: &Scene) -> (String, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    use axum::{Json, Router, extract::Path, routing::get};
    let read: std::sync::Arc<std::sync::Mutex<Vec<String>>> = std::sync::Arc::default();
    let log = read.clone();
    let messages = Router::new().route(
        "/resources/{id}",
        get(async move |Path(id): Path<String>| {
            log.lock().unwrap().push(id.clone());
            Json(json!({ "role": "user", "parts": [{ "content": format!("said {id}") }] }))
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/resources/", listener.local_addr().unwrap());
    scene.tasks.spawn(|stop| async move {
        let serving = axum::serve(listener, messages);
        let _ = stop.run_until_cancelled(serving.into_future()).await;
    });
    (url, read)
}

#[tokio::test]
async fn what_was_said_elsewhere_in_between_is_taken_up_once() {
    let first = Scene::new().await;
    let (there, read) = other_server(&first).await;
    let scene = Scene::with(Wish {
        history_from: vec![there.clone()],
        ..Wish::default()
    })
    .await;
    let id = uuid::Uuid::new_v4().to_string();
    let told = async |history: Value, prompt: &str| {
        let session = json!({ "id": id, "history": history });
        let (status, run) = scene
            .run("sync", prompt, json!({ "session": session }))
            .await;
        assert_eq!(status, StatusCode::OK, "{run}");
        let (_, session) = scene.get(&format!("/sessions/{id}")).await;
        (output(&run), session["history"].clone())
    };
    // Here, there, here, there, here: as a client does it that brings along what it was told.
    let (_, mut history) = told(json!([]), "say one").await;
    assert_eq!(history.as_array().unwrap().len(), 2);
    for name in ["b1", "b2"] {
        let line = json!(format!("{there}{name}"));
        history.as_array_mut().unwrap().push(line);
    }
    let (said, mut history) = told(history, "say two").await;
    assert!(
        said.contains("said b1") && said.contains("said b2"),
        "{said}"
    );
    let urls: Vec<&str> = history
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(urls.len(), 6);
    assert_eq!(urls[2..4], [format!("{there}b1"), format!("{there}b2")]);
    history
        .as_array_mut()
        .unwrap()
        .push(json!(format!("{there}b3")));
    let (said, history) = told(history, "say three").await;
    assert!(
        said.contains("said b3") && !said.contains("said b1"),
        "{said}"
    );
    assert_eq!(history.as_array().unwrap().len(), 9);
    let (said, history) = told(history, "say four").await;
    assert_eq!(
        (said.as_str(), history.as_array().unwrap().len()),
        ("four", 11)
    );
    assert_eq!(*read.lock().unwrap(), ["b1", "b2", "b3"]);
    // One that is removed does not take the others with it.
    let gone = history[0]
        .as_str()
        .unwrap()
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let deleted = scene.http.delete(gone).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    let (status, messages) = scene.get(&format!("/sessions/{id}/history")).await;
    assert_eq!(
        (status, messages.as_array().unwrap().len()),
        (StatusCode::OK, 10)
    );
}
