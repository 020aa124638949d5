//! What follows when a process has ended, wanted or not, and when the daemon has come back.

use super::{Lifecycle, State};
use crate::{
    Timestamp,
    lifecycle::{Effect, Exit, Goal, LaunchMode, Ownership, RESTARTS_MAX, Restart, backoff},
};

impl Lifecycle {
    /// The process has ended by itself.
    pub(super) fn exited(&self, exit: Exit, restarts: u32, now: Timestamp) -> (State, Vec<Effect>) {
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
    pub(super) fn lost(&self, exit: Exit) -> (State, Vec<Effect>) {
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
    pub(super) fn crash(&self, exit: Exit, restarts: u32, now: Timestamp) -> (State, Vec<Effect>) {
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
    pub(super) fn ended(&self, goal: Goal) -> (State, Vec<Effect>) {
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
    pub(super) fn come_back(&self) -> (State, Vec<Effect>) {
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
