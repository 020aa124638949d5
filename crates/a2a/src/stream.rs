//! Updates as server-sent events. A reader that is slow slows down nobody but itself.

use std::{convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use wire::a2a::{Message, StreamResponse, Version};

use crate::{error::Refusal, feed::Follower, render};

/// How often a silent stream shows that it is alive: proxies cut after half a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Until when a task is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// It is over, or waits for its client, which must send a message to go on.
    Settled,
    Over,
}

/// What a stream tells.
#[derive(Debug)]
pub(crate) enum Streaming {
    One(Message),
    Follow { follower: Follower, until: Until },
}

/// How each update is wrapped.
#[derive(Debug, Clone)]
pub(crate) enum Wrap {
    /// Answers to the JSON-RPC request with this id.
    JsonRpc(Value),
    Plain,
}

/// A refusal as the only event of a stream.
pub(crate) fn refuse(id: &Value, refusal: &Refusal) -> Response {
    let value = json!({ "jsonrpc": "2.0", "id": id, "error": refusal.json_rpc() });
    let event = Event::default().data(value.to_string());
    Sse::new(stream::once(std::future::ready(Ok::<_, Infallible>(event)))).into_response()
}

impl Streaming {
    pub(crate) fn respond(self, version: Version, wrap: Wrap) -> Response {
        let events = self.updates().map(move |update| {
            let value = render::update(version, &update);
            let value = match &wrap {
                Wrap::JsonRpc(id) => json!({ "jsonrpc": "2.0", "id": id, "result": value }),
                Wrap::Plain => value,
            };
            Ok::<_, Infallible>(Event::default().data(value.to_string()))
        });
        let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
        Sse::new(events).keep_alive(keep_alive).into_response()
    }

    fn updates(self) -> impl Stream<Item = std::sync::Arc<StreamResponse>> + Send {
        match self {
            Self::One(message) => {
                let update = std::sync::Arc::new(StreamResponse::Message(message));
                stream::once(std::future::ready(update)).left_stream()
            }
            Self::Follow { follower, until } => {
                stream::unfold(Some(follower), move |follower| async move {
                    let mut follower = follower?;
                    let update = follower.next().await?;
                    let state = update.state();
                    let over = state.is_some_and(|state| match until {
                        Until::Over => state.is_terminal(),
                        Until::Settled => state.is_terminal() || state.is_interrupted(),
                    });
                    Some((update, (!over).then_some(follower)))
                })
                .right_stream()
            }
        }
    }
}
