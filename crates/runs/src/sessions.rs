//! Sessions of the runs API: which engine session each goes on in, its history, and when it is over.

use domain::{Name, Timestamp};
use engine::{Batch, Keep, Note};
use serde_json::json;
use tracing::warn;
use uuid::Uuid;
use wire::runs::{Message, SessionDescriptor};

use crate::{
    error::RunsError,
    exchange::{Label, Resource},
    node::Runs,
    record::{self, Lifetime, SESSION, SessionRecord, text},
};

/// How long a session that nobody asked for is kept: a client may still look at it, or think better of it.
const EPHEMERAL_TTL_MS: u64 = 2 * 60 * 1000;

/// Sessions looked at and ended at a time: their rows fit into one write that delays nobody for long.
const PAGE: u32 = 200;

/// Messages of one session; the oldest addresses are forgotten first.
const HISTORY_MAX: usize = 10_000;

impl Runs {
    /// The session that a caller goes on with, which must be theirs and this agent's.
    pub(crate) async fn continued(
        &self,
        id: &str,
        agent: &Name,
        caller: &str,
    ) -> Result<Option<SessionRecord>, RunsError> {
        let is_theirs = |session: &SessionRecord| session.caller == caller;
        let Some(mut session) = self.known_session(id, is_theirs).await? else {
            return Ok(None);
        };
        if session.agent != *agent {
            return Err(RunsError::SessionOfOther {
                id: id.to_owned(),
                agent: session.agent.to_string(),
            });
        }
        if session.active_run.is_some() {
            return Err(RunsError::SessionBusy { id: id.to_owned() });
        }
        session.lifetime = Lifetime::Persistent;
        session.ttl_ms = self.session_ttl_ms();
        Ok(Some(session))
    }

    pub(crate) fn fresh_session(
        &self,
        id: Option<String>,
        agent: &Name,
        caller: &str,
    ) -> SessionRecord {
        let named = id.is_some() || self.config().persistent.contains(agent.as_str());
        let (lifetime, ttl_ms) = if named {
            (Lifetime::Persistent, self.session_ttl_ms())
        } else {
            let ttl = EPHEMERAL_TTL_MS.min(self.session_ttl_ms());
            (Lifetime::Ephemeral, ttl)
        };
        let now = record::now();
        SessionRecord {
            id: id.unwrap_or_else(|| Uuid::now_v7().to_string()),
            agent: agent.clone(),
            caller: caller.to_owned(),
            lifetime,
            engine_session: None,
            history: Vec::new(),
            created_at: now,
            last_active: now,
            ttl_ms,
            active_run: None,
            master_session: None,
            over: false,
        }
    }

    fn session_ttl_ms(&self) -> u64 {
        u64::try_from(self.config().session_ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// A session that is not over; nothing if there never was one. Whether somebody else has or had such a session is
    /// nobody's business.
    pub(crate) async fn known_session(
        &self,
        id: &str,
        may_see: impl Fn(&SessionRecord) -> bool,
    ) -> Result<Option<SessionRecord>, RunsError> {
        let stored = self.records().get::<SessionRecord>(SESSION, id).await?;
        let Some(session) = stored.map(|stored| stored.value) else {
            return Ok(None);
        };
        if !may_see(&session) {
            return Err(RunsError::SessionNotFound { id: id.to_owned() });
        }
        let expired = || RunsError::SessionExpired { id: id.to_owned() };
        if session.over {
            return Err(expired());
        }
        if session.is_stale(record::now()) {
            self.end_session(session, "run.session-expired").await?;
            return Err(expired());
        }
        Ok(Some(session))
    }

    pub(crate) async fn keep_session(&self, session: &SessionRecord) -> Result<(), RunsError> {
        let keep = if session.over {
            Keep::Finished
        } else {
            Keep::Live
        };
        let records = self.records();
        Ok(records
            .put(SESSION, &session.id, keep, session, None)
            .await?)
    }

    /// Changes what is kept of a session.
    pub(crate) async fn change_session(
        &self,
        id: &str,
        change: impl FnOnce(&mut SessionRecord),
    ) -> Result<(), RunsError> {
        let stored = self.records().get::<SessionRecord>(SESSION, id).await?;
        let Some(mut session) = stored.map(|stored| stored.value) else {
            return Ok(()); // It was closed while its run ended.
        };
        change(&mut session);
        self.keep_session(&session).await
    }

    /// Adds messages to a batch as resources, one each.
    pub(crate) async fn keep_messages(
        &self,
        messages: &[Message],
        owner: &str,
        batch: &mut Batch,
    ) -> Vec<Resource> {
        let mut kept = Vec::new();
        for message in messages {
            let Ok(text) = serde_json::to_string(message) else {
                continue;
            };
            let label = Label {
                name: None,
                content_type: "application/json".to_owned(),
                owner: owner.to_owned(),
            };
            match self.exchange().add(label, text, batch).await {
                Ok(resource) => kept.push(resource),
                // A run is worth more than its history.
                Err(error) => warn!(%error, "a message could not be kept in the history"),
            }
        }
        kept
    }

    /// Adds messages: ids of those that lie here, addresses of those that were said elsewhere.
    pub(crate) fn extend_history(session: &mut SessionRecord, ids: Vec<String>) {
        session.history.extend(ids);
        let surplus = session.history.len().saturating_sub(HISTORY_MAX);
        session.history.drain(..surplus);
    }

    /// The session as it is told, with addresses that anybody holds who was given them.
    pub(crate) fn describe(&self, session: &SessionRecord, base: &str) -> SessionDescriptor {
        let until = record::now() + self.exchange().config().keep;
        let history = session
            .history
            .iter()
            .map(|message| match is_elsewhere(message) {
                true => message.clone(),
                false => format!("{base}{}", self.exchange().path(message, until)),
            })
            .collect();
        SessionDescriptor {
            id: session.id.clone(),
            history,
            state: None,
            session_id: session.id.clone(),
            history_url: format!("{base}/sessions/{}/history", session.id),
            created_at: text(session.created_at),
            last_active: text(session.last_active),
            ttl_seconds: session.ttl_ms / 1000,
            lifetime: match session.lifetime {
                Lifetime::Ephemeral => "ephemeral".to_owned(),
                Lifetime::Persistent => "persistent".to_owned(),
            },
            active_run: session.active_run.clone(),
        }
    }

    /// Ends a session: the agent's side is let go, what was said in it is removed.
    pub(crate) async fn end_session(
        &self,
        session: SessionRecord,
        kind: &str,
    ) -> Result<(), RunsError> {
        self.end_sessions(vec![session], kind).await
    }

    /// Several at once: those that the engine has put to rest, which are most of those that nobody uses, share a write.
    async fn end_sessions(
        &self,
        sessions: Vec<SessionRecord>,
        kind: &str,
    ) -> Result<(), RunsError> {
        let (mut batch, mut talks, mut messages) = (Batch::default(), Vec::new(), Vec::new());
        for mut session in sessions {
            session.over = true;
            session.active_run = None;
            talks.extend(session.engine_session.take());
            messages.append(&mut session.history);
            batch.put(SESSION, &session.id, Keep::Finished, &session)?;
            batch.note(Note {
                kind: kind.to_owned(),
                agent: Some(session.agent.to_string()),
                body: json!({ "session": session.id }),
                ..Note::default()
            });
        }
        self.records().write_all(batch).await?;
        for id in self.engine().sessions().close_all_resting(&talks).await? {
            let _ = self.engine().sessions().close(&id).await; // It may be over already.
        }
        if let Err(error) = self.exchange().remove_all(messages).await {
            warn!(%error, "messages of sessions that are over could not be removed");
        }
        Ok(())
    }

    /// Ends every session that nobody has used for too long.
    pub(crate) async fn expire_sessions(&self, now: Timestamp) -> Result<(), RunsError> {
        let shortest = EPHEMERAL_TTL_MS.min(self.session_ttl_ms());
        let until = now
            .0
            .saturating_sub(i64::try_from(shortest).unwrap_or(i64::MAX));
        let (records, mut after) = (self.records(), None);
        loop {
            let page = records.list_unchanged_since::<SessionRecord>(SESSION, until, after, PAGE);
            let page = page.await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some((last.at, last.id.clone()));
            let sessions = page.into_iter().map(|stored| stored.value);
            let stale: Vec<_> = sessions.filter(|session| session.is_stale(now)).collect();
            if !stale.is_empty() {
                self.end_sessions(stale, "run.session-expired").await?;
            }
        }
    }
}

/// Whether an entry of a history is the address of a message that lies at another server.
pub(crate) fn is_elsewhere(message: &str) -> bool {
    message.contains("://")
}
