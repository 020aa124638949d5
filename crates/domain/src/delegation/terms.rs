//! What host and remote agree on: who, how, how long, and how it ended.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Code, Failure};
use crate::{Name, Timestamp};

/// One delegation, on both sides. Its alphabet makes it safe as part of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DelegationId(pub Name);

impl fmt::Display for DelegationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the remote may do with the workspace; the lower one comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Ro,
    Rw,
}

/// How the workspace gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Served by the host, mounted by the remote.
    Sshfs,
    /// Sent there, and the changes sent back.
    Archive,
    /// Cloned there, and a branch sent back, which is merged.
    Git,
}

/// What the remote holds itself to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub cwd_only: bool,
    pub allow_network: bool,
    pub allow_exec: bool,
}

/// How long each side waits for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// For the folder, while others have it.
    pub lock: Duration,
    /// For ACCEPT; a person may have to be asked there.
    pub accept: Duration,
    /// For START, which takes a moment of the host's time.
    pub start: Duration,
    /// For the result to be taken home, after the lease if need be.
    pub collect: Duration,
    /// For the host to hear how it ended.
    pub tell: Duration,
    /// Between two attempts to tell it.
    pub tell_again: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            lock: Duration::from_secs(60 * 60),
            accept: Duration::from_secs(5 * 60),
            start: Duration::from_secs(2 * 60),
            collect: Duration::from_secs(10 * 60),
            tell: Duration::from_secs(10 * 60),
            tell_again: Duration::from_secs(5),
        }
    }
}

/// What the host proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub access: Access,
    pub ttl: Duration,
    /// The best first; never empty.
    pub transports: Vec<Transport>,
}

/// What the remote answers. It may ask for less than was offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// The remote's own path, which the host only shows.
    pub mount_point: String,
    pub access: Option<Access>,
    pub ttl: Option<Duration>,
    pub transport: Option<Transport>,
    pub sandbox: Option<Sandbox>,
}

/// What holds: of offer and acceptance the lower values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    pub access: Access,
    pub ttl: Duration,
    pub transport: Transport,
    pub mount_point: String,
    pub sandbox: Option<Sandbox>,
}

/// What a delegation needs of its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    Read,
    /// Writes, or overwrites when the work is done: alone.
    Write,
    /// Merges what was made elsewhere when the work is done: with others that merge.
    Merge,
}

impl From<Access> for Hold {
    fn from(access: Access) -> Self {
        match access {
            Access::Ro => Self::Read,
            Access::Rw => Self::Write,
        }
    }
}

impl Offer {
    /// What the folder is needed for, whichever of the transports is taken.
    pub fn hold(&self) -> Hold {
        let merges = self.transports.iter().all(|it| *it == Transport::Git);
        match self.access {
            Access::Rw if merges => Hold::Merge,
            access => access.into(),
        }
    }

    /// What follows from an acceptance; a transport that was not offered is no acceptance.
    pub(crate) fn agree(&self, acceptance: &Acceptance) -> Result<Agreement, Rejected> {
        let required = self.transports.first().copied();
        let transport = acceptance.transport.or(required);
        let transport = transport.filter(|transport| self.transports.contains(transport));
        Ok(Agreement {
            access: self.access.min(acceptance.access.unwrap_or(self.access)),
            ttl: self.ttl.min(acceptance.ttl.unwrap_or(self.ttl)),
            transport: transport.ok_or(Rejected::NotOffered)?,
            mount_point: acceptance.mount_point.clone(),
            sandbox: acceptance.sandbox,
        })
    }
}

/// What START grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub access: Access,
    /// The end of the lease, by the host's clock.
    pub until: Timestamp,
}

/// What the remote did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub summary: String,
    pub highlights: Vec<String>,
    pub notes: Option<String>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    Completed(Report),
    Error(Failure),
    Cancelled(Failure),
    Expired(Failure),
}

impl Ending {
    /// The ending that a failure means.
    pub fn of(failure: Failure) -> Self {
        match failure.code {
            Code::Cancelled => Self::Cancelled(failure),
            Code::Expired | Code::StartExpired => Self::Expired(failure),
            Code::Declined
            | Code::DepMissing
            | Code::WorkspaceTooLarge
            | Code::MountpointDenied
            | Code::AuthFailed
            | Code::MountFailed
            | Code::TaskFailed => Self::Error(failure),
        }
    }

    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Completed(_) => None,
            Self::Error(failure) | Self::Cancelled(failure) | Self::Expired(failure) => {
                Some(failure)
            }
        }
    }

    pub fn phase(&self) -> Phase {
        match self {
            Self::Completed(_) => Phase::Completed,
            Self::Error(_) => Phase::Error,
            Self::Cancelled(_) => Phase::Cancelled,
            Self::Expired(_) => Phase::Expired,
        }
    }
}

/// Whether everything that was taken has been given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cleanup {
    Due,
    Done,
}

/// What anybody sees of a delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Created,
    Invited,
    Accepted,
    Started,
    Running,
    Completed,
    Error,
    Cancelled,
    Expired,
}

impl Phase {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Invited => "invited",
            Self::Accepted => "accepted",
            Self::Started => "started",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Nothing comes after it.
    pub fn is_end(self) -> bool {
        match self {
            Self::Completed | Self::Error | Self::Cancelled | Self::Expired => true,
            Self::Created | Self::Invited | Self::Accepted | Self::Started | Self::Running => false,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why an input was refused; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    #[error("{input} is not possible while the delegation is {phase}")]
    Move { phase: Phase, input: &'static str },
    #[error("the remote wants a transport that was not offered")]
    NotOffered,
    #[error("the remote accepted already, on other terms")]
    OtherTerms,
}
