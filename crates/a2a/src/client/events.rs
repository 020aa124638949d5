//! Updates of a task as they come over a stream of server-sent events.

use std::collections::VecDeque;

use reqwest::Response;
use serde_json::Value;
use wire::{
    a2a::{Binding, StreamResponse, Version, v03},
    sse::{Decoder, EVENT_MAX, Event},
};

use super::{Client, ClientError, connection::refusal};

/// A stream of updates.
#[derive(Debug)]
pub struct Updates {
    response: Response,
    client: Client,
    decoder: Decoder,
    /// What has come whole and was not handed out yet.
    ready: VecDeque<Event>,
}

impl Updates {
    pub(super) fn new(response: Response, client: Client) -> Self {
        Self {
            response,
            client,
            decoder: Decoder::default(),
            ready: VecDeque::new(),
        }
    }

    /// The next update, or nothing when the agent has closed the stream.
    pub async fn next(&mut self) -> Result<Option<StreamResponse>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return self.read(&event.data).map(Some);
            }
            let chunk = self.response.chunk().await;
            let chunk = chunk.map_err(|error| self.client.unreachable(&error))?;
            let Some(chunk) = chunk else {
                let last = self.decoder.finish();
                return last.map(|event| self.read(&event.data)).transpose();
            };
            match self.decoder.push(&chunk) {
                Ok(events) => self.ready.extend(events),
                Err(_) => {
                    let what = format!("an event is longer than {EVENT_MAX} bytes");
                    return Err(self.client.strange(what));
                }
            }
        }
    }

    fn read(&self, data: &str) -> Result<StreamResponse, ClientError> {
        self.client.check_shape(data.as_bytes())?;
        let unreadable = |error: &dyn std::error::Error| self.client.unreadable(error);
        let value: Value = serde_json::from_str(data).map_err(|error| unreadable(&error))?;
        if let Some(refused) = refusal(&value) {
            return Err(refused);
        }
        let update = match self.client.binding() {
            Binding::HttpJson => value,
            Binding::JsonRpc => value.get("result").cloned().unwrap_or_default(),
        };
        match self.client.version() {
            Version::V1 => serde_json::from_value(update).map_err(|error| unreadable(&error)),
            Version::V03 => v03::read_stream_response(&update).map_err(|error| unreadable(&error)),
        }
    }
}
