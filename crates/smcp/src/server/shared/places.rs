//! Places that all servers agree on: joining, being where somebody silent was, leaving, and who is there.

use std::{pin::pin, sync::Arc, time::Duration};

use domain::office::{Claim, ConnectionId, Input, Member, Refusal, Role};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::time::Instant;
use wire::smcp::{ErrorBody, NAMESPACE, RoomAnswer, Session};

use super::{Entry, Shared, Unreachable, connection_room, post::Parcel, record::Claimed};
use crate::{
    convert,
    server::{ack::Ack, door::Door, floor::Peer, incoming::Incoming, join::PROBE, relay::Relay},
};

/// How long a silent connection that was closed has to leave its place; then it is taken from it, because its server
/// is as silent.
const VACATING_MAX: Duration = Duration::from_secs(2);

/// How often its place is looked at in that time.
const VACATING_LOOK: Duration = Duration::from_millis(25);

impl Relay {
    /// Joins once the other servers agree; what the client sends meanwhile waits.
    pub(in super::super) fn join_shared(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        request: Incoming<'_>,
        member: Member,
    ) {
        let (relay, shared) = (Arc::clone(self), Arc::clone(shared));
        let (connection, peer) = (request.connection.clone(), request.peer.clone());
        let name = request.name.to_owned();
        let asker = request.into_asker();
        let door = peer.socket.extensions.get::<Arc<Door>>();
        if let Some(door) = &door {
            door.hold();
        }
        let socket = peer.socket.clone();
        self.tasks.spawn(|stop| async move {
            let joined = tokio::select! { biased;
                () = stop.cancelled() => Err(Unreachable.error()),
                joined = relay.take_place(&shared, &connection, &peer, &member) => joined,
            };
            let request = Incoming::again(&relay, connection, peer, &name, asker.ack);
            match joined {
                Ok(()) => request.answer(&Ack::Done),
                Err(error) => request.refuse(&error),
            }
            if let Some(door) = door {
                door.release();
                door.take_waiting(|call| relay.receive(&socket, &call.name, call.body, call.ack));
            }
        });
    }

    async fn take_place(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        connection: &ConnectionId,
        peer: &Peer,
        member: &Member,
    ) -> Result<(), ErrorBody> {
        let refused = |refusal: &Refusal| convert::refusal(refusal);
        // A claim that is refused afterwards would give up the place that this connection has.
        let may_join = self.floor().offices.may_join(connection, member);
        may_join.map_err(|refusal| refused(&refusal))?;
        let entry = shared.entry(peer, member);
        let (mut from, mut closed) = (None, None);
        loop {
            shared.settled().await;
            let claim = shared.claim(&member.office, entry.clone(), from.take());
            match claim.await.map_err(Unreachable::error)? {
                Claimed::Seated | Claimed::Kept | Claimed::Replaced(_) => break,
                Claimed::Full => {
                    let limit = self.config.limits.members_max;
                    return Err(refused(&Refusal::OfficeFull { limit }));
                }
                Claimed::Held(holder) => {
                    let taken = match member.role {
                        Role::Agent => Refusal::AgentPresent,
                        Role::Computer => Refusal::NameTaken,
                    };
                    if holder.caller != entry.caller || holder.name != entry.name {
                        return Err(refused(&taken));
                    }
                    match &closed {
                        Some((whom, until)) if *whom == holder.connection => {
                            if Instant::now() >= *until {
                                from = Some(holder.connection);
                            }
                            tokio::time::sleep(VACATING_LOOK).await;
                        }
                        Some(_) => return Err(refused(&taken)), // Somebody else was quicker.
                        None => {
                            if !self.is_silent(shared, &holder).await {
                                return Err(refused(&taken));
                            }
                            let closing = shared.close(&holder.connection).await;
                            closing.map_err(Unreachable::error)?;
                            closed = Some((holder.connection, Instant::now() + VACATING_MAX));
                        }
                    }
                }
            }
        }
        let sit = Input::Join {
            connection: connection.clone(),
            role: member.role,
            name: member.name.clone(),
            office: member.office.clone(),
            claim: Claim::Free,
        };
        self.apply(sit, None).map_err(|refusal| {
            // It has gone, or may not sit here: nobody shall find it in the record.
            shared.post.put(Parcel::Departed {
                connection: connection.clone(),
                member: member.clone(),
            });
            refused(&refusal)
        })
    }

    /// Whether nobody answers behind a connection, here or elsewhere.
    async fn is_silent(&self, shared: &Shared, holder: &Entry) -> bool {
        if !holder.answers_probes {
            return false; // Its own server finds out, by its heartbeat.
        }
        let Some(io) = shared.io.of(NAMESPACE) else {
            return false; // This server is ending.
        };
        let nothing = json!({});
        let probe = io
            .to(connection_room(&holder.connection))
            .timeout(self.config.probe_timeout)
            .emit_with_ack::<_, Value>(PROBE, &nothing);
        let Ok(answers) = probe.await else {
            return false; // It may well live; the claim that follows says that servers cannot be reached.
        };
        let mut answers = pin!(answers);
        // The probe's own limit counts at the other server; this one counts if that server says nothing at all.
        let patience = self.config.probe_timeout * 2;
        match tokio::time::timeout(patience, answers.next()).await {
            Ok(Some((_, Ok(_) | Err(socketioxide::AckError::Decode(_))))) => false,
            Ok(Some((_, Err(_))) | None) | Err(_) => true,
        }
    }

    /// Answers a leave when the others know of it, so that the place is free for whoever hears the answer.
    pub(in super::super) fn left_shared(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        request: Incoming<'_>,
    ) {
        let (relay, shared) = (Arc::clone(self), Arc::clone(shared));
        let (connection, peer) = (request.connection.clone(), request.peer.clone());
        let name = request.name.to_owned();
        let asker = request.into_asker();
        self.tasks.spawn(|stop| async move {
            tokio::select! { biased;
                () = stop.cancelled() => {}
                () = shared.flush() => {}
            }
            Incoming::again(&relay, connection, peer, &name, asker.ack).answer(&Ack::Done);
        });
    }

    /// Answers with everybody in an office, on all servers.
    pub(in super::super) fn list_shared(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        request: Incoming<'_>,
        office: domain::Name,
        req_id: Option<String>,
    ) {
        let (relay, shared) = (Arc::clone(self), Arc::clone(shared));
        let (connection, peer) = (request.connection.clone(), request.peer.clone());
        let name = request.name.to_owned();
        let asker = request.into_asker();
        self.tasks.spawn(|stop| async move {
            let listed = tokio::select! { biased;
                () = stop.cancelled() => Err(Unreachable),
                listed = shared.list(&office) => listed,
            };
            let request = Incoming::plainly(&relay, connection, peer, &name, asker.ack);
            match listed {
                Ok(entries) => {
                    let sessions = entries.into_iter().map(|entry| Session {
                        sid: entry.connection,
                        name: entry.name,
                        role: entry.role,
                        office_id: office.to_string(),
                        a2c_version: entry.version,
                    });
                    let sessions = sessions.collect();
                    request.answer(&Ack::Value(json!(RoomAnswer { sessions, req_id })));
                }
                Err(unreachable) => request.refuse(&unreachable.error()),
            }
        });
    }

    /// A member of this server as the others see it.
    pub(super) fn seated(
        &self,
        shared: &Shared,
        connection: &ConnectionId,
    ) -> Option<(Member, Entry)> {
        let floor = self.floor();
        let member = floor.offices.member(connection)?.clone();
        let entry = shared.entry(floor.peers.get(connection)?, &member);
        Some((member, entry))
    }

    /// Every member of this server as the others see it.
    pub(super) fn everybody_here(&self, shared: &Shared) -> Vec<(Member, Entry)> {
        let floor = self.floor();
        let seated = floor.peers.iter().filter_map(|(connection, peer)| {
            let member = floor.offices.member(connection)?.clone();
            let entry = shared.entry(peer, &member);
            Some((member, entry))
        });
        seated.collect()
    }
}
