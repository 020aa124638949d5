//! Claims about the protocol's own dialect: literal messages, read and written back.

use serde_json::{Value, json};

use super::*;

/// Reads a message and writes it back; what was written must be what was read.
fn round(value: Value) -> Message {
    let message = Message::parse(&value).unwrap();
    assert_eq!(serde_json::to_value(&message).unwrap(), value);
    message
}

fn invite() -> Value {
    json!({
        "version": "1",
        "type": "INVITE",
        "delegation_id": "dlg_7",
        "task": { "description": "fix the tests", "prompt": "Make the tests pass. Do not touch docs/." },
        "lease": { "ttl_seconds": 3600, "access_mode": "rw" },
        "workspace": { "export_name": "awcp/dlg_7" },
        "requirements": { "transport": "sshfs" },
    })
}

#[test]
fn an_invite_is_read_and_written_back() {
    let Message::Invite(invite) = round(invite()) else {
        panic!("another type");
    };
    assert_eq!(invite.lease.access_mode, Access::Rw);
    assert_eq!(invite.workspace.export_name, "awcp/dlg_7");
    assert_eq!(
        invite.requirements.unwrap().transport,
        Some(Transport::Sshfs)
    );
}

#[test]
fn an_accept_with_and_without_constraints_is_read_and_written_back() {
    round(json!({
        "type": "ACCEPT",
        "delegation_id": "dlg_7",
        "remote_mount": { "mount_point": "/awcp/mounts/dlg_7" },
    }));
    let full = round(json!({
        "type": "ACCEPT",
        "delegation_id": "dlg_7",
        "remote_mount": { "mount_point": "/awcp/mounts/dlg_7" },
        "remote_constraints": {
            "accepted_access_mode": "ro",
            "max_ttl_seconds": 60,
            "sandbox_profile": { "cwd_only": true, "allow_network": false, "allow_exec": true },
        },
    }));
    let Message::Accept(accept) = full else {
        panic!("another type");
    };
    let constraints = accept.remote_constraints.unwrap();
    assert_eq!(constraints.accepted_access_mode, Some(Access::Ro));
    assert_eq!(
        constraints.sandbox_profile.unwrap().allow_network,
        Some(false)
    );
}

#[test]
fn a_start_is_read_with_every_form_of_credential() {
    let credentials = [
        json!("-----BEGIN OPENSSH PRIVATE KEY-----"),
        json!({ "private_key": "-----BEGIN", "certificate": "ssh-ed25519-cert-v01@openssh.com AAAA" }),
        json!({ "token": "t-1" }),
    ];
    for credential in credentials {
        let start = round(json!({
            "type": "START",
            "delegation_id": "dlg_7",
            "lease": { "expires_at": "2026-11-15T20:12:38Z", "access_mode": "rw" },
            "mount": {
                "transport": "sshfs",
                "endpoint": { "host": "192.0.2.1", "port": 2222, "user": "dlg_7" },
                "export_locator": "/",
                "credential": credential,
                "mount_options": { "cache": "no" },
            },
        }));
        let shown = format!("{start:?}");
        assert!(
            !shown.contains("BEGIN") && !shown.contains("t-1"),
            "{shown}"
        );
    }
}

#[test]
fn done_and_error_are_read_and_written_back() {
    round(json!({
        "type": "DONE",
        "delegation_id": "dlg_7",
        "final_summary": "All tests pass.",
        "highlights": ["src/a.rs"],
        "notes": "one test was wrong",
    }));
    round(json!({ "type": "DONE", "delegation_id": "dlg_7", "final_summary": "" }));
    for code in ErrorCode::SEED {
        let error = round(json!({
            "type": "ERROR",
            "delegation_id": "dlg_7",
            "code": code.as_str(),
            "message": "it did not go",
            "hint": "try again",
        }));
        assert!(matches!(error, Message::Error(error) if error.code == code));
    }
}

#[test]
fn unknown_fields_and_codes_are_tolerated_and_a_missing_hint_is_empty() {
    let mut value = invite();
    value["novelty"] = json!([1, 2]);
    value["lease"]["novelty"] = json!(true);
    value["requirements"]["transport"] = json!("carrier-pigeon");
    let Message::Invite(invite) = Message::parse(&value).unwrap() else {
        panic!("another type");
    };
    let transport = invite.requirements.unwrap().transport.unwrap();
    assert_eq!(transport, Transport::Other("carrier-pigeon".into()));

    let error = json!({ "type": "ERROR", "delegation_id": "d", "code": "NEW", "message": "m" });
    let Message::Error(error) = Message::parse(&error).unwrap() else {
        panic!("another type");
    };
    assert_eq!(error.code, ErrorCode::Other("NEW".into()));
    assert_eq!(error.hint, "");
}

#[test]
fn the_version_must_be_said_in_an_invite_and_must_be_ours_everywhere() {
    let check = |mut value: Value, version: Value| {
        match version {
            Value::Null => value.as_object_mut().unwrap().remove("version"),
            version => value
                .as_object_mut()
                .unwrap()
                .insert("version".into(), version),
        };
        Message::parse(&value)
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    let done = json!({ "type": "DONE", "delegation_id": "d", "final_summary": "s" });
    assert_eq!(check(invite(), json!("1")), Ok(()));
    assert_eq!(check(done.clone(), Value::Null), Ok(()));
    assert_eq!(check(done.clone(), json!("1")), Ok(()));
    let refused = |found: &str| Err(format!("version {found} is not spoken here, only \"1\""));
    assert_eq!(
        check(invite(), Value::Null),
        Err("an INVITE says its version, which must be \"1\"".into())
    );
    assert_eq!(check(invite(), json!("99")), refused("\"99\""));
    assert_eq!(
        check(invite(), json!(1)),
        Err("this INVITE cannot be read: its version is 1, which is no text".into())
    );
    assert_eq!(check(done, json!("2")), refused("\"2\""));
}

#[test]
fn what_is_wrong_with_a_message_is_said() {
    let mut negative = invite();
    negative["lease"]["ttl_seconds"] = json!(-1);
    let mut access = invite();
    access["lease"]["access_mode"] = json!("rwx");
    let cases = [
        (
            json!(null),
            "there is no AWCP message: an object with a `type`",
        ),
        (
            json!({ "type": "HELLO" }),
            "\"HELLO\" is no type of AWCP message",
        ),
        (
            json!({ "type": "invite" }),
            "\"invite\" is no type of AWCP message",
        ),
        (
            json!({ "type": "DONE", "delegation_id": "d" }),
            "this DONE cannot be read: missing field `final_summary`",
        ),
        (
            negative,
            "this INVITE cannot be read: -1 is no whole number that fits",
        ),
        (
            access,
            "this INVITE cannot be read: unknown variant `rwx`, expected `ro` or `rw`",
        ),
    ];
    for (value, words) in cases {
        assert_eq!(Message::parse(&value).unwrap_err().to_string(), words);
    }
}

#[test]
fn the_data_of_a_part_wraps_a_message() {
    let data = json!({ "awcp": invite(), "other": 1 });
    let message = Message::from_data(&data).unwrap();
    assert_eq!(message.to_data(), json!({ "awcp": invite() }));
    assert_eq!(message.delegation_id(), "dlg_7");
    assert_eq!(delegation_id(&data["awcp"]), Some("dlg_7"));
    assert_eq!(Message::from_data(&json!({})), Err(Malformed::NoMessage));
}

#[test]
fn our_own_fields_are_left_out_when_unused() {
    let mut value = invite();
    value["requirements"] = json!({ "transport": "sshfs", "alternatives": ["archive"] });
    let Message::Invite(invite) = round(value) else {
        panic!("another type");
    };
    assert_eq!(
        invite.requirements.unwrap().alternatives,
        [Transport::Archive]
    );
    round(json!({
        "type": "START",
        "delegation_id": "dlg_7",
        "lease": { "expires_at": "2026-11-15T20:12:38Z", "access_mode": "ro" },
        "mount": { "transport": "archive", "export_locator": "https://h/awcp/archive/dlg_7", "credential": { "token": "t" } },
    }));
}

#[test]
fn numbers_of_a_carrier_that_knows_no_whole_ones_are_read_as_what_they_are() {
    let lease = |ttl: serde_json::Value| {
        let lease = json!({ "ttl_seconds": ttl, "access_mode": "rw" });
        serde_json::from_value::<ProposedLease>(lease).map(|lease| lease.ttl_seconds)
    };
    assert_eq!(lease(json!(60.0)).unwrap(), 60);
    assert_eq!(lease(json!(60)).unwrap(), 60);
    for bad in [
        json!(60.5),
        json!(-1.0),
        json!(1e300),
        json!("60"),
        json!(null),
    ] {
        assert!(lease(bad.clone()).is_err(), "{bad}");
    }
    let constraints = json!({ "max_ttl_seconds": 30.0 });
    let constraints: RemoteConstraints = serde_json::from_value(constraints).unwrap();
    assert_eq!(constraints.max_ttl_seconds, Some(30));
    let endpoint = |port: serde_json::Value| {
        let endpoint = json!({ "host": "h", "port": port, "user": "u" });
        serde_json::from_value::<Endpoint>(endpoint).map(|endpoint| endpoint.port)
    };
    assert_eq!(endpoint(json!(22.0)).unwrap(), 22);
    assert!(endpoint(json!(70000.0)).is_err());
}
