//! The sessions that one connection is attached to, and the streams of their events.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{
    Timestamp,
    session::{ClientId, Lease},
    turn::{Event, EventKind},
};
use engine::{Answers, AttachAs, Engine, EngineError, Loan, SessionView};
use jsonrpc::{Peer, SendError};
use platform::Tasks;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// The notification that carries an event.
const EVENT: &str = "session.event";

/// The notification that there will be no more of them.
const OVER: &str = "session.over";

/// One connection, as sessions see it.
#[derive(Debug)]
pub(crate) struct Attachments {
    engine: Engine,
    peer: Peer,
    tasks: Tasks,
    /// Tells this connection from every other one.
    number: u64,
    held: Mutex<Held>,
}

/// What a connection holds until it ends.
#[derive(Debug, Default)]
struct Held {
    attached: BTreeMap<String, Attached>,
    /// Agents that were started for this connection.
    loans: Vec<Loan>,
    /// It has ended: what comes later is let go at once.
    has_left: bool,
}

#[derive(Debug)]
struct Attached {
    client: ClientId,
    stream: Option<CancellationToken>,
}

/// Which events are sent, and how much of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    /// The first one.
    pub(crate) from: u64,
    pub(crate) raw: bool,
}

/// `session.event`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventNotice<'a> {
    session_id: &'a str,
    event: EventView<'a>,
    /// A turn begins that this connection has asked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    own: bool,
}

/// `session.over`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OverNotice<'a> {
    session_id: &'a str,
    state: Lease,
    last_seq: u64,
}

/// An event without the agent's own words.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum EventView<'a> {
    Whole(&'a Event),
    #[serde(rename_all = "camelCase")]
    Meaning {
        seq: u64,
        at: Timestamp,
        #[serde(flatten)]
        kind: &'a EventKind,
    },
}

impl<'a> EventView<'a> {
    pub(crate) fn of(event: &'a Event, raw: bool) -> Self {
        if raw {
            Self::Whole(event)
        } else {
            Self::Meaning {
                seq: event.seq,
                at: event.at,
                kind: &event.kind,
            }
        }
    }
}

impl Attachments {
    pub(crate) fn new(engine: Engine, peer: Peer, tasks: Tasks, number: u64) -> Arc<Self> {
        Arc::new(Self {
            engine,
            peer,
            tasks,
            number,
            held: Mutex::default(),
        })
    }

    /// The name under which this connection answers in a session.
    pub(crate) fn client(&self, session: &str) -> ClientId {
        let attached = self
            .lock()
            .attached
            .get(session)
            .map(|attached| attached.client.clone());
        attached.unwrap_or_else(|| self.named(None))
    }

    /// Attaches this connection; `stream` sends it the session's events.
    pub(crate) async fn attach(
        self: &Arc<Self>,
        session: &str,
        name: Option<&str>,
        answers: Answers,
        stream: Option<Stream>,
    ) -> Result<SessionView, EngineError> {
        let client = self.named(name);
        let attach = AttachAs {
            client: client.clone(),
            answers,
        };
        let view = self.engine.sessions().attach(session, attach).await?;
        let token = stream.map(|_| CancellationToken::new());
        let attached = Attached {
            client: client.clone(),
            stream: token.clone(),
        };
        let Ok(former) = self.enter(session, attached) else {
            self.engine.sessions().detach(session, client).await;
            return Ok(view);
        };
        if let (Some(stream), Some(token)) = (stream, token) {
            self.send_events(session.to_owned(), client.clone(), stream, token);
        }
        if let Some(former) = former {
            if let Some(stream) = former.stream {
                stream.cancel();
            }
            if former.client != client {
                self.engine.sessions().detach(session, former.client).await;
            }
        }
        Ok(view)
    }

    /// Gives what was there before; an error if the connection ended while it was attached.
    fn enter(&self, session: &str, attached: Attached) -> Result<Option<Attached>, Gone> {
        let mut held = self.lock();
        match held.has_left {
            true => Err(Gone),
            false => Ok(held.attached.insert(session.to_owned(), attached)),
        }
    }

    /// The connection has ended: its sessions go on without it.
    pub(crate) async fn leave(&self) {
        let ended = Held {
            has_left: true,
            ..Held::default()
        };
        let Held {
            attached, loans, ..
        } = std::mem::replace(&mut *self.lock(), ended);
        for (session, Attached { client, stream }) in attached {
            if let Some(stream) = stream {
                stream.cancel();
            }
            self.engine.sessions().detach(&session, client).await;
        }
        for loan in loans {
            loan.give_back().await;
        }
    }

    /// Keeps an agent running until the connection ends.
    pub(crate) async fn keep(&self, loan: Loan) {
        let too_late = {
            let mut held = self.lock();
            match held.has_left {
                true => Some(loan),
                false => {
                    held.loans.push(loan);
                    None
                }
            }
        };
        if let Some(loan) = too_late {
            loan.give_back().await;
        }
    }

    fn named(&self, name: Option<&str>) -> ClientId {
        let name = name.unwrap_or("client");
        ClientId(format!("{name}#{}", self.number))
    }

    fn send_events(
        self: &Arc<Self>,
        session: String,
        client: ClientId,
        stream: Stream,
        token: CancellationToken,
    ) {
        let (engine, peer) = (self.engine.clone(), self.peer.clone());
        self.tasks.spawn(|stop| async move {
            tokio::select! { biased;
                () = stop.cancelled() => {}
                () = token.cancelled() => {}
                () = peer.closed() => {}
                sent = forward(&engine, &peer, (&session, &client), stream) => {
                    if let Err(error) = sent {
                        debug!(%error, session, "stopped sending events");
                    }
                }
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection has ended.
#[derive(Debug)]
struct Gone;

/// Sends every event; a client that reads slowly slows nobody but itself, since each is read when there is room for it.
async fn forward(
    engine: &Engine,
    peer: &Peer,
    (session, client): (&str, &ClientId),
    stream: Stream,
) -> Result<(), String> {
    let mut reader = engine
        .sessions()
        .events(session, stream.from)
        .await
        .map_err(|error| error.to_string())?;
    while let Some(event) = reader.next().await.map_err(|error| error.to_string())? {
        let notice = EventNotice {
            session_id: session,
            event: EventView::of(&event, stream.raw),
            own: is_own(&event.kind, client),
        };
        let sent = match peer.notify(EVENT, &notice).await {
            // The place of an event that is too long for a line is kept, so that nobody misses it unknowingly.
            Err(SendError::TooLong { length, .. }) => {
                let kind = too_long(length);
                let cut = EventView::Meaning {
                    seq: event.seq,
                    at: event.at,
                    kind: &kind,
                };
                peer.notify(
                    EVENT,
                    &EventNotice {
                        session_id: session,
                        event: cut,
                        own: false,
                    },
                )
                .await
            }
            sent => sent,
        };
        sent.map_err(|error| error.to_string())?;
    }
    let view = engine.sessions().get(session).await;
    let view = view.map_err(|error| error.to_string())?;
    let notice = OverNotice {
        session_id: session,
        state: view.state,
        last_seq: view.last_seq,
    };
    let told = peer.notify(OVER, &notice).await;
    told.map_err(|error| error.to_string())
}

fn is_own(event: &EventKind, client: &ClientId) -> bool {
    matches!(event, EventKind::TurnStarted { by: Some(by), .. } if *by == client.0)
}

/// What stands in the place of an event that does not fit into a line.
pub(crate) fn too_long(length: usize) -> EventKind {
    EventKind::Other {
        name: format!("an event of {length} bytes, which is too long to be sent"),
    }
}
