//! An executor of the released dialect: messages by POST, events by SSE.

use std::{collections::VecDeque, time::Duration};

use reqwest::{Client, Response, Url};
use serde::Serialize;
use serde_json::Value;
use wire::{
    awcp::released::{self, Event, ResultAnswer},
    sse::Decoder,
};

use cards::parse;

use super::{ANSWER_MAX, PeerError, body, body_up_to, check, unreachable};

/// The longest answer with a result: the largest workspace that is lent so, as text.
const RESULT_MAX: usize = 512 << 20;

/// One of them. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Executor {
    http: Client,
    /// Where it takes messages.
    url: String,
}

/// What it tells of a task, until it ends or the connection does.
#[derive(Debug)]
pub(crate) struct Events {
    response: Response,
    decoder: Decoder,
    ready: VecDeque<Event>,
}

impl Executor {
    /// The executor at this address, if it answers as one of them does.
    pub(super) async fn find(http: &Client, url: &Url) -> Option<Self> {
        let base = url.as_str().trim_end_matches('/').to_owned();
        for url in [base.clone(), format!("{base}/awcp")] {
            let place = released::status_url(&url);
            let asked = http.get(&place).timeout(ANSWER_MAX).send().await;
            let answer = match asked {
                Ok(answer) if answer.status().is_success() => body(answer).await.ok(),
                Ok(_) | Err(_) => None,
            };
            let answer: Option<Value> =
                answer.and_then(|answer| serde_json::from_slice(&answer).ok());
            if answer.is_some_and(|answer| answer["pendingInvitations"].is_u64()) {
                let http = http.clone();
                return Some(Self { http, url });
            }
        }
        None
    }

    pub(crate) async fn post(
        &self,
        message: &impl Serialize,
        limit: Duration,
    ) -> Result<Value, PeerError> {
        let url = parse(&self.url)?;
        let request = self.http.post(url.clone()).timeout(limit).json(message);
        let response = request.send().await;
        let response = response.map_err(|error| unreachable(&url, &error))?;
        let response = check(response, &url).await?;
        let refused = |why: String| PeerError::Refused {
            url: url.to_string(),
            why,
        };
        let bytes = body(response).await.map_err(refused)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| refused(format!("its answer is no JSON: {error}")))
    }

    pub(crate) async fn events(&self, id: &str) -> Result<Events, PeerError> {
        let url = parse(&released::events_url(&self.url, id))?;
        let request = self.http.get(url.clone());
        let response = request.header("Accept", "text/event-stream").send().await;
        let response = response.map_err(|error| unreachable(&url, &error))?;
        Ok(Events {
            response: check(response, &url).await?,
            decoder: Decoder::default(),
            ready: VecDeque::new(),
        })
    }

    pub(crate) async fn cancel(&self, id: &str) -> Result<(), PeerError> {
        self.tell(&released::cancel_url(&self.url, id)).await
    }

    pub(crate) async fn acknowledge(&self, id: &str) -> Result<(), PeerError> {
        self.tell(&released::ack_url(&self.url, id)).await
    }

    async fn tell(&self, url: &str) -> Result<(), PeerError> {
        let url = parse(url)?;
        let request = self.http.post(url.clone()).timeout(ANSWER_MAX);
        let response = request.send().await;
        let response = response.map_err(|error| unreachable(&url, &error))?;
        check(response, &url).await.map(drop)
    }

    pub(crate) async fn result(&self, id: &str) -> Result<ResultAnswer, PeerError> {
        let url = parse(&released::result_url(&self.url, id))?;
        let response = self.http.get(url.clone()).timeout(ANSWER_MAX).send().await;
        let response = response.map_err(|error| unreachable(&url, &error))?;
        let response = check(response, &url).await?;
        let refused = |why: String| PeerError::Refused {
            url: url.to_string(),
            why,
        };
        let bytes = body_up_to(response, RESULT_MAX).await.map_err(refused)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| refused(format!("its answer is no JSON: {error}")))
    }
}

impl Events {
    /// The next event; nothing once the stream has ended, or says what nobody understands.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let piece = self.response.chunk().await.ok().flatten();
            let whole = match &piece {
                Some(bytes) => self.decoder.push(bytes).ok()?,
                None => self.decoder.finish().into_iter().collect(),
            };
            let events = whole
                .iter()
                .filter_map(|event| serde_json::from_str(&event.data).ok());
            self.ready.extend(events);
            if piece.is_none() && self.ready.is_empty() {
                return None;
            }
        }
    }
}
