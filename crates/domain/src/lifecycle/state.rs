//! What an agent can be, what can happen to it, and what must be done then.

use serde::{Deserialize, Serialize};

use super::{Exit, Ownership, Process, Status};
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

    pub(super) fn busy(&self) -> Refusal {
        match self.status() {
            Some(status) => Refusal::AlreadyRunning { status },
            None => Refusal::NotThere,
        }
    }
}
