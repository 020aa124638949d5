//! Cancels that look for their call: an agent that was cut off may come back at another server than the one its call
//! began at. That server knows the call; all of them are asked, and it alone acts.

use std::sync::Arc;

use domain::{
    Name,
    office::{CallKey, Input, MemberName, RequestId},
};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use socketioxide_redis::drivers::{ChanItem, Driver, MessageStream};

use super::{Shared, SharingError, Unreachable};
use crate::server::relay::Relay;

/// Cancels that wait to be looked at: those of many agents at once.
const CANCELS_MAX: usize = 1024;

/// A call by all that tells it from others, as servers write it to each other.
#[derive(Debug, Serialize, Deserialize)]
struct Sought {
    office: String,
    caller: String,
    agent: String,
    request: String,
}

impl From<CallKey> for Sought {
    fn from(call: CallKey) -> Self {
        Self {
            office: call.office.to_string(),
            caller: call.caller,
            agent: call.agent.to_string(),
            request: call.request.as_str().to_owned(),
        }
    }
}

impl Sought {
    /// Nothing if another version of this program has written what this one cannot read.
    fn call(self) -> Option<CallKey> {
        Some(CallKey {
            office: Name::parse(&self.office).ok()?,
            caller: self.caller,
            agent: MemberName::parse(&self.agent).ok()?,
            request: RequestId::parse(&self.request).ok()?,
        })
    }
}

impl Shared {
    fn cancels_channel(&self) -> String {
        format!("{}:cancels", self.prefix)
    }

    pub(super) async fn listen_for_cancels(
        &self,
        place: &str,
    ) -> Result<MessageStream<ChanItem>, SharingError> {
        let listening = self.wire.subscribe(self.cancels_channel(), CANCELS_MAX);
        listening.await.map_err(|error| SharingError::Listen {
            place: place.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Asks the other servers to cancel a call.
    pub(super) async fn seek_call(&self, call: CallKey) -> Result<(), Unreachable> {
        self.check_reachable()?;
        let sought = serde_json::to_vec(&Sought::from(call)).expect("four texts are written");
        let published = self.wire.publish(self.cancels_channel(), sought).await;
        self.noted(published, "cancel a call at another server")
    }
}

/// Cancels what others ask for until the server ends.
pub(super) fn start(relay: &Arc<Relay>, mut sought: MessageStream<ChanItem>) {
    let listening = Arc::clone(relay);
    relay.tasks.spawn(|stop| async move {
        loop {
            let message = tokio::select! { biased;
                () = stop.cancelled() => break,
                message = sought.next() => message,
            };
            let Some((_, message)) = message else {
                break;
            };
            let read = serde_json::from_slice::<Sought>(&message).ok();
            if let Some(call) = read.and_then(Sought::call) {
                // A call that is not known here is not refused.
                let _ = listening.apply(Input::CancelCall { call }, None);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_it_was_written() {
        let call = CallKey {
            office: Name::parse("studio").unwrap(),
            caller: "token 3".to_owned(),
            agent: MemberName::parse("Ana's: agent").unwrap(),
            request: RequestId::parse("r-1").unwrap(),
        };
        let written = serde_json::to_vec(&Sought::from(call.clone())).unwrap();
        let read: Sought = serde_json::from_slice(&written).unwrap();
        assert_eq!(read.call(), Some(call));
    }
}
