//! Claims about the released dialect: what was seen on its wire is read, and written back the same.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::*;
use crate::awcp::{ErrorCode, Malformed, Transport};

fn message(value: Value) -> Message {
    let message = Message::parse(&value).unwrap();
    assert_eq!(serde_json::to_value(&message).unwrap(), value);
    assert_eq!(Some(message.delegation_id()), delegation_id(&value));
    message
}

fn round<T: Serialize + DeserializeOwned>(value: Value) -> T {
    let read: T = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), value);
    read
}

fn invite() -> Value {
    json!({
        "version": "1", "type": "INVITE", "delegationId": "dlg_0123456789abcdef0123456789abcdef",
        "task": { "description": "d", "prompt": "do it" },
        "lease": { "ttlSeconds": 3600, "accessMode": "rw" },
        "retentionMs": 604_800_000,
        "environment": { "resources": [{ "name": "workspace", "type": "fs", "mode": "rw" }] },
        "requirements": { "transport": "archive" },
        "auth": { "type": "bearer", "credential": "s3cret", "metadata": { "realm": "x" } },
    })
}

#[test]
fn an_invite_is_read_and_written_back_and_hides_its_credential() {
    let read = message(invite());
    assert!(!format!("{read:?}").contains("s3cret"));
    let Message::Invite(read) = read else {
        panic!("another type");
    };
    assert_eq!(
        read.requirements.unwrap().transport,
        Some(Transport::Archive)
    );
}

#[test]
fn answers_to_an_invite_are_read_and_written_back() {
    message(json!({
        "version": "1", "type": "ACCEPT", "delegationId": "d", "retentionMs": 604_800_000,
        "executorWorkDir": { "path": "/abs/d" },
        "executorConstraints": {
            "acceptedAccessMode": "rw", "maxTtlSeconds": 60,
            "sandboxProfile": { "cwdOnly": true, "allowNetwork": true, "allowExec": true },
        },
    }));
    let refusal = message(json!({
        "version": "1", "type": "ERROR", "delegationId": "d", "code": "WORKDIR_DENIED",
        "message": "no", "hint": "elsewhere",
    }));
    assert!(matches!(refusal, Message::Error(error) if error.code == ErrorCode::WorkdirDenied));
}

#[test]
fn a_start_is_read_with_the_handle_of_every_transport() {
    let handles = [
        json!({ "transport": "archive", "workspaceBase64": "UEsD", "checksum": "ab" }),
        json!({
            "transport": "archive", "checksum": "ab",
            "chunked": { "totalSize": 10, "chunkSize": 5, "chunkCount": 2, "totalChecksum": "ab", "chunkChecksums": ["a", "b"] },
        }),
        json!({
            "transport": "sshfs",
            "endpoint": { "host": "127.0.0.1", "port": 2222, "user": "me" },
            "exportLocator": "/environments/d/",
            "credential": { "privateKey": "KEY", "certificate": "ssh-ed25519-cert-v01@openssh.com AAAA" },
            "options": { "cache": "no" },
        }),
        json!({
            "transport": "storage", "downloadUrl": "https://s/d", "uploadUrl": "https://s/u",
            "checksum": "ab", "expiresAt": "2026-11-15T20:12:38.585Z", "headers": { "x-key": "KEY" },
        }),
        json!({
            "transport": "git", "repoUrl": "https://g/r", "baseBranch": "main", "baseCommit": "c0",
            "auth": { "type": "token", "token": "KEY" },
        }),
        json!({ "transport": "git", "repoUrl": "r", "baseBranch": "main", "baseCommit": "c0", "auth": { "type": "none" } }),
        json!({ "transport": "git", "repoUrl": "r", "baseBranch": "main", "baseCommit": "c0", "auth": { "type": "ssh", "privateKey": "KEY" } }),
    ];
    for handle in handles {
        let start = message(json!({
            "version": "1", "type": "START", "delegationId": "d",
            "lease": { "expiresAt": "2026-11-15T20:12:38.585Z", "accessMode": "rw" },
            "transportHandle": handle,
        }));
        assert!(!format!("{start:?}").contains("KEY"));
    }
}

#[test]
fn an_earlier_name_of_the_handle_is_understood() {
    let value = json!({
        "type": "START", "delegationId": "d",
        "lease": { "expiresAt": "2026-11-15T20:12:38.585Z", "accessMode": "rw" },
        "workDir": { "transport": "archive", "workspaceBase64": "UEsD", "checksum": "ab" },
    });
    assert!(Message::parse(&value).is_ok());
}

#[test]
fn rounds_are_continued_and_closed() {
    message(json!({
        "version": "1", "type": "CONTINUE", "delegationId": "d",
        "task": { "description": "more", "prompt": "go on" }, "round": 2,
        "lease": { "expiresAt": "2026-11-15T20:12:38.585Z", "accessMode": "rw" },
    }));
    message(json!({ "version": "1", "type": "CLOSE", "delegationId": "d" }));
}

#[test]
fn what_its_executor_swallowed_is_refused_here() {
    let mut version = invite();
    version["version"] = json!("99");
    assert_eq!(
        Message::parse(&version),
        Err(Malformed::Version {
            found: Some("99".into())
        })
    );
    let mut negative = invite();
    negative["lease"]["ttlSeconds"] = json!(-5);
    assert!(matches!(
        Message::parse(&negative),
        Err(Malformed::Field { .. })
    ));
    let unknown = json!({
        "type": "START", "delegationId": "d",
        "lease": { "expiresAt": "x", "accessMode": "rw" }, "transportHandle": { "transport": "pigeon" },
    });
    assert!(matches!(
        Message::parse(&unknown),
        Err(Malformed::Field { .. })
    ));
}

#[test]
fn events_are_read_and_written_back_and_two_of_them_end_the_stream() {
    let events = [
        (
            json!({ "delegationId": "d", "type": "status", "timestamp": "t", "status": "progress", "message": "half", "progress": 0.5 }),
            false,
        ),
        (
            json!({
                "delegationId": "d", "type": "snapshot", "timestamp": "t", "snapshotId": "snap_0123456789ab", "summary": "s",
                "highlights": ["a"], "snapshotBase64": "UEsD", "recommended": true, "metadata": { "fileCount": 2 },
            }),
            false,
        ),
        (
            json!({ "delegationId": "d", "type": "round_done", "timestamp": "t", "round": 1, "summary": "s" }),
            false,
        ),
        (
            json!({
                "delegationId": "d", "type": "done", "timestamp": "t", "summary": "s", "highlights": ["a"],
                "snapshotIds": ["snap_0123456789ab"], "recommendedSnapshotId": "snap_0123456789ab",
            }),
            true,
        ),
        (
            json!({ "delegationId": "d", "type": "error", "timestamp": "t", "code": "NOT_FOUND", "message": "m", "hint": "h" }),
            true,
        ),
    ];
    for (value, last) in events {
        let event: Event = round(value);
        assert_eq!((event.delegation_id(), event.is_last()), ("d", last));
    }
}

#[test]
fn the_other_endpoints_answer_what_was_seen() {
    round::<Ok>(json!({ "ok": true }));
    round::<CancelAnswer>(json!({ "ok": true, "cancelled": true }));
    for status in [
        "running",
        "completed",
        "error",
        "not_applicable",
        "not_found",
    ] {
        round::<ResultAnswer>(json!({ "status": status }));
    }
    round::<ResultAnswer>(json!({
        "status": "completed", "completedAt": "t", "summary": "s", "highlights": ["a"], "snapshotBase64": "UEsD",
    }));
    round::<ResultAnswer>(json!({
        "status": "error", "error": { "code": "TASK_FAILED", "message": "m", "hint": "h" }, "reason": "r",
    }));
    round::<StatusAnswer>(json!({
        "pendingInvitations": 1, "activeDelegations": 1, "completedDelegations": 0,
        "delegations": [{ "id": "d", "workPath": "/w/d", "startedAt": "t" }],
    }));
}

#[test]
fn urls_follow_its_clients_habit() {
    for url in ["http://h:1/awcp", "http://h:1/awcp/", "http://h:1"] {
        assert_eq!(events_url(url, "d"), "http://h:1/awcp/tasks/d/events");
        assert_eq!(ack_url(url, "d"), "http://h:1/awcp/tasks/d/ack");
        assert_eq!(result_url(url, "d"), "http://h:1/awcp/tasks/d/result");
    }
    assert_eq!(
        cancel_url("http://h:1/awcp", "d"),
        "http://h:1/awcp/cancel/d"
    );
    assert_eq!(status_url("http://h:1/awcp/"), "http://h:1/awcp/status");
}

#[test]
fn the_daemons_api_is_read_and_written_back() {
    let environment = json!({ "resources": [{ "name": "workspace", "type": "fs", "source": "/home/me/p", "mode": "rw" }] });
    let task = json!({ "description": "d", "prompt": "p" });
    round::<DelegateRequest>(json!({
        "executorUrl": "http://h/awcp", "environment": environment, "task": task,
        "ttlSeconds": 60, "accessMode": "ro", "snapshotMode": "staged",
        "auth": { "type": "api_key", "credential": "k" },
    }));
    round::<DelegateRequest>(json!({
        "executorUrl": "http://h/awcp", "environment": environment, "task": task,
    }));
    round::<DelegateAnswer>(json!({ "delegationId": "d" }));
    round::<ErrorAnswer>(
        json!({ "error": "too big", "code": "WORKSPACE_TOO_LARGE", "hint": "less" }),
    );
    round::<ErrorAnswer>(json!({ "error": "not found" }));
    round::<Health>(json!({ "status": "ok" }));
    round::<ContinueRequest>(json!({ "task": task }));
    round::<DelegationRow>(json!({
        "id": "d", "state": "running", "executorUrl": "u", "environment": environment, "createdAt": "t",
    }));
    let snapshot = json!({
        "id": "snap_0123456789ab", "delegationId": "d", "summary": "s", "highlights": ["a"], "status": "pending",
        "localPath": "/s", "metadata": { "fileCount": 1 }, "recommended": true, "createdAt": "t",
    });
    round::<DelegationRecord>(json!({
        "id": "d", "state": "completed", "peerUrl": "u", "environment": environment, "exportPath": "/e/d", "task": task,
        "leaseConfig": { "ttlSeconds": 60, "accessMode": "rw" }, "retentionMs": 5,
        "activeLease": { "expiresAt": "t", "accessMode": "rw" }, "executorWorkDir": { "path": "/w" },
        "executorConstraints": { "maxTtlSeconds": 60 }, "snapshots": [snapshot], "appliedSnapshotId": "snap_0123456789ab",
        "snapshotPolicy": { "mode": "auto", "maxSnapshots": 3 }, "result": { "summary": "s", "highlights": ["a"] },
        "currentRound": 2, "rounds": [{ "number": 1, "task": task, "startedAt": "t", "result": { "summary": "s" } }],
        "createdAt": "t", "updatedAt": "t",
    }));
    round::<DelegationRecord>(json!({
        "id": "d", "state": "error", "peerUrl": "u", "environment": environment, "task": task,
        "leaseConfig": { "ttlSeconds": 60, "accessMode": "rw" },
        "error": { "code": "EXPIRED", "message": "m" }, "createdAt": "t", "updatedAt": "t",
    }));
}
