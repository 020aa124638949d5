//! The thread that serves one channel: takes all that has arrived, performs it, and sends the replies in one go.
//!
//! The session's task must never wait for a thread that waits for the session: it holds arriving bytes back only
//! while the thread is working on earlier ones, and goes on reading while the thread is sending, since what makes
//! room for the replies may be the next thing to arrive.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::{runtime::Handle, sync::Notify};
use tokio_util::sync::CancellationToken;

use crate::{
    conversation::{Conversation, Over},
    export::Lent,
    protocol::{Outbox, PACKET_BYTES_MAX},
};

/// Bytes that wait before the network is held back: some packets more than a client sends without an answer.
const WAITING_BYTES_SOFT: usize = 4 * 1024 * 1024;

/// Bytes that wait while replies are not taken. A client that sends this much without reading is ended.
const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Replies leave when there are this many bytes of them, or nothing more to do.
const REPLY_BYTES: usize = 256 * 1024;

/// What has arrived on a channel, between the session's task and the thread.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<Waiting>,
    arrived: Condvar,
    /// Rung when the thread has taken what waited, begins to send, or ends.
    moved: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    sending: bool,
    closed: bool,
}

/// Where replies go.
pub(crate) trait Outlet: Send + 'static {
    /// False when nobody takes them any more.
    fn send(&self, bytes: Vec<u8>) -> impl Future<Output = bool> + Send;
    /// Says that nothing more follows.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// The client sends without reading.
#[derive(Debug)]
pub(crate) struct Flooded;

impl Inbox {
    /// Adds what has arrived, as soon as there is room for it. Closed inboxes take and forget everything.
    pub(crate) async fn put(&self, bytes: &[u8]) -> Result<(), Flooded> {
        loop {
            let moved = self.moved.notified();
            {
                let mut state = self.state();
                if state.closed {
                    return Ok(());
                }
                if state.bytes.len() <= WAITING_BYTES_SOFT || state.sending {
                    if state.bytes.len() + bytes.len() > WAITING_BYTES_MAX {
                        return Err(Flooded);
                    }
                    state.bytes.extend_from_slice(bytes);
                    self.arrived.notify_one();
                    return Ok(());
                }
            }
            moved.await;
        }
    }

    /// What waits is still performed, and nothing more is taken.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.arrived.notify_one();
        self.moved.notify_one();
    }

    /// Blocks until something has arrived and moves it to `into`. False when nothing will.
    fn take(&self, into: &mut Vec<u8>) -> bool {
        let mut state = self.state();
        while state.bytes.is_empty() {
            if state.closed {
                return false;
            }
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if into.is_empty() {
            std::mem::swap(into, &mut state.bytes);
        } else {
            into.append(&mut state.bytes);
        }
        drop(state);
        self.moved.notify_one();
        true
    }

    fn set_sending(&self, sending: bool) {
        self.state().sending = sending;
        self.moved.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread. It ends with the export, when the channel is gone, or when the inbox is closed and empty.
pub(crate) fn serve(
    lent: &Arc<Lent>,
    inbox: Arc<Inbox>,
    gone: CancellationToken,
    outlet: impl Outlet,
) {
    let runtime = Handle::current();
    let conversation = Conversation::new(Arc::clone(lent));
    // Waiting for an arrival does not see a token, so the token closes the inbox.
    let closer = {
        let (inbox, gone) = (Arc::clone(&inbox), gone.clone());
        lent.tasks.spawn_owned(|_| async move {
            gone.cancelled().await;
            inbox.close();
        })
    };
    lent.tasks.spawn_blocking(move |_| {
        let worker = Worker {
            conversation,
            inbox: &inbox,
            outlet: &outlet,
            runtime: &runtime,
            gone: &gone,
        };
        worker.run();
        inbox.close();
        drop(closer);
        let closing = async {
            tokio::select! { biased;
                () = gone.cancelled() => {}
                () = outlet.close() => {}
            }
        };
        runtime.block_on(closing);
    });
}

struct Worker<'a, O> {
    conversation: Conversation,
    inbox: &'a Inbox,
    outlet: &'a O,
    runtime: &'a Handle,
    gone: &'a CancellationToken,
}

impl<O: Outlet> Worker<'_, O> {
    fn run(mut self) {
        let mut input = Vec::new();
        let mut outbox = Outbox::default();
        while self.inbox.take(&mut input) {
            let performed = self.perform(&mut input, &mut outbox);
            let sent = self.send(&mut outbox);
            if let Err(over) = performed {
                tracing::debug!(?over, "an SFTP conversation has ended");
                return;
            }
            if !sent {
                return;
            }
        }
    }

    /// Performs every whole packet and leaves the rest.
    fn perform(&mut self, input: &mut Vec<u8>, outbox: &mut Outbox) -> Result<(), Over> {
        let mut done = 0;
        while let Some((head, rest)) = input[done..].split_first_chunk() {
            let length = u32::from_be_bytes(*head) as usize;
            if length == 0 || length > PACKET_BYTES_MAX {
                return Err(Over::Nonsense);
            }
            let Some(packet) = rest.get(..length) else {
                break;
            };
            if self.gone.is_cancelled() {
                return Err(Over::Lease);
            }
            self.conversation.answer(packet, outbox)?;
            done += head.len() + length;
            if outbox.len() >= REPLY_BYTES && !self.send(outbox) {
                return Err(Over::Lease);
            }
        }
        input.drain(..done);
        Ok(())
    }

    fn send(&self, outbox: &mut Outbox) -> bool {
        if outbox.len() == 0 {
            return true;
        }
        let bytes = outbox.take();
        self.inbox.set_sending(true);
        let sent = self.runtime.block_on(async {
            tokio::select! { biased;
                () = self.gone.cancelled() => false,
                sent = self.outlet.send(bytes) => sent,
            }
        });
        self.inbox.set_sending(false);
        sent
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
