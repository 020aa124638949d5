//! Clients that carry out for the agent what this machine would do otherwise, or could not: the way to them.

use engine::{Lent, NativeAnswer, NativeRequest};
use jsonrpc::ErrorObject;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::convert;

/// Methods of the protocol that the driver carries out itself unless a client does it instead.
pub(crate) const OWN: [&str; 7] = [
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
];

/// A request on its way to a client.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) client: Lent,
    /// How far the client has to be before it sees the request.
    pub(crate) after: u64,
}

/// Whether the client takes requests of this method.
pub(crate) fn takes(client: &Lent, method: &str) -> bool {
    !client.to.is_closed() && (!OWN.contains(&method) || client.instead.contains(&method))
}

impl Relay {
    /// Waits for what the client answers.
    pub(crate) async fn ask(
        self,
        method: String,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, ErrorObject> {
        let (answer, answered) = oneshot::channel();
        let request = NativeRequest {
            method,
            params: params.map(convert::raw),
            after: self.after,
            answer: Some(answer),
            place: None,
        };
        let gone = || ErrorObject::internal("the client has gone");
        self.client.to.send(request).await.map_err(|_| gone())?;
        match answered.await {
            Ok(NativeAnswer::Result(text)) => {
                RawValue::from_string(text.to_string()).map_err(|_| gone())
            }
            Ok(NativeAnswer::Error(text)) => {
                Err(serde_json::from_str(&text).unwrap_or_else(|_| gone()))
            }
            Err(_) => Err(gone()),
        }
    }

    /// Tells what belongs to no conversation. A client that is so far behind that there is no room for it is told that it
    /// missed something.
    pub(crate) fn tell(self, method: &str, params: Option<&RawValue>) {
        let length = params.map_or(0, |params| params.get().len()) + method.len();
        let Some(place) = self.client.backlog.place(length) else {
            tracing::debug!(method, "a client missed a notification");
            return;
        };
        let told = NativeRequest {
            method: method.to_owned(),
            params: params.map(convert::raw),
            after: self.after,
            answer: None,
            place: Some(place),
        };
        let _ = self.client.to.try_send(told); // It has left: what waits is bounded by its bytes before its number.
    }
}
