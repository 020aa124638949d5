//! What the runs API is told when it is built.

use std::{collections::BTreeSet, fmt, path::PathBuf, sync::Arc, time::Duration};

use domain::run::Limits;
use wire::runs::Capability;

use engine::Calls;

/// Everything the runs API must know of the node.
#[derive(Debug, Clone)]
pub struct RunsConfig {
    pub description: String,
    /// Which agents callers see.
    pub public: PublicAgents,
    /// Who takes a run that names the node and no agent; without it, the only public agent does.
    pub default_agent: Option<String>,
    /// Agents whose sessions go on although the caller did not ask for one.
    pub persistent: BTreeSet<String>,
    /// `http` or `https`, as the listener has it.
    pub scheme: &'static str,
    /// How others reach the node, such as `https://node.example:7420`; without it the name that each caller used.
    pub public_url: Option<String>,
    pub limits: Limits,
    /// How long a session lives after its last run.
    pub session_ttl: Duration,
    /// Addresses below which the history of a caller's session may be fetched.
    pub history_from: Vec<String>,
    /// What the node can do, beside its agents.
    pub capabilities: Capabilities,
    pub exchange: ExchangeConfig,
    /// Who this node is, and the calls in progress; shared with the drivers of peers.
    pub calls: Calls,
}

/// How long a run may work by default: agents that build and test are slow.
pub const WORK: Duration = Duration::from_secs(60 * 60);

/// How long an answer may take by default: a human sleeps, and is back the next day.
pub const ANSWER: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a session lives after its last run by default.
pub const SESSION_TTL: Duration = Duration::from_secs(30 * 60);

/// Which agents callers see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicAgents {
    All,
    Only(BTreeSet<String>),
}

impl PublicAgents {
    /// Those that are named; nothing where all are shown.
    pub(crate) fn named(&self) -> Option<&BTreeSet<String>> {
        match self {
            Self::All => None,
            Self::Only(names) => Some(names),
        }
    }

    pub(crate) fn shows(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// Where deliverables and histories are kept.
#[derive(Debug, Clone)]
pub struct ExchangeConfig {
    pub place: Place,
    /// The largest object.
    pub object_max: u64,
    /// All objects together.
    pub quota: u64,
    /// How long an object is kept.
    pub keep: Duration,
    pub dropbox: Option<Dropbox>,
}

impl ExchangeConfig {
    /// A folder, with bounds that fit a home machine.
    pub fn folder(dir: PathBuf) -> Self {
        Self {
            place: Place::Folder(dir),
            object_max: 256 * 1024 * 1024,
            quota: 4 * 1024 * 1024 * 1024,
            keep: Duration::from_secs(7 * 24 * 60 * 60),
            dropbox: None,
        }
    }
}

/// What holds the bytes.
#[derive(Debug, Clone)]
pub enum Place {
    Folder(PathBuf),
    /// Anything that speaks S3.
    S3(S3),
}

/// How to reach a bucket.
#[derive(Clone)]
pub struct S3 {
    pub bucket: String,
    /// Absent for AWS itself.
    pub endpoint: Option<String>,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3")
            .field("bucket", &self.bucket)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// A folder for people, perhaps on a share: each agent's deliverables under readable names.
#[derive(Debug, Clone)]
pub struct Dropbox {
    pub dir: PathBuf,
    /// How others name the folder, such as `smb://nas.local/agent-exchange/`.
    pub uri: Option<String>,
}

/// Tells what the node can do, each time it is asked.
#[derive(Clone)]
pub struct Capabilities(Arc<dyn Fn() -> Vec<Capability> + Send + Sync>);

impl Capabilities {
    pub fn new(tell: impl Fn() -> Vec<Capability> + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub fn none() -> Self {
        Self::new(Vec::new)
    }

    pub(crate) fn now(&self) -> Vec<Capability> {
        (self.0)()
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Capabilities")
    }
}
