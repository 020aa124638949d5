//! What the face is told when it is built.

use std::{collections::BTreeSet, sync::Arc};

use domain::chain::Ourselves;
use wire::a2a::Message;

use engine::Calls;

use crate::{convert, extension::Extension};

/// How this node looks to A2A clients.
#[derive(Debug, Clone)]
pub struct A2aConfig {
    pub base: BaseUrl,
    /// Whose cards are shown and who may be spoken to.
    pub public: PublicAgents,
    /// The name on the card of the node.
    pub node_name: String,
    /// The version of this program, on every card.
    pub version: String,
    /// Who answers messages to the node that name nobody.
    pub default_agent: Option<String>,
    /// Whether requests need a bearer token, which the cards then say.
    pub needs_token: bool,
    pub push: PushPolicy,
    /// Calls in progress, which the driver shares.
    pub calls: Calls,
    /// What an agent is told of a message: its parts as text, unless a test wants more.
    pub prompt: fn(&Message) -> String,
}

/// What the addresses on cards begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseUrl {
    /// Always this one, such as `https://agents.example.org`.
    Fixed(String),
    /// The host under which the client has found us, which the listener has checked.
    FromHost { scheme: &'static str },
}

/// Which agents are offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicAgents {
    All,
    Only(BTreeSet<String>),
}

impl PublicAgents {
    /// Those that are named; nothing where all are public.
    pub(crate) fn named(&self) -> Option<&BTreeSet<String>> {
        match self {
            Self::All => None,
            Self::Only(agents) => Some(agents),
        }
    }

    pub fn has(&self, agent: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(agents) => agents.contains(agent),
        }
    }
}

/// Whether webhooks are called, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushPolicy {
    Off,
    /// Addresses that the whole world can reach, and no others: a webhook must not reach into this network.
    Public,
    /// Any address, loopback and private ones too.
    Anywhere,
}

impl A2aConfig {
    /// Everything public, addresses as the client has found us, webhooks to public addresses.
    pub fn new(node_name: &str, version: &str) -> Self {
        Self {
            base: BaseUrl::FromHost { scheme: "http" },
            public: PublicAgents::All,
            node_name: node_name.to_owned(),
            version: version.to_owned(),
            default_agent: None,
            needs_token: true,
            push: PushPolicy::Public,
            calls: Calls::new(Ourselves {
                id: uuid::Uuid::new_v4().to_string(),
                name: node_name.to_owned(),
            }),
            prompt: convert::prompt,
        }
    }
}

/// The extensions of this build, in the order in which they are asked.
pub type Extensions = Vec<Arc<dyn Extension>>;
