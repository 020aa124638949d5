//! A delegator of the released dialect: its messages as they were captured, and everything that its own executor gets wrong.

use std::{io::Cursor, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::scene::{HERE, PATIENCE, Scene};
use crate::{AwcpConfig, clock};

const ID: &str = "dlg_0123456789abcdef0123456789abcdef";

struct Delegator {
    remote: Scene,
    http: reqwest::Client,
}

impl Delegator {
    async fn new(adjust: fn(&mut AwcpConfig)) -> Self {
        Self {
            remote: Scene::new(adjust).await,
            http: reqwest::Client::new(),
        }
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}/awcp{path}", self.remote.url);
        let answer = self.http.post(url).json(body).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let url = format!("{}/awcp{path}", self.remote.url);
        let answer = self.http.get(url).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    async fn accepted(&self, id: &str, prompt: &str) {
        let (status, answer) = self.post("", &invite(id, prompt)).await;
        assert_eq!(
            (status, &answer["type"]),
            (200, &json!("ACCEPT")),
            "{answer}"
        );
    }

    /// Every event until the stream ends by itself.
    async fn events(&self, id: &str) -> Vec<Value> {
        let url = format!("{}/awcp/tasks/{id}/events", self.remote.url);
        let told = async {
            self.http
                .get(url)
                .send()
                .await
                .unwrap()
                .text()
                .await
                .unwrap()
        };
        let text = tokio::time::timeout(PATIENCE, told).await.unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn invite(id: &str, prompt: &str) -> Value {
    json!({
        "version": "1", "type": "INVITE", "delegationId": id,
        "task": { "description": "d", "prompt": prompt },
        "lease": { "ttlSeconds": 3600, "accessMode": "rw" },
        "retentionMs": 604_800_000_u64,
        "environment": { "resources": [{ "name": "workspace", "type": "fs", "mode": "rw" }] },
        "requirements": { "transport": "archive" },
        "auth": { "type": "bearer", "credential": "good" },
    })
}

fn start(id: &str, zip: &[u8]) -> Value {
    let until = clock::now() + Duration::from_secs(600);
    json!({
        "version": "1", "type": "START", "delegationId": id,
        "lease": { "expiresAt": clock::text(until), "accessMode": "rw" },
        "transportHandle": {
            "transport": "archive",
            "workspaceBase64": BASE64_STANDARD.encode(zip),
            "checksum": archive::Checksum::of(zip).to_string(),
        },
    })
}

/// A zip as that delegator packs it: one folder for the resource.
fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let opened = archive::Folder::open(folder.path()).unwrap();
    let mut bytes = Cursor::new(Vec::new());
    let limits = archive::Limits::default();
    let packed = archive::pack_zip(
        &[("workspace", &opened)],
        &archive::everything,
        &limits,
        &mut bytes,
    );
    packed.unwrap();
    bytes.into_inner()
}

/// What a snapshot holds in `workspace`.
fn unzipped(text: &Value, name: &str) -> Vec<u8> {
    let bytes = BASE64_STANDARD.decode(text.as_str().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let opened = archive::Folder::open(folder.path()).unwrap();
    archive::unpack_zip(Cursor::new(bytes), &opened, &archive::Limits::default()).unwrap();
    std::fs::read(folder.path().join("workspace").join(name)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delegation_of_the_released_dialect_runs_from_invite_to_ack() {
    let it = Delegator::new(|_| {}).await;
    it.accepted(ID, "cat a\nwrite b made here").await;
    let (status, standing) = it.get(&format!("/tasks/{ID}/result")).await;
    assert_eq!((status, &standing["status"]), (200, &json!("running")));
    // Far beyond the hundred kilobytes at which its own executor answers 413.
    let noise: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
    let zip = zipped(&[("a", b"one"), ("noise", &noise)]);
    let (status, answer) = it.post("", &start(ID, &zip)).await;
    assert_eq!((status, answer), (200, json!({ "ok": true })));
    for _ in 0..2 {
        // Who comes again is told everything again, the snapshot too.
        let events = it.events(ID).await;
        let kinds: Vec<&str> = events
            .iter()
            .map(|it| it["type"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["status", "snapshot", "done"], "{events:?}");
        assert_eq!(events[2]["summary"], "one");
        assert_eq!(events[2]["recommendedSnapshotId"], events[1]["snapshotId"]);
        assert_eq!(unzipped(&events[1]["snapshotBase64"], "b"), b"made here");
        assert_eq!(unzipped(&events[1]["snapshotBase64"], "noise"), noise);
    }
    let (_, result) = it.get(&format!("/tasks/{ID}/result")).await;
    assert_eq!(result["status"], "completed");
    assert_eq!(unzipped(&result["snapshotBase64"], "b"), b"made here");
    let (status, answer) = it.post(&format!("/tasks/{ID}/ack"), &json!({})).await;
    assert_eq!((status, answer), (200, json!({ "ok": true })));
    let (_, result) = it.get(&format!("/tasks/{ID}/result")).await;
    assert!(result["snapshotBase64"].is_null(), "{result}");
    assert_eq!(result["status"], "not_found", "what is gone is not empty");
    it.remote.left_nothing(ID).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_in_words_and_nothing_breaks() {
    let it = Delegator::new(|_| {}).await;
    let with = |path: &str, value: Value| {
        let mut body = invite("dlg_strange", "cat a");
        *body.pointer_mut(path).unwrap() = value;
        body
    };
    let mut nobody = invite("dlg_strange", "cat a");
    nobody.as_object_mut().unwrap().remove("auth");
    let mut half = invite("dlg_strange", "cat a");
    half.as_object_mut().unwrap().remove("lease");
    for (body, code) in [
        (with("/version", json!("99")), "DECLINED"),
        (
            with("/requirements/transport", json!("pigeon")),
            "DEP_MISSING",
        ),
        (with("/requirements/transport", json!("git")), "DEP_MISSING"),
        (with("/lease/ttlSeconds", json!(-1)), "DECLINED"),
        (with("/delegationId", json!("../x")), "DECLINED"),
        (with("/delegationId", json!("..")), "DECLINED"),
        (with("/delegationId", json!("")), "DECLINED"),
        (
            with("/environment/resources/0/name", json!("../../etc")),
            "DECLINED",
        ),
        (with("/environment/resources", json!([])), "DECLINED"),
        (with("/auth/credential", json!("bad")), "AUTH_FAILED"),
        (nobody, "AUTH_FAILED"),
        (half, "DECLINED"),
        (json!({}), "DECLINED"),
    ] {
        let (status, answer) = it.post("", &body).await;
        assert_eq!(status, 200, "{body}: {answer}");
        assert_eq!(answer["type"], "ERROR", "{body}: {answer}");
        assert_eq!(answer["code"], code, "{body}: {answer}");
    }
    let (_, answer) = it.post("", &start("dlg_unknown", &zipped(&[]))).await;
    assert_eq!(answer["code"], "NOT_FOUND", "{answer}");
    let (_, status) = it.get("/status").await;
    assert_eq!(
        status["delegations"],
        json!([]),
        "ids are nobody's business"
    );
    assert_eq!(
        super::scene::names(&it.remote.home.path().join("mounts")),
        [""; 0]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_after_an_unknown_delegation_learns_of_no_other() {
    let it = Delegator::new(|_| {}).await;
    it.accepted(ID, "cat a").await;
    let zip = zipped(&[("a", b"one")]);
    let mut said = Vec::new();
    said.push(it.post("", &start("dlg_unknown", &zip)).await);
    said.push(it.get("/tasks/dlg_unknown/result").await);
    said.push(it.post("/tasks/dlg_unknown/ack", &json!({})).await);
    said.push(it.post("/cancel/dlg_unknown", &json!({})).await);
    said.push(it.get("/status").await);
    for (status, answer) in said {
        assert!(status < 500, "{status}: {answer}");
        assert!(!answer.to_string().contains(ID), "{answer}");
    }
    // Nor has any of it touched the one that is there.
    let (_, answer) = it.post("", &start(ID, &zip)).await;
    assert_eq!(answer, json!({ "ok": true }));
    let events = it.events(ID).await;
    assert_eq!(events.last().unwrap()["type"], "done", "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_not_what_its_checksum_says_is_told_as_that() {
    let it = Delegator::new(|_| {}).await;
    it.accepted(ID, "cat a").await;
    let mut body = start(ID, &zipped(&[("a", b"one")]));
    body["transportHandle"]["checksum"] = json!("0".repeat(64));
    let (_, answer) = it.post("", &body).await;
    assert_eq!(answer["code"], "CHECKSUM_MISMATCH", "{answer}");
    let events = it.events(ID).await;
    assert_eq!(events.last().unwrap()["type"], "error", "{events:?}");
    it.remote.left_nothing(ID).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_the_task_and_nothing_else_and_the_same_invite_is_no_second_one() {
    let it = Delegator::new(|_| {}).await;
    it.accepted(ID, "wait").await;
    it.accepted(ID, "wait").await;
    it.post("", &start(ID, &zipped(&[("a", b"one")]))).await;
    it.remote.saw("waiting").await;
    let (status, again) = it.post("", &invite(ID, "wait")).await;
    assert_eq!(status, 200, "{again}");
    let (_, answer) = it.post(&format!("/cancel/{ID}"), &json!({})).await;
    assert_eq!(answer, json!({ "ok": true, "cancelled": true }));
    let events = it.events(ID).await;
    assert_eq!(events.last().unwrap()["code"], "CANCELLED", "{events:?}");
    it.remote.left_nothing(ID).await;
    it.accepted("dlg_next", "cat a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_over_when_it_says_so() {
    let it = Delegator::new(|_| {}).await;
    it.accepted(ID, "cat a").await;
    let mut late = start(ID, &zipped(&[("a", b"one")]));
    late["lease"]["expiresAt"] = json!("2020-01-01T00:00:00.000Z");
    let (_, answer) = it.post("", &late).await;
    assert_eq!(answer["code"], "START_EXPIRED", "{answer}");
    it.remote.left_nothing(ID).await;
    it.accepted("dlg_short", "wait").await;
    let mut short = start("dlg_short", &zipped(&[("a", b"one")]));
    short["lease"]["expiresAt"] = json!(clock::text(clock::now() + Duration::from_secs(1)));
    it.post("", &short).await;
    let events = it.events("dlg_short").await;
    assert_eq!(events.last().unwrap()["code"], "EXPIRED", "{events:?}");
    it.remote.left_nothing("dlg_short").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invitations_count_and_a_bomb_is_no_workspace() {
    let it = Delegator::new(|config| {
        config.taken_max = 2;
        config.size_max.bytes = 1 << 20;
        config.quota_bytes = 0;
    })
    .await;
    it.accepted("dlg_1", "cat a").await;
    it.accepted("dlg_2", "cat a").await;
    let (_, answer) = it.post("", &invite("dlg_3", "cat a")).await;
    assert_eq!(answer["code"], "DECLINED", "{answer}");
    let zeros = vec![0; 64 << 20];
    let bomb = zipped(&[("a", &zeros)]);
    assert!(bomb.len() < 1 << 20, "it is small on its way");
    it.post("", &start("dlg_1", &bomb)).await;
    let events = it.events("dlg_1").await;
    assert_eq!(events.last().unwrap()["code"], "SETUP_FAILED", "{events:?}");
    it.remote.left_nothing_of("dlg_1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_as_long_as_its_delegator_asks_within_what_is_allowed() {
    let it = Delegator::new(|config| {
        config.taken_max = 9;
        config.retention_max = Duration::from_secs(3600);
    })
    .await;
    let usual = it.remote.delegations.node.config().waits.tell;
    for (number, (asked, kept)) in [
        (json!(604_800_000_u64), 3_600_000),
        (json!(1_800_000), 1_800_000),
        (json!(0), 60_000),
        (Value::Null, u64::try_from(usual.as_millis()).unwrap()),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("dlg_{number}");
        let mut message = invite(&id, "cat a");
        message["retentionMs"] = asked.clone();
        let (_, answer) = it.post("", &message).await;
        assert_eq!(answer["retentionMs"], kept, "{asked}: {answer}");
        let known = it.remote.id(&id);
        let record = it.remote.delegations.taken_record(&known).await.unwrap();
        let waits = json!(record.machine)["waits"].clone();
        assert_eq!(waits["tell"]["secs"], kept / 1000, "{asked}: {waits}");
    }
}

/// Reads the stream until the event of that kind; all that came until then.
async fn heard(stream: &mut reqwest::Response, kind: &str) -> Vec<Value> {
    let mut text = String::new();
    let mut events: Vec<Value> = Vec::new();
    while events.last().is_none_or(|event| event["type"] != kind) {
        let piece = tokio::time::timeout(PATIENCE, stream.chunk()).await;
        let piece = piece.unwrap().unwrap().expect("the stream goes on");
        text.push_str(std::str::from_utf8(&piece).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            if let Some(data) = event.strip_prefix("data: ") {
                events.push(serde_json::from_str(data).unwrap());
            }
            text = rest.to_owned();
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_follow_one_another_in_one_place_and_one_conversation_until_they_are_closed() {
    let it = Delegator::new(|config| config.round_silence_max = Duration::from_secs(600)).await;
    it.accepted(ID, "write b first").await;
    let url = format!("{}/awcp/tasks/{ID}/events", it.remote.url);
    let mut stream = it.http.get(&url).send().await.unwrap();
    it.post("", &start(ID, &zipped(&[("a", b"one")]))).await;
    let events = heard(&mut stream, "round_done").await;
    let last = events.last().unwrap();
    assert_eq!((&last["round"], events.len()), (&json!(1), 3), "{events:?}");
    assert_eq!(unzipped(&events[1]["snapshotBase64"], "b"), b"first");
    let (_, result) = it.get(&format!("/tasks/{ID}/result")).await;
    assert_eq!(result["status"], "completed", "{result}");

    let next = |round: u32, prompt: &str| {
        json!({ "version": "1", "type": "CONTINUE", "delegationId": ID, "round": round,
            "task": { "description": "d", "prompt": prompt } })
    };
    let (_, refused) = it.post("", &next(3, "list")).await;
    assert_eq!(refused["code"], "DECLINED", "{refused}");
    let (_, begun) = it
        .post("", &next(2, "cat b\nwrite c second\nsession"))
        .await;
    assert_eq!(begun, json!({ "ok": true }));
    let events = heard(&mut stream, "round_done").await;
    let last = events.last().unwrap();
    assert_eq!(last["round"], 2, "{events:?}");
    // The session's second prompt, in which the first one is still there.
    assert_eq!(last["summary"], "firstprompt 2", "{events:?}");
    assert_eq!(unzipped(&events[0]["snapshotBase64"], "c"), b"second");
    assert_eq!(
        it.remote.engine.agents().len(),
        1,
        "one agent does all of it"
    );

    let close = json!({ "version": "1", "type": "CLOSE", "delegationId": ID });
    let closing = futures_util::future::join_all((0..8).map(|_| it.post("", &close)));
    for (_, closed) in closing.await {
        assert_eq!(closed, json!({ "ok": true }));
    }
    let events = heard(&mut stream, "done").await;
    assert_eq!(events.last().unwrap()["summary"], "firstprompt 2");
    let (_, late) = it.post("", &next(3, "list")).await;
    assert_eq!(late["code"], "DECLINED", "{late}");
    it.remote.left_nothing(ID).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_silent_between_two_rounds_has_had_the_last_one() {
    let it = Delegator::new(|config| config.round_silence_max = Duration::from_millis(50)).await;
    it.accepted(ID, "write b first").await;
    it.post("", &start(ID, &zipped(&[("a", b"one")]))).await;
    let events = it.events(ID).await;
    let last = events.last().unwrap();
    assert_eq!(last["type"], "done", "{events:?}");
    it.remote.left_nothing(ID).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_without_a_token_sends_much_unless_it_was_asked_for() {
    let delegator = Delegator::new(|_| {}).await;
    let large = "x".repeat(3 << 20);
    let message = json!({ "version": "1", "type": "START", "delegationId": ID, "x": large });
    let url = format!("{}/awcp", delegator.remote.url);
    // It may hang up before everything was said.
    if let Ok(answer) = delegator.http.post(url).json(&message).send().await {
        assert_eq!(answer.status(), 413);
        assert_eq!(answer.headers()["connection"], "close");
    }
    // One that comes over another face is not what is waited for here.
    let seed = json!({ "awcp": {
        "version": "1", "type": "INVITE", "delegation_id": "d-1",
        "task": { "description": "d", "prompt": "wait" },
        "lease": { "ttl_seconds": 60, "access_mode": "rw" },
        "workspace": { "export_name": "w" },
    }});
    let owner = engine::Caller::owner();
    let accept = delegator
        .remote
        .delegations
        .handle_message(&seed, &owner, HERE);
    assert_eq!(accept.await.unwrap()["awcp"]["type"], "ACCEPT");
    let url = format!("{}/awcp", delegator.remote.url);
    if let Ok(answer) = delegator.http.post(url).json(&message).send().await {
        assert_eq!(answer.status(), 413);
    }
    delegator.accepted(ID, "list").await;
    assert_eq!(delegator.post("", &message).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_ends_what_came_in_another_dialect_by_its_id_alone() {
    let delegator = Delegator::new(|_| {}).await;
    let host = Scene::new(|_| {}).await;
    let dir = host.workspace(&[("a.txt", "one")]);
    let id = host
        .lend(super::scene::create(&delegator.remote, &dir, "wait"))
        .await;
    delegator.remote.saw("waiting").await;
    for kind in ["CLOSE", "ERROR"] {
        let message = json!({
            "version": "1", "type": kind, "delegationId": id, "code": "CANCELLED", "message": "m",
        });
        let (_, answer) = delegator.post("", &message).await;
        assert_eq!(answer["code"], "NOT_FOUND", "{answer}");
    }
    let view = delegator.remote.delegations.get(&id).await.unwrap();
    assert!(!view.state.is_end(), "{view:?}");
    host.delegations.cancel(&id, "enough").await.unwrap();
}
