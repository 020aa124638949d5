//! The three kinds of message, with their payloads left as raw JSON.

use serde_json::value::RawValue;

use crate::{ErrorObject, Id};

/// One line, understood as far as JSON-RPC goes. Payloads stay text until somebody wants them.
///
/// ```
/// use jsonrpc::{Id, Message};
///
/// let line = br#"{"method":"ping","id":1,"jsonrpc":"2.0"}"#;
/// let Ok(Message::Request { id, method, params }) = Message::parse(line) else { panic!() };
/// assert_eq!((id, method.as_str(), params.is_none()), (Id::from(1), "ping", true));
/// ```
#[derive(Clone, Debug)]
pub enum Message {
    Request {
        id: Id,
        method: String,
        params: Option<Box<RawValue>>,
    },
    Notification {
        method: String,
        params: Option<Box<RawValue>>,
    },
    Response {
        /// Absent only in an error that answers a line whose id could not be read.
        id: Option<Id>,
        outcome: Result<Box<RawValue>, ErrorObject>,
    },
}

/// Payloads are compared as text, for a raw value has no other equality.
impl PartialEq for Message {
    fn eq(&self, other: &Message) -> bool {
        match (self, other) {
            (
                Message::Request { id, method, params },
                Message::Request {
                    id: other_id,
                    method: other_method,
                    params: other_params,
                },
            ) => id == other_id && method == other_method && text(params) == text(other_params),
            (
                Message::Notification { method, params },
                Message::Notification {
                    method: other_method,
                    params: other_params,
                },
            ) => method == other_method && text(params) == text(other_params),
            (
                Message::Response { id, outcome },
                Message::Response {
                    id: other_id,
                    outcome: other_outcome,
                },
            ) => {
                let outcome = outcome.as_ref().map(|result| result.get());
                id == other_id && outcome == other_outcome.as_ref().map(|result| result.get())
            }
            (
                Message::Request { .. } | Message::Notification { .. } | Message::Response { .. },
                _,
            ) => false,
        }
    }
}

fn text(params: &Option<Box<RawValue>>) -> Option<&str> {
    params.as_deref().map(RawValue::get)
}
