//! Nodes that find each other: discovery, skills of peers, routing of intents, pairing.
//!
//! [`Lan`] puts the parts together. `terms`, `rank`, `answers`, `announcement` and the code of a pairing decide without
//! touching anything; the rest speaks to peers, keeps what it learns, and writes skills.

mod advice;
mod announcement;
mod answers;
mod client;
mod discovery;
mod driver;
mod error;
mod forge;
mod gate;
mod heard;
mod intents;
mod lan;
mod pairing;
mod peer;
mod peers;
mod ports;
mod probe;
mod rank;
mod reach;
mod routes;
mod terms;

#[cfg(test)]
#[path = "tests/support.rs"]
mod test_support;

pub use answers::{AnswerRule, AnsweredBy, Choice, Decision, Question, decide};
pub use client::{ClientError, base_of};
pub use discovery::Discovery;
pub use driver::Joined;
pub use error::LanError;
pub use forge::{Forge, ForgeError, Forged};
pub use intents::{
    Answered, Intent, IntentOptions, IntentStatus, Intents, Leg, LegError, LegStatus,
    RemoteSession, RemoteSessions, Reply, Tried,
};
pub use lan::{Lan, LanConfig, Ports};
pub use pairing::{Asked, Grant, Hours, Pairing, RequestView, StandingStatus};
pub use peer::{CapabilityView, Origin, PeerView, Status};
pub use peers::{NewPeer, PEERS_MAX, Peers, Ping};
pub use ports::{Adviser, Grants, Human, Issued, PortFuture};
pub use probe::PROBE_PORT;
pub use rank::{Index, Ranked, Skill, route};
pub use reach::Reach;
pub use routes::OPEN_PATHS;
