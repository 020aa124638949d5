//! Events that the server itself answers: joining, leaving, listing, announcing, cancelling.

use std::sync::Arc;

use domain::{
    Name,
    office::{Claim, ConnectionId, Input, Member, MemberName, Refusal, RequestId, Role},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::smcp::{
    self, CallProgress, Cancel, ErrorBody, Join, Leave, ListRoom, RoomAnswer, Session,
    progress_notice,
};

use super::{
    ack::Ack,
    incoming::Incoming,
    relay::{Relay, version_problem},
    shared::Parcel,
};
use crate::convert::{self, code};

/// Asks a connection whether it still lives. It is a notice, which every client may ignore; only of those that are known
/// to acknowledge everything does silence say that they are gone.
pub(super) const PROBE: &str = "notify:still_there";

fn input(place: &Member, connection: ConnectionId, claim: Claim) -> Input {
    Input::Join {
        connection,
        role: place.role,
        name: place.name.clone(),
        office: place.office.clone(),
        claim,
    }
}

impl Relay {
    pub(super) fn join(self: &Arc<Self>, request: Incoming<'_>, body: &Value) {
        let place = match place(body) {
            Ok(place) => place,
            Err(error) => return request.refuse(&error),
        };
        if !request.peer.caller.may_join(place.role, &place.office) {
            let error = ErrorBody::new(code::FORBIDDEN, "The token does not cover this office.")
                .with("office_id", place.office.as_str())
                .with("role", place.role.as_str());
            return request.refuse(&error);
        }
        if let Some(shared) = &self.shared {
            return self.join_shared(shared, request, place);
        }
        let input = input(&place, request.connection.clone(), Claim::Free);
        match self.apply(input, None) {
            Ok(()) => request.answer(&Ack::Done),
            Err(Refusal::Held { by }) => self.take_over(request, place, by),
            Err(refusal) => request.refuse(&convert::refusal(&refusal)),
        }
    }

    /// The same caller holds the place through another connection: if that one is silent, it loses the place.
    fn take_over(self: &Arc<Self>, request: Incoming<'_>, place: Member, by: ConnectionId) {
        let relay = Arc::clone(self);
        let holder = self.floor().peers.get(&by).cloned();
        let connection = request.connection.clone();
        let (peer, name) = (request.peer.clone(), request.name.to_owned());
        let asker = request.into_asker();
        let timeout = self.config.probe_timeout;
        self.tasks.spawn(|stop| async move {
            let is_silent = match holder {
                None => true,
                // Such a one is gone when its heartbeat fails, and not before.
                Some(holder) if !holder.answers_probes => !holder.socket.connected(),
                Some(holder) => {
                    let probe = holder.socket.timeout(timeout);
                    match probe.emit_with_ack::<_, Value>(PROBE, &json!({})) {
                        Err(_) => true,
                        Ok(answer) => tokio::select! { biased;
                            () = stop.cancelled() => false,
                            answer = answer => matches!(
                                answer,
                                Err(socketioxide::AckError::Timeout | socketioxide::AckError::Socket(_))
                            ),
                        },
                    }
                }
            };
            let claim = if is_silent {
                Claim::TakeOver { from: by }
            } else {
                Claim::Free
            };
            let input = input(&place, connection.clone(), claim);
            let joined = relay.apply(input, None);
            let request = Incoming::again(&relay, connection, peer, &name, asker.ack);
            match joined {
                Ok(()) => request.answer(&Ack::Done),
                Err(refusal) => {
                    let refusal = match (refusal, place.role) {
                        (Refusal::Held { .. }, Role::Agent) => Refusal::AgentPresent,
                        (Refusal::Held { .. }, Role::Computer) => Refusal::NameTaken,
                        (other, _) => other,
                    };
                    request.refuse(&convert::refusal(&refusal));
                }
            }
        });
    }

    pub(super) fn leave(self: &Arc<Self>, request: Incoming<'_>, body: &Value) {
        let office = read::<Leave>(body).and_then(|leave| office(&leave.office_id));
        let office = match office {
            Ok(office) => office,
            Err(error) => return request.refuse(&error),
        };
        let connection = request.connection.clone();
        match (
            self.apply(Input::Leave { connection, office }, None),
            &self.shared,
        ) {
            (Ok(()), Some(shared)) => self.left_shared(shared, request),
            (Ok(()), None) => request.answer(&Ack::Done),
            (Err(refusal), _) => request.refuse(&convert::refusal(&refusal)),
        }
    }

    pub(super) fn list_room(self: &Arc<Self>, request: Incoming<'_>, body: &Value) {
        let asked = match read::<ListRoom>(body) {
            Ok(asked) => asked,
            Err(error) => return request.refuse(&error),
        };
        let sessions = {
            let floor = self.floor();
            let own = floor.offices.member(&request.connection);
            match own {
                Some(own) if own.office.as_str() == asked.office_id => {
                    let members = floor.offices.members(&asked.office_id);
                    let sessions = members.map(|(connection, member)| Session {
                        sid: connection.0.clone(),
                        name: member.name.to_string(),
                        role: member.role.as_str().to_owned(),
                        office_id: member.office.to_string(),
                        a2c_version: floor
                            .peers
                            .get(connection)
                            .and_then(|peer| peer.version.clone()),
                    });
                    Ok((sessions.collect(), own.office.clone()))
                }
                Some(_) => Err(Refusal::OtherOffice),
                None => Err(Refusal::NotInOffice),
            }
        };
        match (sessions, &self.shared) {
            (Ok((_, office)), Some(shared)) => {
                self.list_shared(shared, request, office, asked.req_id);
            }
            (Ok((sessions, _)), None) => {
                let req_id = asked.req_id;
                request.answer(&Ack::Value(json!(RoomAnswer { sessions, req_id })));
            }
            (Err(refusal), _) => request.refuse(&convert::refusal(&refusal)),
        }
    }

    pub(super) fn cancel(self: &Arc<Self>, request: Incoming<'_>, body: &Value) {
        let id = read::<Cancel>(body).and_then(|cancel| {
            RequestId::parse(&cancel.req_id).map_err(|error| invalid("req_id", &error.to_string()))
        });
        let id = match id {
            Ok(id) => id,
            Err(error) => return request.refuse(&error),
        };
        let connection = request.connection.clone();
        let cancel = Input::Cancel {
            connection,
            request: id,
        };
        match self.apply(cancel, None) {
            Ok(()) => request.answer(&Ack::Heard),
            Err(refusal) => request.refuse(&convert::refusal(&refusal)),
        }
    }

    /// A computer says how far a call is; whoever waits for that call hears it, and nobody else.
    pub(super) fn progress(self: &Arc<Self>, request: Incoming<'_>, body: &Value) {
        let read = read::<CallProgress>(body).and_then(|said| {
            let id = RequestId::parse(&said.req_id)
                .map_err(|error| invalid("req_id", &error.to_string()))?;
            Ok((said, id))
        });
        let (mut said, id) = match read {
            Ok(read) => read,
            Err(error) => return request.refuse(&error),
        };
        let floor = self.floor();
        let hearers = match floor.offices.hearers(&request.connection, id) {
            Ok(hearers) => hearers,
            Err(refusal) => {
                drop(floor);
                return request.refuse(&convert::refusal(&refusal));
            }
        };
        let member = floor.offices.member(&request.connection);
        said.computer = member.map(|member| member.name.to_string());
        convert::shorten(&mut said.progress.message);
        let peers = hearers.iter().filter_map(|hearer| floor.peers.get(hearer));
        for peer in peers {
            // Progress that is not read in time is stale; whether the reader lives is found otherwise.
            let _ = peer.socket.emit(progress_notice(), &said);
        }
        if let (true, Some(member), Some(shared)) = (hearers.is_empty(), member, &self.shared) {
            let office = member.office.clone();
            shared.post.put(Parcel::Progress { office, said });
        }
        drop(floor);
        request.answer(&Ack::Heard);
    }

    pub(super) fn announce(
        self: &Arc<Self>,
        request: Incoming<'_>,
        body: &Value,
        change: smcp::Change,
    ) {
        let claimed = body.get("computer").and_then(Value::as_str);
        let announce = Input::Announce {
            connection: request.connection.clone(),
            claimed: claimed.map(str::to_owned),
            change: convert::change(change),
        };
        match self.apply(announce, None) {
            Ok(()) => request.answer(&Ack::Heard),
            Err(refusal) => request.refuse(&convert::refusal(&refusal)),
        }
    }
}

fn place(body: &Value) -> Result<Member, ErrorBody> {
    if let Some(words) = version_problem(body) {
        return Err(ErrorBody::new(code::INVALID, words));
    }
    let join: Join = read(body)?;
    let role =
        convert::role(&join.role).ok_or_else(|| invalid("role", "it is agent or computer"))?;
    let name =
        MemberName::parse(&join.name).map_err(|error| invalid("name", &error.to_string()))?;
    let office = office(&join.office_id)?;
    Ok(Member { office, role, name })
}

fn office(text: &str) -> Result<Name, ErrorBody> {
    Name::parse(text).map_err(|error| invalid("office_id", &error.to_string()))
}

fn read<T: DeserializeOwned>(body: &Value) -> Result<T, ErrorBody> {
    // The cause names the field, never its value.
    T::deserialize(body).map_err(|error| {
        let words: String = error.to_string().chars().take(200).collect();
        ErrorBody::new(code::INVALID, format!("The event cannot be read: {words}."))
    })
}

pub(super) fn invalid(field: &str, problem: &str) -> ErrorBody {
    ErrorBody::new(code::INVALID, format!("`{field}` is not right: {problem}."))
        .with("field", field)
}
