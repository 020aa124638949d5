//! The host's table of moves: one `apply`, one function per input, every state named in each.

use super::{Host, HostEffect, HostInput, State};
use crate::{
    Timestamp,
    delegation::{
        Acceptance, Agreement, Cleanup, Code, Ending, Failure, Grant, Phase, Rejected, Report,
    },
};

impl Host {
    /// Moves on, and says what must be done; a refused input changes nothing.
    pub fn apply(&mut self, input: HostInput, now: Timestamp) -> Result<Vec<HostEffect>, Rejected> {
        match input {
            HostInput::LockGranted => self.on_lock(now),
            HostInput::Accept(acceptance) => self.on_accept(&acceptance, now),
            HostInput::Prepared => self.on_prepared(now),
            HostInput::Began => self.on_began(),
            HostInput::Done(report) => self.on_done(report, now),
            HostInput::Collected => self.on_collected(),
            HostInput::RemoteFailed(failure) => Ok(self.on_remote_failed(failure)),
            HostInput::Cancel { reason } => self.on_cancel(reason),
            HostInput::NoLock(failure) => self.fail_in(Step::Lock, failure),
            HostInput::PrepareFailed(failure) => self.fail_in(Step::Prepare, failure),
            HostInput::CollectFailed(failure) => self.fail_in(Step::Collect, failure),
            HostInput::Fail(failure) => self.fail_in(Step::Any, failure),
            HostInput::Unreachable { reason } => self.on_unreachable(&reason),
            HostInput::Tick => Ok(self.on_tick(now)),
            HostInput::Recover => Ok(self.on_recover(now)),
            HostInput::Released => self.on_released(),
        }
    }

    fn on_lock(&mut self, now: Timestamp) -> Result<Vec<HostEffect>, Rejected> {
        match &mut self.state {
            State::Created { .. } => {
                let until = now + self.waits.accept;
                self.state = State::Invited { until };
                Ok(vec![HostEffect::SendInvite, HostEffect::TickAt(until)])
            }
            // It was on its way when the end came.
            State::Ended { cleanup, .. } => {
                *cleanup = Cleanup::Due;
                Ok(vec![HostEffect::ReleaseLock])
            }
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Collecting { .. } => self.refuse("a lock"),
        }
    }

    fn on_accept(
        &mut self,
        acceptance: &Acceptance,
        now: Timestamp,
    ) -> Result<Vec<HostEffect>, Rejected> {
        let agreed = self.offer.agree(acceptance);
        match &self.state {
            State::Invited { .. } => {
                let agreement = agreed?;
                let until = now + agreement.ttl;
                let grant = grant(&agreement, until);
                let transport = agreement.transport;
                self.state = State::Accepted { agreement, until };
                let prepare = HostEffect::Prepare { grant, transport };
                Ok(vec![prepare, HostEffect::TickAt(until)])
            }
            // Said twice, it holds once; a remote that asks again has not got START.
            State::Accepted { agreement, until }
            | State::Started { agreement, until }
            | State::Running { agreement, until } => {
                if agreed.as_ref() != Ok(agreement) {
                    return Err(Rejected::OtherTerms);
                }
                Ok(match &self.state {
                    State::Started { .. } => vec![HostEffect::SendStart {
                        grant: grant(agreement, *until),
                        transport: agreement.transport,
                    }],
                    State::Created { .. }
                    | State::Invited { .. }
                    | State::Accepted { .. }
                    | State::Running { .. }
                    | State::Collecting { .. }
                    | State::Ended { .. } => Vec::new(),
                })
            }
            State::Collecting { .. } => Ok(Vec::new()),
            State::Ended { ending, .. } => Ok(tell(ending)),
            State::Created { .. } => self.refuse("ACCEPT"),
        }
    }

    fn on_prepared(&mut self, now: Timestamp) -> Result<Vec<HostEffect>, Rejected> {
        match &mut self.state {
            State::Accepted { until, .. } if *until <= now => Ok(self.on_tick(now)),
            State::Accepted { agreement, until } => {
                let (agreement, until) = (agreement.clone(), *until);
                let start = HostEffect::SendStart {
                    grant: grant(&agreement, until),
                    transport: agreement.transport,
                };
                self.state = State::Started { agreement, until };
                Ok(vec![start])
            }
            // Word of it came after it had been stopped.
            State::Ended { cleanup, .. } => {
                *cleanup = Cleanup::Due;
                Ok(vec![HostEffect::RevokeCredential, HostEffect::CloseExport])
            }
            State::Created { .. }
            | State::Invited { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Collecting { .. } => self.refuse("a finished export"),
        }
    }

    fn on_began(&mut self) -> Result<Vec<HostEffect>, Rejected> {
        match &self.state {
            State::Started { agreement, until } => {
                self.state = State::Running {
                    agreement: agreement.clone(),
                    until: *until,
                };
                Ok(Vec::new())
            }
            State::Running { .. } | State::Collecting { .. } => Ok(Vec::new()),
            State::Ended { ending, .. } => Ok(tell(ending)),
            State::Created { .. } | State::Invited { .. } | State::Accepted { .. } => {
                self.refuse("a beginning")
            }
        }
    }

    fn on_done(&mut self, report: Report, now: Timestamp) -> Result<Vec<HostEffect>, Rejected> {
        match &self.state {
            State::Started { agreement, until } | State::Running { agreement, until } => {
                // A lease that is over is over, also if nobody has looked at the clock yet.
                if *until <= now {
                    return Ok(self.on_tick(now));
                }
                let agreement = agreement.clone();
                let transport = agreement.transport;
                let until = now + self.waits.collect;
                self.state = State::Collecting {
                    agreement,
                    report,
                    until,
                };
                Ok(vec![
                    HostEffect::RevokeCredential,
                    HostEffect::CloseExport,
                    HostEffect::Collect { transport },
                    HostEffect::TickAt(until),
                ])
            }
            State::Collecting { .. } => Ok(Vec::new()),
            State::Ended { ending, .. } => Ok(tell(ending)),
            State::Created { .. } | State::Invited { .. } | State::Accepted { .. } => {
                self.refuse("DONE")
            }
        }
    }

    fn on_collected(&mut self) -> Result<Vec<HostEffect>, Rejected> {
        match &self.state {
            State::Collecting { report, .. } => {
                let ending = Ending::Completed(report.clone());
                Ok(self.end(ending, Tell::Nobody))
            }
            State::Ended { .. } => Ok(Vec::new()),
            State::Created { .. }
            | State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. } => self.refuse("a collected result"),
        }
    }

    fn on_remote_failed(&mut self, failure: Failure) -> Vec<HostEffect> {
        match &self.state {
            // Nobody was invited, so this is somebody who guessed the id; or both ended at once.
            State::Created { .. } | State::Collecting { .. } | State::Ended { .. } => Vec::new(),
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. } => self.end(Ending::of(failure), Tell::Nobody),
        }
    }

    fn on_cancel(&mut self, reason: String) -> Result<Vec<HostEffect>, Rejected> {
        let failure = Failure::new(Code::Cancelled, reason);
        match &self.state {
            // Said twice, it is done once.
            State::Ended {
                ending: Ending::Cancelled(_),
                ..
            } => Ok(Vec::new()),
            State::Ended { .. } => self.refuse("a cancel"),
            State::Created { .. } => Ok(self.end(Ending::Cancelled(failure), Tell::Nobody)),
            State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Collecting { .. } => Ok(self.end(Ending::Cancelled(failure), Tell::Remote)),
        }
    }

    /// A step of ours failed; that counts only while the step is being done.
    fn fail_in(&mut self, step: Step, failure: Failure) -> Result<Vec<HostEffect>, Rejected> {
        let (current, to) = match &mut self.state {
            State::Created { .. } => (step == Step::Lock, Tell::Nobody),
            State::Invited { .. } | State::Started { .. } | State::Running { .. } => {
                (false, Tell::Remote)
            }
            State::Accepted { .. } => (step == Step::Prepare, Tell::Remote),
            State::Collecting { .. } => (step == Step::Collect, Tell::Remote),
            State::Ended { cleanup, .. } => {
                if step == Step::Prepare {
                    // Half an export may be left.
                    *cleanup = Cleanup::Due;
                    return Ok(vec![HostEffect::RevokeCredential, HostEffect::CloseExport]);
                }
                return Ok(Vec::new());
            }
        };
        if !current && step != Step::Any {
            return self.refuse(step.name());
        }
        Ok(self.end(Ending::of(failure), to))
    }

    fn on_unreachable(&mut self, reason: &str) -> Result<Vec<HostEffect>, Rejected> {
        match &self.state {
            State::Invited { .. } | State::Started { .. } => {
                let failure = Failure::with_hint(
                    Code::TaskFailed,
                    format!("the remote cannot be reached: {reason}"),
                    "check its address, and that it runs",
                );
                // It may have heard us without our hearing it.
                Ok(self.end(Ending::Error(failure), Tell::Remote))
            }
            // It has been heard since, or all is over.
            State::Accepted { .. }
            | State::Running { .. }
            | State::Collecting { .. }
            | State::Ended { .. } => Ok(Vec::new()),
            State::Created { .. } => self.refuse("an unreachable peer"),
        }
    }

    fn on_tick(&mut self, now: Timestamp) -> Vec<HostEffect> {
        let (until, failure, tell) = match &self.state {
            State::Created { until } => (
                *until,
                Failure::with_hint(
                    Code::Expired,
                    "others had the folder all the time",
                    "wait for them, or lend another folder",
                ),
                Tell::Nobody,
            ),
            State::Invited { until } => (
                *until,
                Failure::new(
                    Code::StartExpired,
                    "the remote did not answer the invitation",
                ),
                Tell::Remote,
            ),
            State::Accepted { until, .. } => (
                *until,
                Failure::new(Code::StartExpired, "the lease was over before it began"),
                Tell::Remote,
            ),
            State::Started { until, .. } | State::Running { until, .. } => (
                *until,
                Failure::new(Code::Expired, "the lease is over"),
                Tell::Remote,
            ),
            State::Collecting { until, .. } => (
                *until,
                Failure::new(
                    Code::TaskFailed,
                    "the result could not be taken home in time",
                ),
                Tell::Remote,
            ),
            State::Ended { .. } => return Vec::new(),
        };
        if now < until {
            return vec![HostEffect::TickAt(until)]; // A timer may fire early when the clock is set.
        }
        self.end(Ending::of(failure), tell)
    }

    fn on_recover(&mut self, now: Timestamp) -> Vec<HostEffect> {
        let mut effects = match &self.state {
            State::Created { .. } => vec![HostEffect::AcquireLock],
            State::Invited { .. } => vec![HostEffect::ReacquireLock, HostEffect::SendInvite],
            State::Accepted { agreement, until } => vec![
                HostEffect::ReacquireLock,
                HostEffect::Prepare {
                    grant: grant(agreement, *until),
                    transport: agreement.transport,
                },
            ],
            State::Started { agreement, until } | State::Running { agreement, until } => {
                let (grant, transport) = (grant(agreement, *until), agreement.transport);
                let restore = HostEffect::Restore {
                    grant: grant.clone(),
                    transport,
                };
                let mut effects = vec![HostEffect::ReacquireLock, restore];
                if self.phase() == Phase::Started {
                    effects.push(HostEffect::SendStart { grant, transport });
                }
                effects
            }
            State::Collecting { agreement, .. } => vec![
                HostEffect::ReacquireLock,
                HostEffect::RevokeCredential,
                HostEffect::CloseExport,
                HostEffect::Collect {
                    transport: agreement.transport,
                },
            ],
            State::Ended { ending, cleanup } => {
                return match cleanup {
                    Cleanup::Done => Vec::new(),
                    Cleanup::Due => RELEASE.into_iter().chain(tell(ending)).collect(),
                };
            }
        };
        // What ran out while nobody looked must not be opened for a moment, so the clock comes first.
        let ticked = self.on_tick(now);
        if self.phase().is_end() {
            return ticked;
        }
        effects.extend(ticked);
        effects
    }

    fn on_released(&mut self) -> Result<Vec<HostEffect>, Rejected> {
        match &mut self.state {
            State::Ended { cleanup, .. } => {
                *cleanup = Cleanup::Done;
                Ok(Vec::new())
            }
            State::Created { .. }
            | State::Invited { .. }
            | State::Accepted { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Collecting { .. } => self.refuse("a release"),
        }
    }

    /// Access ends first, then everything else is given back, then it is told.
    fn end(&mut self, ending: Ending, to: Tell) -> Vec<HostEffect> {
        let mut effects = match &self.state {
            State::Accepted { .. } => vec![HostEffect::StopPreparing],
            State::Collecting { .. } => vec![HostEffect::StopCollecting],
            State::Created { .. }
            | State::Invited { .. }
            | State::Started { .. }
            | State::Running { .. }
            | State::Ended { .. } => Vec::new(),
        };
        effects.extend(RELEASE);
        match to {
            Tell::Remote => effects.extend(tell(&ending)),
            Tell::Nobody => {}
        }
        effects.push(HostEffect::Announce(ending.clone()));
        self.state = State::Ended {
            ending,
            cleanup: Cleanup::Due,
        };
        effects
    }

    fn refuse(&self, input: &'static str) -> Result<Vec<HostEffect>, Rejected> {
        Err(Rejected::Move {
            phase: self.phase(),
            input,
        })
    }
}

/// What may fail on this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Lock,
    Prepare,
    Collect,
    /// Not a step: something that ends it at any time.
    Any,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Lock => "the refusal of a lock",
            Self::Prepare => "a failed export",
            Self::Collect => "a result that cannot be collected",
            Self::Any => "a failure of the host",
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Tell {
    Remote,
    Nobody,
}

const RELEASE: [HostEffect; 3] = [
    HostEffect::RevokeCredential,
    HostEffect::CloseExport,
    HostEffect::ReleaseLock,
];

fn tell(ending: &Ending) -> Vec<HostEffect> {
    let failure = ending.failure().cloned();
    failure.map(HostEffect::SendError).into_iter().collect()
}

fn grant(agreement: &Agreement, until: Timestamp) -> Grant {
    Grant {
        access: agreement.access,
        until,
    }
}
