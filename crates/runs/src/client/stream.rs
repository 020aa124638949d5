//! A run as it is followed: its events in order, each once, also over a connection that breaks.

use std::{collections::VecDeque, time::Duration};

use reqwest::{Method, Response, header};
use serde::Deserialize;
use wire::{
    runs::Event,
    sse::{self, Decoder},
};

use super::{ANSWER_WITHIN, Client, ClientError};

/// How often a broken connection is made again before the run is given up.
const RECONNECTS_MAX: u32 = 6;

/// How long to wait before the first reconnection; each further wait is twice as long.
const RECONNECT_AFTER: Duration = Duration::from_millis(200);

/// How often a server that cannot stream again is asked.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// A run that is followed until it awaits or is over.
#[derive(Debug)]
pub struct RunStream {
    client: Client,
    source: Source,
    run: Option<String>,
    /// How many events of the run were told.
    seen: u64,
    failures: u32,
    is_over: bool,
}

#[derive(Debug)]
enum Source {
    Live {
        response: Response,
        events: Box<Events>,
        /// Whether it told anything.
        has_told: bool,
    },
    /// Events of a server that tells them all at once.
    Polled {
        events: VecDeque<Event>,
    },
    Broken,
}

impl RunStream {
    pub(super) fn new(client: Client, response: Response, run: Option<String>, seen: u64) -> Self {
        Self {
            client,
            source: Source::Live {
                response,
                events: Box::default(),
                has_told: false,
            },
            run,
            seen,
            failures: 0,
            is_over: false,
        }
    }

    /// Of a run that somebody has begun before.
    pub(super) fn of(client: Client, run: &str) -> Self {
        Self {
            client,
            source: Source::Broken,
            run: Some(run.to_owned()),
            seen: 0,
            failures: 0,
            is_over: false,
        }
    }

    /// The run's id, once the server has told it.
    pub fn run_id(&self) -> Option<&str> {
        self.run.as_deref()
    }

    /// How many events of the run were told.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The next event; nothing once the run awaits or is over. Cancelling this loses no event.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        while !self.is_over {
            let event = match &mut self.source {
                Source::Live {
                    response,
                    events,
                    has_told,
                } => match live(response, events).await {
                    Ok(Some((number, event))) => {
                        *has_told = true;
                        self.seen = number.unwrap_or(self.seen + 1);
                        Some(event)
                    }
                    Ok(None) if !*has_told && self.failures > 0 => self.ended_silent().await?,
                    Ok(None) => None,
                    Err(Broken::Protocol(what)) => return Err(ClientError::Protocol { what }),
                    Err(Broken::Connection) => None,
                },
                Source::Polled { events } => {
                    let event = events.pop_front();
                    self.seen += u64::from(event.is_some());
                    event
                }
                Source::Broken => None,
            };
            let Some(event) = event else {
                self.reconnect().await?;
                continue;
            };
            self.failures = 0;
            if self.run.is_none() {
                self.run = event.run.as_ref().map(|run| run.run_id.clone());
            }
            self.is_over = event.ends_stream();
            return Ok(Some(event));
        }
        Ok(None)
    }

    /// A stream that was asked for again has told nothing: the run may be over, and its server may have forgotten what
    /// came of it in between.
    async fn ended_silent(&mut self) -> Result<Option<Event>, ClientError> {
        let Some(run) = self.run.clone() else {
            return Ok(None);
        };
        let event = Event::of_run(self.client.read(&run).await?);
        Ok(event.ends_stream().then_some(event))
    }

    /// Asks for what comes after the last event that was told.
    async fn reconnect(&mut self) -> Result<(), ClientError> {
        let is_polled = matches!(self.source, Source::Polled { .. });
        self.source = Source::Broken;
        let Some(run) = self.run.clone() else {
            // Asking again could begin the work twice.
            return Err(ClientError::Unreachable {
                url: self.client.url().to_owned(),
                why: "the connection broke before the run had an id".to_owned(),
            });
        };
        if is_polled {
            tokio::time::sleep(POLL_EVERY).await;
        } else {
            tokio::time::sleep(RECONNECT_AFTER * 2_u32.pow(self.failures)).await;
        }
        let request = self
            .client
            .request(Method::GET, &format!("/runs/{run}/events"))
            .header(header::ACCEPT, "text/event-stream, application/json")
            .header("last-event-id", self.seen.to_string());
        match self.client.send(request).await {
            Ok(response) => self.take(response).await,
            Err(error) if error.is_away() => {
                self.failures += 1;
                if self.failures >= RECONNECTS_MAX {
                    return Err(error);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn take(&mut self, response: Response) -> Result<(), ClientError> {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_stream = kind
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        if is_stream {
            // A stream that ends at once, again and again, is a broken one too.
            self.failures += 1;
            if self.failures > RECONNECTS_MAX {
                return Err(ClientError::Protocol {
                    what: "its stream ends before the run does".to_owned(),
                });
            }
            self.source = Source::Live {
                response,
                events: Box::default(),
                has_told: false,
            };
            return Ok(());
        }
        #[derive(Deserialize)]
        struct All {
            events: Vec<Event>,
        }
        let read = tokio::time::timeout(ANSWER_WITHIN, self.client.node.read::<All>(response));
        let all = read.await.map_err(|_| ClientError::Protocol {
            what: "its events do not end".to_owned(),
        })??;
        let skip = usize::try_from(self.seen).unwrap_or(usize::MAX);
        self.source = Source::Polled {
            events: all.events.into_iter().skip(skip).collect(),
        };
        Ok(())
    }
}

/// What a connection has told, and what of it was not handed out yet.
#[derive(Debug, Default)]
struct Events {
    decoder: Decoder,
    ready: VecDeque<sse::Event>,
}

enum Broken {
    Connection,
    Protocol(String),
}

/// The next event of a connection; nothing at its end.
async fn live(
    response: &mut Response,
    events: &mut Events,
) -> Result<Option<(Option<u64>, Event)>, Broken> {
    loop {
        if let Some(event) = events.ready.pop_front() {
            let number = event.id.and_then(|id| id.parse().ok());
            let parsed = serde_json::from_str(&event.data);
            let event = parsed.map_err(|error| Broken::Protocol(error.to_string()))?;
            return Ok(Some((number, event)));
        }
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let whole = events.decoder.push(&chunk);
                let whole = whole.map_err(|_| {
                    Broken::Protocol(format!("an event is longer than {} bytes", sse::EVENT_MAX))
                })?;
                events.ready.extend(whole);
            }
            Ok(None) => return Ok(None),
            Err(_) => return Err(Broken::Connection),
        }
    }
}
