//! Reading a session's events at one's own pace: from the window where possible, from the store where not.

use std::{collections::VecDeque, sync::Arc};

use domain::turn::Event;
use store::{EventBatch, Store};

use crate::{EngineError, EventLog, Page};

/// Events taken from the window at a time.
const PAGE_MAX: usize = 256;

/// A place in a session's events. A slow reader costs nobody anything: it holds a number, not a queue.
#[derive(Debug)]
pub struct EventReader {
    session: String,
    log: Option<Arc<EventLog>>,
    store: Store,
    next: u64,
    /// What was taken from the window and not handed out yet.
    ready: VecDeque<Arc<Event>>,
    /// What was read from the store and not handed out yet.
    stored: VecDeque<Lines>,
}

impl EventReader {
    /// A reader that begins at event number `from`. Without a log the session is over and the store has everything.
    pub(crate) fn new(
        session: String,
        log: Option<Arc<EventLog>>,
        store: Store,
        from: u64,
    ) -> Self {
        Self {
            session,
            log,
            store,
            next: from.max(1),
            ready: VecDeque::new(),
            stored: VecDeque::new(),
        }
    }

    /// The next event; waits for one while the session lives. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Arc<Event>>, EngineError> {
        loop {
            if let Some(event) = self.try_next().await? {
                return Ok(Some(event));
            }
            match &self.log {
                Some(log) if !log.is_finished() => log.newer_than(self.next - 1).await,
                // What was appended last may have come between the two looks.
                Some(_) => return self.try_next().await,
                None => return Ok(None),
            }
        }
    }

    /// The next event if there is one already.
    pub async fn try_next(&mut self) -> Result<Option<Arc<Event>>, EngineError> {
        loop {
            if let Some(event) = self.at_hand() {
                self.next = event.seq + 1;
                return Ok(Some(event));
            }
            match self.fill().await? {
                Filled::Something => {}
                Filled::Nothing => return Ok(None),
            }
        }
    }

    fn at_hand(&mut self) -> Option<Arc<Event>> {
        if let Some(event) = self.ready.pop_front() {
            return Some(event);
        }
        while let Some(lines) = self.stored.front_mut() {
            if let Some(event) = lines.event_from(self.next) {
                return Some(Arc::new(event));
            }
            // Lines that cannot be read are passed by, or they would be met again for ever.
            self.next = self.next.max(lines.last + 1);
            self.stored.pop_front();
        }
        None
    }

    async fn fill(&mut self) -> Result<Filled, EngineError> {
        let page = self.log.as_ref().map(|log| log.read(self.next, PAGE_MAX));
        let until = match page {
            Some(Page::Events(events)) if events.is_empty() => return Ok(Filled::Nothing),
            Some(Page::Events(events)) => {
                self.ready.extend(events);
                return Ok(Filled::Something);
            }
            Some(Page::InStore { until }) => Some(until),
            None => None,
        };
        let read = self.store.events(&self.session, self.next).await;
        let batches = read.map_err(|source| EngineError::Store {
            name: self.session.clone(),
            source,
        })?;
        match (batches.is_empty(), until) {
            (false, _) => self.stored.extend(batches.into_iter().map(Lines::new)),
            // The store has lost them; what came after is still to be had.
            (true, Some(until)) => self.next = self.next.max(until + 1),
            (true, None) => return Ok(Filled::Nothing),
        }
        Ok(Filled::Something)
    }
}

/// Whether a reader got any further.
enum Filled {
    Something,
    Nothing,
}

/// A batch of the store, read line by line as its events are wanted: a page of the history wants few of many.
#[derive(Debug)]
struct Lines {
    text: String,
    /// Where the next line begins.
    at: usize,
    /// The number of its event; each event has one line.
    seq: u64,
    last: u64,
}

impl Lines {
    fn new(batch: EventBatch) -> Self {
        Self {
            text: batch.lines,
            at: 0,
            seq: batch.first,
            last: batch.last,
        }
    }

    /// The first event that has not been read, leaving out those before number `next`.
    fn event_from(&mut self, next: u64) -> Option<Event> {
        loop {
            let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
            let line = rest.split_once('\n').map_or(rest, |(line, _)| line);
            self.at += line.len() + 1;
            let seq = self.seq;
            self.seq += 1;
            if seq < next {
                continue;
            }
            let event = parse(line).filter(|event| event.seq >= next);
            if event.is_some() {
                return event;
            }
        }
    }
}

/// A line that cannot be read was written by another version; the others are still worth having.
fn parse(line: &str) -> Option<Event> {
    let event = serde_json::from_str(line);
    if let Err(error) = &event {
        tracing::warn!(%error, "a stored event cannot be read");
    }
    event.ok()
}

#[cfg(test)]
mod tests {
    use domain::{Timestamp, turn::EventKind};

    use super::*;

    fn line(seq: u64) -> String {
        let event = Event {
            seq,
            at: Timestamp(0),
            kind: EventKind::Notice {
                text: "a\nb".to_owned(),
            },
            raw: None,
        };
        serde_json::to_string(&event).unwrap()
    }

    fn seqs(lines: &str, first: u64, last: u64, next: u64) -> Vec<u64> {
        let mut lines = Lines::new(EventBatch {
            session: "s".to_owned(),
            first,
            last,
            at: 0,
            lines: lines.to_owned(),
        });
        let mut seqs = Vec::new();
        while let Some(event) = lines.event_from(next) {
            seqs.push(event.seq);
        }
        seqs
    }

    #[test]
    fn a_batch_gives_its_events_from_the_wanted_one_on() {
        let lines: String = (5..=8).map(|seq| line(seq) + "\n").collect();
        assert_eq!(seqs(&lines, 5, 8, 1), [5, 6, 7, 8]);
        assert_eq!(seqs(&lines, 5, 8, 7), [7, 8]);
        assert_eq!(seqs(&lines, 5, 8, 9), Vec::<u64>::new());
        assert_eq!(
            seqs(lines.trim_end(), 5, 8, 8),
            [8],
            "without a last line end"
        );
        assert_eq!(seqs("", 5, 8, 1), Vec::<u64>::new());
    }

    #[test]
    fn a_line_that_cannot_be_read_does_not_take_the_others_with_it() {
        let lines = format!("{}\n{{\"from\":\"tomorrow\"}}\n{}\n", line(5), line(7));
        assert_eq!(seqs(&lines, 5, 7, 5), [5, 7]);
        assert_eq!(seqs(&lines, 5, 7, 6), [7]);
    }
}
