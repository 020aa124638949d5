//! Delegations through the daemon's socket, and a host that cancels a task of A2A.

use serde_json::{Value, json};
use testkit::{RawClient, eventually};

use super::{ARCHIVE, Pair, read};
use crate::{network::http::Http, node};

fn create(pair: &Pair, prompt: &str) -> Value {
    json!({
        "peerUrl": pair.remote.url(), "dir": pair.folder(&[]), "prompt": prompt,
        "token": read(&pair.token).trim(), "transports": [ARCHIVE],
    })
}

fn wait(client: &mut RawClient, id: &Value) -> Value {
    client.ok("delegation.wait", json!({ "delegationId": id }))
}

#[test]
fn the_socket_makes_watches_audits_cancels_and_prunes_delegations() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let mut client = pair.host.client();
    let made = client.ok("delegation.create", create(&pair, "/run echo two > a.txt"));
    let done = json!({ "delegationId": made["id"] });
    let end = wait(&mut client, &made["id"]);
    assert_eq!(end["state"], "completed", "{end}");
    assert_eq!(read(folder.join("a.txt")), "two\n");
    let status = client.ok("delegation.status", done.clone());
    assert_eq!(status["log"], end["log"]);
    assert!(!status["log"].as_array().unwrap().is_empty(), "{status}");
    let audit = client.ok("delegation.audit", done);
    let changed = json!([{ "change": "changed", "path": "a.txt" }]);
    assert_eq!(audit["changes"], changed, "{audit}");

    let made = client.ok("delegation.create", create(&pair, "/run sleep 1000"));
    let waiting = json!({ "delegationId": made["id"], "timeoutMs": 1 });
    let early = client.ok("delegation.wait", waiting.clone());
    assert!(early.get("ending").is_none(), "{early}");
    let cancelled = client.ok("delegation.cancel", waiting.clone());
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    let refused = client.call("delegation.audit", waiting).unwrap_err();
    assert_eq!(refused.data["context"]["delegationId"], made["id"]);

    let listed = client.ok("delegation.list", json!({}));
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    let pruned = client.ok("delegation.prune", json!({}));
    assert!(pruned["removed"].as_u64().unwrap() > 0, "{pruned}");
    assert_eq!(
        client.ok("delegation.prune", json!({})),
        json!({ "removed": 0 })
    );
    pair.left_nothing();
}

#[test]
fn what_the_other_side_says_reaches_its_delegation_through_the_socket() {
    let pair = Pair::new();
    pair.folder(&[("a.txt", "one\n")]);
    let mut client = pair.host.client();
    let made = client.ok("delegation.create", create(&pair, "/run sleep 1000"));
    let id = made["id"].clone();
    let there = pair.mount_point(id.as_str().unwrap());
    eventually("the work has begun", || there.join("a.txt").exists());
    let say = |awcp: Value| json!({ "message": { "awcp": awcp } });
    let failed = json!({
        "type": "ERROR", "delegation_id": id, "code": "TASK_FAILED", "message": "the disk broke", "hint": "",
    });
    client.ok("delegation.message", say(failed));
    let end = wait(&mut client, &id);
    assert_eq!(end["ending"]["error"]["message"], "the disk broke", "{end}");
    // The same message, to the side that works: it obeys.
    let mut remote = pair.remote.client();
    let cancelled = remote.ok("delegation.cancel", json!({ "delegationId": id }));
    assert_eq!(
        (&cancelled["side"], &cancelled["state"]),
        (&json!("remote"), &json!("cancelled"))
    );
    let start = json!({ "type": "INVITE", "delegation_id": "../x", "version": "1" });
    let answer = remote.ok("delegation.message", say(start));
    assert_eq!(answer["message"]["awcp"]["code"], "DECLINED", "{answer}");
    pair.left_nothing();
}

#[test]
fn what_the_socket_is_asked_wrongly_about_delegations_is_refused_in_words() {
    let pair = Pair::new();
    pair.folder(&[("a.txt", "one\n"), (".env", "KEY=1\n")]);
    let mut client = pair.host.client();
    let with = |key: &str, value: Value| {
        let mut params = create(&pair, "/pwd");
        params[key] = value;
        params
    };
    for (method, params, code, key, value) in [
        (
            "delegation.create",
            with("dir", json!("here")),
            "INVALID_PARAMS",
            "field",
            "dir",
        ),
        (
            "delegation.create",
            with("access", json!("wx")),
            "INVALID_PARAMS",
            "field",
            "access",
        ),
        (
            "delegation.create",
            json!({}),
            "INVALID_PARAMS",
            "field",
            "peerUrl",
        ),
        (
            "delegation.message",
            json!({"message": {}}),
            "INVALID_PARAMS",
            "field",
            "message",
        ),
        (
            "delegation.create",
            create(&pair, "/pwd"),
            "GENERIC_BUSINESS",
            "code",
            "DECLINED",
        ),
        (
            "delegation.status",
            json!({"delegationId": "../x"}),
            "GENERIC_BUSINESS",
            "delegationId",
            "../x",
        ),
        (
            "delegation.wait",
            json!({"delegationId": "dlg_0"}),
            "GENERIC_BUSINESS",
            "delegationId",
            "dlg_0",
        ),
    ] {
        let error = client.call(method, params).unwrap_err();
        assert_eq!(error.data["errorCode"], code, "{method}: {error:?}");
        assert_eq!(error.data["context"][key], value, "{method}: {error:?}");
    }
    assert_eq!(client.ok("delegation.list", json!({})), json!([]));
    let alone = node().start();
    let error = alone.client().call("delegation.list", json!({}));
    let error = error.unwrap_err();
    assert!(error.message.contains("listen"), "{error:?}");
}

#[test]
fn the_token_for_invitations_opens_no_agent() {
    let pair = Pair::new();
    let made = pair
        .remote
        .cli(&["agent", "create", "secretary", "-t", "worker"]);
    assert_eq!(made.code, 0, "{made:?}");
    let token = read(&pair.token);
    let http = Http::with_token(&pair.remote.url(), Some(token.trim()));
    let parts = json!([{ "text": "/pwd" }]);
    for (path, metadata) in [
        ("/a2a/secretary", json!({})),
        ("/a2a", json!({ "agent": "secretary" })),
    ] {
        let message = json!({
            "messageId": "m", "role": "ROLE_USER", "parts": parts, "metadata": metadata,
        });
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message },
        });
        let answer = http
            .call("POST", path, &[("a2a-version", "1.0")], Some(&body))
            .json();
        assert!(answer["error"].is_object(), "{path}: {answer}");
    }
}

#[test]
fn a_remote_obeys_a_host_that_cancels_the_task_of_a2a_and_nobody_else() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let id = pair.begin(&folder, "/run sleep 1000", &["--transport", ARCHIVE]);
    eventually("the work has begun", || {
        pair.mount_point(&id).join("a.txt").exists()
    });
    let cancel = |token: &str, version: &str, method: &str| {
        let http = Http::with_token(&pair.remote.url(), Some(token));
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": id } });
        let answer = http.call("POST", "/a2a", &[("a2a-version", version)], Some(&body));
        answer.json()
    };
    let made = pair
        .remote
        .cli(&["token", "create", "other", "--right", "a2a", "-f", "quiet"]);
    let refused = cancel(made.stdout.trim(), "1.0", "CancelTask");
    assert!(refused["error"].is_object(), "{refused}");
    assert!(pair.show(&id).get("ending").is_none());
    let cancelled = cancel(read(&pair.token).trim(), "0.3", "tasks/cancel");
    assert_eq!(
        cancelled["result"]["status"]["state"], "canceled",
        "{cancelled}"
    );
    let end = pair.ended(&id);
    assert_eq!(end["state"], "cancelled", "{end}");
    pair.left_nothing();
}
