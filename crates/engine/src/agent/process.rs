//! The life of one process of ours, as a task: launch it, tell when it runs, end it when asked, tell how it ended.

use std::{error::Error, fmt::Write, time::Duration};

use domain::lifecycle::{Exit, Process};
use platform::{Group, Pipes, Tasks, crash, process::ChildStdin};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{launch::Plan, log::AgentLog, task::Event};

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
                let _ = events.send(Event::Launched { process }).await; // The agent's task outlives us.
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
            } => match own.spawn_blocking(move |_| spawn.spawn(&guardian)).await {
                Err(_) => Event::LaunchFailed {
                    reason: "the daemon is shutting down".to_owned(),
                },
                Ok(Err(error)) => Event::LaunchFailed {
                    reason: chain(&error),
                },
                Ok(Ok((group, pipes))) => {
                    crash::point("process.spawned");
                    let _stdin = listen(&own, pipes, &log);
                    attend(&group, &events, &asked, &stop, grace).await
                }
            },
        };
        let _ = events.send(outcome).await; // The agent's task may have been cancelled.
    });
    ending
}

/// Keeps what the process prints. Its standard input stays open as long as the result lives, for many programs take its
/// end for their own.
fn listen(tasks: &Tasks, pipes: Pipes, log: &AgentLog) -> Option<ChildStdin> {
    if let Some(stdout) = pipes.stdout {
        log.copy(tasks, stdout);
    }
    if let Some(stderr) = pipes.stderr {
        log.copy(tasks, stderr);
    }
    pipes.stdin
}

/// Waits for the end of the process, or brings it about; nothing of its group is left afterwards.
async fn attend(
    group: &Group,
    events: &mpsc::Sender<Event>,
    asked: &CancellationToken,
    stop: &CancellationToken,
    grace: Duration,
) -> Event {
    let process = Process {
        pid: group.pid(),
        started: group.start_time(),
    };
    let _ = events.send(Event::Launched { process }).await; // The agent's task outlives us.
    let exit = tokio::select! { biased;
        () = stop.cancelled() => group.end(Duration::ZERO).await,
        () = asked.cancelled() => group.end(grace).await,
        _ = group.wait() => group.reap_leftovers().await,
    };
    crash::point("process.ended");
    Event::Exited {
        exit: convert(exit),
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
