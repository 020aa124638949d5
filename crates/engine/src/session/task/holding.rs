//! How long a session holds on to its conversation in the agent, and to its own task, while nobody uses it.

use std::{sync::Arc, time::Duration};

use domain::session::Lease;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::Instant,
};

use super::SessionTask;
use crate::session::{
    handle::{Command, OpenReply},
    work::Opener,
};

/// How long an idle session keeps its conversation open in the agent.
const UNBIND_AFTER: Duration = Duration::from_secs(15);

/// Conversations of the node that stay open so; with more, one that is no longer used is let go at once.
const SPARES_MAX: usize = 64;

/// How long whoever still reads a session that could rest is left alone.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A conversation that nobody uses and that is still open.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) until: Instant,
    _place: OwnedSemaphorePermit,
}

/// The places for all sessions of a node.
pub(crate) fn spares() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(SPARES_MAX))
}

impl SessionTask {
    /// Opens the conversation in the agent before there is a turn.
    pub(super) fn open(&self, reply: OpenReply) {
        let (done, opener) = (self.done.clone(), self.opener());
        self.around.tasks.spawn(|stop| async move {
            let opened = tokio::select! { biased;
                () = stop.cancelled() => return,
                opened = opener.open() => opened,
            };
            let _ = reply.send(opened); // The asker may have left.
            if done.is_closed() {
                opener.let_go().await;
            }
        });
    }

    pub(super) fn opener(&self) -> Opener {
        Opener {
            slot: self.slot.clone(),
            record: self.record.clone(),
            sink: self.sink.clone(),
            around: self.around.clone(),
        }
    }

    /// Agents keep only so many conversations at once, so one that nobody uses does not stay open.
    pub(super) fn plan_unbind(&mut self) {
        let unused = self.slot.is_bound() && self.machine.lease() == Lease::Idle;
        if !unused {
            self.spare = None;
        } else if self.spare.is_none() {
            match self.around.spares.clone().try_acquire_owned() {
                Ok(place) => {
                    let until = Instant::now() + UNBIND_AFTER;
                    self.spare = Some(Spare {
                        until,
                        _place: place,
                    });
                }
                Err(_) => self.unbind(),
            }
        }
    }

    /// Gives the task up if the session may rest, nobody uses it, and the store has all of it.
    pub(super) fn rest(&mut self, inbox: &mpsc::Receiver<Command>) -> bool {
        self.look_at = None;
        let may_rest = self.record.rests
            && !self.over
            && self.machine.lease() == Lease::Idle
            && self.machine.turn().is_none()
            && !self.slot.is_bound()
            && self.flush_at.is_none();
        if !may_rest {
            return false;
        }
        let live = self.live.upgrade();
        let is_alone =
            live.is_some_and(|live| live.rest(&self.record.id, &self.log, || !inbox.is_empty()));
        if !is_alone {
            self.look_at = Some(Instant::now() + LOOK_AGAIN);
        }
        is_alone
    }

    pub(super) fn unbind(&mut self) {
        self.spare = None;
        if let Some(binding) = self.slot.take() {
            let slot = self.slot.clone();
            let shut = slot.shut();
            self.around.tasks.spawn(|_| async move {
                binding.driver.close(&binding.conversation).await;
                drop((binding, shut));
                slot.tell();
            });
        }
    }
}
