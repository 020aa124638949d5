//! The one stream that the page follows: new lines of the journal, and the events of the session it shows.
//!
//! Each event's id says how far both have come, so that a page that was away goes on without loss. Where it missed more
//! lines of the journal than are sent at once, it is told so and reads its lists anew. A daemon that was killed may have lost
//! the last events that a page has seen and count anew from there, so a page of a former daemon begins its session anew.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Extension,
    extract::{Query, State},
    http::HeaderMap,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use domain::turn::Event as TurnEvent;
use engine::{EventReader, JournalQuery};
use futures_util::{Stream, stream};
use serde::Deserialize;

use crate::{
    answer::Refused,
    journal::line,
    router::Config,
    watchers::{Page, Watchers},
};

/// Lines taken from the journal at a time.
const LINES: u32 = 500;

/// Events of a session that are sent in one go, where so many are there: a long conversation is read in few steps.
const AT_ONCE: usize = 256;

/// How often something is sent at least, so that both ends notice a line that is dead. It is an event that the page sees;
/// the page gives up on a line that says nothing for twice as long and a little.
const BREATH: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize)]
pub(crate) struct Follow {
    /// The session that is shown, if any.
    session: Option<String>,
    /// Its first event that is wanted.
    #[serde(default)]
    from: u64,
    /// The daemon that the page knows, if it knows one.
    daemon: Option<u64>,
}

/// Tells this start of the daemon from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Daemon(u64);

impl Daemon {
    /// Of this moment.
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.map_or(0, |since| since.as_millis());
        Self(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

/// Where a page has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    daemon: u64,
    journal: i64,
    event: u64,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (daemon, rest) = text.split_once('.')?;
        let (journal, event) = rest.split_once('.')?;
        Some(Self {
            daemon: daemon.parse().ok()?,
            journal: journal.parse().ok()?,
            event: event.parse().ok()?,
        })
    }

    fn id(self) -> String {
        format!("{}.{}.{}", self.daemon, self.journal, self.event)
    }
}

struct Follower {
    config: Arc<Config>,
    growth: tokio::sync::watch::Receiver<u64>,
    reader: Option<EventReader>,
    place: Place,
    /// The journal has not been looked at yet: the page may have been away.
    is_behind: bool,
    _page: Page,
}

pub(crate) async fn follow(
    State(config): State<Arc<Config>>,
    Extension(watchers): Extension<Watchers>,
    Extension(Daemon(daemon)): Extension<Daemon>,
    Query(wanted): Query<Follow>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let known = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
        .and_then(Place::parse);
    let mut place = match known {
        Some(place) => place,
        None => Place {
            daemon: wanted.daemon.unwrap_or(daemon),
            journal: newest(&config).await?,
            event: wanted.from.max(1) - 1,
        },
    };
    let greeting = match place.daemon == daemon {
        true => "hello",
        false => "anew",
    };
    if greeting == "anew" {
        (place.daemon, place.event) = (daemon, 0);
    }
    let page = watchers.page().await;
    let reader = match &wanted.session {
        None => None,
        Some(id) => {
            // A session that is over can be read but not attached to.
            let _ = watchers.attach(id).await;
            Some(
                config
                    .engine
                    .sessions()
                    .events(id, place.event.saturating_add(1))
                    .await?,
            )
        }
    };
    let follower = Follower {
        growth: config.engine.journal_growth(),
        config,
        reader,
        place,
        is_behind: true,
        _page: page,
    };
    let greeting = follower.event(greeting, daemon.to_string());
    let breath = Event::default().event("beat").data("{}");
    let breath = KeepAlive::new().interval(BREATH).event(breath);
    let events = Sse::new(events(follower, greeting)).keep_alive(breath);
    Ok(events.into_response())
}

async fn newest(config: &Config) -> Result<i64, Refused> {
    let query = JournalQuery {
        limit: Some(1),
        ..JournalQuery::default()
    };
    let rows = config.engine.journal(query).await?;
    Ok(rows.last().map_or(0, |row| row.seq))
}

fn events(follower: Follower, greeting: Event) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(
        (follower, vec![greeting]),
        |(mut follower, mut ready)| async move {
            loop {
                if let Some(event) = ready.pop() {
                    return Some((Ok(event), (follower, ready)));
                }
                ready = follower.next().await?;
                ready.reverse();
            }
        },
    )
}

impl Follower {
    /// The next events in order; nothing when the stream is over.
    async fn next(&mut self) -> Option<Vec<Event>> {
        let stop = self.config.tasks.stop();
        // The journal is asked only when it has grown: a look for every word of a session would cost more than the word.
        if self.is_behind || self.growth.has_changed().ok()? {
            self.is_behind = false;
            let lines = self.lines().await;
            if !lines.is_empty() {
                return Some(lines);
            }
        }
        tokio::select! { biased;
            () = stop.cancelled() => None,
            event = next_of(&mut self.reader) => Some(match event {
                Some(event) => self.told(event).await,
                None => {
                    self.reader = None; // The journal goes on.
                    vec![self.event("over", "{}".to_owned())]
                }
            }),
            changed = self.growth.changed() => changed.ok().map(|()| {
                self.is_behind = true;
                Vec::new()
            }),
        }
    }

    /// An event of the session, and those behind it that are there already.
    async fn told(&mut self, first: Arc<TurnEvent>) -> Vec<Event> {
        let mut events = Vec::new();
        let mut next = Some(first);
        while let Some(event) = next {
            self.place.event = event.seq;
            let text = serde_json::to_string(&*event).unwrap_or_default();
            events.push(self.event("session", text));
            next = match &mut self.reader {
                // What cannot be read now is asked for once more, and told there.
                Some(reader) if events.len() < AT_ONCE => reader.try_next().await.ok().flatten(),
                Some(_) | None => None,
            };
        }
        events
    }

    async fn lines(&mut self) -> Vec<Event> {
        let query = JournalQuery {
            after_seq: Some(self.place.journal),
            limit: Some(LINES),
            ..JournalQuery::default()
        };
        self.growth.mark_unchanged();
        let journal = |query| self.config.engine.journal(query);
        let mut rows = journal(query).await.unwrap_or_default();
        let mut events = Vec::with_capacity(rows.len() + 1);
        if u32::try_from(rows.len()).is_ok_and(|count| count >= LINES) {
            events.push(Event::default().event("missed").data("{}"));
            let newest = JournalQuery {
                limit: Some(LINES),
                ..JournalQuery::default()
            };
            rows = journal(newest).await.unwrap_or_default();
        }
        for row in rows {
            self.place.journal = row.seq;
            events.push(self.event("journal", line(&row).to_string()));
        }
        events
    }

    fn event(&self, name: &str, text: String) -> Event {
        Event::default().event(name).id(self.place.id()).data(text)
    }
}

/// The next event of the session; never without one.
async fn next_of(reader: &mut Option<EventReader>) -> Option<Arc<TurnEvent>> {
    match reader {
        None => std::future::pending().await,
        Some(reader) => reader.next().await.ok().flatten(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_from_its_id() {
        let place = Place {
            daemon: 3,
            journal: 17,
            event: 4,
        };
        assert_eq!(Place::parse(&place.id()), Some(place));
        assert_eq!(Place::parse("17.4"), None);
    }
}
