//! Every end gives everything back: expiry, cancel, failure, refusal; and who has which folder meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    routing::{get, post},
};
use domain::delegation::{Access, Code, Ending, Phase, Transport};
use engine::{Caller, JournalQuery, Rights};
use serde_json::{Value, json};

use super::scene::{HERE, PATIENCE, Scene, create, load, names, read};
use crate::{AwcpConfig, Create};

async fn two() -> (Scene, Scene) {
    (Scene::new(|_| {}).await, Scene::new(|_| {}).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_over_ends_both_sides() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        ttl: Duration::from_secs(2),
        ..create(&remote, &dir, "write a 2\nwait")
    };
    let view = host.lend_on(lend).await;
    assert_eq!(view.state, Phase::Expired, "{view:?}");
    assert_eq!(read(&dir, "a"), "1");
    host.gave_back();
    let taken = remote.left_nothing(&view.id).await;
    assert_eq!(taken.state, Phase::Expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_at_the_host_ends_the_work_at_the_remote() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let id = host.lend(create(&remote, &dir, "write a 2\nwait")).await;
    remote.saw("waiting").await;
    let view = host.delegations.cancel(&id, "not needed").await.unwrap();
    assert_eq!(view.state, Phase::Cancelled);
    assert_eq!(read(&dir, "a"), "1");
    host.gave_back();
    let taken = remote.left_nothing(&id).await;
    assert_eq!(taken.state, Phase::Cancelled);
    let again = host.delegations.cancel(&id, "again").await.unwrap();
    assert_eq!(
        again.state,
        Phase::Cancelled,
        "cancelling twice is no error"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_at_the_remote_is_told_to_the_host() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let id = host.lend(create(&remote, &dir, "wait")).await;
    remote.saw("waiting").await;
    remote
        .delegations
        .cancel(&id, "the machine is needed")
        .await
        .unwrap();
    let view = host.ended(&id).await;
    let Some(Ending::Cancelled(failure)) = &view.ending else {
        panic!("{view:?}")
    };
    assert_eq!(failure.message, "the machine is needed");
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_is_told_with_its_words() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let view = host
        .lend_on(create(&remote, &dir, "write a 2\nfail no idea how"))
        .await;
    let Some(Ending::Error(failure)) = &view.ending else {
        panic!("{view:?}")
    };
    assert_eq!(
        (failure.code, failure.message.as_str()),
        (Code::TaskFailed, "no idea how")
    );
    assert_eq!(read(&dir, "a"), "1");
    assert!(
        view.log
            .iter()
            .any(|line| line.text.contains("no idea how")),
        "{:?}",
        view.log
    );
    remote.left_nothing(&view.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_nothing_declines_in_words() {
    let host = Scene::new(|_| {}).await;
    let remote = Scene::new(|config| config.executor = None).await;
    let dir = host.workspace(&[("a", "1")]);
    let view = host.lend_on(create(&remote, &dir, "x")).await;
    let Some(Ending::Error(failure)) = &view.ending else {
        panic!("{view:?}")
    };
    assert_eq!(failure.code, Code::Declined);
    assert!(failure.message.contains("takes no workspaces"));
    assert_eq!(remote.delegations.list().await.unwrap(), []);
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_of_delegations_is_refused_in_words_where_it_closes() {
    let (host, remote) = two().await;
    let lends_on = |config: &mut AwcpConfig| config.executor = Some("lender".to_owned());
    let between = Scene::new(lends_on).await;
    let lend_to = |it: &Scene| json!({ "url": it.url, "transport": "archive" });
    let (engine, home) = (&between.engine, between.home.path());
    load(engine, home, "lender", "delegation", lend_to(&remote)).await;
    // The work is passed on to a third node and comes home through the one between.
    let dir = host.workspace(&[("a.txt", "one")]);
    let task = "write result.txt from afar\nall done";
    let view = host.lend_on(create(&between, &dir, task)).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(read(&dir, "result.txt"), "from afar");
    // The same with a third node that is the first one.
    load(engine, home, "lender", "delegation", lend_to(&host)).await;
    let view = host.lend_on(create(&between, &dir, "all done")).await;
    let failure = view.ending.as_ref().and_then(Ending::failure).unwrap();
    assert_eq!(failure.code, Code::TaskFailed, "{view:?}");
    assert!(failure.message.contains("circle"), "{failure:?}");
    between.left_nothing(&view.id).await;
    assert_eq!(names(&host.home.path().join("mounts")), [""; 0]);
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_lends_to_itself_once() {
    let lends_on = |config: &mut AwcpConfig| config.executor = Some("lender".to_owned());
    let scene = Scene::new(lends_on).await;
    let (engine, home) = (&scene.engine, scene.home.path());
    load(
        engine,
        home,
        "lender",
        "delegation",
        json!({ "url": scene.url }),
    )
    .await;
    let dir = scene.workspace(&[("a.txt", "one")]);
    let view = scene.lend_on(create(&scene, &dir, "all done")).await;
    let failure = view.ending.as_ref().and_then(Ending::failure).unwrap();
    assert!(failure.message.contains("called by itself"), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_remote_may_lower_access_and_time() {
    let host = Scene::new(|_| {}).await;
    let remote = Scene::new(|config| {
        config.access_max = Access::Ro;
        config.ttl_max = Duration::from_secs(30);
    })
    .await;
    let dir = host.workspace(&[("a", "1")]);
    let view = host.lend_on(create(&remote, &dir, "write a 2")).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    let agreement = view.agreement.unwrap();
    assert_eq!(
        (agreement.access, agreement.ttl),
        (Access::Ro, Duration::from_secs(30))
    );
    assert!(
        agreement
            .mount_point
            .starts_with(remote.home.path().to_str().unwrap())
    );
    assert_eq!(read(&dir, "a"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_writer_has_a_folder_and_the_next_waits_for_it() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1"), ("sub/b", "1")]);
    let first = host
        .lend(create(&remote, &dir, "write a first\npause"))
        .await;
    remote.saw("pausing").await;
    let second = host
        .lend(create(&remote, &dir.join("sub"), "write b second"))
        .await;
    let other = host.workspace(&[("c", "1")]);
    let third = host.lend_on(create(&remote, &other, "write c third")).await;
    assert_eq!(
        third.state,
        Phase::Completed,
        "disjoint folders do not wait"
    );
    let waits = host.delegations.get(&second).await.unwrap();
    assert_eq!(waits.state, Phase::Created);
    remote.seen.send_modify(|seen| seen.push("go".to_owned()));
    assert_eq!(host.ended(&first).await.state, Phase::Completed);
    assert_eq!(host.ended(&second).await.state, Phase::Completed);
    assert_eq!(
        (read(&dir, "a"), read(&dir, "sub/b")),
        ("first".into(), "second".into())
    );
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_whoever_invited_may_go_on_and_ids_are_no_paths() {
    let remote = Scene::new(|_| {}).await;
    let stranger = Caller {
        name: "stranger".to_owned(),
        rights: Rights::Only(["delegations".to_owned()].into()),
    };
    let invite = |id: &str, version: &str| {
        json!({ "awcp": {
            "version": version, "type": "INVITE", "delegation_id": id,
            "task": { "description": "d", "prompt": "wait" },
            "lease": { "ttl_seconds": 60, "access_mode": "rw" },
            "workspace": { "export_name": "w" },
            "requirements": { "transport": "archive" },
        }})
    };
    let owner = Caller::owner();
    let say = async |data: &serde_json::Value, caller: &Caller| {
        let answer = remote
            .delegations
            .handle_message(data, caller, HERE)
            .await
            .unwrap();
        answer["awcp"].clone()
    };
    for id in ["..", "../x", "a/b"] {
        assert_eq!(
            say(&invite(id, "1"), &owner).await["code"],
            "DECLINED",
            "{id}"
        );
    }
    assert_eq!(say(&invite("d-9", "99"), &owner).await["code"], "DECLINED");
    let nobody = Caller {
        name: "nobody".to_owned(),
        rights: Rights::Only(["runs".to_owned()].into()),
    };
    assert_eq!(
        say(&invite("d-8", "1"), &nobody).await["code"],
        "AUTH_FAILED"
    );
    let accept = say(&invite("d-1", "1"), &owner).await;
    assert_eq!(accept["type"], "ACCEPT", "{accept}");
    assert_eq!(
        say(&invite("d-1", "1"), &owner).await,
        accept,
        "the same INVITE again"
    );
    let start = json!({ "awcp": {
        "type": "START", "delegation_id": "d-1",
        "lease": { "expires_at": "2020-01-01T00:00:00Z", "access_mode": "rw" },
        "mount": { "transport": "archive", "export_locator": "http://127.0.0.1:1/x" },
    }});
    assert_eq!(
        say(&start, &stranger).await["type"],
        "ERROR",
        "START of somebody else"
    );
    let late = say(&start, &owner).await;
    assert_eq!(late["code"], "START_EXPIRED", "{late}");
    remote.left_nothing("d-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transport_that_does_not_work_there_is_a_missing_dependency() {
    let host = Scene::new(super::scene::with_sftp).await;
    let remote = Scene::new(|config| config.environment.clear()).await;
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        transports: vec![Transport::Sshfs],
        ..create(&remote, &dir, "x")
    };
    let view = host.lend_on(lend).await;
    let Some(Ending::Error(failure)) = &view.ending else {
        panic!("{view:?}")
    };
    assert_eq!(failure.code, Code::DepMissing);
    let lend = Create {
        transports: vec![Transport::Sshfs, Transport::Archive],
        ..create(&remote, &dir, "write a 2")
    };
    let view = host.lend_on(lend).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(view.agreement.unwrap().transport, Transport::Archive);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_neither_shown_nor_in_the_journal() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        token: Some("token-of-the-peer".to_owned()),
        ..create(&remote, &dir, "wait")
    };
    let id = host.lend(lend).await;
    remote.saw("waiting").await;
    let handle = host.delegations.node.host(&host.id(&id)).unwrap();
    let secret = handle.gate.lock().secret.clone().unwrap();
    for scene in [&host, &remote] {
        let views = serde_json::to_string(&scene.delegations.list().await.unwrap()).unwrap();
        let journal = scene.engine.journal(JournalQuery::default()).await.unwrap();
        let shown = format!("{views}{journal:?}{handle:?}");
        assert!(shown.contains(&id));
        assert!(
            !shown.contains(&secret) && !shown.contains("token-of-the-peer"),
            "{shown}"
        );
    }
    host.delegations.cancel(&id, "enough").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_point_that_is_not_empty_is_denied_when_invited_and_again_before_it_is_used() {
    let remote = Scene::new(|_| {}).await;
    let owner = Caller::owner();
    let say = async |data: serde_json::Value| {
        let answer = remote.delegations.handle_message(&data, &owner, HERE).await;
        answer.unwrap()["awcp"].clone()
    };
    let invite = |id: &str, transport: &str| {
        json!({ "awcp": {
            "version": "1", "type": "INVITE", "delegation_id": id,
            "task": { "description": "d", "prompt": "list" },
            "lease": { "ttl_seconds": 60, "access_mode": "rw" },
            "workspace": { "export_name": "w" },
            "requirements": { "transport": transport },
        }})
    };
    let point = |id: &str| remote.home.path().join("mounts").join(id);
    std::fs::create_dir(point("d-taken")).unwrap();
    std::fs::write(point("d-taken").join("mine"), "m").unwrap();
    let answer = say(invite("d-taken", "archive")).await;
    assert_eq!(answer["code"], "MOUNTPOINT_DENIED", "{answer}");
    assert_eq!(read(&point("d-taken"), "mine"), "m");

    // Somebody puts a file there between ACCEPT and START.
    let host = Scene::new(|_| {}).await;
    let dir = host.workspace(&[("a", "1")]);
    let id = host.lend(create(&remote, &dir, "list\nwait")).await;
    remote.saw("waiting").await;
    let handle = host.delegations.node.host(&host.id(&id)).unwrap();
    let secret = handle.gate.lock().secret.clone().unwrap();
    let accept = say(invite("d-late", "archive")).await;
    assert_eq!(accept["type"], "ACCEPT", "{accept}");
    std::fs::write(point("d-late").join("planted"), "p").unwrap();
    let start = json!({ "awcp": {
        "type": "START", "delegation_id": "d-late",
        "lease": { "expires_at": "2999-01-01T00:00:00Z", "access_mode": "rw" },
        "mount": {
            "transport": "archive", "export_locator": format!("{}/awcp/{id}/archive", host.url),
            "credential": { "token": secret },
        },
    }});
    say(start).await;
    let late = remote.id("d-late");
    if let Some(mut handle) = remote.delegations.node.remote(&late) {
        let ended = handle.view.wait_for(|view| view.state.is_end());
        let waited = tokio::time::timeout(super::scene::PATIENCE, ended).await;
        let _ = waited.unwrap(); // It may have ended at once.
    }
    let view = remote.delegations.get_taken(&late).await.unwrap();
    let Some(Ending::Error(failure)) = &view.ending else {
        panic!("{view:?}")
    };
    assert_eq!(failure.code, Code::MountpointDenied, "{failure:?}");
    host.delegations.cancel(&id, "enough").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_removed_at_the_end_is_removed_by_pruning() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let id = host.lend(create(&remote, &dir, "wait")).await;
    remote.saw("waiting").await;
    let root = remote.home.path().join("mounts");
    // A mount point that cannot be removed: something is mounted on it.
    let point = root.join(&id);
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "tmpfs"])
        .arg(&point)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return; // Only root may mount.
    }
    host.delegations.cancel(&id, "enough").await.unwrap();
    let mut handle = remote.delegations.node.remote(&host.id(&id)).unwrap();
    let ended = handle.view.wait_for(|view| view.state.is_end());
    let view = tokio::time::timeout(super::scene::PATIENCE, ended)
        .await
        .unwrap()
        .unwrap()
        .clone();
    let unmounted = std::process::Command::new("umount").arg(&point).status();
    assert!(unmounted.unwrap().success());
    assert!(view.cleanup_due, "{view:?}");
    remote.delegations.prune().await.unwrap();
    remote.left_nothing(&id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_at_the_remote_hears_of_the_end_when_it_comes() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a.txt", "one")]);
    let id = host.lend(create(&remote, &dir, "wait")).await;
    remote.saw("waiting").await;
    let (there, waited) = (remote.delegations.clone(), id.clone());
    let waiting = tokio::spawn(async move { there.wait(&waited, PATIENCE).await });
    host.delegations.cancel(&id, "enough").await.unwrap();
    let view = waiting.await.unwrap().unwrap();
    assert!(view.state.is_end(), "{view:?}");
}

/// How a peer answers what it is told, message by message.
type Answers = fn(&Value, usize) -> Value;

/// A peer that says what it is told to say, with a card like ours.
async fn scripted(answers: Answers) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let card = json!({
        "name": "node", "description": "", "version": "1",
        "supportedInterfaces": [
            { "url": format!("{url}/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
        ],
        "capabilities": { "extensions": [
            { "uri": wire::awcp::EXTENSION_URI, "params": { "transports": ["archive"] } },
        ] },
        "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
    });
    let heard = Arc::new(AtomicUsize::new(0));
    let answer = move |Json(request): Json<Value>| async move {
        let awcp = &request["params"]["message"]["parts"][0]["data"]["awcp"];
        let number = heard.fetch_add(1, Ordering::Relaxed);
        let mut said = answers(awcp, number);
        said["delegation_id"] = awcp["delegation_id"].clone();
        let parts = json!([{ "data": { "awcp": said } }]);
        let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": parts });
        Json(json!({ "jsonrpc": "2.0", "id": 1, "result": { "message": message } }))
    };
    let app = Router::new()
        .route("/.well-known/agent-card.json", get(|| async { Json(card) }))
        .route("/a2a", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

fn accept(transport: &str) -> Value {
    json!({ "type": "ACCEPT", "remote_mount": { "mount_point": "/x", "transport": transport } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_that_is_silent_is_asked_and_what_it_says_ends_it() {
    // It was invited and started, and could not say that it has ended; or it has forgotten everything.
    let failed: Answers = |awcp, number| match (awcp["type"].as_str().unwrap(), number) {
        ("INVITE", 0) => accept("archive"),
        ("INVITE", 3) => {
            json!({ "type": "ERROR", "code": "MOUNT_FAILED", "message": "no way home", "hint": "" })
        }
        _ => json!({ "type": "DONE" }), // It cannot be read as anything, like the word that all is well.
    };
    let forgot: Answers = |awcp, _| match awcp["type"].as_str().unwrap() {
        "INVITE" => accept("archive"),
        _ => json!({ "type": "DONE" }),
    };
    for (answers, words) in [(failed, "no way home"), (forgot, "knows nothing of it")] {
        let host = Scene::new(|config| config.ask_every = Duration::from_millis(20)).await;
        let dir = host.workspace(&[("a.txt", "one")]);
        let lend = Create {
            peer_url: scripted(answers).await,
            ..create(&host, &dir, "list")
        };
        let view = host.lend_on(lend).await;
        let failure = view.ending.as_ref().and_then(Ending::failure).unwrap();
        assert!(failure.message.contains(words), "{view:?}");
        host.gave_back();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_that_is_at_work_goes_on_however_often_it_is_asked() {
    let host = Scene::new(|config| config.ask_every = Duration::from_millis(5)).await;
    let remote = Scene::new(|_| {}).await;
    let dir = host.workspace(&[("a.txt", "one")]);
    let id = host.lend(create(&remote, &dir, "wait")).await;
    remote.saw("waiting").await;
    let early = host.delegations.wait(&id, Duration::from_millis(100)).await;
    assert_eq!(early.unwrap().state, Phase::Running);
    let view = host.delegations.cancel(&id, "enough").await.unwrap();
    assert_eq!(view.state, Phase::Cancelled, "{view:?}");
    remote.left_nothing(&id).await;
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accept_of_what_was_not_offered_ends_it_at_once() {
    let host = Scene::new(|_| {}).await;
    let dir = host.workspace(&[("a.txt", "one")]);
    let lend = Create {
        peer_url: scripted(|_, _| accept("sshfs")).await,
        ..create(&host, &dir, "list")
    };
    let view = host.lend_on(lend).await;
    let failure = view.ending.as_ref().and_then(Ending::failure).unwrap();
    assert_eq!(failure.code, Code::DepMissing, "{view:?}");
    assert!(failure.message.contains("not offered"), "{failure:?}");
    host.gave_back();
}
