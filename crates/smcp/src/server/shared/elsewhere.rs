//! Requests to computers that are connected to other servers: found in the record, sent through the adapter, and
//! answered in any case, also when the computer or its server is lost on the way.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use domain::office::{ConnectionId, Role, Ticket};
use futures_util::StreamExt;
use serde_json::{Value, json};
use socketioxide::{AckError, SocketError};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval_at, timeout_at},
};
use tokio_util::sync::CancellationToken;
use wire::smcp::{ClientEvent, ErrorBody, NAMESPACE};

use super::{Entry, Shared, Unreachable, connection_room, whereabouts};
use crate::{
    convert::{self, code},
    server::{
        knowledge::Knowledge,
        outcome::Outcome,
        relay::Relay,
        requests::{
            LEARN_TIMEOUT, LEARN_WAIT, busy, no_such_computer, outcome_of, scoped,
            unreachable_computer,
        },
    },
};

/// How often a waiting request looks whether its computer is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How much later than the other server this one gives up, so that the other can say it first.
const PASSAGE_MAX: Duration = Duration::from_secs(2);

/// Computers elsewhere whose configuration is known at once: more than any office has members.
const KNOWN_MAX: usize = 1024;

/// A request that has been checked and is on its way to another server.
pub(in super::super) struct Passage {
    pub(in super::super) ticket: Ticket,
    pub(in super::super) to: ConnectionId,
    pub(in super::super) event: ClientEvent,
    pub(in super::super) body: Value,
    pub(in super::super) patience: Duration,
    pub(in super::super) over: CancellationToken,
}

impl Relay {
    pub(in super::super) fn travel_elsewhere(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        passage: Passage,
    ) {
        let (relay, shared) = (Arc::clone(self), Arc::clone(shared));
        self.tasks.spawn(|stop| async move {
            let (ticket, over) = (passage.ticket, passage.over.clone());
            let size = convert::size(&passage.body);
            if shared.unread.fetch_add(size, Ordering::SeqCst) > relay.config.unread_bytes_max {
                shared.unread.fetch_sub(size, Ordering::SeqCst);
                return relay.settle(ticket, Outcome::Undelivered(busy()));
            }
            let outcome = tokio::select! { biased;
                () = over.cancelled() => None, // It has been answered without the computer.
                () = stop.cancelled() => Some(Outcome::Failed(ErrorBody::new(
                    code::INTERNAL,
                    "The server is stopping.",
                ))),
                outcome = passage.arrive(&relay, &shared) => Some(outcome),
            };
            shared.unread.fetch_sub(size, Ordering::SeqCst);
            if let Some(outcome) = outcome {
                relay.settle(ticket, outcome);
            }
        });
    }
}

impl Passage {
    async fn arrive(&self, relay: &Arc<Relay>, shared: &Arc<Shared>) -> Outcome {
        match self.try_to_arrive(relay, shared).await {
            Ok(outcome) => outcome,
            Err(unreachable) => Outcome::Undelivered(unreachable.error()),
        }
    }

    async fn try_to_arrive(
        &self,
        relay: &Arc<Relay>,
        shared: &Arc<Shared>,
    ) -> Result<Outcome, Unreachable> {
        let Some(entry) = self.find(shared).await? else {
            return Ok(Outcome::Undelivered(self.nobody()));
        };
        if self.event == ClientEvent::ToolCall {
            let known = shared.knowledge(relay, &entry).await;
            let tool = self.body["tool_name"].as_str().unwrap_or_default();
            if let Some(refused) = known.refuses(tool) {
                return Ok(Outcome::Undelivered(refused));
            }
        }
        let wait = self.patience;
        let event = self.event.name(entry.profile());
        let Some(io) = shared.io.of(NAMESPACE) else {
            return Ok(Outcome::Undelivered(unreachable_computer())); // This server is ending.
        };
        let body = scoped(self.body.clone(), entry.knows_scopes);
        let turn = shared.sending.acquire().await;
        let sending = io
            .to(connection_room(&entry.connection))
            .timeout(wait)
            .emit_with_ack::<_, Value>(event, &body);
        let mut answers = pin!(match sending.await {
            Ok(answers) => answers,
            Err(error) => {
                if shared.is_reachable.swap(false, Ordering::SeqCst) {
                    tracing::error!(%error, "the other office servers cannot be reached");
                }
                return Err(Unreachable);
            }
        });
        drop(turn);
        relay.has_left(self.ticket, &self.to);
        // A limit that no clock reaches is none.
        let far = Duration::from_secs(365 * 24 * 60 * 60);
        let deadline = Instant::now() + wait.saturating_add(PASSAGE_MAX).min(far);
        let mut looks = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! { biased;
                answer = timeout_at(deadline, answers.next()) => return Ok(match answer {
                    Ok(Some((_, Err(AckError::Socket(SocketError::Closed))))) => {
                        Outcome::Failed(vanished())
                    }
                    Ok(Some((_, answer))) => outcome_of(answer, entry.profile()),
                    Ok(None) => Outcome::Undelivered(self.nobody()), // No server has this connection any more.
                    Err(_) => Outcome::TimedOut,
                }),
                _ = looks.tick() => {
                    // While nobody can be asked, the answer may still come.
                    let is_there = self.find(shared).await.map_or(true, |found| {
                        found.is_some_and(|found| found.connection == entry.connection)
                    });
                    if !is_there {
                        return Ok(Outcome::Failed(vanished()));
                    }
                }
            }
        }
    }

    fn nobody(&self) -> ErrorBody {
        no_such_computer(whereabouts(&self.to).map_or("", |(_, computer)| computer))
    }

    async fn find(&self, shared: &Shared) -> Result<Option<Entry>, Unreachable> {
        let Some((office, computer)) = whereabouts(&self.to) else {
            return Ok(None);
        };
        let _turn = shared.sending.acquire().await;
        shared.check_reachable()?;
        let found = shared.record.find(office, Role::Computer, computer).await;
        shared.noted(found, "look for a computer")
    }
}

impl Shared {
    /// What a computer elsewhere offers; it is asked when it has said that something has changed.
    async fn knowledge(self: &Arc<Self>, relay: &Arc<Relay>, entry: &Entry) -> Knowledge {
        let (mut knowledge, is_new) = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            make_room(&mut known, &entry.connection);
            match known.get(&entry.connection) {
                Some((revision, knowledge)) if *revision == entry.revision => {
                    (knowledge.subscribe(), None)
                }
                Some(_) | None => {
                    let knowledge = watch::Sender::new(Knowledge::Asking);
                    let learnt = (entry.revision, knowledge.clone());
                    known.insert(entry.connection.clone(), learnt);
                    (knowledge.subscribe(), Some(knowledge))
                }
            }
        };
        if let Some(knowledge) = is_new {
            self.learn(relay, entry.clone(), knowledge);
        }
        let known = knowledge.wait_for(|known| !known.is_asking());
        // A computer that does not say in time decides alone.
        let known = tokio::time::timeout(LEARN_WAIT, known).await;
        known.map_or(Knowledge::Nothing, |known| {
            known.map_or(Knowledge::Nothing, |known| known.clone())
        })
    }

    fn learn(self: &Arc<Self>, relay: &Relay, entry: Entry, knowledge: watch::Sender<Knowledge>) {
        let shared = Arc::clone(self);
        relay.tasks.spawn(|stop| async move {
            let asking = async {
                let body = json!({
                    "agent": "office", "computer": entry.name, "req_id": uuid::Uuid::new_v4().to_string()
                });
                let asked = shared
                    .io
                    .of(NAMESPACE)?
                    .to(connection_room(&entry.connection))
                    .timeout(LEARN_TIMEOUT)
                    .emit_with_ack::<_, Value>(ClientEvent::GetConfig.name(entry.profile()), &body);
                let mut answers = pin!(asked.await.ok()?);
                let (_, answer) = answers.next().await?;
                Some(Knowledge::of(&answer.ok()?))
            };
            let known = tokio::select! { biased;
                () = stop.cancelled() => None,
                known = tokio::time::timeout(LEARN_TIMEOUT + PASSAGE_MAX, asking) => known.ok().flatten(),
            };
            knowledge.send_replace(known.unwrap_or_default());
        });
    }
}

/// Forgets everybody when there are too many: whoever is called next is asked again.
fn make_room(known: &mut HashMap<String, (u64, watch::Sender<Knowledge>)>, connection: &str) {
    if known.len() >= KNOWN_MAX && !known.contains_key(connection) {
        known.clear();
    }
}

fn vanished() -> ErrorBody {
    convert::ending(domain::office::Ending::Vanished)
}
