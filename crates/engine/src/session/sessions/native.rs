//! Sessions for faces that speak the agent's own protocol: opened and prompted in its words.

use std::sync::Arc;

use domain::{
    Name,
    session::Lease,
    turn::{Raw, TurnId},
};
use tokio::sync::oneshot;

use super::{Prompt, Sessions, of};
use crate::{
    Driver, EngineError,
    session::{
        NativeOpen, NativeSession, OpenConversation, OpenError, SessionRecord, SessionView, Thread,
        handle::{Command, Handle},
        task,
    },
};

/// Sessions of one agent that are looked at; whoever has more finds the older ones by their ids.
const PAST_MAX: usize = 200;

impl Sessions {
    /// A new conversation that is opened in the words of the agent's own protocol.
    pub async fn create_native(&self, session: NativeSession) -> Result<SessionView, EngineError> {
        let NativeSession {
            create,
            cwd,
            open,
            resume,
        } = session;
        let via = self.via(&create.agent)?;
        let via = via.ok_or_else(|| EngineError::NotStarted {
            name: create.agent.clone(),
        })?;
        let cwd = match cwd {
            Some(cwd) => cwd,
            None => self.workspace(&create.agent)?,
        };
        self.begin(create, via, resume, cwd, Some(open)).await
    }

    /// Opens the conversation with these words the next time it is opened in the agent.
    pub async fn reword(&self, id: &str, open: NativeOpen) {
        if let Some(handle) = self.inner.live.get(id) {
            let _ = handle.commands.send(Command::Reword { open }).await; // It may have ended meanwhile.
        }
    }

    /// As [`Sessions::prompt`], with the same prompt in the words of the agent's own protocol.
    pub async fn prompt_native(
        &self,
        id: &str,
        prompt: Prompt,
        words: Raw,
    ) -> Result<TurnId, EngineError> {
        self.prompt_in_words(id, prompt, Some(words)).await
    }

    /// The session's conversation in its agent, opened if it is not.
    pub async fn open(&self, id: &str) -> Result<OpenConversation, OpenError> {
        let handle = self.awake(id).await?;
        let over = |state| EngineError::SessionOver {
            id: id.to_owned(),
            state,
        };
        let (reply, answer) = oneshot::channel();
        let sent = handle.commands.send(Command::Open { reply }).await;
        sent.map_err(|_| over(Lease::Closed))?;
        answer
            .await
            .unwrap_or_else(|_| Err(over(Lease::Closed).into()))
    }

    /// What the agent calls the conversation of a session, over or not; nothing if it has none.
    pub async fn conversation(&self, id: &str) -> Result<Option<String>, EngineError> {
        match self.inner.live.get(id) {
            Some(handle) => Ok(handle.slot.conversation()),
            None => Ok(self.past(id).await?.agent_session),
        }
    }

    /// What an agent is talked to through now.
    pub fn driver(&self, agent: &Name) -> Result<Arc<dyn Driver>, EngineError> {
        let agents = &self.inner.around.agents;
        let via = agents.via(agent)?.ok_or_else(|| EngineError::NotStarted {
            name: agent.clone(),
        })?;
        Ok(agents.source(agent, via)?.driver)
    }

    /// Sessions of an agent that are not over, the most recently used first, with what the agent calls them.
    pub fn threads(&self, agent: &Name) -> Vec<Thread> {
        let thread = |handle: &Handle| Thread {
            view: handle.view.borrow().clone(),
            cwd: handle.cwd.clone(),
            conversation: handle.slot.conversation(),
        };
        let mut threads: Vec<Thread> = self
            .inner
            .live
            .all()
            .iter()
            .filter(|handle| handle.reach.0 == *agent)
            .map(thread)
            .collect();
        threads.sort_by(|a, b| task::newest_first(&a.view, &b.view));
        threads
    }

    /// Sessions of an agent that are over, and that it still has the conversation of; the most recently used first.
    pub async fn past_threads(&self, agent: &Name) -> Result<Vec<Thread>, EngineError> {
        let store = &self.inner.around.store;
        let rows = store.ended_sessions(agent.as_str(), PAST_MAX).await;
        let rows = rows.map_err(of(&"the sessions"))?;
        let records = rows
            .iter()
            .filter_map(|row| serde_json::from_str::<SessionRecord>(&row.record).ok());
        let goes_on = |record: &SessionRecord| {
            record.agent_session.is_some() && record.turns > 0 && !self.is_orphan(record)
        };
        let thread = |record: SessionRecord| Thread {
            view: record.past_view(0),
            cwd: record.cwd,
            conversation: record.agent_session,
        };
        Ok(records.filter(goes_on).map(thread).collect())
    }
}
