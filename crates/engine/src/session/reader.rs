//! Reading a session's events at one's own pace: from the window where possible, from the store where not.

use std::{collections::VecDeque, sync::Arc};

use domain::turn::Event;
use store::Store;

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
    ready: VecDeque<Arc<Event>>,
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
        }
    }

    /// The next event; waits for one while the session lives. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Arc<Event>>, EngineError> {
        loop {
            if let Some(event) = self.try_next().await? {
                return Ok(Some(event));
            }
            match &self.log {
                Some(log) => log.newer_than(self.next - 1).await,
                None => return Ok(None),
            }
        }
    }

    /// The next event if there is one already.
    pub async fn try_next(&mut self) -> Result<Option<Arc<Event>>, EngineError> {
        if self.ready.is_empty() {
            self.fill().await?;
        }
        let event = self.ready.pop_front();
        if let Some(event) = &event {
            self.next = event.seq + 1;
        }
        Ok(event)
    }

    async fn fill(&mut self) -> Result<(), EngineError> {
        let page = self.log.as_ref().map(|log| log.read(self.next, PAGE_MAX));
        match page {
            Some(Page::Events(events)) => self.ready.extend(events),
            Some(Page::InStore { .. }) | None => {
                let read = self.store.events(&self.session, self.next).await;
                let batches = read.map_err(|source| EngineError::Store {
                    name: self.session.clone(),
                    source,
                })?;
                let next = self.next;
                let events = batches
                    .iter()
                    .flat_map(|batch| batch.lines.lines())
                    .filter_map(parse);
                self.ready
                    .extend(events.filter(|event| event.seq >= next).map(Arc::new));
            }
        }
        Ok(())
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
