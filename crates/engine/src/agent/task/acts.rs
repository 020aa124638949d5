//! Performing what the machine has decided: launch, end, watch, restart, remove.

use domain::lifecycle::{Effect, Exit, Input, Process};
use platform::{ProcessRef, crash};
use store::{Change, Entry};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::AgentTask;
use crate::{
    EngineError,
    agent::{WorkspaceError, handle::Event, process},
    clock,
    engine::surroundings,
};

impl AgentTask {
    pub(super) async fn perform(&mut self, effect: Effect) -> Result<(), EngineError> {
        match effect {
            Effect::Launch => {
                let driver = surroundings(&self.around.launcher, &self.around.tasks, &self.record);
                let plan =
                    self.around
                        .launcher
                        .plan(&self.record, self.around.drivers.clone(), driver);
                match plan {
                    Ok(plan) => {
                        self.process =
                            Some(process::run(&self.around.tasks, plan, self.events.clone()));
                    }
                    Err(reason) => {
                        // The channel has room: the process that would report does not exist.
                        let _ = self.events.try_send(Event::LaunchFailed { reason });
                    }
                }
            }
            Effect::AbortLaunch | Effect::Terminate => {
                match &self.process {
                    Some(process) => process.ask(),
                    // It has ended already; there is room, since nobody else reports.
                    None => {
                        let _ = self.events.try_send(Event::Exited {
                            exit: Exit::Unknown,
                        });
                    }
                }
            }
            Effect::Watch { process } => self.watch(process),
            Effect::Unwatch => {
                if let Some(watching) = self.watching.take() {
                    watching.cancel();
                }
            }
            Effect::ScheduleRestart { at } => {
                self.restart_at = Some(Instant::now() + at.since(clock::now()));
            }
            Effect::CancelRestart => self.restart_at = None,
            Effect::RemoveFiles => self.remove().await?,
        }
        Ok(())
    }

    fn watch(&mut self, process: Process) {
        let unwatched = CancellationToken::new();
        self.watching = Some(unwatched.clone());
        let events = self.events.clone();
        let process = ProcessRef {
            pid: process.pid,
            start_time: process.started,
        };
        self.around.tasks.spawn(|stop| async move {
            tokio::select! { biased;
                () = stop.cancelled() => {}
                () = unwatched.cancelled() => {}
                () = process.exited() => {
                    let _ = events.send(Event::Lost).await; // The agent may be gone too.
                }
            }
        });
    }

    async fn remove(&mut self) -> Result<(), EngineError> {
        let name = self.record.name.clone();
        if let Err(reason) = self.remove_files().await {
            // Boxed, since this input is itself performed by an input.
            Box::pin(self.try_input(Input::RemoveFailed {
                reason: reason.clone(),
            }))
            .await;
            let dir = self.record.place.dir().clone();
            self.waiting.refuse_destroyed(|| EngineError::NotRemoved {
                name: name.clone(),
                dir: dir.clone(),
                reason: reason.clone(),
            });
            self.not_removed = Some(reason);
            return Ok(());
        }
        crash::point("lifecycle.files-removed");
        let entry = Change::Journal(Entry {
            at: clock::now().0,
            kind: "agent.destroyed".into(),
            agent: Some(name.to_string()),
            session: None,
            body: "{}".into(),
        });
        let forget = Change::DeleteAgent {
            name: name.to_string(),
        };
        if let Err(error) = self.write(vec![forget, entry]).await {
            // Its row says that it is being destroyed, so the next daemon finishes this.
            warn!(agent = %name, error = %process::chain(&error), "could not forget a destroyed agent yet");
        }
        self.around.registry.remove(&name);
        self.gone = true;
        let _ = self.around.gone.send(self.record.id.clone()).await; // Nobody listens when the daemon stops.
        Ok(())
    }

    async fn remove_files(&self) -> Result<(), String> {
        let (workspace, place) = (self.around.workspace.clone(), self.record.place.clone());
        let log = self.around.launcher.log_of(&self.record.name);
        let removed = self.around.tasks.spawn_blocking(move |_| {
            workspace.remove(&place)?;
            log.remove();
            Ok::<(), WorkspaceError>(())
        });
        match removed.await {
            Ok(removed) => removed.map_err(|error| process::chain(&error)),
            Err(_) => Err("the daemon is shutting down".to_owned()),
        }
    }
}

pub(super) fn effect_name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Launch => "effect.launch",
        Effect::AbortLaunch => "effect.abort-launch",
        Effect::Terminate => "effect.terminate",
        Effect::Watch { .. } => "effect.watch",
        Effect::Unwatch => "effect.unwatch",
        Effect::ScheduleRestart { .. } => "effect.schedule-restart",
        Effect::CancelRestart => "effect.cancel-restart",
        Effect::RemoveFiles => "effect.remove-files",
    }
}
