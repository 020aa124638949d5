//! The events of one session: a window in memory, everything in the store, read by any number of readers at their own
//! pace. Appending never waits for a reader.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{
    Timestamp, Trace,
    turn::{Event, EventKind, Raw, Usage},
};
use tokio::sync::watch;

use crate::clock;

/// What a live session keeps in memory for readers that are nearly up to date; older events come from the store.
const WINDOW_MAX: usize = 256 * 1024;

/// What may wait for the store before drivers are asked to pause.
const UNSTORED_MAX: usize = 8 * 1024 * 1024;

/// One session's events.
#[derive(Debug)]
pub struct EventLog {
    inner: Mutex<Inner>,
    last: watch::Sender<Heads>,
}

/// How far the log and the store are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heads {
    /// The newest event that readers see.
    shown: u64,
    stored: u64,
    crowded: bool,
    /// No more events will come.
    finished: bool,
}

#[derive(Debug)]
struct Inner {
    window: VecDeque<Arc<Event>>,
    /// Weight of the window's events that the store has.
    stored_weight: usize,
    unstored_weight: usize,
    appended: u64,
    /// The first event that nobody sees before it is stored.
    held: Option<u64>,
    heads: Heads,
    /// As of the newest event that is stored.
    so_far: SoFar,
}

/// What the events of a turn have told so far: whose trace it belongs to, and what it has used, which agents tell in several
/// events, each of which may say a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SoFar {
    began: Option<Timestamp>,
    trace: Option<Trace>,
    usage: Option<Usage>,
}

impl SoFar {
    /// Takes in the next event of the session.
    pub(crate) fn follow(&mut self, event: &Event) {
        match &event.kind {
            EventKind::TurnStarted { trace, .. } => {
                *self = Self {
                    began: Some(event.at),
                    trace: *trace,
                    usage: None,
                };
            }
            EventKind::Usage(now) => {
                let before = self.usage.unwrap_or_default();
                self.usage = Some(Usage {
                    input_tokens: now.input_tokens.or(before.input_tokens),
                    output_tokens: now.output_tokens.or(before.output_tokens),
                    cost_usd: now.cost_usd.or(before.cost_usd),
                });
            }
            _ => {}
        }
    }

    /// When the turn began; nothing if that was before this log.
    pub(crate) fn began(&self) -> Option<Timestamp> {
        self.began
    }

    pub(crate) fn trace(&self) -> Option<Trace> {
        self.trace
    }

    /// Nothing if the agent has said nothing.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage
    }
}

/// What a reader finds at its place.
#[derive(Debug, Clone, PartialEq)]
pub enum Page {
    /// Events from the asked place on, in order; empty if there are none yet.
    Events(Vec<Arc<Event>>),
    /// The place has left the window; the store has everything up to `until`.
    InStore { until: u64 },
}

impl EventLog {
    /// A log whose first event will be number `next`.
    pub fn new(next: u64) -> Self {
        let heads = Heads {
            shown: next - 1,
            stored: next - 1,
            crowded: false,
            finished: false,
        };
        let inner = Inner {
            window: VecDeque::new(),
            stored_weight: 0,
            unstored_weight: 0,
            appended: next - 1,
            held: None,
            heads,
            so_far: SoFar::default(),
        };
        Self {
            inner: Mutex::new(inner),
            last: watch::Sender::new(heads),
        }
    }

    /// Adds an event and wakes whoever waits for one.
    pub fn append(&self, kind: EventKind, raw: Option<Raw>) -> u64 {
        let mut inner = self.lock();
        let seq = inner.push(kind, raw);
        self.publish(inner);
        seq
    }

    /// Adds an event that is seen only once it is stored, and whatever comes after it then too: a decision, or the end of
    /// a turn, is on disk before anybody hears of it.
    pub(crate) fn append_held(&self, kind: EventKind, raw: Option<Raw>) -> u64 {
        let mut inner = self.lock();
        let seq = inner.push(kind, raw);
        inner.held.get_or_insert(seq);
        self.publish(inner);
        seq
    }

    /// Shows what was held although it could not be stored: the session must go on.
    pub(crate) fn release(&self) {
        let mut inner = self.lock();
        inner.held = None;
        self.publish(inner);
    }

    /// The number of the newest event that readers see.
    pub fn last_seq(&self) -> u64 {
        self.lock().heads.shown
    }

    /// Up to `max` events from number `from` on.
    pub fn read(&self, from: u64, max: usize) -> Page {
        let inner = self.lock();
        let Some(first) = inner.window.front().map(|event| event.seq) else {
            return if from <= inner.heads.stored {
                Page::InStore {
                    until: inner.heads.stored,
                }
            } else {
                Page::Events(Vec::new())
            };
        };
        if from < first {
            return Page::InStore { until: first - 1 };
        }
        let skip = usize::try_from(from - first).unwrap_or(usize::MAX);
        let shown = inner.heads.shown;
        Page::Events(
            inner
                .window
                .iter()
                .skip(skip)
                .take_while(|event| event.seq <= shown)
                .take(max)
                .cloned()
                .collect(),
        )
    }

    /// The session is over; whoever waits for an event waits no longer.
    pub(crate) fn finish(&self) {
        let mut inner = self.lock();
        inner.heads.finished = true;
        self.publish(inner);
    }

    /// Whether no more events will come.
    pub fn is_finished(&self) -> bool {
        self.lock().heads.finished
    }

    /// Waits until there is an event after number `seq`, or there will be none.
    pub async fn newer_than(&self, seq: u64) {
        let mut last = self.last.subscribe();
        // The sender is ours, so it cannot be gone.
        let _ = last
            .wait_for(|heads| heads.shown > seq || heads.finished)
            .await;
    }

    /// Waits while too much waits for the store.
    pub async fn room(&self) {
        let crowded = self.last.borrow().crowded;
        if crowded {
            let mut last = self.last.subscribe();
            let _ = last.wait_for(|heads| !heads.crowded).await;
        }
    }

    /// What the store does not have yet.
    pub(crate) fn unstored(&self) -> Vec<Arc<Event>> {
        let inner = self.lock();
        let stored = inner.heads.stored;
        inner
            .window
            .iter()
            .filter(|event| event.seq > stored)
            .cloned()
            .collect()
    }

    /// What had been told when the newest stored event happened.
    pub(crate) fn so_far(&self) -> SoFar {
        self.lock().so_far
    }

    /// How many events the store does not have yet, and about how much they weigh.
    pub(crate) fn unstored_len(&self) -> (u64, usize) {
        let inner = self.lock();
        (inner.appended - inner.heads.stored, inner.unstored_weight)
    }

    /// The store has everything up to number `seq`, or nobody needs it any more; old events leave the window.
    pub fn stored(&self, seq: u64) {
        let mut inner = self.lock();
        let before = inner.heads.stored;
        let mut so_far = inner.so_far;
        let newly = inner
            .window
            .iter()
            .filter(|event| event.seq > before && event.seq <= seq);
        let moved: usize = newly
            .map(|event| {
                so_far.follow(event);
                event.weight()
            })
            .sum();
        inner.so_far = so_far;
        inner.unstored_weight -= moved;
        inner.stored_weight += moved;
        inner.heads.stored = seq.max(before);
        inner.held = inner.held.filter(|held| *held > seq);
        while inner.stored_weight > WINDOW_MAX {
            let Some(event) = inner.window.pop_front() else {
                break;
            };
            inner.stored_weight -= event.weight();
        }
        self.publish(inner);
    }

    /// Empties the window of an idle session; everything in it must be stored.
    pub(crate) fn forget(&self) {
        let mut inner = self.lock();
        if inner.heads.stored == inner.appended {
            inner.window = VecDeque::new();
            inner.stored_weight = 0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, mut inner: MutexGuard<'_, Inner>) {
        inner.heads.shown = inner.held.map_or(inner.appended, |held| held - 1);
        inner.heads.crowded = inner.unstored_weight > UNSTORED_MAX;
        let heads = inner.heads;
        // Under the lock, so that the newest heads are the last to be sent.
        self.last.send_if_modified(|last| {
            let changed = *last != heads;
            *last = heads;
            changed
        });
    }
}

impl Inner {
    fn push(&mut self, kind: EventKind, raw: Option<Raw>) -> u64 {
        self.appended += 1;
        let event = Event {
            seq: self.appended,
            at: clock::now(),
            kind,
            raw,
        };
        self.unstored_weight += event.weight();
        self.window.push_back(Arc::new(event));
        self.appended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(size: usize) -> EventKind {
        EventKind::Text {
            text: "x".repeat(size),
        }
    }

    fn seqs(page: Page) -> Vec<u64> {
        match page {
            Page::Events(events) => events.iter().map(|event| event.seq).collect(),
            Page::InStore { until } => panic!("in store until {until}"),
        }
    }

    #[test]
    fn readers_find_what_is_in_the_window_and_are_sent_to_the_store_for_the_rest() {
        let log = EventLog::new(1);
        for _ in 0..10 {
            log.append(text(WINDOW_MAX / 4), None);
        }
        assert_eq!(seqs(log.read(1, 3)), [1, 2, 3], "what is not stored stays");
        log.stored(8);
        assert_eq!(log.read(1, 3), Page::InStore { until: 5 });
        assert_eq!(seqs(log.read(6, 10)), [6, 7, 8, 9, 10]);
        assert_eq!(seqs(log.read(11, 10)), Vec::<u64>::new());
        log.stored(10);
        log.forget();
        assert_eq!(log.read(10, 1), Page::InStore { until: 10 });
        assert_eq!(seqs(log.read(11, 1)), Vec::<u64>::new());
    }

    #[test]
    fn what_is_held_is_seen_only_once_it_is_stored() {
        let log = EventLog::new(1);
        log.append(text(1), None);
        log.append_held(text(1), None);
        log.append(text(1), None);
        assert_eq!((seqs(log.read(1, 9)), log.last_seq()), (vec![1], 1));
        log.stored(1);
        assert_eq!(log.last_seq(), 1);
        log.stored(2);
        assert_eq!(seqs(log.read(1, 9)), [1, 2, 3]);
        log.append_held(text(1), None);
        log.release();
        assert_eq!(log.last_seq(), 4);
    }

    #[tokio::test]
    async fn a_crowded_log_asks_for_a_pause_until_the_store_has_caught_up() {
        let log = EventLog::new(1);
        log.room().await;
        log.append(text(UNSTORED_MAX), None);
        let waiting = log.room();
        tokio::pin!(waiting);
        assert!(futures_poll(waiting.as_mut()).await.is_none());
        log.stored(1);
        waiting.await;
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_by_the_next_event() {
        let log = Arc::new(EventLog::new(1));
        let waiting = log.newer_than(0);
        tokio::pin!(waiting);
        assert!(futures_poll(waiting.as_mut()).await.is_none());
        log.append(text(1), None);
        waiting.await;
    }

    /// Polls once.
    async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|context| match future.as_mut().poll(context) {
            std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
