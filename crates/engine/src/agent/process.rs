//! The life of one process of ours, as a task: launch it, tell when it runs, end it when asked, tell how it ended.

use std::{error::Error, fmt::Write, sync::Arc, time::Duration};

use domain::lifecycle::{Exit, Process};
use platform::{
    Group, Pipes, Tasks, crash,
    process::{ChildStdin, ChildStdout},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    handle::Event,
    launch::{Plan, Speaker},
    log::AgentLog,
};
use crate::{AcpProcess, Driver, DriverError};

/// How long a process may live after it has stopped speaking.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Asks the process to end; dropping it does so too.
#[derive(Debug)]
pub(crate) struct Ending(CancellationToken);

impl Ending {
    pub(crate) fn ask(&self) {
        self.0.cancel();
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Starts the process in a task of its own that reports `Launched` or `LaunchFailed`, then `Exited`.
pub(crate) fn run(tasks: &Tasks, plan: Plan, events: mpsc::Sender<Event>) -> Ending {
    let asked = CancellationToken::new();
    let ending = Ending(asked.clone());
    let own = tasks.clone();
    tasks.spawn(|stop| async move {
        let outcome = match plan {
            Plan::Mock { process } => {
                let launched = Event::Launched {
                    process,
                    driver: None,
                };
                let _ = events.send(launched).await; // The agent's task outlives us.
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = asked.cancelled() => {}
                }
                Event::Exited {
                    exit: Exit::Code(0),
                }
            }
            Plan::Real {
                spawn,
                guardian,
                grace,
                log,
                speaker,
            } => match own.spawn_blocking(move |_| spawn.spawn(&guardian)).await {
                Err(_) => Event::LaunchFailed {
                    reason: "the daemon is shutting down".to_owned(),
                },
                Ok(Err(error)) => Event::LaunchFailed {
                    reason: chain(&error),
                },
                Ok(Ok((group, pipes))) => {
                    crash::point("process.spawned");
                    let life = Life {
                        group,
                        events: events.clone(),
                        asked,
                        stop,
                        grace,
                    };
                    life.live(&own, pipes, log, speaker).await
                }
            },
        };
        let _ = events.send(outcome).await; // The agent's task may have been cancelled.
    });
    ending
}

/// A process that has been started.
struct Life {
    group: Group,
    events: mpsc::Sender<Event>,
    asked: CancellationToken,
    stop: CancellationToken,
    grace: Duration,
}

impl Life {
    /// From the first word to the end; nothing of the group is left afterwards.
    async fn live(
        self,
        tasks: &Tasks,
        pipes: Pipes,
        log: AgentLog,
        speaker: Option<Box<Speaker>>,
    ) -> Event {
        if let Some(stderr) = pipes.stderr {
            log.copy(tasks, stderr);
        }
        let process = Process {
            pid: self.group.pid(),
            started: self.group.start_time(),
        };
        match (speaker, pipes.stdin, pipes.stdout) {
            (Some(speaker), Some(stdin), Some(stdout)) => {
                match self.greet(speaker, stdin, stdout).await {
                    Ok(driver) => self.attend(process, Some(driver)).await,
                    Err(reason) => {
                        self.group.end(self.grace).await;
                        Event::LaunchFailed { reason }
                    }
                }
            }
            (_, stdin, stdout) => {
                if let Some(stdout) = stdout {
                    log.copy(tasks, stdout);
                }
                // Many programs take the end of their input for their own.
                let _stdin = stdin;
                self.attend(process, None).await
            }
        }
    }

    /// Shakes hands; a process that dies or is unwanted meanwhile is not waited for.
    async fn greet(
        &self,
        speaker: Box<Speaker>,
        stdin: ChildStdin,
        stdout: ChildStdout,
    ) -> Result<Arc<dyn Driver>, String> {
        let Speaker { drivers, around } = *speaker;
        let greeting = (drivers.acp)(AcpProcess {
            stdin,
            stdout,
            around,
        });
        tokio::select! { biased;
            () = self.stop.cancelled() => Err("the daemon is shutting down".to_owned()),
            () = self.asked.cancelled() => Err("it was stopped before it had started".to_owned()),
            greeted = greeting => match greeted {
                Ok(driver) => Ok(driver),
                // Its exit tells more than the silence that follows from it.
                Err(DriverError::Gone { .. }) => {
                    let exit = self.group.reap_leftovers().await;
                    Err(format!("the process ended before it had answered ({exit}); see its log"))
                }
                Err(error) => Err(chain(&error)),
            },
            exit = self.group.wait() => Err(format!("the process ended before it had answered ({exit}); see its log")),
        }
    }

    /// A process that has closed its streams is about to end, or will never be of use again.
    async fn after_silence(&self) -> platform::Exit {
        match tokio::time::timeout(SILENCE_MAX, self.group.wait()).await {
            Ok(_) => self.group.reap_leftovers().await,
            Err(_) => {
                tracing::warn!(
                    pid = self.group.pid(),
                    "ending a process that does not speak any more"
                );
                self.group.end(self.grace).await
            }
        }
    }

    async fn attend(self, process: Process, driver: Option<Arc<dyn Driver>>) -> Event {
        let speech = driver.clone();
        let _ = self.events.send(Event::Launched { process, driver }).await; // The agent's task outlives us.
        let exit = tokio::select! { biased;
            () = self.stop.cancelled() => self.group.end(Duration::ZERO).await,
            () = self.asked.cancelled() => self.group.end(self.grace).await,
            _ = self.group.wait() => self.group.reap_leftovers().await,
            () = silence(speech) => self.after_silence().await,
        };
        crash::point("process.ended");
        Event::Exited {
            exit: convert(exit),
        }
    }
}

/// The moment the process stops speaking; never for one that does not speak.
async fn silence(driver: Option<Arc<dyn Driver>>) {
    match driver {
        Some(driver) => driver.ended().await,
        None => std::future::pending().await,
    }
}

fn convert(exit: platform::Exit) -> Exit {
    match exit {
        platform::Exit::Code(code) => Exit::Code(code),
        platform::Exit::Signal(signal) => Exit::Signal(signal),
        platform::Exit::Lost => Exit::Unknown,
    }
}

/// An error with its causes, in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}"); // Writing to a text cannot fail.
        cause = error.source();
    }
    text
}
