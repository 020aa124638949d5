//! The events of one run, exactly as streams tell them: the newest in memory, the rest in the store, in chunks.
//! A reader is a number, so a slow one costs nobody anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Batch, EngineError, Keep, Records};
use tokio::sync::watch;
use wire::runs::Event;

use crate::record::EVENTS;

/// Events of one stored chunk: a few dozen kilobytes for ordinary text.
const CHUNK: u64 = 128;

/// One run's events, numbered from one.
#[derive(Debug)]
pub(crate) struct RunLog {
    run: String,
    records: Records,
    tail: Mutex<Tail>,
    heads: watch::Sender<Heads>,
}

#[derive(Debug)]
struct Tail {
    /// How many events came before those in memory.
    before: u64,
    events: Vec<Arc<Event>>,
    /// How many events the store has.
    stored: u64,
}

impl Tail {
    /// Whole chunks that the store has leave the memory; what follows them begins the next chunk.
    fn drop_stored_chunks(&mut self) {
        while self.events.len() as u64 >= CHUNK && self.stored >= self.before + CHUNK {
            self.before += CHUNK;
            self.events.drain(..CHUNK as usize);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heads {
    count: u64,
    /// No more events will come.
    finished: bool,
}

impl RunLog {
    pub(crate) fn new(run: &str, records: Records) -> Self {
        Self::with(run, records, 0, Vec::new())
    }

    /// The log of a run that an earlier daemon began.
    pub(crate) async fn open(run: &str, records: Records) -> Result<Self, EngineError> {
        let (mut before, mut events) = (0, Vec::new());
        loop {
            let chunk = chunk(&records, run, before / CHUNK).await?;
            let length = chunk.len() as u64;
            if length < CHUNK {
                events.extend(chunk);
                break;
            }
            before += length;
        }
        Ok(Self::with(run, records, before, events))
    }

    fn with(run: &str, records: Records, before: u64, events: Vec<Arc<Event>>) -> Self {
        let count = before + events.len() as u64;
        let tail = Tail {
            before,
            events,
            stored: count,
        };
        let heads = Heads {
            count,
            finished: false,
        };
        Self {
            run: run.to_owned(),
            records,
            tail: Mutex::new(tail),
            heads: watch::Sender::new(heads),
        }
    }

    /// How many events there are.
    pub(crate) fn count(&self) -> u64 {
        self.heads.borrow().count
    }

    /// Where to begin for somebody who has seen `seen` events: before the last one, if there is none after it and none
    /// will come, or if they have seen more than there are.
    pub(crate) fn told_before_the_last(&self, seen: u64) -> u64 {
        let Heads { count, finished } = *self.heads.borrow();
        if seen > count || (seen == count && finished) {
            return count.saturating_sub(1);
        }
        seen
    }

    /// Whether events wait to be stored.
    pub(crate) fn has_unstored(&self) -> bool {
        let tail = self.lock();
        tail.stored < tail.before + tail.events.len() as u64
    }

    /// Adds an event; streams see it at once.
    pub(crate) fn append(&self, event: Event) {
        let mut tail = self.lock();
        tail.events.push(Arc::new(event));
        let count = tail.before + tail.events.len() as u64;
        drop(tail);
        self.heads.send_modify(|heads| heads.count = count);
    }

    /// No more events will come.
    pub(crate) fn finish(&self) {
        self.heads.send_modify(|heads| heads.finished = true);
    }

    /// Whether enough waits to be stored.
    pub(crate) fn is_full(&self) -> bool {
        let tail = self.lock();
        tail.events.len() as u64 >= CHUNK
    }

    /// Stores what is not stored; whole chunks leave the memory.
    pub(crate) async fn flush(&self) -> Result<(), EngineError> {
        loop {
            let (number, events) = {
                let mut tail = self.lock();
                tail.drop_stored_chunks();
                let count = tail.before + tail.events.len() as u64;
                if tail.stored == count {
                    return Ok(());
                }
                let events: Vec<Arc<Event>> =
                    tail.events.iter().take(CHUNK as usize).cloned().collect();
                (tail.before / CHUNK, events)
            };
            let id = chunk_id(&self.run, number);
            let put = self.records.put(EVENTS, &id, Keep::Finished, &events, None);
            put.await?;
            let mut tail = self.lock();
            tail.stored = tail.stored.max(tail.before + events.len() as u64);
        }
    }

    /// Puts what is not stored into a batch, with the event that is appended once the batch is written: until then
    /// nobody sees it.
    pub(crate) async fn stage(&self, last: &Event, batch: &mut Batch) -> Result<(), EngineError> {
        if self.is_full() {
            self.flush().await?;
        }
        let tail = self.lock();
        let events: Vec<&Event> = tail
            .events
            .iter()
            .map(|event| &**event)
            .chain([last])
            .collect();
        let id = chunk_id(&self.run, tail.before / CHUNK);
        batch.put(EVENTS, &id, Keep::Finished, &events)
    }

    /// Appends the event of a batch that was written.
    pub(crate) fn append_stored(&self, event: Event) {
        self.append(event);
        let mut tail = self.lock();
        tail.stored = tail.before + tail.events.len() as u64;
    }

    /// Events after number `seen`, at most a chunk of them; empty if there are none yet.
    pub(crate) async fn after(&self, seen: u64) -> Result<Vec<(u64, Arc<Event>)>, EngineError> {
        let in_memory = {
            let tail = self.lock();
            (seen >= tail.before).then(|| {
                let skip = usize::try_from(seen - tail.before).unwrap_or(usize::MAX);
                let events = tail.events.iter().skip(skip);
                events.take(CHUNK as usize).cloned().collect::<Vec<_>>()
            })
        };
        let events = match in_memory {
            Some(events) => events,
            None => {
                let skip = usize::try_from(seen % CHUNK).unwrap_or_default();
                let mut stored = chunk(&self.records, &self.run, seen / CHUNK).await?;
                stored.drain(..skip.min(stored.len()));
                stored
            }
        };
        Ok((seen + 1..).zip(events).collect())
    }

    /// Waits for an event after number `seen`; says no if there will be none.
    pub(crate) async fn newer_than(&self, seen: u64) -> bool {
        let mut heads = self.heads.subscribe();
        let waited = heads
            .wait_for(|heads| heads.count > seen || heads.finished)
            .await;
        waited.is_ok_and(|heads| heads.count > seen)
    }

    fn lock(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn chunk(records: &Records, run: &str, number: u64) -> Result<Vec<Arc<Event>>, EngineError> {
    let stored = records
        .get::<Vec<Event>>(EVENTS, &chunk_id(run, number))
        .await?;
    let events = stored.map(|stored| stored.value).unwrap_or_default();
    Ok(events.into_iter().map(Arc::new).collect())
}

fn chunk_id(run: &str, number: u64) -> String {
    format!("{run}/{number:06}")
}
