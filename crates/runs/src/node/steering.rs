//! Runs that there are: found, answered, cancelled, read.

use std::sync::Arc;

use domain::run::{Refusal, Status};
use engine::{Caller, EngineError, Rights};
use tokio::sync::oneshot;
use wire::runs::Message;

use super::{Handle, Runs};
use crate::{
    error::RunsError,
    log::RunLog,
    record::{RUN, RunRecord},
    task::{self, Command},
};

/// How often a run is asked whose task is given up in that moment. Once is rare; a task that never answers is one that
/// ends with the daemon.
const ASKED_MAX: usize = 3;

impl Runs {
    /// A run that this caller may see, as it was kept last.
    pub(crate) async fn find(&self, id: &str, caller: &Caller) -> Result<RunRecord, RunsError> {
        let not_found = || RunsError::RunNotFound { id: id.to_owned() };
        let live = self.handle(id).map(|handle| handle.view.borrow().clone());
        let record = match live {
            Some(record) => (*record).clone(),
            None => {
                let stored = self.records().get::<RunRecord>(RUN, id).await?;
                stored.ok_or_else(not_found)?.value
            }
        };
        let may_see = record.caller == caller.name || caller.rights == Rights::All;
        may_see.then_some(record).ok_or_else(not_found)
    }

    /// The task of a run; one that awaits without a task gets one again.
    async fn wake(&self, record: &RunRecord) -> Result<Option<Handle>, RunsError> {
        if let Some(handle) = self.handle(&record.id) {
            return Ok(Some(handle));
        }
        if record.status() != Status::Awaiting {
            return Ok(None);
        }
        let _gate = self.gate().await;
        if let Some(handle) = self.handle(&record.id) {
            return Ok(Some(handle));
        }
        // It may have been answered by another before the gate.
        let stored = self.records().get::<RunRecord>(RUN, &record.id).await?;
        let Some(record) = stored.map(|stored| stored.value) else {
            return Ok(None);
        };
        if record.status() != Status::Awaiting {
            return Ok(None);
        }
        let log = RunLog::open(&record.id, self.records()).await?;
        let id = record.id.clone();
        let mut live = self.live();
        let handle = task::spawn_known(self, record, log);
        live.insert(id, handle.clone());
        Ok(Some(handle))
    }

    /// Answers what a run awaits; says how many events came before.
    pub(crate) async fn resume(
        &self,
        record: RunRecord,
        messages: Vec<Message>,
        ask: Option<String>,
    ) -> Result<(Handle, u64), RunsError> {
        let refusal = Refusal::NotAwaiting {
            status: record.status(),
        };
        let resume = |reply| Command::Resume {
            messages: messages.clone(),
            ask: ask.clone(),
            reply,
        };
        self.command(record, refusal, resume).await
    }

    pub(crate) async fn cancel(&self, record: RunRecord) -> Result<Arc<RunRecord>, RunsError> {
        let refusal = Refusal::Over {
            status: record.status(),
        };
        let cancel = |reply| Command::Cancel { reply };
        let (handle, ()) = self.command(record, refusal, cancel).await?;
        let view = handle.view.borrow().clone();
        Ok(view)
    }

    /// Asks the task of a run; `refusal` is the answer where there is none and will be none.
    async fn command<T>(
        &self,
        record: RunRecord,
        refusal: Refusal,
        command: impl Fn(oneshot::Sender<Result<T, RunsError>>) -> Command,
    ) -> Result<(Handle, T), RunsError> {
        for _ in 0..ASKED_MAX {
            let Some(handle) = self.wake(&record).await? else {
                let id = record.id;
                return Err(RunsError::Refused { id, refusal });
            };
            let (reply, answer) = oneshot::channel();
            if handle.commands.send(command(reply)).await.is_err() {
                continue;
            }
            if let Ok(answered) = answer.await {
                return answered.map(|answer| (handle, answer));
            }
        }
        Err(EngineError::ShuttingDown.into())
    }

    /// The events of a run, also of one that is over.
    pub(crate) async fn log(&self, record: &RunRecord) -> Result<Arc<RunLog>, RunsError> {
        if let Some(handle) = self.handle(&record.id) {
            return Ok(handle.log);
        }
        let log = RunLog::open(&record.id, self.records()).await?;
        log.finish();
        Ok(Arc::new(log))
    }
}
