//! Peers that ask for too much, all at once, or for what is none of theirs.

use axum::{Json, Router, body::Body, http::StatusCode, routing::get};
use domain::delegation::{Ending, Phase};
use engine::{Caller, JournalQuery};
use futures_util::{StreamExt, future::join_all, stream};
use serde_json::{Value, json};

use super::scene::{HERE, Scene, create, read};
use crate::{Create, DelegationError, PeerError};

fn invite(id: &str, description: &str) -> Value {
    json!({ "awcp": {
        "version": "1", "type": "INVITE", "delegation_id": id,
        "task": { "description": description, "prompt": "wait" },
        "lease": { "ttl_seconds": 60, "access_mode": "rw" },
        "workspace": { "export_name": "w" },
        "requirements": { "transport": "archive" },
    }})
}

async fn say(remote: &Scene, data: Value) -> Value {
    let answer = remote
        .delegations
        .handle_message(&data, &Caller::owner(), HERE)
        .await;
    answer.unwrap()["awcp"].clone()
}

async fn end(remote: &Scene, id: &str) {
    let error = json!({ "awcp": {
        "type": "ERROR", "delegation_id": id, "code": "CANCELLED", "message": "m", "hint": "",
    }});
    say(remote, error).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_invited_many_times_at_once_is_one_delegation() {
    let remote = Scene::new(|_| {}).await;
    let asked = (0..30).map(|_| say(&remote, invite("d-1", "d")));
    for answer in join_all(asked).await {
        assert_eq!(answer["type"], "ACCEPT", "{answer}");
    }
    end(&remote, "d-1").await;
    remote.left_nothing("d-1").await;
    let journal = remote.engine.journal(JournalQuery::default()).await;
    let journal = format!("{:?}", journal.unwrap());
    assert_eq!(journal.matches("delegation.accepted").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_are_taken_at_once_as_there_are_places() {
    let remote = Scene::new(|config| config.taken_max = 5).await;
    let ids: Vec<String> = (0..8).map(|number| format!("d-{number}")).collect();
    let asked = ids.iter().map(|id| say(&remote, invite(id, "d")));
    let answers = join_all(asked).await;
    let accepted = answers.iter().filter(|it| it["type"] == "ACCEPT").count();
    assert_eq!(accepted, 5, "{answers:?}");
    for id in &ids {
        end(&remote, id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn how_it_ended_is_told_to_a_host_that_asks_after_it_was_forgotten() {
    let (host, remote) = (Scene::new(|_| {}).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1")]);
    let view = host.lend_on(create(&remote, &dir, "all is well")).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    remote.left_nothing(&view.id).await;
    let known = remote.id(&view.id);
    while remote.delegations.node.remote(&known).is_some() {
        tokio::task::yield_now().await;
    }
    let told = say(&remote, invite(&view.id, "d")).await;
    assert_eq!(told["type"], "DONE", "{told}");
    assert_eq!(told["final_summary"], "all is well");
    let stranger = Caller {
        name: "stranger".to_owned(),
        ..Caller::owner()
    };
    let again = invite(&view.id, "d");
    let refused = remote.delegations.handle_message(&again, &stranger, HERE);
    assert_eq!(refused.await.unwrap()["awcp"]["code"], "DECLINED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_bounded_and_little_of_it_is_kept() {
    let remote = Scene::new(|_| {}).await;
    let long = "x".repeat(100 * 1024);
    let refused = say(&remote, invite("d-1", &long)).await;
    assert_eq!(refused["code"], "DECLINED", "{refused}");
    let mut large = invite("d-2", "d");
    large["awcp"]["task"]["prompt"] = json!("é".repeat(100 * 1024));
    assert_eq!(say(&remote, large).await["type"], "ACCEPT");
    end(&remote, "d-2").await;
    let view = remote.left_nothing("d-2").await;
    assert!(view.task.len() <= 4096, "{}", view.task.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_come_up_is_not_waited_for() {
    let (host, remote) = (Scene::new(|_| {}).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("stuck", "")]);
    let id = host.lend(create(&remote, &dir, "list")).await;
    remote.saw("opening").await;
    host.delegations.cancel(&id, "enough").await.unwrap();
    let view = remote.left_nothing(&id).await;
    assert_eq!(view.state, Phase::Cancelled, "{view:?}");
}

/// Something that answers everything with this status and these words, and endlessly where it can.
async fn service(status: StatusCode) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let endless = || async {
        let piece = || Ok::<_, std::io::Error>("[1,".repeat(1 << 16));
        Body::from_stream(stream::repeat_with(piece).take(1 << 12))
    };
    let app = Router::new()
        .route("/awcp/status", get(endless))
        .fallback(move || async move { (status, Json(json!("secret of a service inside"))) });
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_service_says_is_not_told_to_the_host_that_named_its_address() {
    let remote = Scene::new(|_| {}).await;
    let inside = service(StatusCode::NOT_FOUND).await;
    assert_eq!(say(&remote, invite("d-1", "d")).await["type"], "ACCEPT");
    let start = json!({ "awcp": {
        "type": "START", "delegation_id": "d-1",
        "lease": { "expires_at": "2099-01-01T00:00:00Z", "access_mode": "rw" },
        "mount": {
            "transport": "archive", "export_locator": format!("{inside}/admin"),
            "credential": { "token": "t" },
        },
    }});
    let answer = say(&remote, start).await;
    assert_eq!(answer, Value::Null, "it is heard");
    let view = remote.left_nothing("d-1").await;
    let failure = view.ending.as_ref().and_then(Ending::failure).unwrap();
    assert!(failure.message.contains("status 404"), "{failure:?}");
    let all = format!("{view:?}");
    assert!(!all.contains("secret of a service"), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let host = Scene::new(|_| {}).await;
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        peer_url: service(StatusCode::NOT_FOUND).await,
        ..create(&host, &dir, "list")
    };
    let refused = host.delegations.create(lend).await.unwrap_err();
    let is_no_peer = matches!(&refused, DelegationError::Peer(PeerError::NoCard { .. }));
    assert!(is_no_peer, "{refused}");
    assert_eq!(read(&dir, "a"), "1");
}
