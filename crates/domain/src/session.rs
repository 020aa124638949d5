//! A session as a machine: one turn at a time, asks answered once, a lease that ends.
//!
//! Stream data does not pass through here. Clients come and go; the session outlives them until its lease runs out.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    turn::{Answer, AskId, AskKind, Stop, TurnId},
};

/// How long a session lives without a client and without a turn, unless its creator says otherwise.
pub const IDLE_TTL: Duration = Duration::from_secs(30 * 60);

/// Prompts that may wait for their turn: more than that is a program that does not listen.
pub const QUEUE_MAX: usize = 32;

/// A client of a session: a connection, with the name it gave itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientId(pub String);

/// What anybody sees of a session's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lease {
    /// A client is attached, or a turn runs.
    Active,
    Idle,
    Expired,
    Closed,
}

impl Lease {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::Expired => "expired",
            Self::Closed => "closed",
        }
    }
}

/// What to do with a prompt that comes while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    Queue,
    Refuse,
}

/// What can happen to a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    Prompt {
        when_busy: WhenBusy,
    },
    /// Ends a turn, or takes it from those that wait; without a number, the one that runs.
    Cancel {
        turn: Option<TurnId>,
    },
    /// The turn asks; the decision to ask has been made.
    Asked {
        ask: AskId,
        kind: AskKind,
    },
    Answered {
        ask: AskId,
        answer: Answer,
        by: ClientId,
    },
    /// The turn withdraws its question.
    Withdrawn {
        ask: AskId,
    },
    TurnEnded {
        turn: TurnId,
        stop: Stop,
    },
    Attach {
        client: ClientId,
    },
    Detach {
        client: ClientId,
    },
    /// Time has passed.
    Tick,
    Close,
}

/// What must be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Begin this turn with the prompt that was given for it.
    Begin { turn: TurnId },
    /// Tell the agent to end the turn.
    CancelTurn { turn: TurnId },
    /// Give the answer to the turn that waits for it, and tell everybody.
    Settle {
        ask: AskId,
        answer: Answer,
        by: Option<ClientId>,
    },
    /// These prompts will not be carried out.
    Drop { turns: Vec<TurnId> },
    /// Let go of the agent's side of the session.
    Release,
    /// Look again at this moment.
    TickAt { at: Timestamp },
}

/// Why an input was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("a turn is running; wait for it, cancel it, or ask to be queued")]
    Busy,
    #[error("{QUEUE_MAX} prompts are waiting already")]
    QueueFull,
    #[error("this ask is settled already, or never was")]
    NoSuchAsk,
    #[error("that is not an answer to what was asked")]
    WrongAnswer,
    #[error("the session is closed")]
    Closed,
    #[error("the session has expired")]
    Expired,
}

/// One session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    life: Life,
    clients: BTreeSet<ClientId>,
    idle_ttl: Duration,
    /// When it became idle; meaningful while it is.
    idle_since: Timestamp,
    last_turn: TurnId,
}

#[derive(Debug, Clone, PartialEq)]
enum Life {
    Ready,
    Running {
        turn: TurnId,
        cancelling: bool,
        asks: BTreeMap<AskId, AskKind>,
        queue: VecDeque<TurnId>,
    },
    Expired,
    Closed,
}

impl Session {
    /// A session after `turns` turns, with nobody attached.
    pub fn new(idle_ttl: Duration, turns: u64, now: Timestamp) -> Self {
        Self {
            life: Life::Ready,
            clients: BTreeSet::new(),
            idle_ttl,
            idle_since: now,
            last_turn: TurnId(turns),
        }
    }

    pub fn lease(&self) -> Lease {
        match &self.life {
            Life::Running { .. } => Lease::Active,
            Life::Ready if self.clients.is_empty() => Lease::Idle,
            Life::Ready => Lease::Active,
            Life::Expired => Lease::Expired,
            Life::Closed => Lease::Closed,
        }
    }

    /// The turn that runs.
    pub fn turn(&self) -> Option<TurnId> {
        match &self.life {
            Life::Running { turn, .. } => Some(*turn),
            Life::Ready | Life::Expired | Life::Closed => None,
        }
    }

    /// The last turn that was given a number, begun or not.
    pub fn last_turn(&self) -> TurnId {
        self.last_turn
    }

    pub fn clients(&self) -> impl Iterator<Item = &ClientId> {
        self.clients.iter()
    }

    /// What the turn waits for.
    pub fn asks(&self) -> impl Iterator<Item = (&AskId, &AskKind)> {
        match &self.life {
            Life::Running { asks, .. } => Some(asks.iter()),
            Life::Ready | Life::Expired | Life::Closed => None,
        }
        .into_iter()
        .flatten()
    }

    /// Moves on, and says what must be done; a refused input changes nothing.
    pub fn apply(&mut self, input: Input, now: Timestamp) -> Result<Vec<Effect>, Refusal> {
        match self.life {
            Life::Closed
                if !matches!(
                    input,
                    Input::Detach { .. } | Input::Tick | Input::TurnEnded { .. }
                ) =>
            {
                return Err(Refusal::Closed);
            }
            Life::Expired
                if !matches!(input, Input::Detach { .. } | Input::Tick | Input::Close) =>
            {
                return Err(Refusal::Expired);
            }
            Life::Ready | Life::Running { .. } | Life::Closed | Life::Expired => {}
        }
        match input {
            Input::Prompt { when_busy } => self.on_prompt(when_busy),
            Input::Cancel { turn } => Ok(self.on_cancel(turn)),
            Input::Asked { ask, kind } => Ok(self.on_asked(ask, kind)),
            Input::Answered { ask, answer, by } => self.on_answered(ask, answer, by),
            Input::Withdrawn { ask } => Ok(self.on_withdrawn(&ask)),
            Input::TurnEnded { turn, stop: _ } => Ok(self.on_turn_ended(turn, now)),
            Input::Attach { client } => {
                self.clients.insert(client);
                Ok(Vec::new())
            }
            Input::Detach { client } => Ok(self.on_detach(&client, now)),
            Input::Tick => Ok(self.on_tick(now)),
            Input::Close => Ok(self.on_close()),
        }
    }

    fn on_prompt(&mut self, when_busy: WhenBusy) -> Result<Vec<Effect>, Refusal> {
        let next = TurnId(self.last_turn.0 + 1);
        match (&mut self.life, when_busy) {
            (Life::Running { queue, .. }, WhenBusy::Queue) => {
                if queue.len() >= QUEUE_MAX {
                    return Err(Refusal::QueueFull);
                }
                queue.push_back(next);
                self.last_turn = next;
                Ok(Vec::new())
            }
            (Life::Running { .. }, WhenBusy::Refuse) => Err(Refusal::Busy),
            (Life::Ready | Life::Expired | Life::Closed, _) => {
                self.last_turn = next;
                self.life = running(next, VecDeque::new());
                Ok(vec![Effect::Begin { turn: next }])
            }
        }
    }

    fn on_cancel(&mut self, which: Option<TurnId>) -> Vec<Effect> {
        let Life::Running {
            turn,
            cancelling,
            asks,
            queue,
        } = &mut self.life
        else {
            return Vec::new(); // Editors cancel what is over already.
        };
        if let Some(which) = which.filter(|which| which != turn) {
            return match queue.iter().position(|waiting| *waiting == which) {
                Some(place) => {
                    queue.remove(place);
                    vec![Effect::Drop { turns: vec![which] }]
                }
                None => Vec::new(), // It is over.
            };
        }
        // Editors resend cancel; the second one is not another act.
        let is_new = !std::mem::replace(cancelling, true);
        let cancel = is_new.then_some(Effect::CancelTurn { turn: *turn });
        cancel.into_iter().chain(withdraw(asks)).collect()
    }

    fn on_asked(&mut self, ask: AskId, kind: AskKind) -> Vec<Effect> {
        match &mut self.life {
            Life::Running {
                cancelling: false,
                asks,
                ..
            } => {
                asks.insert(ask, kind);
                Vec::new()
            }
            // Nobody answers for a turn that is being cancelled or is over.
            Life::Running { .. } | Life::Ready | Life::Expired | Life::Closed => {
                vec![Effect::Settle {
                    ask,
                    answer: Answer::Declined,
                    by: None,
                }]
            }
        }
    }

    fn on_answered(
        &mut self,
        ask: AskId,
        answer: Answer,
        by: ClientId,
    ) -> Result<Vec<Effect>, Refusal> {
        let Life::Running { asks, .. } = &mut self.life else {
            return Err(Refusal::NoSuchAsk);
        };
        let kind = asks.get(&ask).ok_or(Refusal::NoSuchAsk)?;
        if !kind.takes(&answer) {
            return Err(Refusal::WrongAnswer);
        }
        asks.remove(&ask);
        Ok(vec![Effect::Settle {
            ask,
            answer,
            by: Some(by),
        }])
    }

    fn on_withdrawn(&mut self, ask: &AskId) -> Vec<Effect> {
        match &mut self.life {
            Life::Running { asks, .. } => match asks.remove(ask) {
                Some(_) => vec![Effect::Settle {
                    ask: ask.clone(),
                    answer: Answer::Declined,
                    by: None,
                }],
                None => Vec::new(),
            },
            Life::Ready | Life::Expired | Life::Closed => Vec::new(),
        }
    }

    fn on_turn_ended(&mut self, ended: TurnId, now: Timestamp) -> Vec<Effect> {
        let Life::Running {
            turn, asks, queue, ..
        } = &mut self.life
        else {
            return Vec::new(); // Closed while it ran.
        };
        if *turn != ended {
            return Vec::new(); // A notice may come late.
        }
        let mut effects = withdraw(asks);
        match queue.pop_front() {
            Some(next) => {
                let rest = std::mem::take(queue);
                self.life = running(next, rest);
                effects.push(Effect::Begin { turn: next });
            }
            None => {
                self.life = Life::Ready;
                effects.extend(self.became_idle(now));
            }
        }
        effects
    }

    fn on_detach(&mut self, client: &ClientId, now: Timestamp) -> Vec<Effect> {
        let was_there = self.clients.remove(client);
        if was_there && self.life == Life::Ready {
            self.became_idle(now)
        } else {
            Vec::new()
        }
    }

    fn became_idle(&mut self, now: Timestamp) -> Vec<Effect> {
        if !self.clients.is_empty() {
            return Vec::new();
        }
        self.idle_since = now;
        vec![Effect::TickAt {
            at: now + self.idle_ttl,
        }]
    }

    fn on_tick(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.lease() != Lease::Idle {
            return Vec::new();
        }
        if now.since(self.idle_since) < self.idle_ttl {
            return vec![Effect::TickAt {
                at: self.idle_since + self.idle_ttl,
            }];
        }
        self.life = Life::Expired;
        vec![Effect::Release]
    }

    fn on_close(&mut self) -> Vec<Effect> {
        let mut effects = self.on_cancel(None);
        if let Life::Running { queue, .. } = &mut self.life
            && !queue.is_empty()
        {
            let turns = queue.drain(..).collect();
            effects.push(Effect::Drop { turns });
        }
        let expired = self.life == Life::Expired;
        self.life = Life::Closed;
        if !expired {
            effects.push(Effect::Release);
        }
        effects
    }
}

fn running(turn: TurnId, queue: VecDeque<TurnId>) -> Life {
    Life::Running {
        turn,
        cancelling: false,
        asks: BTreeMap::new(),
        queue,
    }
}

fn withdraw(asks: &mut BTreeMap<AskId, AskKind>) -> Vec<Effect> {
    std::mem::take(asks)
        .into_keys()
        .map(|ask| Effect::Settle {
            ask,
            answer: Answer::Declined,
            by: None,
        })
        .collect()
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
