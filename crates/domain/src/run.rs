//! A run: a turn asked for through the network, with states of its own.
//!
//! While it awaits, nothing has to live but this value: the turn that asked may be gone with the daemon that ran it, and
//! the answer then begins another. Time spent awaiting does not count against the run's deadline.

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Timestamp, turn::AskId};

/// What anybody sees of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Created,
    InProgress,
    Awaiting,
    Cancelling,
    Cancelled,
    Completed,
    Failed,
}

impl Status {
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::InProgress,
        Self::Awaiting,
        Self::Cancelling,
        Self::Cancelled,
        Self::Completed,
        Self::Failed,
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::InProgress => "in-progress",
            Self::Awaiting => "awaiting",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Whether nothing more will happen.
    pub fn is_over(self) -> bool {
        match self {
            Self::Cancelled | Self::Completed | Self::Failed => true,
            Self::Created | Self::InProgress | Self::Awaiting | Self::Cancelling => false,
        }
    }
}

/// How long a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Of work, without the time it awaits.
    pub work: Duration,
    /// For each answer.
    pub answer: Duration,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    state: State,
    limits: Limits,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
enum State {
    Created,
    InProgress {
        deadline: Timestamp,
    },
    Awaiting {
        /// What is asked now, first, and what is asked after it; never empty.
        asks: VecDeque<AskId>,
        until: Timestamp,
        /// What is left of the work's time.
        left: Duration,
        turn: TurnThere,
    },
    Cancelling,
    Cancelled,
    Completed,
    Failed,
}

/// Whether the turn that asked still waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TurnThere {
    Waits,
    Gone,
}

/// What can happen to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Start,
    /// The turn asks.
    Asked {
        ask: AskId,
    },
    /// An ask of the turn was answered by somebody else, or withdrawn.
    Settled {
        ask: AskId,
    },
    /// The caller answers what is asked now.
    Resume,
    Cancel,
    TurnEnded {
        end: TurnEnd,
    },
    /// It could not begin, or not go on.
    Fail,
    /// The daemon ended, and another has taken up.
    Restarted,
    /// Time has passed.
    Tick,
}

/// How the turn of a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    Done,
    Failed,
    Cancelled,
}

/// What must be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Prompt the session.
    Begin,
    /// Give the answer to the turn that waits for it.
    Answer { ask: AskId },
    /// Prompt the session with the answer: the turn that asked is gone.
    GoOn,
    /// Tell the agent to end the turn.
    CancelTurn,
    /// Look again at this moment.
    TickAt { at: Timestamp },
    /// The time for the work is over.
    OutOfTime,
    /// Nobody answered in time.
    Unanswered,
}

/// Why an input was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the run is {} already", status.as_str())]
    Over { status: Status },
    #[error("the run is {}, it awaits nothing", status.as_str())]
    NotAwaiting { status: Status },
    #[error("that cannot happen to a run that is {}", status.as_str())]
    OutOfOrder { status: Status },
}

type Step = Result<(State, Vec<Effect>), Refusal>;

impl Run {
    /// How long it may take.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    pub fn new(limits: Limits) -> Self {
        Self {
            state: State::Created,
            limits,
        }
    }

    pub fn status(&self) -> Status {
        match self.state {
            State::Created => Status::Created,
            State::InProgress { .. } => Status::InProgress,
            State::Awaiting { .. } => Status::Awaiting,
            State::Cancelling => Status::Cancelling,
            State::Cancelled => Status::Cancelled,
            State::Completed => Status::Completed,
            State::Failed => Status::Failed,
        }
    }

    /// What the run awaits an answer to.
    pub fn awaits(&self) -> Option<&AskId> {
        match &self.state {
            State::Awaiting { asks, .. } => asks.front(),
            State::Created
            | State::InProgress { .. }
            | State::Cancelling
            | State::Cancelled
            | State::Completed
            | State::Failed => None,
        }
    }

    /// When to look at it again if nothing happens.
    pub fn due(&self) -> Option<Timestamp> {
        match &self.state {
            State::InProgress { deadline } => Some(*deadline),
            State::Awaiting { until, .. } => Some(*until),
            State::Created
            | State::Cancelling
            | State::Cancelled
            | State::Completed
            | State::Failed => None,
        }
    }

    /// Moves on, and says what must be done; a refused input changes nothing.
    pub fn apply(&mut self, input: Input, now: Timestamp) -> Result<Vec<Effect>, Refusal> {
        let status = self.status();
        if status.is_over() {
            return match input {
                Input::Tick | Input::Restarted => Ok(Vec::new()), // A timer may fire late.
                Input::Resume => Err(Refusal::NotAwaiting { status }),
                Input::Start
                | Input::Asked { .. }
                | Input::Settled { .. }
                | Input::Cancel
                | Input::TurnEnded { .. }
                | Input::Fail => Err(Refusal::Over { status }),
            };
        }
        let (next, effects) = match input {
            Input::Start => self.on_start(now)?,
            Input::Asked { ask } => self.on_asked(ask, now)?,
            Input::Settled { ask } => self.on_settled(&ask, now)?,
            Input::Resume => self.on_resume(now)?,
            Input::Cancel => self.on_cancel(),
            Input::TurnEnded { end } => self.on_turn_ended(end)?,
            Input::Fail => (State::Failed, Vec::new()),
            Input::Restarted => self.on_restarted(),
            Input::Tick => self.on_tick(now),
        };
        self.state = next;
        Ok(effects)
    }

    fn on_start(&self, now: Timestamp) -> Step {
        match &self.state {
            State::Created => {
                let deadline = now + self.limits.work;
                let effects = vec![Effect::Begin, Effect::TickAt { at: deadline }];
                Ok((State::InProgress { deadline }, effects))
            }
            State::InProgress { .. }
            | State::Awaiting { .. }
            | State::Cancelling
            | State::Cancelled
            | State::Completed
            | State::Failed => Err(self.out_of_order()),
        }
    }

    fn on_asked(&self, ask: AskId, now: Timestamp) -> Step {
        match &self.state {
            State::InProgress { deadline } => {
                let until = now + self.limits.answer;
                let state = State::Awaiting {
                    asks: VecDeque::from([ask]),
                    until,
                    left: deadline.since(now),
                    turn: TurnThere::Waits,
                };
                Ok((state, vec![Effect::TickAt { at: until }]))
            }
            State::Awaiting {
                asks,
                until,
                left,
                turn: TurnThere::Waits,
            } => {
                let mut asks = asks.clone();
                if !asks.contains(&ask) {
                    asks.push_back(ask);
                }
                let (until, left, turn) = (*until, *left, TurnThere::Waits);
                let state = State::Awaiting {
                    asks,
                    until,
                    left,
                    turn,
                };
                Ok((state, Vec::new()))
            }
            // The turn is told no by whoever cancels it.
            State::Cancelling => Ok((State::Cancelling, Vec::new())),
            State::Created
            | State::Awaiting { .. }
            | State::Cancelled
            | State::Completed
            | State::Failed => Err(self.out_of_order()),
        }
    }

    fn on_settled(&self, ask: &AskId, now: Timestamp) -> Step {
        let State::Awaiting {
            asks,
            until,
            left,
            turn,
        } = &self.state
        else {
            // The answer of a resume comes back as this, and nothing is left to do.
            return match &self.state {
                State::InProgress { .. } | State::Cancelling => {
                    Ok((self.state.clone(), Vec::new()))
                }
                State::Created
                | State::Awaiting { .. }
                | State::Cancelled
                | State::Completed
                | State::Failed => Err(self.out_of_order()),
            };
        };
        let was_first = asks.front() == Some(ask);
        let mut asks = asks.clone();
        asks.retain(|waiting| waiting != ask);
        if asks.is_empty() {
            return Ok(self.work_for(*left, now, Vec::new()));
        }
        let until = if was_first {
            now + self.limits.answer
        } else {
            *until
        };
        let effects = vec![Effect::TickAt { at: until }];
        let (left, turn) = (*left, *turn);
        let state = State::Awaiting {
            asks,
            until,
            left,
            turn,
        };
        Ok((state, effects))
    }

    fn on_resume(&self, now: Timestamp) -> Step {
        let State::Awaiting {
            asks,
            until,
            left,
            turn,
        } = &self.state
        else {
            let status = self.status();
            return Err(Refusal::NotAwaiting { status });
        };
        if *until <= now {
            // The timer is late; the answer is too.
            let status = self.status();
            return Err(Refusal::NotAwaiting { status });
        }
        let mut asks = asks.clone();
        let first = asks.pop_front();
        let first = first.expect("a run that awaits has something it asks");
        match turn {
            // The questions behind it are gone with the turn; it asks again what it still wants to know.
            TurnThere::Gone => Ok(self.work_for(*left, now, vec![Effect::GoOn])),
            TurnThere::Waits if asks.is_empty() => {
                Ok(self.work_for(*left, now, vec![Effect::Answer { ask: first }]))
            }
            TurnThere::Waits => {
                let until = now + self.limits.answer;
                let effects = vec![Effect::Answer { ask: first }, Effect::TickAt { at: until }];
                let (left, turn) = (*left, *turn);
                let state = State::Awaiting {
                    asks,
                    until,
                    left,
                    turn,
                };
                Ok((state, effects))
            }
        }
    }

    fn work_for(
        &self,
        left: Duration,
        now: Timestamp,
        mut effects: Vec<Effect>,
    ) -> (State, Vec<Effect>) {
        let deadline = now + left;
        effects.push(Effect::TickAt { at: deadline });
        (State::InProgress { deadline }, effects)
    }

    fn on_cancel(&self) -> (State, Vec<Effect>) {
        match &self.state {
            State::Created
            | State::Awaiting {
                turn: TurnThere::Gone,
                ..
            } => (State::Cancelled, Vec::new()),
            State::InProgress { .. } | State::Awaiting { .. } => {
                (State::Cancelling, vec![Effect::CancelTurn])
            }
            // Callers resend cancel; the second one is not an error.
            State::Cancelling => (State::Cancelling, Vec::new()),
            State::Cancelled | State::Completed | State::Failed => (self.state.clone(), Vec::new()),
        }
    }

    fn on_turn_ended(&self, end: TurnEnd) -> Step {
        match (&self.state, end) {
            // However it ended: the caller had asked for the end.
            (State::Cancelling, _) => Ok((State::Cancelled, Vec::new())),
            (State::InProgress { .. } | State::Awaiting { .. }, TurnEnd::Done) => {
                Ok((State::Completed, Vec::new()))
            }
            (State::InProgress { .. } | State::Awaiting { .. }, TurnEnd::Failed) => {
                Ok((State::Failed, Vec::new()))
            }
            (State::InProgress { .. } | State::Awaiting { .. }, TurnEnd::Cancelled) => {
                Ok((State::Cancelled, Vec::new()))
            }
            (
                State::Created | State::Cancelled | State::Completed | State::Failed,
                TurnEnd::Done | TurnEnd::Failed | TurnEnd::Cancelled,
            ) => Err(self.out_of_order()),
        }
    }

    fn on_restarted(&self) -> (State, Vec<Effect>) {
        match &self.state {
            State::Created | State::InProgress { .. } => (State::Failed, Vec::new()),
            State::Awaiting {
                asks, until, left, ..
            } => {
                let first: VecDeque<AskId> = asks.iter().take(1).cloned().collect();
                let effects = vec![Effect::TickAt { at: *until }];
                let state = State::Awaiting {
                    asks: first,
                    until: *until,
                    left: *left,
                    turn: TurnThere::Gone,
                };
                (state, effects)
            }
            State::Cancelling => (State::Cancelled, Vec::new()),
            State::Cancelled | State::Completed | State::Failed => (self.state.clone(), Vec::new()),
        }
    }

    fn on_tick(&self, now: Timestamp) -> (State, Vec<Effect>) {
        match &self.state {
            State::InProgress { deadline } if *deadline <= now => {
                (State::Failed, vec![Effect::CancelTurn, Effect::OutOfTime])
            }
            State::Awaiting { until, turn, .. } if *until <= now => {
                let effects = match turn {
                    TurnThere::Waits => vec![Effect::CancelTurn, Effect::Unanswered],
                    TurnThere::Gone => vec![Effect::Unanswered],
                };
                (State::Failed, effects)
            }
            State::Created
            | State::InProgress { .. }
            | State::Awaiting { .. }
            | State::Cancelling
            | State::Cancelled
            | State::Completed
            | State::Failed => (self.state.clone(), Vec::new()),
        }
    }

    fn out_of_order(&self) -> Refusal {
        Refusal::OutOfOrder {
            status: self.status(),
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
