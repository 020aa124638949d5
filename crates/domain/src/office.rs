//! Offices as one machine: who is in which, who may call whom, and which request has been answered.
//!
//! All offices are one machine because its rules lie between them: a computer is in one office at a time, and nothing
//! crosses from one to another. Bodies of requests and answers do not pass through here; a `Ticket` stands for them.

mod allowance;
mod membership;
mod names;
mod requests;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

pub use allowance::Allowance;
pub use names::{MEMBER_NAME_MAX, MemberName, MemberNameError, REQUEST_ID_MAX, RequestId};

use crate::{Name, Timestamp};

/// How long an answer is kept for an agent that repeats its request: longer than any reconnection takes.
pub const ANSWER_TTL: Duration = Duration::from_secs(10 * 60);

/// Answers kept at once, over all offices: a burst of calls and its repetition.
pub const ANSWERS_MAX: usize = 4096;

/// A connection to the relay, as its transport calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub String);

/// What a member is in its office.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Agent,
    Computer,
}

impl Role {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Computer => "computer",
        }
    }
}

/// Stands for a request until it has been answered, and for its answer while that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Whether somebody joins a free place or that of a connection which has fallen silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    Free,
    TakeOver { from: ConnectionId },
}

/// What an agent asks of a computer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Reading is harmless to repeat, so nothing is remembered of it.
    Read,
    /// A tool call, which happens once for each request id; the fingerprint tells whether a repetition is one.
    Call {
        request: RequestId,
        fingerprint: u64,
    },
}

/// What a computer says has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Config,
    ToolList,
    Desktop,
    Skills,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A connection was let in under this caller's name.
    Connected {
        connection: ConnectionId,
        caller: String,
    },
    Join {
        connection: ConnectionId,
        role: Role,
        name: MemberName,
        office: Name,
        claim: Claim,
    },
    Leave {
        connection: ConnectionId,
        office: Name,
    },
    /// The connection is gone.
    Lost { connection: ConnectionId },
    Ask {
        connection: ConnectionId,
        computer: MemberName,
        question: Question,
    },
    /// The same for a computer that is connected to another server; `to` stands for it there.
    AskElsewhere {
        connection: ConnectionId,
        to: ConnectionId,
        question: Question,
    },
    /// The computer has answered.
    Answered { ticket: Ticket },
    /// It has failed, and no computer has heard of it: whoever repeats it asks anew.
    Undelivered { ticket: Ticket },
    /// Nobody has answered in time.
    TimedOut { ticket: Ticket },
    Cancel {
        connection: ConnectionId,
        request: RequestId,
    },
    /// The same by an agent that is connected to another relay now, and was to this one when it called.
    CancelCall { call: CallKey },
    Announce {
        connection: ConnectionId,
        /// The name the sender says it has.
        claimed: Option<String>,
        change: Change,
    },
    /// Time has passed: answers that nobody will ask for again are forgotten.
    Tick,
}

/// What the members of an office are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    Entered {
        office: Name,
        role: Role,
        name: MemberName,
    },
    Left {
        office: Name,
        role: Role,
        name: MemberName,
    },
    Changed {
        office: Name,
        computer: MemberName,
        change: Change,
    },
    Cancelled {
        office: Name,
        agent: MemberName,
        request: RequestId,
    },
}

impl Notice {
    /// The office it is about, which is the only one that hears it.
    pub fn office(&self) -> &Name {
        match self {
            Self::Entered { office, .. }
            | Self::Left { office, .. }
            | Self::Changed { office, .. }
            | Self::Cancelled { office, .. } => office,
        }
    }
}

/// Why a request ends without the computer's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The computer has left, or its connection is gone.
    Vanished,
    /// The agent has left the office.
    Left,
}

/// What must be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Tell {
        to: Vec<ConnectionId>,
        notice: Notice,
    },
    /// Its place is taken: close it.
    Evict {
        connection: ConnectionId,
    },
    /// Ask the computer for what it offers.
    Learn {
        connection: ConnectionId,
    },
    Forward {
        ticket: Ticket,
        to: ConnectionId,
    },
    /// The same request is under way: its answer is for this asker too.
    Join {
        ticket: Ticket,
    },
    /// The same request has been answered: give that answer again.
    Replay {
        ticket: Ticket,
    },
    /// Give the answer to everybody who waits for it.
    Deliver {
        ticket: Ticket,
        keep: Keep,
    },
    /// Answer everybody who waits: there will be no other answer.
    Settle {
        ticket: Ticket,
        ending: Ending,
        keep: Keep,
    },
    /// The kept answer is not needed any more.
    Forget {
        ticket: Ticket,
    },
    /// A cancelled call is not known here: if another relay carries it, it ends there.
    SeekCall {
        call: CallKey,
    },
}

/// Whether an answer may be asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Yes,
    No,
}

/// Why an input was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this connection is not known")]
    UnknownConnection,
    #[error("the office has an agent already")]
    AgentPresent,
    #[error("the office has a computer of this name already")]
    NameTaken,
    /// The same caller holds the place through another connection, which may be dead.
    #[error("this place is held through another connection")]
    Held { by: ConnectionId },
    #[error("an agent is in one office at a time: leave {office} first")]
    AgentElsewhere { office: Name },
    #[error("this connection has joined as {} already", role.as_str())]
    RoleTaken { role: Role },
    #[error("join an office first")]
    NotInOffice,
    #[error("this connection is not in that office")]
    OtherOffice,
    #[error("only {} may do this", role.as_str())]
    WrongRole { role: Role },
    #[error("a computer speaks for itself alone")]
    NotYours,
    #[error("there is no computer of this name in the office")]
    NoSuchComputer,
    #[error("this request id stands for another call")]
    RequestIdReused,
    #[error("{limit} requests are waiting for an answer already")]
    TooManyRequests { limit: usize },
    #[error("an office holds at most {limit} members")]
    OfficeFull { limit: usize },
}

/// Bounds that the operator may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests of one connection that wait for an answer.
    pub requests_max: usize,
    /// Members of one office.
    pub members_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_max: 512,
            members_max: 256,
        }
    }
}

/// A member as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub office: Name,
    pub role: Role,
    pub name: MemberName,
}

/// All offices of one relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offices {
    limits: Limits,
    connections: BTreeMap<ConnectionId, Connection>,
    offices: BTreeMap<Name, Office>,
    requests: BTreeMap<Ticket, Request>,
    calls: BTreeMap<CallKey, Call>,
    /// Answered calls, the oldest first.
    answered: VecDeque<(Timestamp, CallKey)>,
    last_ticket: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Connection {
    caller: String,
    member: Option<Member>,
    waiting: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Office {
    agent: Option<ConnectionId>,
    computers: BTreeMap<MemberName, ConnectionId>,
}

/// Whom a request is for.
enum Whom<'a> {
    /// The computer of this name in the agent's own office.
    Here(&'a MemberName),
    /// A computer that this relay does not hold.
    Elsewhere(ConnectionId),
}

/// A request that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    office: Name,
    computer: ConnectionId,
    askers: Vec<ConnectionId>,
    call: Option<CallKey>,
}

/// A request id belongs to one agent of one caller in one office; another agent of the same name finds nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallKey {
    pub office: Name,
    pub caller: String,
    pub agent: MemberName,
    pub request: RequestId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    ticket: Ticket,
    fingerprint: u64,
    /// Who works on it, or has.
    computer: ConnectionId,
    state: CallState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallState {
    UnderWay,
    Answered,
}

impl Offices {
    /// No office, nobody connected.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            connections: BTreeMap::new(),
            offices: BTreeMap::new(),
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            answered: VecDeque::new(),
            last_ticket: 0,
        }
    }

    /// Moves on, and says what must be done; a refused input changes nothing.
    pub fn apply(&mut self, input: Input, now: Timestamp) -> Result<Vec<Effect>, Refusal> {
        match input {
            Input::Connected { connection, caller } => {
                self.on_connected(connection, caller);
                Ok(Vec::new())
            }
            Input::Join {
                connection,
                role,
                name,
                office,
                claim,
            } => {
                let member = Member { office, role, name };
                self.on_join(connection, member, claim, now)
            }
            Input::Leave { connection, office } => self.on_leave(&connection, &office, now),
            Input::Lost { connection } => Ok(self.on_lost(&connection, now)),
            Input::Ask {
                connection,
                computer,
                question,
            } => self.on_ask(connection, Whom::Here(&computer), question, now),
            Input::AskElsewhere {
                connection,
                to,
                question,
            } => self.on_ask(connection, Whom::Elsewhere(to), question, now),
            Input::Answered { ticket } => Ok(self.on_answered(ticket, now)),
            Input::Undelivered { ticket } => Ok(self.on_undelivered(ticket)),
            Input::TimedOut { ticket } => Ok(self.on_timed_out(ticket, now)),
            Input::Cancel {
                connection,
                request,
            } => self.on_cancel(&connection, request),
            Input::CancelCall { call } => Ok(self.on_cancel_call(call)),
            Input::Announce {
                connection,
                claimed,
                change,
            } => self.on_announce(&connection, claimed.as_deref(), change),
            Input::Tick => Ok(self.forget_old(now)),
        }
    }

    /// Whose agent sits here: a word for its office, caller and name, with which its request ids are told from others'.
    pub fn scope(&self, connection: &ConnectionId) -> Option<[&str; 3]> {
        let found = self.connections.get(connection)?;
        let member = found.member.as_ref()?;
        Some([
            member.office.as_str(),
            found.caller.as_str(),
            member.name.as_str(),
        ])
    }

    /// What this connection is, if it has joined.
    pub fn member(&self, connection: &ConnectionId) -> Option<&Member> {
        self.connections.get(connection)?.member.as_ref()
    }

    /// Everybody in an office, the agent first.
    pub fn members(&self, office: &str) -> impl Iterator<Item = (&ConnectionId, &Member)> {
        self.offices
            .get(office)
            .into_iter()
            .flat_map(|office| office.agent.iter().chain(office.computers.values()))
            .filter_map(|connection| Some((connection, self.member(connection)?)))
    }

    fn member_or_refusal(&self, connection: &ConnectionId) -> Result<&Member, Refusal> {
        self.connections
            .get(connection)
            .ok_or(Refusal::UnknownConnection)?
            .member
            .as_ref()
            .ok_or(Refusal::NotInOffice)
    }

    fn others(&self, office: &str, except: &ConnectionId) -> Vec<ConnectionId> {
        self.members(office)
            .map(|(connection, _)| connection)
            .filter(|connection| *connection != except)
            .cloned()
            .collect()
    }
}

#[cfg(test)]
#[path = "office/story_tests.rs"]
mod story_tests;

#[cfg(test)]
#[path = "office/history_tests.rs"]
mod history_tests;
