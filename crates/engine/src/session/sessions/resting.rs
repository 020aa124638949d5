//! Sessions that rest: the store has all of them and no task holds them, until somebody asks.

use std::time::Duration;

use domain::session::Lease;

use super::{Sessions, of};
use crate::{
    EngineError,
    session::{SessionRecord, handle::Handle, task::Row},
};

/// How long an agent may take to end a turn that was cancelled and to close its conversation.
const LETTING_GO_MAX: Duration = Duration::from_secs(20);

impl Sessions {
    /// The task of a session; one that rests is given one again.
    pub(super) async fn awake(&self, id: &str) -> Result<Handle, EngineError> {
        if let Some(handle) = self.inner.live.get(id) {
            return Ok(handle);
        }
        self.resting(id).await?; // Most that are asked for in vain are over, and need not wait for others.
        let _one = self.inner.waking.acquire().await; // It is never closed.
        if let Some(handle) = self.inner.live.get(id) {
            return Ok(handle);
        }
        let record = self.resting(id).await?;
        let last = self.inner.around.store.last_event(id).await;
        let last = last.map_err(of(&id))?;
        let handle = self.spawn(record, Row::Written, last + 1);
        self.inner.live.insert(id.to_owned(), handle.clone());
        Ok(handle)
    }

    /// Goes on with a session that is over, as long as its agent has the conversation. One that is not over stays as it is.
    pub async fn reopen(&self, id: &str) -> Result<(), EngineError> {
        if self.inner.live.get(id).is_some() {
            return Ok(());
        }
        // It stays for others who come meanwhile.
        let ending = self.ending().get(id).cloned();
        if let Some(gone) = ending {
            // An agent that is told to close a conversation while it is opened again would close the new one.
            let _ = tokio::time::timeout(LETTING_GO_MAX, gone.cancelled()).await; // It may hang; then it is tried all the same.
        }
        let _one = self.inner.waking.acquire().await; // It is never closed.
        if self.inner.live.get(id).is_some() {
            return Ok(());
        }
        let mut record = self.past(id).await?;
        if record.is_live() {
            return Ok(()); // It rests.
        }
        // A conversation has one history: whoever has gone on with it in another session keeps it.
        let elsewhere = self.inner.live.all().iter().any(|handle| {
            handle.reach.0 == record.agent && handle.slot.conversation() == record.agent_session
        });
        if record.agent_session.is_none() || elsewhere || self.is_orphan(&record) {
            return Err(EngineError::SessionOver {
                id: id.to_owned(),
                state: record.lease,
            });
        }
        record.lease = Lease::Idle;
        record.running = None;
        let store = &self.inner.around.store;
        let last = store.last_event(id).await.map_err(of(&id))?;
        store.write(vec![record.change()]).await.map_err(of(&id))?;
        let handle = self.spawn(record, Row::Written, last + 1);
        self.inner.live.insert(id.to_owned(), handle);
        self.ending().remove(id);
        Ok(())
    }

    /// The conversation of a session that is over is gone in the agent: nobody goes on with it. Says whether the session is over.
    pub(super) async fn forget_conversation(&self, id: &str) -> Result<bool, EngineError> {
        let _one = self.inner.waking.acquire().await; // It is never closed.
        if self.inner.live.get(id).is_some() {
            return Ok(false);
        }
        let mut record = self.past(id).await?;
        if record.is_live() {
            return Ok(false); // It rests.
        }
        record.agent_session = None;
        let written = self.inner.around.store.write(vec![record.change()]).await;
        written.map_err(of(&id))?;
        Ok(true)
    }

    /// Ends a session that rests; says whether it did, or somebody has woken it meanwhile.
    pub(super) async fn close_resting(&self, id: &str) -> Result<bool, EngineError> {
        let record = self.past(id).await?;
        if !record.rests || !record.is_live() {
            return Err(EngineError::SessionOver {
                id: id.to_owned(),
                state: record.lease,
            });
        }
        let awake = self.close_all_resting(&[id.to_owned()]).await?;
        Ok(awake.is_empty())
    }

    /// Ends those of the sessions that rest, in one write; says which of the others have a task and go on.
    pub async fn close_all_resting(&self, ids: &[String]) -> Result<Vec<String>, EngineError> {
        let _one = self.inner.waking.acquire().await; // It is never closed.
        let is_awake = |id: &&String| self.inner.live.get(id).is_some();
        let awake: Vec<String> = ids.iter().filter(is_awake).cloned().collect();
        let store = &self.inner.around.store;
        let asked: Vec<String> = ids.iter().filter(|id| !is_awake(id)).cloned().collect();
        let rows = store
            .sessions_of(asked)
            .await
            .map_err(of(&"the sessions"))?;
        let resting = rows.iter().filter(|row| row.live).filter_map(|row| {
            let mut record: SessionRecord = serde_json::from_str(&row.record).ok()?;
            record.lease = Lease::Closed;
            Some(record.change())
        });
        let changes: Vec<_> = resting.collect();
        if !changes.is_empty() {
            let written = store.write(changes).await;
            written.map_err(of(&"the sessions"))?;
        }
        Ok(awake)
    }

    /// The record of a session that rests; an error says that it is over.
    async fn resting(&self, id: &str) -> Result<SessionRecord, EngineError> {
        let record = self.past(id).await?;
        let over = |state| EngineError::SessionOver {
            id: id.to_owned(),
            state,
        };
        if !record.rests || !record.is_live() {
            return Err(over(record.lease));
        }
        if self.is_orphan(&record) {
            return Err(over(Lease::Closed));
        }
        Ok(record)
    }
}
