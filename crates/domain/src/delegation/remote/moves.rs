//! The remote's table of moves: one `apply`, one function per input, every state named in each.

use super::{Lease, Remote, RemoteEffect, RemoteInput, State, Telling};
use crate::{
    Timestamp,
    delegation::{Acceptance, Cleanup, Code, Ending, Failure, Grant, Rejected, Report},
};

impl Remote {
    /// Moves on, and says what must be done; a refused input changes nothing.
    pub fn apply(
        &mut self,
        input: RemoteInput,
        now: Timestamp,
    ) -> Result<Vec<RemoteEffect>, Rejected> {
        match input {
            RemoteInput::InvitedAgain => Ok(self.on_invited_again()),
            RemoteInput::Admitted(acceptance) => self.on_admitted(acceptance, now),
            RemoteInput::Start(grant) => self.on_start(&grant, now),
            RemoteInput::Mounted => self.on_mounted(),
            RemoteInput::TaskDone(report) => self.on_task_done(report),
            RemoteInput::Flushed => self.on_flushed(now),
            RemoteInput::Declined(failure) => self.fail_in(Step::Check, failure, now),
            RemoteInput::MountFailed(failure) => self.fail_in(Step::Mount, failure, now),
            RemoteInput::TaskFailed(failure) => self.fail_in(Step::Task, failure, now),
            RemoteInput::FlushFailed(failure) => self.fail_in(Step::Flush, failure, now),
            RemoteInput::AccessLost { reason } => {
                let failure = Failure::new(Code::MountFailed, reason);
                self.fail_in(Step::Access, failure, now)
            }
            RemoteInput::HostFailed(failure) => Ok(self.on_host_failed(failure, now)),
            RemoteInput::Cancel { reason } => self.on_cancel(reason, now),
            RemoteInput::Told => self.on_told(),
            RemoteInput::Tick => Ok(self.on_tick(now)),
            RemoteInput::Recover => Ok(self.on_recover(now)),
            RemoteInput::Released => self.on_released(),
        }
    }

    fn on_invited_again(&mut self) -> Vec<RemoteEffect> {
        match &self.state {
            State::Invited { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Finishing { .. } => Vec::new(),
            // The answer was lost.
            State::Accepted { acceptance, .. } => {
                vec![RemoteEffect::SendAccept(acceptance.clone())]
            }
            State::Ended { ending, .. } => vec![tell(ending)],
        }
    }

    fn on_admitted(
        &mut self,
        acceptance: Acceptance,
        now: Timestamp,
    ) -> Result<Vec<RemoteEffect>, Rejected> {
        match &mut self.state {
            State::Invited { .. } => {
                let agreement = self.offer.agree(&acceptance)?;
                // The lease runs from now on, and nobody starts what is over.
                let until = now + self.waits.start.min(agreement.ttl);
                let effects = vec![
                    RemoteEffect::SendAccept(acceptance.clone()),
                    RemoteEffect::TickAt(until),
                ];
                self.state = State::Accepted {
                    acceptance,
                    agreement,
                    until,
                };
                Ok(effects)
            }
            // The mount point was reserved while the end came.
            State::Ended { cleanup, .. } => {
                *cleanup = Cleanup::Due;
                Ok(vec![RemoteEffect::RemoveMountPoint])
            }
            State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Finishing { .. } => self.refuse("an admission"),
        }
    }

    fn on_start(&mut self, grant: &Grant, now: Timestamp) -> Result<Vec<RemoteEffect>, Rejected> {
        match &self.state {
            State::Accepted { agreement, .. } => {
                let agreement = agreement.clone();
                // The lower value holds, whatever START says and whatever its clock shows.
                let until = grant.until.min(now + agreement.ttl);
                let access = grant.access.min(agreement.access);
                if until <= now {
                    let words = "the lease was over when START came";
                    let failure = Failure::new(Code::StartExpired, words);
                    return Ok(self.end(Ending::Expired(failure), Tell::Host, now));
                }
                let transport = agreement.transport;
                self.state = State::Started {
                    lease: Lease {
                        agreement,
                        access,
                        until,
                    },
                };
                let mount = RemoteEffect::Mount {
                    access,
                    until,
                    transport,
                };
                Ok(vec![mount, RemoteEffect::TickAt(until)])
            }
            State::Started { .. } | State::Running { .. } | State::Finishing { .. } => {
                Ok(Vec::new())
            }
            State::Ended { ending, .. } => Ok(vec![tell(ending)]),
            State::Invited { .. } => self.refuse("START"),
        }
    }

    fn on_mounted(&mut self) -> Result<Vec<RemoteEffect>, Rejected> {
        match &mut self.state {
            State::Started { lease } => {
                let lease = lease.clone();
                self.state = State::Running { lease };
                Ok(vec![RemoteEffect::BeginTask])
            }
            // Word of it came after it had been stopped.
            State::Ended { cleanup, .. } => {
                *cleanup = Cleanup::Due;
                Ok(vec![RemoteEffect::Unmount, RemoteEffect::RemoveMountPoint])
            }
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Running { .. }
            | State::Finishing { .. } => self.refuse("a mount"),
        }
    }

    fn on_task_done(&mut self, report: Report) -> Result<Vec<RemoteEffect>, Rejected> {
        match &self.state {
            State::Running { lease } => {
                let lease = lease.clone();
                let transport = lease.agreement.transport;
                self.state = State::Finishing { lease, report };
                Ok(vec![RemoteEffect::Flush { transport }])
            }
            State::Ended { .. } => Ok(Vec::new()),
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Finishing { .. } => self.refuse("a finished task"),
        }
    }

    fn on_flushed(&mut self, now: Timestamp) -> Result<Vec<RemoteEffect>, Rejected> {
        match &self.state {
            State::Finishing { report, .. } => {
                let ending = Ending::Completed(report.clone());
                Ok(self.end(ending, Tell::Host, now))
            }
            State::Ended { .. } => Ok(Vec::new()),
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. } => self.refuse("a flush"),
        }
    }

    /// A step of ours failed; that counts only while the step is being done.
    fn fail_in(
        &mut self,
        step: Step,
        failure: Failure,
        now: Timestamp,
    ) -> Result<Vec<RemoteEffect>, Rejected> {
        let current = match &mut self.state {
            State::Invited { .. } => step == Step::Check,
            State::Accepted { .. } => false,
            State::Started { .. } => step == Step::Mount,
            State::Running { .. } => matches!(step, Step::Task | Step::Access),
            State::Finishing { .. } => matches!(step, Step::Flush | Step::Access),
            State::Ended { cleanup, .. } => {
                if step == Step::Mount {
                    // Half a mount may be left.
                    *cleanup = Cleanup::Due;
                    return Ok(vec![RemoteEffect::Unmount, RemoteEffect::RemoveMountPoint]);
                }
                return Ok(Vec::new());
            }
        };
        if !current {
            return self.refuse(step.name());
        }
        Ok(self.end(Ending::of(failure), Tell::Host, now))
    }

    fn on_host_failed(&mut self, failure: Failure, now: Timestamp) -> Vec<RemoteEffect> {
        match &mut self.state {
            // Whoever says so knows.
            State::Ended { telling, .. } => {
                *telling = Telling::Done;
                Vec::new()
            }
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Finishing { .. } => self.end(Ending::of(failure), Tell::Nobody, now),
        }
    }

    fn on_cancel(&mut self, reason: String, now: Timestamp) -> Result<Vec<RemoteEffect>, Rejected> {
        match &self.state {
            State::Ended {
                ending: Ending::Cancelled(_),
                ..
            } => Ok(Vec::new()),
            State::Ended { .. } => self.refuse("a cancel"),
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Finishing { .. } => {
                let failure = Failure::new(Code::Cancelled, reason);
                Ok(self.end(Ending::Cancelled(failure), Tell::Host, now))
            }
        }
    }

    fn on_told(&mut self) -> Result<Vec<RemoteEffect>, Rejected> {
        match &mut self.state {
            State::Ended { telling, .. } => {
                *telling = Telling::Done;
                Ok(Vec::new())
            }
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Finishing { .. } => self.refuse("an acknowledged end"),
        }
    }

    fn on_tick(&mut self, now: Timestamp) -> Vec<RemoteEffect> {
        let (until, failure) = match &self.state {
            State::Invited { until } => (
                *until,
                Failure::new(Code::StartExpired, "nobody could decide in time"),
            ),
            State::Accepted { until, .. } => (
                *until,
                Failure::new(Code::StartExpired, "START did not come in time"),
            ),
            State::Started { lease }
            | State::Running { lease }
            | State::Finishing { lease, .. } => (
                lease.until,
                Failure::new(Code::Expired, "the lease is over"),
            ),
            State::Ended {
                ending,
                telling: Telling::Until(until),
                ..
            } if now < *until => {
                let again = now + self.waits.tell_again;
                return vec![tell(ending), RemoteEffect::TickAt(again)];
            }
            State::Ended { .. } => return Vec::new(),
        };
        if now < until {
            return vec![RemoteEffect::TickAt(until)]; // A timer may fire early when the clock is set.
        }
        self.end(Ending::of(failure), Tell::Host, now)
    }

    fn on_recover(&mut self, now: Timestamp) -> Vec<RemoteEffect> {
        match &self.state {
            State::Invited { until } => {
                let until = *until;
                vec![RemoteEffect::Check, RemoteEffect::TickAt(until)]
            }
            State::Accepted {
                acceptance, until, ..
            } => vec![
                RemoteEffect::SendAccept(acceptance.clone()),
                RemoteEffect::TickAt(*until),
            ],
            // The task and the mount went with the daemon.
            State::Started { .. } | State::Running { .. } | State::Finishing { .. } => {
                let words = "the remote was restarted while it worked";
                let failure = Failure::new(Code::TaskFailed, words);
                self.end(Ending::Error(failure), Tell::Host, now)
            }
            State::Ended {
                cleanup, ending, ..
            } => {
                let mut effects = match cleanup {
                    Cleanup::Due => RELEASE.to_vec(),
                    Cleanup::Done => Vec::new(),
                };
                if *cleanup == Cleanup::Due {
                    effects.push(RemoteEffect::Announce(ending.clone()));
                }
                effects.extend(self.on_tick(now));
                effects
            }
        }
    }

    fn on_released(&mut self) -> Result<Vec<RemoteEffect>, Rejected> {
        match &mut self.state {
            State::Ended { cleanup, .. } => {
                *cleanup = Cleanup::Done;
                Ok(Vec::new())
            }
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Finishing { .. } => self.refuse("a release"),
        }
    }

    /// The work stops first, then the workspace goes, then the host hears of it.
    fn end(&mut self, ending: Ending, to: Tell, now: Timestamp) -> Vec<RemoteEffect> {
        let mut effects = match &self.state {
            State::Started { .. } => vec![RemoteEffect::StopMounting],
            State::Running { .. } => vec![RemoteEffect::StopTask],
            State::Finishing { .. } => vec![RemoteEffect::StopFlushing],
            State::Invited { .. } | State::Accepted { .. } | State::Ended { .. } => Vec::new(),
        };
        effects.extend(RELEASE);
        let telling = match to {
            Tell::Host => {
                effects.push(tell(&ending));
                effects.push(RemoteEffect::TickAt(now + self.waits.tell_again));
                Telling::Until(now + self.waits.tell)
            }
            Tell::Nobody => Telling::Done,
        };
        effects.push(RemoteEffect::Announce(ending.clone()));
        self.state = State::Ended {
            ending,
            cleanup: Cleanup::Due,
            telling,
        };
        effects
    }

    fn refuse(&self, input: &'static str) -> Result<Vec<RemoteEffect>, Rejected> {
        Err(Rejected::Move {
            phase: self.phase(),
            input,
        })
    }
}

/// What may fail on this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Check,
    Mount,
    Task,
    Flush,
    Access,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Check => "a refusal",
            Self::Mount => "a failed mount",
            Self::Task => "a failed task",
            Self::Flush => "a failed flush",
            Self::Access => "a lost workspace",
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Tell {
    Host,
    Nobody,
}

const RELEASE: [RemoteEffect; 2] = [RemoteEffect::Unmount, RemoteEffect::RemoveMountPoint];

fn tell(ending: &Ending) -> RemoteEffect {
    match ending {
        Ending::Completed(report) => RemoteEffect::SendDone(report.clone()),
        Ending::Error(failure) | Ending::Cancelled(failure) | Ending::Expired(failure) => {
            RemoteEffect::SendError(failure.clone())
        }
    }
}
