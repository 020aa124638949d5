//! First contacts with those who were only announced: whoever makes nodes up holds up neither those that are there nor
//! those that are known.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// First contacts at once, beside those with peers that have answered before.
const STRANGERS_MAX: usize = 8;

/// Of these with one host: one machine may announce many, and others wait for none of them.
const OF_ONE_HOST_MAX: usize = 2;

#[derive(Debug)]
pub(super) struct Meetings {
    under_way: Mutex<UnderWay>,
    places: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct UnderWay {
    ids: HashSet<String>,
    hosts: HashMap<String, Arc<Semaphore>>,
}

/// A first contact that is under way or waits for its turn, until this is dropped.
#[derive(Debug)]
pub(super) struct Meeting<'a> {
    meetings: &'a Meetings,
    id: String,
    host: String,
    held: Vec<OwnedSemaphorePermit>,
}

impl Meetings {
    pub(super) fn new() -> Self {
        Self {
            under_way: Mutex::default(),
            places: Arc::new(Semaphore::new(STRANGERS_MAX)),
        }
    }

    /// Waits for its turn; nothing if somebody meets this one already.
    pub(super) async fn begin(&self, id: &str, host: &str) -> Option<Meeting<'_>> {
        let at_host = {
            let mut under_way = self.lock();
            if !under_way.ids.insert(id.to_owned()) {
                return None;
            }
            let hosts = under_way.hosts.entry(host.to_owned());
            let at_host = hosts.or_insert_with(|| Arc::new(Semaphore::new(OF_ONE_HOST_MAX)));
            at_host.clone()
        };
        let mut meeting = Meeting {
            meetings: self,
            id: id.to_owned(),
            host: host.to_owned(),
            held: Vec::new(),
        };
        // The host's turn comes first: a place is for whoever can use it.
        for turns in [at_host, self.places.clone()] {
            let turn = turns.acquire_owned().await;
            meeting.held.push(turn.expect("it is never closed"));
        }
        Some(meeting)
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Meeting<'_> {
    fn drop(&mut self) {
        self.held.clear();
        let mut under_way = self.meetings.lock();
        under_way.ids.remove(&self.id);
        let at_host = under_way.hosts.get(&self.host);
        if at_host.is_some_and(|turns| Arc::strong_count(turns) == 1) {
            under_way.hosts.remove(&self.host);
        }
    }
}
