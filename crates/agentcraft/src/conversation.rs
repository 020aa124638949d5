//! A connection on which the daemon speaks by itself: events of sessions, answers to calls, and Ctrl-C, in one queue.

use std::{
    collections::VecDeque,
    sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    time::{Duration, Instant},
};

use domain::turn::EventKind;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use socket::{CallError, Incoming, Message, Outgoing};

use crate::{connection::explain, error::CommandError, interrupt::Interrupts};

/// Messages that wait to be shown. When it is full the daemon waits with the rest, which costs it nothing.
const INBOX_MAX: usize = 1024;

/// How long a call that is no turn may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// One thing to react to.
#[derive(Debug)]
pub(crate) enum Input {
    Event(SessionEvent),
    /// The answer to a call that was sent without waiting for it.
    Answer {
        id: u64,
        result: Result<Box<RawValue>, CommandError>,
    },
    /// A session will have no more events than these.
    Over(SessionOver),
    /// Somebody pressed Ctrl-C.
    Interrupt,
    /// There will be no more.
    Lost(CommandError),
    /// Nothing happened; whoever waits should look around.
    Nudge,
}

/// `session.event`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionEvent {
    pub(crate) session_id: String,
    /// A turn begins that this connection has asked for.
    #[serde(default)]
    pub(crate) own: bool,
    pub(crate) event: Box<RawValue>,
}

/// `session.over`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionOver {
    pub(crate) session_id: String,
}

/// The part of an event that is needed to put it in its place.
#[derive(Debug, Deserialize)]
struct Numbered {
    seq: u64,
}

#[derive(Debug)]
pub(crate) struct Conversation {
    outgoing: Outgoing,
    inbox: Receiver<Input>,
    feed: SyncSender<Input>,
    /// What came while an answer was waited for.
    backlog: VecDeque<Input>,
    interrupts: Interrupts,
}

/// Wakes the one who waits for the next thing.
#[derive(Debug, Clone)]
pub(crate) struct Waker(SyncSender<Input>);

impl Waker {
    pub(crate) fn wake(&self) {
        let _ = self.0.try_send(Input::Nudge); // A full queue is being looked at anyway.
    }
}

impl Conversation {
    pub(crate) fn open(outgoing: Outgoing, incoming: Incoming) -> Self {
        let (feed, inbox) = mpsc::sync_channel(INBOX_MAX);
        let (reader, waker) = (feed.clone(), Waker(feed.clone()));
        std::thread::spawn(move || read(incoming, &reader));
        let interrupts = Interrupts::listen(move || waker.wake());
        Self {
            outgoing,
            inbox,
            feed,
            backlog: VecDeque::new(),
            interrupts,
        }
    }

    /// For other threads that have something to tell the one who waits in [`Conversation::next`].
    pub(crate) fn waker(&self) -> Waker {
        Waker(self.feed.clone())
    }

    /// Sends a call; its answer comes as an [`Input::Answer`] with this id.
    pub(crate) fn send(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<u64, CommandError> {
        self.outgoing.send(method, params).map_err(explain)
    }

    /// Calls a method that answers soon. Everything else that comes meanwhile is kept.
    pub(crate) fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, CommandError> {
        let wanted = self.send(method, params)?;
        let deadline = Instant::now() + PATIENCE;
        let lost = || {
            CommandError::Lost(CallError::Closed {
                method: method.to_owned(),
            })
        };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok(Input::Answer { id, result }) if id == wanted => {
                    return read_as(method, &result?);
                }
                Ok(Input::Lost(error)) => return Err(error),
                Ok(input) => self.backlog.push_back(input),
                Err(_) => return Err(lost()),
            }
        }
    }

    /// The next thing to react to, or nothing within the time given.
    pub(crate) fn next(&mut self, wait: Duration) -> Option<Input> {
        if self.interrupts.take() {
            return Some(Input::Interrupt);
        }
        if let Some(input) = self.backlog.pop_front() {
            return Some(input);
        }
        match self.inbox.recv_timeout(wait) {
            Ok(Input::Nudge) if self.interrupts.take() => Some(Input::Interrupt),
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // The thread that reads ends with the connection.
        self.outgoing.close();
    }
}

impl SessionEvent {
    /// Its place in the session; zero for what is no event.
    pub(crate) fn seq(&self) -> u64 {
        serde_json::from_str::<Numbered>(self.event.get()).map_or(0, |numbered| numbered.seq)
    }

    /// What it means; nothing for a kind that this version does not know.
    pub(crate) fn kind(&self) -> Option<EventKind> {
        kind_of(&self.event)
    }
}

/// The meaning of an event as it came.
pub(crate) fn kind_of(event: &RawValue) -> Option<EventKind> {
    serde_json::from_str(event.get()).ok()
}

/// Reads an answer that came as it is.
pub(crate) fn read_as<R: DeserializeOwned>(
    method: &str,
    answer: &RawValue,
) -> Result<R, CommandError> {
    serde_json::from_str(answer.get()).map_err(|source| CommandError::Unreadable {
        method: method.to_owned(),
        source,
        versions: None,
    })
}

fn read(mut incoming: Incoming, feed: &SyncSender<Input>) {
    loop {
        let input = match incoming.next_message() {
            Ok(Message::Answer { id, result }) => Input::Answer {
                id,
                result: result.map_err(explain),
            },
            Ok(Message::Notification { method, params }) if method == "session.event" => {
                match serde_json::from_str(params.get()) {
                    Ok(event) => Input::Event(event),
                    Err(_) => continue,
                }
            }
            Ok(Message::Notification { method, params }) if method == "session.over" => {
                match serde_json::from_str(params.get()) {
                    Ok(over) => Input::Over(over),
                    Err(_) => continue,
                }
            }
            Ok(Message::Notification { .. }) => continue,
            Err(error) => Input::Lost(explain(error)),
        };
        let over = matches!(input, Input::Lost(_));
        if feed.send(input).is_err() || over {
            return;
        }
    }
}
