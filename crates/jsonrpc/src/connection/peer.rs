//! The sending half: calls, notifications, raw lines.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    open::Shared,
    outbox::{Claim, Refused},
};
use crate::{CallError, Id, SendError, encode::call_line};

/// The notification that withdraws a request: `{"requestId": id}`.
pub const CANCEL_METHOD: &str = "$/cancel_request";

/// The other side, as something to send to. Cheap to clone, usable from any task.
///
/// Params are any value that serialises to a JSON object or array; `&()` means none. The futures
/// own what they send, so they can be spawned, and they do nothing until polled. Messages sent one
/// after the other arrive in that order.
///
/// `call` waits for an answer that only arrives while somebody awaits [`Incoming::recv`]; awaiting
/// it inside that loop waits for ever. The same task may do both with `select!`.
///
/// [`Incoming::recv`]: crate::Incoming::recv
#[derive(Clone, Debug)]
pub struct Peer {
    shared: Arc<Shared>,
}

impl Peer {
    pub(super) fn new(shared: Arc<Shared>) -> Peer {
        Peer { shared }
    }

    /// Sends a request and waits for its answer. Dropping the future forgets the call: a late
    /// answer then comes out of `recv` as a response nobody waits for.
    pub fn call<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> impl Future<Output = Result<Box<RawValue>, CallError>> + Send + 'static + use<P> {
        self.start_call(method, params, OnDrop::Forget)
    }

    /// Like [`call`](Peer::call), and dropping the future tells the peer with
    /// [`CANCEL_METHOD`], if the request had been sent and there is room.
    pub fn call_with_cancel<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> impl Future<Output = Result<Box<RawValue>, CallError>> + Send + 'static + use<P> {
        self.start_call(method, params, OnDrop::Cancel)
    }

    /// Sends a notification, waiting for room in the outbox.
    pub fn notify<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static + use<P> {
        let line = self.line(None, method, params);
        let shared = Arc::clone(&self.shared);
        async move { shared.outbox.send(line?, Claim::Fresh).await }
    }

    /// Sends a notification now, or says that the outbox is full.
    pub fn try_notify<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<(), SendError> {
        let line = self.line(None, method, params)?;
        self.shared
            .outbox
            .try_send(line, Claim::Fresh)
            .map_err(|refused| match refused {
                Refused::Full(_) => SendError::Full,
                Refused::Closed => SendError::Closed,
            })
    }

    /// Sends a line as it is, waiting for room; its newline may be left out. What it says is up to
    /// the caller: a request in it needs an id from [`fresh_id`](Peer::fresh_id), and its answer
    /// comes out of `recv` as a response. A line may answer a request, so it is still sent after
    /// the input has ended.
    pub async fn send_line(&self, line: impl AsRef<[u8]>) -> Result<(), SendError> {
        let line = {
            let bytes = line.as_ref();
            let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            if bytes.trim_ascii().is_empty() || memchr::memchr(b'\n', bytes).is_some() {
                return Err(SendError::NotALine);
            }
            let mut line = Vec::with_capacity(bytes.len() + 1);
            line.extend_from_slice(bytes);
            line.push(b'\n');
            line
        };
        self.shared.check_length(&line)?;
        self.shared.outbox.send(line, Claim::Answer).await
    }

    /// An id that no call on this connection has or will have, for a request sent as a raw line.
    pub fn fresh_id(&self) -> Id {
        Id::from(self.shared.calls.next_id())
    }

    /// Waits until everything sent so far has been written. Do this before dropping `Incoming`
    /// where the last messages matter, with a timeout: the peer may not be reading.
    pub async fn flush(&self) -> Result<(), SendError> {
        self.shared.outbox.flush().await
    }

    /// Waits until the connection has ended.
    pub async fn closed(&self) {
        let mut closed = self.shared.closed.subscribe();
        // The sender lives in what this holds, so the wait cannot fail.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    pub fn is_closed(&self) -> bool {
        *self.shared.closed.borrow()
    }

    fn start_call<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
        on_drop: OnDrop,
    ) -> impl Future<Output = Result<Box<RawValue>, CallError>> + Send + 'static + use<P> {
        let id = self.shared.calls.next_id();
        let line = self.line(Some(id), method, params);
        let shared = Arc::clone(&self.shared);
        async move {
            let line = line?;
            let answer = shared.calls.enter(id)?;
            let mut pending = PendingCall {
                shared,
                id,
                on_drop: OnDrop::Forget,
            };
            pending.shared.outbox.send(line, Claim::Fresh).await?;
            pending.on_drop = on_drop; // Before it was sent there is nothing to cancel.
            answer.await.unwrap_or(Err(CallError::Closed))
        }
    }

    fn line<P: Serialize + ?Sized>(
        &self,
        id: Option<u64>,
        method: &str,
        params: &P,
    ) -> Result<Vec<u8>, SendError> {
        let line = call_line(id.map(Id::from).as_ref(), method, params)?;
        self.shared.check_length(&line)?;
        Ok(line)
    }
}

impl Shared {
    /// The peer would discard a line over the ceiling, and with it the id to answer to.
    pub(super) fn check_length(&self, line: &[u8]) -> Result<(), SendError> {
        let length = line.len() - 1; // The newline does not count.
        let line_max = self.limits.line_max;
        if length > line_max {
            Err(SendError::TooLong { length, line_max })
        } else {
            Ok(())
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDrop {
    Forget,
    Cancel,
}

/// A call in the table; takes it out again however the call ends.
#[derive(Debug)]
struct PendingCall {
    shared: Arc<Shared>,
    id: u64,
    on_drop: OnDrop,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let was_waiting = self.shared.calls.forget(self.id);
        if was_waiting && self.on_drop == OnDrop::Cancel {
            let params = std::collections::BTreeMap::from([("requestId", self.id)]);
            if let Ok(line) = call_line(None, CANCEL_METHOD, &params) {
                // Without room the peer is not reading, and would not see it in time anyway.
                let _ = self.shared.outbox.try_send(line, Claim::Fresh);
            }
        }
    }
}
