//! Every input in every state of both machines, as two tables, and the promises of single moves.

use std::time::Duration;

use super::*;
use crate::{Name, Timestamp};

const START: Timestamp = Timestamp(1_000_000);
const LATE: Timestamp = Timestamp(1_000_000_000_000);

pub(super) fn id(text: &str) -> DelegationId {
    DelegationId(Name::parse(text).unwrap())
}

fn offer() -> Offer {
    Offer {
        access: Access::Rw,
        ttl: Duration::from_secs(600),
        transports: vec![Transport::Sshfs, Transport::Archive],
    }
}

fn acceptance() -> Acceptance {
    Acceptance {
        mount_point: "/mounts/d".into(),
        access: None,
        ttl: None,
        transport: None,
        sandbox: None,
    }
}

fn report() -> Report {
    Report {
        summary: "done".into(),
        highlights: Vec::new(),
        notes: None,
    }
}

fn failure(code: Code) -> Failure {
    Failure::new(code, "words")
}

fn grant(until: Timestamp) -> Grant {
    Grant {
        access: Access::Rw,
        until,
    }
}

fn host_input(word: &str) -> HostInput {
    match word {
        "lock" => HostInput::LockGranted,
        "no-lock" => HostInput::NoLock(failure(Code::TaskFailed)),
        "ACCEPT" => HostInput::Accept(acceptance()),
        "prepared" => HostInput::Prepared,
        "not-prepared" => HostInput::PrepareFailed(failure(Code::TaskFailed)),
        "began" => HostInput::Began,
        "DONE" => HostInput::Done(report()),
        "ERROR" => HostInput::RemoteFailed(failure(Code::MountFailed)),
        "collected" => HostInput::Collected,
        "not-collected" => HostInput::CollectFailed(failure(Code::TaskFailed)),
        "unreachable" => HostInput::Unreachable {
            reason: "refused".into(),
        },
        "fail" => HostInput::Fail(failure(Code::TaskFailed)),
        "cancel" => HostInput::Cancel {
            reason: "the user said so".into(),
        },
        "tick" | "late" => HostInput::Tick,
        "recover" => HostInput::Recover,
        "released" => HostInput::Released,
        other => panic!("{other}"),
    }
}

fn remote_input(word: &str) -> RemoteInput {
    match word {
        "INVITE" => RemoteInput::InvitedAgain,
        "admitted" => RemoteInput::Admitted(acceptance()),
        "declined" => RemoteInput::Declined(failure(Code::Declined)),
        "START" => RemoteInput::Start(grant(START + Duration::from_secs(600))),
        "mounted" => RemoteInput::Mounted,
        "not-mounted" => RemoteInput::MountFailed(failure(Code::MountFailed)),
        "task-done" => RemoteInput::TaskDone(report()),
        "task-failed" => RemoteInput::TaskFailed(failure(Code::TaskFailed)),
        "flushed" => RemoteInput::Flushed,
        "not-flushed" => RemoteInput::FlushFailed(failure(Code::TaskFailed)),
        "lost" => RemoteInput::AccessLost {
            reason: "it does not answer".into(),
        },
        "ERROR" => RemoteInput::HostFailed(failure(Code::Cancelled)),
        "cancel" => RemoteInput::Cancel {
            reason: "the host said so".into(),
        },
        "told" => RemoteInput::Told,
        "tick" | "late" => RemoteInput::Tick,
        "recover" => RemoteInput::Recover,
        "released" => RemoteInput::Released,
        other => panic!("{other}"),
    }
}

fn at(word: &str) -> Timestamp {
    if word == "late" { LATE } else { START }
}

fn host(story: &str) -> Host {
    let (mut host, _) = Host::new(id("d"), offer(), Waits::default(), START);
    for word in story.split_whitespace() {
        host.apply(host_input(word), at(word)).unwrap();
    }
    host
}

fn remote(story: &str) -> Remote {
    let (mut remote, _) = Remote::new(id("d"), offer(), Waits::default(), START);
    for word in story.split_whitespace() {
        remote.apply(remote_input(word), at(word)).unwrap();
    }
    remote
}

/// `!` refused, `.` nothing to do, `+` something to do in the same phase, a phase: moved there.
fn cell<E>(before: Phase, after: Phase, effects: &Result<Vec<E>, Rejected>) -> &'static str {
    match effects {
        Err(_) => "!",
        Ok(_) if before != after => after.as_str(),
        Ok(effects) if effects.is_empty() => ".",
        Ok(_) => "+",
    }
}

fn tidy(table: &str) -> String {
    let rows = table.lines().map(str::trim).filter(|row| !row.is_empty());
    let rows = rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "));
    rows.collect::<Vec<_>>().join("\n")
}

const HOST_STORIES: [(&str, &str); 10] = [
    ("created", ""),
    ("invited", "lock"),
    ("accepted", "lock ACCEPT"),
    ("started", "lock ACCEPT prepared"),
    ("running", "lock ACCEPT prepared began"),
    ("collecting", "lock ACCEPT prepared began DONE"),
    ("completed", "lock ACCEPT prepared began DONE collected"),
    ("error", "lock ERROR"),
    ("cancelled", "lock cancel"),
    ("expired", "lock ACCEPT prepared late"),
];

#[test]
fn every_input_in_every_state_of_the_host() {
    let expected = "
        input         created   invited   accepted  started   running   collecting completed error cancelled expired
        lock          invited   !         !         !         !         !          +         +     +         +
        no-lock       error     !         !         !         !         !          .         .     .         .
        ACCEPT        !         accepted  .         +         .         .          .         +     +         +
        prepared      !         !         started   !         !         !          +         +     +         +
        not-prepared  !         !         error     !         !         !          +         +     +         +
        began         !         !         !         running   .         .          .         +     +         +
        DONE          !         !         !         running   +         .          .         +     +         +
        ERROR         .         error     error     error     error     .          .         .     .         .
        collected     !         !         !         !         !         completed  .         .     .         .
        not-collected !         !         !         !         !         error      .         .     .         .
        unreachable   !         error     .         error     .         .          .         .     .         .
        fail          error     error     error     error     error     error      .         .     .         .
        cancel        cancelled cancelled cancelled cancelled cancelled cancelled  !         !     .         !
        tick          +         +         +         +         +         +          .         .     .         .
        late          expired   expired   expired   expired   expired   error      .         .     .         .
        recover       +         +         +         +         +         +          +         +     +         +
        released      !         !         !         !         !         !          .         .     .         .";
    let inputs = tidy(expected);
    let mut rows = vec![inputs.lines().next().unwrap().to_owned()];
    for row in inputs.lines().skip(1) {
        let word = row.split(' ').next().unwrap();
        let mut cells = vec![word];
        for (name, story) in HOST_STORIES {
            let before = host(story);
            let mut after = before.clone();
            let effects = after.apply(host_input(word), at(word));
            if effects.is_err() {
                assert_eq!(before, after, "{name} {word}: a refusal changes nothing");
            }
            cells.push(cell(before.phase(), after.phase(), &effects));
        }
        rows.push(cells.join(" "));
    }
    assert_eq!(rows.join("\n"), inputs);
}

const REMOTE_STORIES: [(&str, &str); 9] = [
    ("invited", ""),
    ("accepted", "admitted"),
    ("started", "admitted START"),
    ("running", "admitted START mounted"),
    ("finishing", "admitted START mounted task-done"),
    ("completed", "admitted START mounted task-done flushed"),
    ("error", "declined"),
    ("cancelled", "admitted cancel"),
    ("expired", "admitted late"),
];

#[test]
fn every_input_in_every_state_of_the_remote() {
    let expected = "
        input       invited   accepted  started   running   finishing completed error cancelled expired
        INVITE      .         +         .         .         .         +         +     +         +
        admitted    accepted  !         !         !         !         +         +     +         +
        declined    error     !         !         !         !         .         .     .         .
        START       !         started   .         .         .         +         +     +         +
        mounted     !         !         running   !         !         +         +     +         +
        not-mounted !         !         error     !         !         +         +     +         +
        task-done   !         !         !         +         !         .         .     .         .
        task-failed !         !         !         error     !         .         .     .         .
        flushed     !         !         !         !         completed .         .     .         .
        not-flushed !         !         !         !         error     .         .     .         .
        lost        !         !         !         error     error     .         .     .         .
        ERROR       cancelled cancelled cancelled cancelled cancelled .         .     .         .
        cancel      cancelled cancelled cancelled cancelled cancelled !         !     .         !
        told        !         !         !         !         !         .         .     .         .
        tick        +         +         +         +         +         +         +     +         +
        late        expired   expired   expired   expired   expired   .         .     .         .
        recover     +         +         error     error     error     +         +     +         +
        released    !         !         !         !         !         .         .     .         .";
    let inputs = tidy(expected);
    let mut rows = vec![inputs.lines().next().unwrap().to_owned()];
    for row in inputs.lines().skip(1) {
        let word = row.split(' ').next().unwrap();
        let mut cells = vec![word];
        for (name, story) in REMOTE_STORIES {
            let before = remote(story);
            let mut after = before.clone();
            // The last story ended late, and goes on from there.
            let now = if name == "expired" { LATE } else { at(word) };
            let now = if word == "late" {
                LATE + Duration::from_secs(3600)
            } else {
                now
            };
            let effects = after.apply(remote_input(word), now);
            if effects.is_err() {
                assert_eq!(before, after, "{name} {word}: a refusal changes nothing");
            }
            cells.push(cell(before.phase(), after.phase(), &effects));
        }
        rows.push(cells.join(" "));
    }
    assert_eq!(rows.join("\n"), inputs);
}

#[test]
fn every_end_of_the_host_gives_everything_back_in_order() {
    for (name, story) in HOST_STORIES {
        for word in [
            "cancel",
            "fail",
            "ERROR",
            "late",
            "collected",
            "not-collected",
        ] {
            let mut host = host(story);
            let before = host.phase();
            let Ok(effects) = host.apply(host_input(word), at(word)) else {
                continue;
            };
            if before.is_end() || !host.phase().is_end() {
                continue;
            }
            let given_back: Vec<&HostEffect> = effects
                .iter()
                .filter(|effect| {
                    matches!(
                        effect,
                        HostEffect::RevokeCredential
                            | HostEffect::CloseExport
                            | HostEffect::ReleaseLock
                    )
                })
                .collect();
            let all = [
                &HostEffect::RevokeCredential,
                &HostEffect::CloseExport,
                &HostEffect::ReleaseLock,
            ];
            assert_eq!(given_back, all, "{name} {word}");
            assert!(host.is_cleanup_due());
            let again = host.apply(HostInput::Recover, LATE).unwrap();
            assert!(again.contains(&HostEffect::ReleaseLock), "{name} {word}");
            host.apply(HostInput::Released, LATE).unwrap();
            assert_eq!(host.apply(HostInput::Recover, LATE).unwrap(), []);
        }
    }
}

#[test]
fn every_end_of_the_remote_unmounts_and_is_told_until_it_was_heard() {
    for (name, story) in &REMOTE_STORIES[..5] {
        let mut remote = remote(story);
        let words = RemoteInput::Cancel { reason: "r".into() };
        let effects = remote.apply(words, START).unwrap();
        let failure = remote.ending().unwrap().failure().unwrap().clone();
        let unmount = effects.iter().position(|e| *e == RemoteEffect::Unmount);
        let told = RemoteEffect::SendError(failure);
        let tell = effects.iter().position(|effect| *effect == told);
        assert!(unmount < tell && unmount.is_some(), "{name}: {effects:?}");
        assert!(effects.contains(&RemoteEffect::RemoveMountPoint), "{name}");
        let again = remote.apply(RemoteInput::Tick, START).unwrap();
        assert!(again.contains(&told), "{name}");
        remote.apply(RemoteInput::Told, START).unwrap();
        assert_eq!(remote.apply(RemoteInput::Tick, START).unwrap(), []);
        remote.apply(RemoteInput::Released, START).unwrap();
        assert!(!remote.is_cleanup_due());
    }
}

#[test]
fn of_offer_and_acceptance_the_lower_value_holds() {
    let mut host = host("lock");
    let lower = Acceptance {
        access: Some(Access::Ro),
        ttl: Some(Duration::from_secs(60)),
        transport: Some(Transport::Archive),
        ..acceptance()
    };
    let effects = host.apply(HostInput::Accept(lower), START).unwrap();
    let until = START + Duration::from_secs(60);
    let prepare = HostEffect::Prepare {
        grant: Grant {
            access: Access::Ro,
            until,
        },
        transport: Transport::Archive,
    };
    assert_eq!(effects, [prepare, HostEffect::TickAt(until)]);

    let mut greedy = self::host("lock");
    let higher = Acceptance {
        ttl: Some(Duration::from_secs(100_000)),
        ..acceptance()
    };
    greedy.apply(HostInput::Accept(higher), START).unwrap();
    assert_eq!(greedy.agreement().unwrap().ttl, Duration::from_secs(600));
}

#[test]
fn a_remote_keeps_to_what_it_accepted_whatever_start_grants() {
    let (mut remote, _) = Remote::new(id("d"), offer(), Waits::default(), START);
    let lower = Acceptance {
        access: Some(Access::Ro),
        ttl: Some(Duration::from_secs(60)),
        ..acceptance()
    };
    remote.apply(RemoteInput::Admitted(lower), START).unwrap();
    let effects = remote
        .apply(RemoteInput::Start(grant(LATE)), START)
        .unwrap();
    let until = START + Duration::from_secs(60);
    let mount = RemoteEffect::Mount {
        access: Access::Ro,
        until,
        transport: Transport::Sshfs,
    };
    assert_eq!(effects, [mount, RemoteEffect::TickAt(until)]);
}

#[test]
fn a_start_of_the_past_is_answered_with_start_expired() {
    let mut remote = remote("admitted");
    remote
        .apply(RemoteInput::Start(grant(START)), START)
        .unwrap();
    assert_eq!(remote.phase(), Phase::Expired);
    let failure = remote.ending().unwrap().failure().unwrap();
    assert_eq!(failure.code, Code::StartExpired);
}

#[test]
fn other_terms_or_another_transport_are_no_acceptance() {
    let other = Acceptance {
        access: Some(Access::Ro),
        ..acceptance()
    };
    let mut accepted = host("lock ACCEPT");
    assert_eq!(
        accepted.apply(HostInput::Accept(other), START),
        Err(Rejected::OtherTerms)
    );
    let (mut host, _) = Host::new(
        id("d"),
        Offer {
            transports: vec![Transport::Sshfs],
            ..offer()
        },
        Waits::default(),
        START,
    );
    host.apply(HostInput::LockGranted, START).unwrap();
    let archive = Acceptance {
        transport: Some(Transport::Archive),
        ..acceptance()
    };
    assert_eq!(
        host.apply(HostInput::Accept(archive), START),
        Err(Rejected::NotOffered)
    );
    assert_eq!(host.phase(), Phase::Invited);
}

#[test]
fn a_refusal_says_what_is_not_possible_when() {
    let mut created = host("");
    let error = created.apply(host_input("DONE"), START).unwrap_err();
    assert_eq!(
        error.to_string(),
        "DONE is not possible while the delegation is created"
    );
}

#[test]
fn machines_survive_being_stored() {
    for (_, story) in HOST_STORIES {
        let host = host(story);
        let text = serde_json::to_string(&host).unwrap();
        assert_eq!(serde_json::from_str::<Host>(&text).unwrap(), host);
    }
    for (_, story) in REMOTE_STORIES {
        let remote = remote(story);
        let text = serde_json::to_string(&remote).unwrap();
        assert_eq!(serde_json::from_str::<Remote>(&text).unwrap(), remote);
    }
}

#[test]
fn a_lease_that_ran_out_while_the_host_was_down_opens_nothing() {
    for story in [
        "lock ACCEPT",
        "lock ACCEPT prepared",
        "lock ACCEPT prepared began",
    ] {
        let mut host = host(story);
        let effects = host.apply(HostInput::Recover, LATE).unwrap();
        assert_eq!(host.phase(), Phase::Expired, "{story}");
        let opens = effects.iter().any(|effect| {
            matches!(
                effect,
                HostEffect::Restore { .. }
                    | HostEffect::Prepare { .. }
                    | HostEffect::SendStart { .. }
            )
        });
        assert!(!opens, "{story}: {effects:?}");
    }
}
