//! A run's events as a stream of the server: each with its number, its word, and the data of both dialects.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{Event as SseEvent, KeepAlive, Sse},
};
use futures_util::stream;
use tracing::warn;
use wire::runs::Event;

use crate::log::RunLog;

/// How often an idle stream says that it is there; proxies cut what is silent for a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

struct Place {
    log: Arc<RunLog>,
    seen: u64,
    ready: VecDeque<(u64, Arc<Event>)>,
    is_over: bool,
}

/// Streams what comes after number `seen`, until the run awaits or is over. Somebody who asks after everything there is
/// gets the last event again: what they have seen may have gone with an earlier daemon, and how the run stands is told in
/// any case.
pub(crate) fn respond(log: Arc<RunLog>, seen: u64) -> Response {
    let place = Place {
        seen: log.told_before_the_last(seen),
        log,
        ready: VecDeque::new(),
        is_over: false,
    };
    let events = stream::unfold(place, |mut place| async move {
        let event = place.next().await?;
        Some((Ok::<_, Infallible>(event), place))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("");
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    headers.insert(
        "x-accel-buffering",
        axum::http::HeaderValue::from_static("no"),
    );
    response
}

impl Place {
    async fn next(&mut self) -> Option<SseEvent> {
        while self.ready.is_empty() {
            if self.is_over || !self.log.newer_than(self.seen).await {
                return None;
            }
            match self.log.after(self.seen).await {
                // The store has lost them; a stream that waits for ever helps nobody.
                Ok(events) if events.is_empty() => return None,
                Ok(events) => self.ready.extend(events),
                Err(error) => {
                    warn!(error = %engine::chain(&error), "events could not be read");
                    return None;
                }
            }
        }
        let (number, event) = self.ready.pop_front()?;
        self.seen = number;
        // An await in the past of a log is followed by what came of it.
        self.is_over = event.ends_stream() && self.log.count() == number;
        let data = serde_json::to_string(&*event).ok()?;
        Some(
            SseEvent::default()
                .id(number.to_string())
                .event(&event.kind)
                .data(data),
        )
    }
}
