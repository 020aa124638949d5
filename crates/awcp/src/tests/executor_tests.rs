//! An executor of the released dialect as our host meets it: its words as they were captured, and its defects.

use std::{
    io::Cursor,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path as FilePath,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{DefaultBodyLimit, Path, State},
    routing::{get, post},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use domain::delegation::{Ending, Phase};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::scene::{PATIENCE, Scene, create, names, read};
use crate::Create;

/// What the executor does with what it was lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Works, and tells everything.
    Tells,
    /// Tells who comes late that it is done, without what it has done.
    ForgetsItsChanges,
    /// Loses the events, and is still at work when it is asked.
    LosesItsEvents,
    /// Sends back a file that is none of the workspace's.
    Escapes,
    /// Never ends, whatever the lease says.
    NeverEnds,
    /// Works until the test says go.
    WaitsForAWord,
    /// Keeps the workspace after the task, and waits to hear of another one: its newer line.
    WaitsForARound,
}

#[derive(Debug)]
struct Executor {
    habit: Habit,
    /// Everything that it was told: messages, and paths of what else was asked.
    told: watch::Sender<Vec<Value>>,
    questions: Mutex<u32>,
}

impl Executor {
    /// Begins one at a port of its own, for as long as the scene lives.
    async fn beside(scene: &Scene, habit: Habit) -> (String, Arc<Self>) {
        let executor = Arc::new(Self {
            habit,
            told: watch::Sender::new(Vec::new()),
            questions: Mutex::default(),
        });
        let app = Router::new()
            .route("/awcp", post(message).layer(DefaultBodyLimit::disable()))
            .route("/awcp/status", get(status))
            .route("/awcp/tasks/{id}/events", get(events))
            .route("/awcp/tasks/{id}/result", get(result))
            .route("/awcp/tasks/{id}/ack", post(ack))
            .route("/awcp/cancel/{id}", post(cancel))
            .with_state(executor.clone());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let url = format!("http://{}/awcp", listener.local_addr().unwrap());
        scene.tasks.spawn(|stop| async move {
            tokio::select! {
                () = stop.cancelled() => {}
                served = axum::serve(listener, app).into_future() => served.unwrap(),
            }
        });
        (url, executor)
    }

    fn hear(&self, what: Value) {
        self.told.send_modify(|told| told.push(what));
    }

    /// Waits until it was told something of this kind, and gives it.
    async fn was_told(&self, kind: &str) -> Value {
        let mut told = self.told.subscribe();
        let is_it = |it: &&Value| it["type"] == kind;
        let waiting = told.wait_for(|told| told.iter().any(|it| is_it(&it)));
        let told = tokio::time::timeout(PATIENCE, waiting)
            .await
            .unwrap()
            .unwrap();
        told.iter().find(is_it).unwrap().clone()
    }

    /// The events of a task.
    async fn tell(&self, id: &str) -> String {
        let line = |kind: &str, more: Value| {
            let at = "2026-11-15T20:12:38.585Z";
            let mut event = json!({ "delegationId": id, "type": kind, "timestamp": at });
            for (key, value) in more.as_object().unwrap() {
                event[key] = value.clone();
            }
            format!("data: {event}\n\n")
        };
        let running = line("status", json!({ "status": "running" }));
        let ids = json!(["snap_0123456789ab"]);
        let done = line("done", json!({ "summary": "did it", "snapshotIds": ids }));
        match self.habit {
            Habit::NeverEnds | Habit::WaitsForAWord => std::future::pending().await,
            Habit::LosesItsEvents => format!(": keepalive\n\n{running}"),
            Habit::ForgetsItsChanges => format!("{running}{done}"),
            Habit::Tells | Habit::Escapes | Habit::WaitsForARound => {
                let snapshot = json!({
                    "snapshotId": ids[0], "summary": "s", "recommended": true,
                    "snapshotBase64": self.work().await,
                });
                let end = match self.habit {
                    Habit::WaitsForARound => {
                        let round = json!({ "round": 1, "summary": "did it", "snapshotIds": ids });
                        line("round_done", round)
                    }
                    _ => done,
                };
                format!("{running}{}{end}", line("snapshot", snapshot))
            }
        }
    }

    /// The workspace of START, unpacked, with what the executor changes in it packed again.
    async fn work(&self) -> String {
        let start = self.was_told("START").await;
        let folder = tempfile::tempdir().unwrap();
        unzip(&start, folder.path());
        let workspace = folder.path().join("workspace");
        std::fs::write(workspace.join("a"), "made there").unwrap();
        if self.habit == Habit::Escapes {
            return BASE64_STANDARD.encode(zip_with("../../escaped", b"out"));
        }
        let opened = archive::Folder::open(&workspace).unwrap();
        let mut bytes = Cursor::new(Vec::new());
        let resources = [("workspace", &opened)];
        let limits = archive::Limits::default();
        archive::pack_zip(&resources, &archive::everything, &limits, &mut bytes).unwrap();
        BASE64_STANDARD.encode(bytes.into_inner())
    }
}

fn unzip(start: &Value, into: &FilePath) {
    let text = start["transportHandle"]["workspaceBase64"]
        .as_str()
        .unwrap();
    let bytes = BASE64_STANDARD.decode(text).unwrap();
    let opened = archive::Folder::open(into).unwrap();
    archive::unpack_zip(Cursor::new(bytes), &opened, &archive::Limits::default()).unwrap();
}

/// A stored entry of any name, as no honest packer writes it.
fn zip_with(name: &str, bytes: &[u8]) -> Vec<u8> {
    let crc = {
        let mut crc = !0_u32;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
            }
        }
        !crc
    };
    let (length, name_length) = (bytes.len() as u32, name.len() as u16);
    let fixed: Vec<u8> = [
        &[0; 8][..],
        &crc.to_le_bytes(),
        &length.to_le_bytes(),
        &length.to_le_bytes(),
        &name_length.to_le_bytes(),
        &[0; 2],
    ]
    .concat();
    let local = [b"PK\x03\x04\x14\0", &fixed[..], name.as_bytes(), bytes].concat();
    let central = [
        b"PK\x01\x02\x14\0\x14\0",
        &fixed[..],
        &[0; 14],
        name.as_bytes(),
    ]
    .concat();
    let (at, size) = (local.len() as u32, central.len() as u32);
    let end = [
        b"PK\x05\x06\0\0\0\0\x01\0\x01\0",
        &size.to_le_bytes()[..],
        &at.to_le_bytes(),
        &[0; 2],
    ]
    .concat();
    [local, central, end].concat()
}

async fn status() -> Json<Value> {
    Json(json!({
        "pendingInvitations": 0, "activeDelegations": 0, "completedDelegations": 0, "delegations": [],
    }))
}

async fn message(State(it): State<Arc<Executor>>, Json(message): Json<Value>) -> Json<Value> {
    it.hear(message.clone());
    let id = &message["delegationId"];
    Json(match message["type"].as_str().unwrap() {
        "INVITE" => json!({
            "version": "1", "type": "ACCEPT", "delegationId": id, "retentionMs": 604_800_000_u64,
            "executorWorkDir": { "path": "/srv/there" },
            "executorConstraints": {
                "acceptedAccessMode": "rw", "maxTtlSeconds": 3600,
                "sandboxProfile": { "cwdOnly": true, "allowNetwork": true, "allowExec": true },
            },
        }),
        _ => json!({ "ok": true }),
    })
}

/// The headers come at once, what happens as it does.
async fn events(State(it): State<Arc<Executor>>, Path(id): Path<String>) -> Body {
    let told = async move { Ok::<_, std::convert::Infallible>(it.tell(&id).await) };
    Body::from_stream(futures_util::stream::once(told))
}

async fn result(State(it): State<Arc<Executor>>) -> Json<Value> {
    let question = {
        let mut questions = it.questions.lock().unwrap();
        *questions += 1;
        *questions
    };
    let is_going = it.told.borrow().iter().any(|it| it["type"] == "go");
    let is_working = match it.habit {
        Habit::LosesItsEvents => question < 3,
        Habit::WaitsForAWord => !is_going,
        Habit::WaitsForARound => true,
        Habit::Tells | Habit::ForgetsItsChanges | Habit::Escapes | Habit::NeverEnds => false,
    };
    if is_working {
        return Json(json!({ "status": "running" }));
    }
    let snapshot = it.work().await;
    Json(json!({ "status": "completed", "summary": "did it", "snapshotBase64": snapshot }))
}

async fn ack(State(it): State<Arc<Executor>>) -> Json<Value> {
    it.hear(json!({ "type": "ack" }));
    Json(json!({ "ok": true }))
}

async fn cancel(State(it): State<Arc<Executor>>) -> Json<Value> {
    it.hear(json!({ "type": "cancel" }));
    Json(json!({ "ok": true, "cancelled": true }))
}

fn lend(host: &Scene, url: &str, dir: &FilePath) -> Create {
    Create {
        peer_url: url.to_owned(),
        ..create(host, dir, "do it")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_executor_gets_the_folder_and_nothing_beside_it_and_modes_and_links_stay() {
    let host = Scene::new(|_| {}).await;
    let (url, executor) = Executor::beside(&host, Habit::Tells).await;
    let outside = host.workspace(&[("secret", "hidden")]);
    let dir = host.workspace(&[("a", "1"), ("tool.sh", "#!/bin/sh\n")]);
    let runs = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.join("tool.sh"), runs).unwrap();
    symlink("a", dir.join("inside")).unwrap();
    symlink(outside.join("secret"), dir.join("outside")).unwrap();
    let view = host.lend_on(lend(&host, &url, &dir)).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    let sent = tempfile::tempdir().unwrap();
    unzip(&executor.was_told("START").await, sent.path());
    let sent = sent.path().join("workspace");
    assert!(!names(&sent).contains(&"outside".to_owned()), "{sent:?}");
    assert_eq!(read(&sent, "tool.sh"), "#!/bin/sh\n");
    assert_eq!(read(&dir, "a"), "made there");
    assert_eq!(read(&outside, "secret"), "hidden");
    let mode = std::fs::metadata(dir.join("tool.sh")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o755);
    assert_eq!(
        std::fs::read_link(dir.join("inside")).unwrap(),
        FilePath::new("a")
    );
    assert!(std::fs::symlink_metadata(dir.join("outside")).is_ok());
    executor.was_told("ack").await;
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_were_not_in_the_events_are_asked_for_and_come_home() {
    for habit in [Habit::ForgetsItsChanges, Habit::LosesItsEvents] {
        let host = Scene::new(|_| {}).await;
        let (url, executor) = Executor::beside(&host, habit).await;
        let dir = host.workspace(&[("a", "1")]);
        let view = host.lend_on(lend(&host, &url, &dir)).await;
        assert_eq!(view.state, Phase::Completed, "{habit:?}: {view:?}");
        assert_eq!(read(&dir, "a"), "made there", "{habit:?}");
        executor.was_told("ack").await;
        host.gave_back();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_waits_for_another_round_is_told_that_there_is_none() {
    let host = Scene::new(|_| {}).await;
    let (url, executor) = Executor::beside(&host, Habit::WaitsForARound).await;
    let dir = host.workspace(&[("a", "1")]);
    let view = host.lend_on(lend(&host, &url, &dir)).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(read(&dir, "a"), "made there");
    let close = executor.was_told("CLOSE").await;
    assert_eq!(close["delegationId"], view.id.as_str());
    executor.was_told("ack").await;
    // The next round is a delegation of its own, in which the executor finds what the last one changed.
    let next = host
        .delegations
        .go_on(&view.id, "once more".to_owned())
        .await;
    let next = host.ended(&next.unwrap().to_string()).await;
    assert_eq!(next.state, Phase::Completed, "{next:?}");
    assert_eq!(next.continues.as_deref(), Some(view.id.as_str()));
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_leads_outside_changes_nothing_and_fails_the_delegation() {
    let host = Scene::new(|_| {}).await;
    let (url, _) = Executor::beside(&host, Habit::Escapes).await;
    let dir = host.workspace(&[("a", "1")]);
    let view = host.lend_on(lend(&host, &url, &dir)).await;
    let Some(Ending::Error(failure)) = &view.ending else {
        panic!("{view:?}")
    };
    assert!(failure.message.contains("escaped"), "{failure:?}");
    assert_eq!(read(&dir, "a"), "1");
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_at_home_although_the_executor_never_ends() {
    let host = Scene::new(|_| {}).await;
    let (url, executor) = Executor::beside(&host, Habit::NeverEnds).await;
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        ttl: Duration::from_secs(2),
        ..lend(&host, &url, &dir)
    };
    let view = host.lend_on(lend).await;
    assert_eq!(view.state, Phase::Expired, "{view:?}");
    executor.was_told("cancel").await;
    assert_eq!(read(&dir, "a"), "1");
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_restarts_still_gets_the_result_of_a_released_executor() {
    let (host, elsewhere) = (Scene::new(|_| {}).await, Scene::new(|_| {}).await);
    let (url, executor) = Executor::beside(&elsewhere, Habit::WaitsForAWord).await;
    let dir = host.workspace(&[("a", "1")]);
    let id = host.lend(lend(&host, &url, &dir)).await;
    let mut handle = host.delegations.node.host(&host.id(&id)).unwrap();
    let running = handle.view.wait_for(|view| view.state == Phase::Running);
    let _ = tokio::time::timeout(PATIENCE, running)
        .await
        .unwrap()
        .unwrap();
    drop(handle);
    let host = host.restart().await;
    executor.hear(json!({ "type": "go" }));
    let view = host.ended(&id).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(read(&dir, "a"), "made there");
    host.gave_back();
}
