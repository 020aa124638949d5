//! Between the words of the wire and those of the domain, in both directions.

use std::time::Duration;

use domain::{
    Name,
    delegation::{
        Acceptance, Access, Code, DelegationId, Failure, Offer, Report, Sandbox, Transport,
    },
};
use wire::awcp::{self, ErrorCode, Secret, VERSION, seed};

/// The longest lease that fits everybody's clock: a year.
const TTL_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The id of a delegation that a peer sent; nothing if it could be a path.
pub(crate) fn id(text: &str) -> Option<DelegationId> {
    Name::parse(text).ok().map(DelegationId)
}

pub(crate) fn access(access: awcp::Access) -> Access {
    match access {
        awcp::Access::Ro => Access::Ro,
        awcp::Access::Rw => Access::Rw,
    }
}

pub(crate) fn access_word(access: Access) -> awcp::Access {
    match access {
        Access::Ro => awcp::Access::Ro,
        Access::Rw => awcp::Access::Rw,
    }
}

pub(crate) fn transport(transport: &awcp::Transport) -> Option<Transport> {
    match transport {
        awcp::Transport::Sshfs => Some(Transport::Sshfs),
        awcp::Transport::Archive => Some(Transport::Archive),
        awcp::Transport::Git => Some(Transport::Git),
        awcp::Transport::Storage | awcp::Transport::Other(_) => None,
    }
}

pub(crate) fn transport_word(transport: Transport) -> awcp::Transport {
    match transport {
        Transport::Sshfs => awcp::Transport::Sshfs,
        Transport::Archive => awcp::Transport::Archive,
        Transport::Git => awcp::Transport::Git,
    }
}

/// What an INVITE offers. Transports that are not known here are left out, so there may be none.
pub(crate) fn offer(invite: &seed::Invite) -> Offer {
    let requirements = invite.requirements.clone().unwrap_or_default();
    let required = requirements.transport.unwrap_or(awcp::Transport::Sshfs);
    let mut transports = Vec::new();
    for word in std::iter::once(&required).chain(&requirements.alternatives) {
        if let Some(known) = transport(word).filter(|known| !transports.contains(known)) {
            transports.push(known);
        }
    }
    Offer {
        access: access(invite.lease.access_mode),
        ttl: Duration::from_secs(invite.lease.ttl_seconds).min(TTL_MAX),
        transports,
    }
}

pub(crate) fn invite(
    id: &DelegationId,
    offer: &Offer,
    description: &str,
    prompt: &str,
) -> seed::Message {
    let mut transports = offer.transports.iter().copied().map(transport_word);
    seed::Message::Invite(seed::Invite {
        version: VERSION.to_owned(),
        delegation_id: id.to_string(),
        task: seed::Task {
            description: description.to_owned(),
            prompt: prompt.to_owned(),
        },
        lease: seed::ProposedLease {
            ttl_seconds: offer.ttl.as_secs(),
            access_mode: access_word(offer.access),
        },
        workspace: seed::Workspace {
            export_name: "workspace".to_owned(),
        },
        requirements: Some(seed::Requirements {
            transport: transports.next(),
            alternatives: transports.collect(),
        }),
    })
}

pub(crate) fn accept(id: &DelegationId, acceptance: &Acceptance) -> seed::Message {
    let sandbox = acceptance.sandbox.map(|sandbox| seed::SandboxProfile {
        cwd_only: Some(sandbox.cwd_only),
        allow_network: Some(sandbox.allow_network),
        allow_exec: Some(sandbox.allow_exec),
    });
    seed::Message::Accept(seed::Accept {
        version: Some(VERSION.to_owned()),
        delegation_id: id.to_string(),
        remote_mount: seed::RemoteMount {
            mount_point: acceptance.mount_point.clone(),
            transport: acceptance.transport.map(transport_word),
        },
        remote_constraints: Some(seed::RemoteConstraints {
            accepted_access_mode: acceptance.access.map(access_word),
            max_ttl_seconds: acceptance.ttl.map(|ttl| ttl.as_secs()),
            sandbox_profile: sandbox,
        }),
    })
}

/// What an ACCEPT accepts; nothing if it wants a transport that nobody here knows.
pub(crate) fn acceptance(accept: seed::Accept) -> Option<Acceptance> {
    let constraints = accept.remote_constraints.unwrap_or_default();
    let chosen = match &accept.remote_mount.transport {
        None => None,
        Some(word) => Some(transport(word)?),
    };
    let sandbox = constraints.sandbox_profile.map(|profile| Sandbox {
        cwd_only: profile.cwd_only.unwrap_or(false),
        allow_network: profile.allow_network.unwrap_or(true),
        allow_exec: profile.allow_exec.unwrap_or(true),
    });
    Some(Acceptance {
        mount_point: accept.remote_mount.mount_point,
        access: constraints.accepted_access_mode.map(access),
        ttl: constraints.max_ttl_seconds.map(Duration::from_secs),
        transport: chosen,
        sandbox,
    })
}

pub(crate) fn done(id: &DelegationId, report: &Report) -> seed::Message {
    seed::Message::Done(seed::Done {
        version: Some(VERSION.to_owned()),
        delegation_id: id.to_string(),
        final_summary: report.summary.clone(),
        highlights: report.highlights.clone(),
        notes: report.notes.clone(),
    })
}

pub(crate) fn report(done: seed::Done) -> Report {
    Report {
        summary: done.final_summary,
        highlights: done.highlights,
        notes: done.notes,
    }
}

pub(crate) fn error(id: &str, failure: &Failure) -> seed::Message {
    seed::Message::Error(seed::Error {
        version: Some(VERSION.to_owned()),
        delegation_id: id.to_owned(),
        code: ErrorCode::from(failure.code.as_str()),
        message: failure.message.clone(),
        hint: failure.hint.clone(),
    })
}

pub(crate) fn failure(error: seed::Error) -> Failure {
    let word = error.code.in_seed();
    let code = Code::ALL
        .into_iter()
        .find(|code| code.as_str() == word.as_str())
        .unwrap_or(Code::TaskFailed);
    match error.hint.is_empty() {
        true => Failure::new(code, error.message),
        false => Failure::with_hint(code, error.message, error.hint),
    }
}

/// The text of a credential that is a token.
pub(crate) fn token(credential: Option<&seed::Credential>) -> Option<String> {
    match credential? {
        seed::Credential::Text(Secret(text))
        | seed::Credential::Token {
            token: Secret(text),
        } => Some(text.clone()),
        seed::Credential::Key { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_survives_the_wire_and_unknown_transports_are_left_out() {
        let offered = Offer {
            access: Access::Rw,
            ttl: Duration::from_secs(60),
            transports: vec![Transport::Git, Transport::Archive, Transport::Sshfs],
        };
        let name = id("d-1").unwrap();
        let data = invite(&name, &offered, "d", "p").to_data();
        let Ok(seed::Message::Invite(mut read)) = seed::Message::from_data(&data) else {
            panic!("an invite is an invite")
        };
        assert_eq!(offer(&read), offered);
        read.requirements = Some(seed::Requirements {
            transport: Some(awcp::Transport::Storage),
            alternatives: Vec::new(),
        });
        assert_eq!(offer(&read).transports, []);
        read.requirements = None;
        assert_eq!(offer(&read).transports, [Transport::Sshfs]);
    }

    #[test]
    fn every_failure_survives_the_wire() {
        for code in Code::ALL {
            let told = Failure::with_hint(code, "m", "h");
            let seed::Message::Error(read) = error("d", &told) else {
                panic!("an error is an error")
            };
            assert_eq!(failure(read), told);
        }
    }

    #[test]
    fn an_id_that_could_be_a_path_is_none() {
        for text in ["..", "../x", "a/b", "", ".hidden", "a b"] {
            assert_eq!(id(text), None, "{text}");
        }
        assert!(id("dlg_0123456789abcdef0123456789abcdef").is_some());
    }
}
