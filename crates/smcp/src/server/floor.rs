//! What the relay's lock protects: connections, requests under way and kept answers, and what is done to them in order.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use domain::office::{Allowance, ConnectionId, Effect, Keep, Limits, Notice, Offices, Ticket};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wire::smcp::{ClientEvent, Profile};

use super::{
    answers::Answers,
    bus::{AckSender, SocketRef},
    knowledge::Knowledge,
    outcome::Outcome,
    shared::{Parcel, Post},
};
use crate::{Caller, clock, convert};

/// How long a join that others must agree to takes at most when nothing is wrong; by then nothing waits behind it.
const OVERFLOW_WAIT: Duration = Duration::from_secs(1);

/// Everything that the lock protects.
pub(super) struct Floor {
    pub(super) offices: Offices,
    pub(super) peers: HashMap<ConnectionId, Arc<Peer>>,
    pub(super) pending: HashMap<Ticket, Pending>,
    pub(super) answers: Answers,
    /// Where other servers learn what happens here, if there are any.
    post: Option<Post>,
}

/// A connection that was let in.
pub(super) struct Peer {
    pub(super) socket: SocketRef,
    pub(super) profile: Profile,
    pub(super) version: Option<String>,
    pub(super) caller: Caller,
    pub(super) knowledge: watch::Sender<Knowledge>,
    /// Changes with what a computer offers.
    pub(super) revision: AtomicU64,
    /// Bytes of requests that it may not have read yet.
    pub(super) unread: AtomicUsize,
    /// It is told whose agent a call comes from.
    pub(super) knows_scopes: bool,
    /// When it does not acknowledge a probe, it is not there any more.
    pub(super) answers_probes: bool,
    pub(super) allowance: Mutex<(Allowance, bool)>,
}

/// A request under way, and who waits for it.
pub(super) struct Pending {
    pub(super) event: ClientEvent,
    /// The computer that was asked, as its asker called it.
    pub(super) computer: String,
    pub(super) askers: Vec<Asker>,
    /// Cancelled when it has been answered without the computer.
    pub(super) over: CancellationToken,
    pub(super) departure: Departure,
}

/// How far a request has come on its way to its computer: a cancel must not overtake it.
pub(super) enum Departure {
    Ahead {
        to: ConnectionId,
        request: Option<String>,
    },
    /// This follows it.
    Cancelled(Notice),
    Gone,
}

impl Departure {
    pub(super) fn ahead(to: &ConnectionId, body: &Value) -> Self {
        Self::Ahead {
            to: to.clone(),
            request: body["req_id"].as_str().map(str::to_owned),
        }
    }

    /// Takes a cancel along, if it is for this request and the request has not left.
    fn takes(&mut self, whom: &ConnectionId, notice: &Notice) -> bool {
        let (Self::Ahead { to, request }, Notice::Cancelled { request: id, .. }) = (&self, notice)
        else {
            return false;
        };
        let is_own = to == whom && request.as_deref() == Some(id.as_str());
        if is_own {
            *self = Self::Cancelled(notice.clone());
        }
        is_own
    }
}

pub(super) struct Asker {
    pub(super) connection: ConnectionId,
    pub(super) ack: AckSender,
    pub(super) profile: Profile,
    /// It tells errors from results by itself.
    pub(super) is_ours: bool,
}

/// What is left to do when the lock is released.
#[derive(Default)]
pub(super) struct Afterwards {
    pub(super) replies: Vec<(Asker, ClientEvent, Arc<Outcome>)>,
    pub(super) closing: Vec<SocketRef>,
    pub(super) silent: Vec<ConnectionId>,
    pub(super) learn: Vec<Arc<Peer>>,
}

impl Peer {
    /// Spends one event, or says how long to wait and whether this is the first refusal in a row.
    pub(super) fn spend(&self) -> Result<(), (Duration, bool)> {
        let mut allowance = self
            .allowance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let spent = allowance.0.spend(clock::now());
        let was_refused = std::mem::replace(&mut allowance.1, spent.is_err());
        spent.map_err(|wait| (wait, !was_refused))
    }
}

impl Peer {
    /// More of it waits than may: how soon to come again, and whether this is the first refusal in a row.
    pub(super) fn overflow(&self) -> (Duration, bool) {
        let mut allowance = self
            .allowance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let was_refused = std::mem::replace(&mut allowance.1, true);
        (OVERFLOW_WAIT, !was_refused)
    }
}

impl Floor {
    pub(super) fn new(limits: Limits, post: Option<Post>) -> Self {
        Self {
            offices: Offices::new(limits),
            peers: HashMap::new(),
            pending: HashMap::new(),
            answers: Answers::default(),
            post,
        }
    }

    fn peer(&self, connection: &ConnectionId) -> Option<&Arc<Peer>> {
        self.peers.get(connection)
    }

    /// Performs what must happen in order, and returns the rest.
    pub(super) fn perform(&mut self, effects: Vec<Effect>, outcome: Option<Outcome>) -> Afterwards {
        let mut afterwards = Afterwards::default();
        let outcome = outcome.map(Arc::new);
        for effect in effects {
            match effect {
                Effect::Tell { to, notice } => {
                    self.tell_abroad(&notice);
                    for connection in to {
                        if self.is_taken_along(&connection, &notice) {
                            continue;
                        }
                        let Some(peer) = self.peer(&connection) else {
                            self.forward(connection, &notice);
                            continue;
                        };
                        let said = convert::notice(&notice, peer.profile);
                        if let Some((event, body)) = said
                            && peer.socket.emit(event, &body).is_err()
                        {
                            afterwards.silent.push(connection);
                        }
                    }
                }
                Effect::Evict { connection } => {
                    let socket = self.peer(&connection).map(|peer| peer.socket.clone());
                    afterwards.closing.extend(socket);
                }
                Effect::Learn { connection } => {
                    let peer = self.peer(&connection).cloned();
                    if let (Some(peer), Some(post)) = (&peer, &self.post) {
                        peer.revision.fetch_add(1, Ordering::SeqCst);
                        post.put(Parcel::Revised { connection });
                    }
                    afterwards.learn.extend(peer);
                }
                Effect::Deliver { ticket, keep } => {
                    if let Some(outcome) = &outcome {
                        self.settle(ticket, outcome, keep, &mut afterwards);
                    }
                }
                Effect::Settle {
                    ticket,
                    ending,
                    keep,
                } => {
                    let asked = self.pending.get(&ticket);
                    let computer = asked.map_or("", |pending| pending.computer.as_str());
                    let error = convert::ending(ending).with("computer_name", computer);
                    let outcome = Arc::new(Outcome::Failed(error));
                    self.settle(ticket, &outcome, keep, &mut afterwards);
                }
                Effect::Forget { ticket } => {
                    self.answers.forget(ticket);
                }
                Effect::SeekCall { call } => {
                    if let Some(post) = &self.post {
                        post.put(Parcel::Cancel(call));
                    }
                }
                // Whoever asks performs these three, because it holds the request.
                Effect::Forward { .. } | Effect::Join { .. } | Effect::Replay { .. } => {}
            }
        }
        afterwards
    }

    /// Members of the same office at other servers hear it too. Of departures they hear when the place is given up.
    fn tell_abroad(&self, notice: &Notice) {
        let Some(post) = &self.post else {
            return;
        };
        match notice {
            Notice::Entered { .. } | Notice::Changed { .. } => {
                post.put(Parcel::Notice(notice.clone()));
            }
            Notice::Left { .. } | Notice::Cancelled { .. } => {}
        }
    }

    /// Somebody who is not here is at another server, or is being closed.
    fn forward(&self, to: ConnectionId, notice: &Notice) {
        let Some(post) = &self.post else {
            return;
        };
        let notice = notice.clone();
        post.put(Parcel::Forward { to, notice });
    }

    /// Whether a request that has not left takes this cancel along.
    fn is_taken_along(&mut self, to: &ConnectionId, notice: &Notice) -> bool {
        match notice {
            Notice::Cancelled { .. } => {
                let mut pending = self.pending.values_mut();
                pending.any(|pending| pending.departure.takes(to, notice))
            }
            Notice::Entered { .. } | Notice::Changed { .. } | Notice::Left { .. } => false,
        }
    }

    fn settle(
        &mut self,
        ticket: Ticket,
        outcome: &Arc<Outcome>,
        keep: Keep,
        afterwards: &mut Afterwards,
    ) {
        let Some(pending) = self.pending.remove(&ticket) else {
            return;
        };
        pending.over.cancel();
        if keep == Keep::Yes {
            self.answers.keep(ticket, pending.event, outcome);
        }
        for asker in pending.askers {
            let reply = (asker, pending.event, Arc::clone(outcome));
            afterwards.replies.push(reply);
        }
    }
}

impl Afterwards {
    pub(super) fn reply(&mut self, asker: Asker, event: ClientEvent, outcome: Arc<Outcome>) {
        self.replies.push((asker, event, outcome));
    }
}
