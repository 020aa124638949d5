//! What is taken up after a restart, and what is ended when its time is over.

use std::time::Duration;

use domain::{
    Timestamp,
    run::{Input, Status},
};
use engine::{Batch, EngineError};
use platform::crash;
use tracing::{info, warn};
use wire::runs::Event;

use super::Runs;
use crate::{
    log::RunLog,
    record::{self, Failure, RUN, RunRecord},
};

/// How often what has run out is looked for.
const ROUND: Duration = Duration::from_secs(30);

/// Runs read at a time.
const PAGE: u32 = 200;

impl Runs {
    /// Takes up what the last daemon left.
    pub(super) async fn take_up(&self) -> Result<(), EngineError> {
        let (since, mut after) = (record::now(), None);
        while let Some(page) = self.page(since, &mut after).await? {
            for record in page {
                self.take_up_one(record).await?;
            }
        }
        Ok(())
    }

    async fn take_up_one(&self, mut record: RunRecord) -> Result<(), EngineError> {
        let before = record.machine.clone();
        if record
            .machine
            .apply(Input::Restarted, record::now())
            .is_err()
            || record.machine == before
        {
            return Ok(()); // It awaits, and did so without a turn.
        }
        if record.status() == Status::Failed && before.status() != Status::Failed {
            record.error = Some(Failure {
                code: "interrupted".to_owned(),
                message: "the node was restarted while this run was at work".to_owned(),
                details: None,
                suggestion: "look at what it has done, then begin a new run".to_owned(),
            });
        }
        self.end_or_keep(record).await
    }

    /// The next runs that are not over and have not changed since, the oldest first; nothing after the last.
    async fn page(
        &self,
        since: Timestamp,
        after: &mut Option<(i64, String)>,
    ) -> Result<Option<Vec<RunRecord>>, EngineError> {
        let records = self.records();
        let page = records.list_unchanged_since::<RunRecord>(RUN, since.0, after.take(), PAGE);
        let page = page.await?;
        *after = page.last().map(|last| (last.at, last.id.clone()));
        let records: Vec<_> = page.into_iter().map(|stored| stored.value).collect();
        Ok((!records.is_empty()).then_some(records))
    }

    /// Keeps a run that has no task.
    async fn end_or_keep(&self, mut record: RunRecord) -> Result<(), EngineError> {
        let is_over = record.status().is_over();
        if is_over {
            record.finished_at = Some(record::now());
            record.asks.clear();
            let run = record.id.clone();
            let changed = self
                .change_session(&record.session, |session| {
                    session.last_active = record::now();
                    if session.active_run.as_ref() == Some(&run) {
                        session.active_run = None;
                    }
                })
                .await;
            if let Err(error) = changed {
                warn!(%error, run, "the session could not be kept");
            }
        }
        let records = self.records();
        let mut batch = Batch::default();
        if is_over {
            batch.note(record.note());
            // That it is over is told where it is kept, or a stream that is picked up would never hear of it.
            let log = RunLog::open(&record.id, records.clone()).await?;
            log.stage(&Event::of_run(record.view()), &mut batch).await?;
        }
        batch.put(RUN, &record.id, record.keep(), &record)?;
        records.write_all(batch).await?;
        crash::point("run.taken-up");
        Ok(())
    }

    /// Ends what has run out, every while.
    pub(super) fn keep_tidy(&self) {
        let runs = self.clone();
        self.tasks().spawn(|stop| async move {
            // What the last daemon left is not left for longer.
            stop.run_until_cancelled(runs.sweep()).await;
            loop {
                tokio::select! { biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(ROUND) => runs.tidy(record::now()).await,
                }
            }
        });
    }

    pub(crate) async fn tidy(&self, now: Timestamp) {
        if let Err(error) = self.expire_runs(now).await {
            warn!(error = %engine::chain(&error), "runs that await could not be looked through");
        }
        if let Err(error) = self.expire_sessions(now).await {
            warn!(%error, "sessions could not be looked through");
        }
        match self.exchange().collect(now).await {
            Ok(0) => {}
            Ok(count) => info!(count, "removed what had expired from the exchange"),
            Err(error) => warn!(%error, "the exchange could not be looked through"),
        }
        self.sweep().await;
    }

    async fn sweep(&self) {
        if let Err(error) = self.exchange().sweep().await {
            warn!(%error, "what nobody means could not be looked for");
        }
    }

    /// Runs that await without a task run out here.
    async fn expire_runs(&self, now: Timestamp) -> Result<(), EngineError> {
        let mut after = None;
        while let Some(page) = self.page(now, &mut after).await? {
            for record in page {
                let is_due = record.machine.due().is_some_and(|due| due <= now);
                if is_due && record.status() == Status::Awaiting {
                    self.expire_run(&record.id, now).await?;
                }
            }
        }
        Ok(())
    }

    async fn expire_run(&self, id: &str, now: Timestamp) -> Result<(), EngineError> {
        // Whoever answers it at this moment goes first or finds it over.
        let _gate = self.gate().await;
        if self.handle(id).is_some() {
            return Ok(()); // Its task knows what time it is.
        }
        let stored = self.records().get::<RunRecord>(RUN, id).await?;
        let Some(mut record) = stored.map(|stored| stored.value) else {
            return Ok(());
        };
        if record.status() != Status::Awaiting {
            return Ok(());
        }
        let _ = record.machine.apply(Input::Tick, now); // A tick is never refused.
        record.error = Some(Failure {
            code: "await_timeout".to_owned(),
            message: "nobody answered what the run asked".to_owned(),
            details: None,
            suggestion: "begin a new run and answer it in time".to_owned(),
        });
        self.end_or_keep(record).await
    }
}
