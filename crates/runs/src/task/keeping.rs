//! What a run has become, on its way to the store; afterwards it is shown.

use std::{sync::Arc, time::Duration};

use domain::run::{Input, Status};
use engine::{Batch, EngineError, Keep};
use platform::crash;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;
use wire::runs::Event;

use super::{Goes, RunTask};
use crate::{
    begin::{self, Begun},
    error::RunsError,
    exchange::Resource,
    node::Runs,
    record::{self, Lifetime, RUN, SESSION, SessionRecord},
};

/// How long a full disk has before the end of a run is written again, at first and at most.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
const AGAIN_SLOWEST: Duration = Duration::from_secs(5);

/// Whether the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
}

impl RunTask {
    /// Keeps the new state and everything that belongs to it as one, then shows it. That a run is over, or awaits, is
    /// written again until it is kept: a run that ends for those who look and not in the store would hold its session
    /// for ever.
    pub(super) async fn moved(&mut self) {
        let mut wait = AGAIN_FIRST;
        let stop = self.stop.clone();
        while self.try_moved().await == Kept::No {
            self.is_kept = false;
            let waited = stop.run_until_cancelled(tokio::time::sleep(wait)).await;
            if waited.is_none() {
                return; // The next daemon takes the run up as it was kept last.
            }
            wait = (wait * 2).min(AGAIN_SLOWEST);
        }
        self.is_kept = true;
    }

    async fn try_moved(&mut self) -> Kept {
        let status = self.record.status();
        let (mut batch, mut said) = (Batch::default(), Vec::new());
        if status.is_over() {
            self.record.finished_at = Some(record::now());
            self.record.asks.clear();
            said = self.let_go(&mut batch).await;
        }
        // The protocol has no event for a run that is being cancelled.
        let event = (status != Status::Cancelling).then(|| Event::of_run(self.record.view()));
        let is_settled = status.is_over() || status == Status::Awaiting;
        let staged = match &event {
            Some(event) if is_settled => self.log.stage(event, &mut batch).await,
            Some(_) | None => Ok(()),
        };
        let kept = match staged {
            Ok(()) => self.write(batch, Note::Told).await,
            Err(error) => self.not_kept(&error),
        };
        match kept {
            Kept::Yes => self.runs.exchange().kept(&said),
            Kept::No if is_settled => return Kept::No,
            Kept::No => {} // What follows is kept with it.
        }
        match event {
            Some(event) if is_settled && kept == Kept::Yes => self.log.append_stored(event),
            Some(event) => self.log.append(event),
            None => {}
        }
        self.view.send_replace(Arc::new(self.record.clone()));
        crash::point("run.shown");
        Kept::Yes
    }

    /// The session is free for the next run in the same write that says that this one is over.
    async fn let_go(&mut self, batch: &mut Batch) -> Vec<Resource> {
        if let Some(opening) = self.opening.take() {
            self.end_once_begun(opening);
        }
        // What reads the session lets go of it first, so that it can rest.
        self.begun = None;
        if let Some(session) = &self.record.engine_session {
            let sessions = self.runs.engine().sessions();
            sessions
                .detach(session, begin::client(&self.record.id))
                .await;
        }
        let (output, caller) = (&self.record.output, &self.record.caller);
        let said = self.runs.keep_messages(output, caller, batch).await;
        // It stays as it was until all of this is written.
        let Some(mut session) = self.session().await else {
            return said;
        };
        self.session = Some(session.clone());
        let ids = said.iter().map(|resource| resource.id.clone()).collect();
        Runs::extend_history(&mut session, ids);
        session.last_active = record::now();
        if session.active_run.as_ref() == Some(&self.record.id) {
            session.active_run = None;
        }
        if self.has_awaited {
            let ttl = self.runs.config().session_ttl;
            session.lifetime = Lifetime::Persistent;
            session.ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        }
        // It may have been closed while the run ended, and stays so.
        let put = batch.put_unless_finished(SESSION, &session.id, Keep::Live, &session);
        if let Err(error) = put {
            self.not_kept(&error);
        }
        said
    }

    /// A turn that is being asked for cannot be called back; once it has begun it is cancelled.
    fn end_once_begun(&self, opening: AbortOnDropHandle<Result<Begun, RunsError>>) {
        let (runs, client) = (self.runs.clone(), begin::client(&self.record.id));
        self.runs.tasks().spawn(|_| async move {
            let Ok(Ok(begun)) = opening.await else {
                return;
            };
            let (sessions, session) = (runs.engine().sessions(), &begun.engine_session);
            if let Err(error) = sessions.cancel_turn(session, begun.turn).await {
                warn!(session, %error, "the turn could not be cancelled");
            }
            sessions.detach(session, client).await;
        });
    }

    /// The session that the run takes place in, unless it is over.
    async fn session(&mut self) -> Option<SessionRecord> {
        if let Some(session) = self.session.take() {
            return Some(session);
        }
        let records = self.runs.records();
        match records
            .get::<SessionRecord>(SESSION, &self.record.session)
            .await
        {
            Ok(stored) => stored
                .map(|stored| stored.value)
                .filter(|session| !session.over),
            Err(error) => {
                self.not_kept(&error);
                None
            }
        }
    }

    /// The turn takes place in an engine session; another one than was meant, where that one was over.
    pub(super) async fn goes_on_in(&mut self, engine_session: String) {
        if self.record.engine_session.as_ref() == Some(&engine_session) {
            return;
        }
        self.record.engine_session = Some(engine_session.clone());
        let mut batch = Batch::default();
        if let Some(mut session) = self.session().await {
            session.engine_session = Some(engine_session);
            let put = batch.put_unless_finished(SESSION, &session.id, Keep::Live, &session);
            if let Err(error) = put {
                self.not_kept(&error);
            }
            self.session = Some(session);
        }
        self.write(batch, Note::Untold).await;
    }

    /// The turn that asked is given up: the run awaits as it would after a restart, and holds nothing.
    pub(super) async fn put_down(&mut self) -> Goes {
        if self.record.status() != Status::Awaiting {
            return Goes::On;
        }
        let before = self.record.clone();
        let applied = self.record.machine.apply(Input::Restarted, record::now());
        let asked = self.record.machine.awaits().map(|ask| ask.0.clone());
        self.record
            .asks
            .retain(|ask, _| Some(ask) == asked.as_ref());
        if applied.is_err() || self.write(Batch::default(), Note::Untold).await == Kept::No {
            self.record = before;
            return Goes::On; // The turn is still there, and is told again when the next one awaits.
        }
        crash::point("run.put-down");
        self.begun = None;
        self.cancel_turn().await;
        if let Some(session) = &self.record.engine_session {
            let sessions = self.runs.engine().sessions();
            sessions
                .detach(session, begin::client(&self.record.id))
                .await;
        }
        Goes::ToRest
    }

    /// Keeps the record as it is.
    pub(super) async fn keep(&mut self) {
        self.write(Batch::default(), Note::Untold).await;
    }

    /// Keeps the record together with what is in the batch.
    async fn write(&self, mut batch: Batch, note: Note) -> Kept {
        let record = &self.record;
        if let Err(error) = batch.put(RUN, &record.id, record.keep(), record) {
            return self.not_kept(&error);
        }
        if note == Note::Told {
            batch.note(record.note());
        }
        crash::point("run.before-keep");
        let written = self.runs.records().write_all(batch).await;
        crash::point("run.kept");
        match written {
            Ok(()) => Kept::Yes,
            Err(error) => self.not_kept(&error),
        }
    }

    fn not_kept(&self, error: &EngineError) -> Kept {
        warn!(run = self.record.id, error = %engine::chain(error), "the run could not be kept");
        Kept::No
    }

    pub(super) async fn flush(&self) {
        if let Err(error) = self.log.flush().await {
            warn!(run = self.record.id, error = %engine::chain(&error), "events could not be kept");
        }
    }
}

/// Whether the journal tells of the state that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Note {
    Told,
    Untold,
}
