//! The table of moves: one `apply`, one function per input, every state named in each.

mod endings;

use serde::{Deserialize, Serialize};

use super::{
    Effect, Exit, Force, Goal, Input, LaunchMode, Ownership, Process, Refusal, STABLE_AFTER, State,
    Status,
};
use crate::Timestamp;

/// One agent's life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    mode: LaunchMode,
    /// A one-shot agent that is destroyed when its process exits, whoever started that.
    auto_destroy: bool,
    state: State,
}

type Moved = Result<(State, Vec<Effect>), Refusal>;

impl Lifecycle {
    /// A new agent, whose workspace is about to be made.
    pub fn new(mode: LaunchMode, auto_destroy: bool) -> Self {
        let auto_destroy = auto_destroy && mode == LaunchMode::OneShot;
        Self {
            mode,
            auto_destroy,
            state: State::Creating,
        }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn mode(&self) -> LaunchMode {
        self.mode
    }

    /// What anybody may see; nothing while it is being created or destroyed.
    pub fn status(&self) -> Option<Status> {
        self.state.status()
    }

    /// The process that runs it, and whose it is.
    pub fn process(&self) -> Option<(Process, Ownership)> {
        match &self.state {
            State::Running {
                process, ownership, ..
            } => Some((*process, *ownership)),
            State::Stopping {
                process: Some(process),
                ..
            } => Some((*process, Ownership::Managed)),
            State::Creating
            | State::Created
            | State::Starting { .. }
            | State::Stopping { process: None, .. }
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { .. }
            | State::Destroying => None,
        }
    }

    /// Moves on, and says what must be done; a refused input changes nothing.
    pub fn apply(&mut self, input: Input, now: Timestamp) -> Result<Vec<Effect>, Refusal> {
        let (next, effects) = match input {
            Input::Materialised => self.on_materialised(),
            Input::Start => self.on_start(),
            Input::Launched { process } => self.on_launched(process, now),
            Input::LaunchFailed { reason } => self.on_launch_failed(reason, now),
            Input::Stop => self.on_stop(),
            Input::Exited { exit } => self.on_exited(exit, now),
            Input::Attach { process } => self.on_attach(process, now),
            Input::Detach => self.on_detach(),
            Input::RestartDue => self.on_restart_due(now),
            Input::Destroy { force } => self.on_destroy(force),
            Input::RemoveFailed { reason } => self.on_remove_failed(reason),
            Input::Shutdown => self.on_shutdown(),
            Input::Recover { alive } => self.on_recover(alive),
        }?;
        self.state = next;
        Ok(effects)
    }

    fn stay(&self) -> Moved {
        Ok((self.state.clone(), Vec::new()))
    }

    fn on_materialised(&self) -> Moved {
        match self.state {
            State::Creating => Ok((State::Created, Vec::new())),
            State::Created
            | State::Starting { .. }
            | State::Running { .. }
            | State::Stopping { .. }
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { .. }
            | State::Destroying => Err(Refusal::NotThere),
        }
    }

    fn on_start(&self) -> Moved {
        let starting = State::Starting { restarts: 0 };
        match &self.state {
            State::Created
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { restart: None, .. } => Ok((starting, vec![Effect::Launch])),
            State::Crashed {
                restart: Some(_), ..
            } => Ok((starting, vec![Effect::CancelRestart, Effect::Launch])),
            State::Starting { .. } | State::Running { .. } | State::Stopping { .. } => {
                Err(self.state.busy())
            }
            State::Creating | State::Destroying => Err(Refusal::NotThere),
        }
    }

    fn on_launched(&self, process: Process, now: Timestamp) -> Moved {
        match &self.state {
            State::Starting { restarts } => {
                let ownership = Ownership::Managed;
                Ok((
                    State::Running {
                        process,
                        ownership,
                        since: now,
                        restarts: *restarts,
                    },
                    Vec::new(),
                ))
            }
            // Somebody changed their mind while it was being launched.
            State::Stopping {
                process: None,
                goal,
            } => Ok((
                State::Stopping {
                    process: Some(process),
                    goal: *goal,
                },
                vec![Effect::Terminate],
            )),
            State::Creating
            | State::Created
            | State::Running { .. }
            | State::Stopping {
                process: Some(_), ..
            }
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { .. }
            | State::Destroying => Err(self.state.busy()),
        }
    }

    fn on_launch_failed(&self, reason: String, now: Timestamp) -> Moved {
        match &self.state {
            State::Starting { restarts: 0 } => Ok((State::Failed { reason }, Vec::new())),
            State::Starting { restarts } => Ok(self.crash(Exit::Unknown, *restarts, now)),
            State::Stopping {
                process: None,
                goal,
            } => Ok(self.ended(*goal)),
            State::Creating
            | State::Created
            | State::Running { .. }
            | State::Stopping {
                process: Some(_), ..
            }
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { .. }
            | State::Destroying => self.stay(),
        }
    }

    fn on_stop(&self) -> Moved {
        match &self.state {
            State::Running {
                process,
                ownership: Ownership::Managed,
                ..
            } => Ok((
                State::Stopping {
                    process: Some(*process),
                    goal: Goal::Stopped,
                },
                vec![Effect::Terminate],
            )),
            State::Running {
                process,
                ownership: Ownership::External,
                ..
            } => Err(Refusal::AlreadyAttached { pid: process.pid }),
            State::Starting { .. } => Ok((
                State::Stopping {
                    process: None,
                    goal: Goal::Stopped,
                },
                vec![Effect::AbortLaunch],
            )),
            State::Crashed {
                restart: Some(_), ..
            } => Ok((
                State::Stopped { resume: false },
                vec![Effect::CancelRestart],
            )),
            State::Crashed { restart: None, .. } | State::Stopped { .. } => {
                Ok((State::Stopped { resume: false }, Vec::new()))
            }
            State::Created | State::Failed { .. } | State::Stopping { .. } => self.stay(),
            State::Creating | State::Destroying => Err(Refusal::NotThere),
        }
    }

    fn on_exited(&self, exit: Exit, now: Timestamp) -> Moved {
        match &self.state {
            State::Running {
                ownership: Ownership::External,
                ..
            } => Ok(self.lost(exit)),
            State::Running {
                since,
                restarts,
                ownership: Ownership::Managed,
                ..
            } => {
                let stable = now.since(*since) >= STABLE_AFTER;
                Ok(self.exited(exit, if stable { 0 } else { *restarts }, now))
            }
            State::Stopping { goal, .. } => Ok(self.ended(*goal)),
            // A notice may come late, after the state it spoke of.
            State::Creating
            | State::Created
            | State::Starting { .. }
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { .. }
            | State::Destroying => self.stay(),
        }
    }

    fn on_attach(&self, process: Process, now: Timestamp) -> Moved {
        let attached = State::Running {
            process,
            ownership: Ownership::External,
            since: now,
            restarts: 0,
        };
        match &self.state {
            State::Created
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { restart: None, .. } => {
                Ok((attached, vec![Effect::Watch { process }]))
            }
            State::Crashed {
                restart: Some(_), ..
            } => Ok((
                attached,
                vec![Effect::CancelRestart, Effect::Watch { process }],
            )),
            State::Running {
                process,
                ownership: Ownership::External,
                ..
            } => Err(Refusal::AlreadyAttached { pid: process.pid }),
            State::Running { .. } | State::Starting { .. } | State::Stopping { .. } => {
                Err(self.state.busy())
            }
            State::Creating | State::Destroying => Err(Refusal::NotThere),
        }
    }

    fn on_detach(&self) -> Moved {
        let stopped = State::Stopped { resume: false };
        match &self.state {
            State::Running {
                ownership: Ownership::External,
                ..
            } => Ok((stopped, vec![Effect::Unwatch])),
            State::Crashed {
                ownership: Ownership::External,
                ..
            } => Ok((stopped, Vec::new())),
            State::Created
            | State::Starting { .. }
            | State::Running { .. }
            | State::Stopping { .. }
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { .. } => Err(Refusal::NotAttached),
            State::Creating | State::Destroying => Err(Refusal::NotThere),
        }
    }

    fn on_restart_due(&self, now: Timestamp) -> Moved {
        match &self.state {
            State::Crashed {
                restart: Some(restart),
                ..
            } if restart.at <= now => Ok((
                State::Starting {
                    restarts: restart.count,
                },
                vec![Effect::Launch],
            )),
            // A timer may fire early, late, or after a change of mind.
            State::Crashed { .. }
            | State::Creating
            | State::Created
            | State::Starting { .. }
            | State::Running { .. }
            | State::Stopping { .. }
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Destroying => self.stay(),
        }
    }

    fn on_destroy(&self, force: Force) -> Moved {
        let goal = Goal::Destroyed;
        match &self.state {
            State::Running {
                process,
                ownership: Ownership::Managed,
                ..
            } => Ok((
                State::Stopping {
                    process: Some(*process),
                    goal,
                },
                vec![Effect::Terminate],
            )),
            State::Running {
                process,
                ownership: Ownership::External,
                ..
            } => match force {
                Force::Yes => Ok((
                    State::Destroying,
                    vec![Effect::Unwatch, Effect::RemoveFiles],
                )),
                Force::No => Err(Refusal::AlreadyAttached { pid: process.pid }),
            },
            State::Starting { .. } => Ok((
                State::Stopping {
                    process: None,
                    goal,
                },
                vec![Effect::AbortLaunch],
            )),
            // The ending under way goes on; only what follows it changes.
            State::Stopping { process, .. } => Ok((
                State::Stopping {
                    process: *process,
                    goal,
                },
                Vec::new(),
            )),
            State::Crashed {
                restart: Some(_), ..
            } => Ok((
                State::Destroying,
                vec![Effect::CancelRestart, Effect::RemoveFiles],
            )),
            State::Creating
            | State::Created
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { restart: None, .. } => {
                Ok((State::Destroying, vec![Effect::RemoveFiles]))
            }
            State::Destroying => self.stay(),
        }
    }

    fn on_remove_failed(&self, reason: String) -> Moved {
        match self.state {
            State::Destroying => Ok((State::Failed { reason }, Vec::new())),
            State::Creating
            | State::Created
            | State::Starting { .. }
            | State::Running { .. }
            | State::Stopping { .. }
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { .. } => self.stay(),
        }
    }

    fn on_shutdown(&self) -> Moved {
        let goal = Goal::Paused;
        match &self.state {
            State::Running {
                process,
                ownership: Ownership::Managed,
                ..
            } => Ok((
                State::Stopping {
                    process: Some(*process),
                    goal,
                },
                vec![Effect::Terminate],
            )),
            State::Starting { .. } => Ok((
                State::Stopping {
                    process: None,
                    goal,
                },
                vec![Effect::AbortLaunch],
            )),
            State::Crashed {
                restart: Some(_), ..
            } => Ok((State::Stopped { resume: true }, vec![Effect::CancelRestart])),
            State::Running {
                ownership: Ownership::External,
                ..
            }
            | State::Creating
            | State::Created
            | State::Stopping { .. }
            | State::Stopped { .. }
            | State::Failed { .. }
            | State::Crashed { restart: None, .. }
            | State::Destroying => self.stay(),
        }
    }

    fn on_recover(&self, alive: bool) -> Moved {
        match &self.state {
            State::Creating | State::Destroying => {
                Ok((State::Destroying, vec![Effect::RemoveFiles]))
            }
            State::Running {
                process,
                ownership: Ownership::External,
                ..
            } if alive => Ok((
                self.state.clone(),
                vec![Effect::Watch { process: *process }],
            )),
            State::Running {
                ownership: Ownership::External,
                ..
            } => Ok(self.lost(Exit::Unknown)),
            State::Running {
                ownership: Ownership::Managed,
                ..
            }
            | State::Starting { .. } => Ok(self.come_back()),
            State::Stopping {
                goal: Goal::Paused, ..
            } => Ok(self.come_back()),
            State::Stopping { goal, .. } => Ok(self.ended(*goal)),
            State::Stopped { resume: true }
            | State::Crashed {
                restart: Some(_), ..
            } => Ok(self.come_back()),
            State::Created
            | State::Stopped { resume: false }
            | State::Failed { .. }
            | State::Crashed { restart: None, .. } => self.stay(),
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
