//! The table of moves: one `apply`, one function per input, every state named in each.

use serde::{Deserialize, Serialize};

use super::{Exit, LaunchMode, Ownership, Process, RESTARTS_MAX, STABLE_AFTER, Status, backoff};
use crate::Timestamp;

/// Where an agent is in its life, with all that is needed to go on from there after a crash of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum State {
    /// Its workspace is being made; nobody sees it yet.
    Creating,
    Created,
    /// Its process is being launched; `restarts` crashes led here.
    Starting {
        restarts: u32,
    },
    Running {
        process: Process,
        ownership: Ownership,
        since: Timestamp,
        restarts: u32,
    },
    /// Its process is being ended; there is none yet if it was still being launched.
    Stopping {
        process: Option<Process>,
        goal: Goal,
    },
    /// `resume`: it was stopped because the daemon stopped, and starts again with it.
    Stopped {
        resume: bool,
    },
    /// Our own attempt to start it failed, or it crashed too often.
    Failed {
        reason: String,
    },
    Crashed {
        exit: Exit,
        ownership: Ownership,
        restart: Option<Restart>,
    },
    /// Its files are being removed; nobody sees it any more.
    Destroying,
}

/// What comes after the process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    Stopped,
    /// The daemon is going down; the agent comes back with it if its mode says so.
    Paused,
    Destroyed,
}

/// A restart that is due at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    pub at: Timestamp,
    /// How many restarts there will have been, this one included.
    pub count: u32,
}

/// What can happen to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The workspace is complete.
    Materialised,
    Start,
    Launched {
        process: Process,
    },
    LaunchFailed {
        reason: String,
    },
    Stop,
    Exited {
        exit: Exit,
    },
    Attach {
        process: Process,
    },
    Detach,
    RestartDue,
    /// Remove it, ending its process first; `Force::Yes` also lets go of a client's process.
    Destroy {
        force: Force,
    },
    /// Its files could not be removed; it stays, and says why.
    RemoveFailed {
        reason: String,
    },
    /// The daemon is going down in good order.
    Shutdown,
    /// The daemon has come up and found this state; `alive` tells whether its recorded process still lives.
    Recover {
        alive: bool,
    },
}

impl Input {
    /// Whether it holds even if it cannot be kept: it has happened already, or must not be held up by a full disk.
    pub fn holds_unkept(&self) -> bool {
        match self {
            Self::Launched { .. }
            | Self::LaunchFailed { .. }
            | Self::Exited { .. }
            | Self::Stop
            | Self::Detach
            | Self::Destroy { .. }
            | Self::RemoveFailed { .. }
            | Self::Shutdown
            | Self::Recover { .. } => true,
            Self::Materialised | Self::Start | Self::Attach { .. } | Self::RestartDue => false,
        }
    }
}

/// Whether a destroy may let go of a process that a client owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    Yes,
    No,
}

/// What the owner of the machine must do, in order, after the new state is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Launch,
    AbortLaunch,
    /// SIGTERM to the group, the grace, SIGKILL; the end comes back as `Exited`.
    Terminate,
    Watch {
        process: Process,
    },
    Unwatch,
    ScheduleRestart {
        at: Timestamp,
    },
    CancelRestart,
    RemoveFiles,
}

/// Why an input was refused; the state is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the agent is already {}", .status.as_str())]
    AlreadyRunning { status: Status },
    #[error("the agent is attached to process {pid}, which a client owns")]
    AlreadyAttached { pid: u32 },
    #[error("the agent is not attached to a process")]
    NotAttached,
    #[error("the agent is being created or destroyed")]
    NotThere,
}

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

    /// The process has ended by itself.
    fn exited(&self, exit: Exit, restarts: u32, now: Timestamp) -> (State, Vec<Effect>) {
        if self.auto_destroy {
            return (State::Destroying, vec![Effect::RemoveFiles]);
        }
        match self.mode {
            LaunchMode::AcpService => self.crash(exit, restarts, now),
            LaunchMode::Direct | LaunchMode::AcpBackground | LaunchMode::OneShot
                if exit.is_clean() =>
            {
                (State::Stopped { resume: false }, Vec::new())
            }
            LaunchMode::Direct | LaunchMode::AcpBackground | LaunchMode::OneShot => (
                State::Crashed {
                    exit,
                    ownership: Ownership::Managed,
                    restart: None,
                },
                Vec::new(),
            ),
        }
    }

    /// A client's process has ended and nobody said so: the client may be gone too, and cannot destroy what it made.
    fn lost(&self, exit: Exit) -> (State, Vec<Effect>) {
        if self.auto_destroy {
            return (State::Destroying, vec![Effect::RemoveFiles]);
        }
        let crashed = State::Crashed {
            exit,
            ownership: Ownership::External,
            restart: None,
        };
        (crashed, Vec::new())
    }

    /// A service has crashed, or could not be launched again after it had.
    fn crash(&self, exit: Exit, restarts: u32, now: Timestamp) -> (State, Vec<Effect>) {
        if restarts >= RESTARTS_MAX {
            let reason = format!(
                "crashed again after {restarts} restarts ({exit}); start it by hand once it is mended"
            );
            return (State::Failed { reason }, Vec::new());
        }
        let restart = Restart {
            at: now + backoff(restarts),
            count: restarts + 1,
        };
        let crashed = State::Crashed {
            exit,
            ownership: Ownership::Managed,
            restart: Some(restart),
        };
        (crashed, vec![Effect::ScheduleRestart { at: restart.at }])
    }

    /// The process has ended because we wanted it to.
    fn ended(&self, goal: Goal) -> (State, Vec<Effect>) {
        match goal {
            Goal::Destroyed => (State::Destroying, vec![Effect::RemoveFiles]),
            Goal::Stopped => (State::Stopped { resume: false }, Vec::new()),
            Goal::Paused => (
                State::Stopped {
                    resume: self.mode == LaunchMode::AcpService,
                },
                Vec::new(),
            ),
        }
    }

    /// The daemon is back, and so is the agent if it is a service.
    fn come_back(&self) -> (State, Vec<Effect>) {
        match self.mode {
            LaunchMode::AcpService => (State::Starting { restarts: 0 }, vec![Effect::Launch]),
            LaunchMode::OneShot if self.auto_destroy => {
                (State::Destroying, vec![Effect::RemoveFiles])
            }
            LaunchMode::Direct | LaunchMode::AcpBackground | LaunchMode::OneShot => {
                (State::Stopped { resume: false }, Vec::new())
            }
        }
    }
}

impl State {
    /// What anybody may see of it.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Creating | Self::Destroying => None,
            Self::Created => Some(Status::Created),
            Self::Starting { .. } => Some(Status::Starting),
            Self::Running { .. } => Some(Status::Running),
            Self::Stopping { .. } => Some(Status::Stopping),
            Self::Stopped { .. } => Some(Status::Stopped),
            Self::Failed { .. } => Some(Status::Error),
            Self::Crashed { .. } => Some(Status::Crashed),
        }
    }

    fn busy(&self) -> Refusal {
        match self.status() {
            Some(status) => Refusal::AlreadyRunning { status },
            None => Refusal::NotThere,
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
