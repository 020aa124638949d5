//! What is kept of a delegation on either side, and what of it is shown. Secrets are kept and never shown.

use std::{net::IpAddr, path::PathBuf};

use domain::{
    Timestamp, Trace,
    delegation::{Agreement, Ending, Host, Phase, Remote, Size, Transport},
};
use serde::{Deserialize, Serialize};

use crate::{clock, conversation::Exchange, peer::Home};

/// Under which the host's side is kept.
pub(crate) const HOST_KIND: &str = "delegation";

/// Under which the remote's side is kept.
pub(crate) const REMOTE_KIND: &str = "delegation-remote";

/// Lines of the log that are kept; a delegation has a dozen.
const LOG_MAX: usize = 200;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) description: String,
    pub(crate) prompt: String,
}

/// A line of a delegation's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    pub at: String,
    pub text: String,
}

/// The host's side. It has no `Debug`: it holds secrets.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct HostRecord {
    pub(crate) machine: Host,
    pub(crate) peer_url: String,
    /// For the peer.
    pub(crate) token: Option<String>,
    pub(crate) dir: PathBuf,
    pub(crate) task: Task,
    pub(crate) quota_bytes: u64,
    pub(crate) size: Size,
    /// What the remote shows that it is the one; made after ACCEPT.
    pub(crate) secret: Option<String>,
    /// Of the packed workspace.
    pub(crate) checksum: Option<String>,
    pub(crate) agreement: Option<Agreement>,
    pub(crate) created_at: Timestamp,
    pub(crate) log: Vec<LogLine>,
    #[serde(default)]
    pub(crate) keeping: Keeping,
    /// Changes that wait for somebody to apply or discard them.
    #[serde(default)]
    pub(crate) snapshot: Option<Snapshot>,
    /// The round before this one.
    #[serde(default)]
    pub(crate) continues: Option<String>,
    /// What was said in the rounds before.
    #[serde(default)]
    pub(crate) conversation: Vec<Exchange>,
    /// What it belongs to.
    #[serde(default)]
    pub(crate) trace: Option<Trace>,
    /// Who has called whom until here; empty if it begins here.
    #[serde(default)]
    pub(crate) chain: Vec<String>,
    /// Files that look like secrets may be lent.
    #[serde(default)]
    pub(crate) lends_secrets: bool,
    /// Our address as the peer sees it.
    #[serde(default)]
    pub(crate) facing: Option<IpAddr>,
}

/// What becomes of the changes that come home in an archive or on a branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keeping {
    /// They are applied when the work is done.
    #[default]
    Auto,
    /// They wait.
    Staged,
    /// They are audited and thrown away.
    Discard,
}

/// Changes that came home, and what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub id: String,
    pub status: SnapshotStatus,
    /// Paths that differ.
    pub changes: usize,
}

impl Snapshot {
    pub(crate) fn new(status: SnapshotStatus, changes: usize) -> Self {
        let id = format!("snap_{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        Self {
            id,
            status,
            changes,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotStatus {
    Pending,
    Applied,
    Discarded,
}

/// The remote's side. It has no `Debug` either.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct RemoteRecord {
    pub(crate) machine: Remote,
    /// Who sent the INVITE; nobody else may go on with it.
    pub(crate) caller: String,
    pub(crate) task: Task,
    pub(crate) mount_point: PathBuf,
    /// What was brought to the mount point, once something was.
    pub(crate) transport: Option<Transport>,
    pub(crate) home: Option<WayHome>,
    pub(crate) created_at: Timestamp,
    pub(crate) log: Vec<LogLine>,
    #[serde(default)]
    pub(crate) dialect: Dialect,
    /// What it belongs to, as its host says.
    #[serde(default)]
    pub(crate) trace: Option<Trace>,
    /// Who has called whom, this node included.
    #[serde(default)]
    pub(crate) chain: Vec<String>,
}

/// In which words the host speaks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Dialect {
    #[default]
    Seed,
    /// The released implementation's, with the names of what is lent.
    Released { resources: Vec<String> },
}

/// Where the host wants to hear how it went.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct WayHome {
    pub(crate) url: String,
    pub(crate) secret: String,
    /// What its certificate is known by, if it made it itself.
    #[serde(default)]
    pub(crate) certificate: Option<String>,
}

impl WayHome {
    pub(crate) fn as_home(&self) -> Home<'_> {
        Home {
            url: &self.url,
            secret: &self.secret,
            certificate: self.certificate.as_deref(),
        }
    }
}

/// No secret is shown.
impl std::fmt::Debug for WayHome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url)
    }
}

/// Which side of a delegation this node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Host,
    Remote,
}

/// What anybody with the right may see of a delegation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegationView {
    pub id: String,
    pub side: Side,
    pub state: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_url: Option<String>,
    /// The lent folder at the host, the mount point at the remote.
    pub dir: String,
    pub task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// Something of it is still there.
    pub cleanup_due: bool,
    pub log: Vec<LogLine>,
}

pub(crate) fn note(log: &mut Vec<LogLine>, text: String) {
    if log.len() >= LOG_MAX {
        log.remove(0);
    }
    let at = clock::text(clock::now());
    log.push(LogLine { at, text });
}

impl HostRecord {
    pub(crate) fn view(&self) -> DelegationView {
        let lease = self.machine.lease();
        DelegationView {
            id: self.machine.id().to_string(),
            side: Side::Host,
            state: self.machine.phase(),
            peer_url: Some(self.peer_url.clone()),
            dir: self.dir.display().to_string(),
            task: self.task.prompt.clone(),
            agreement: self.agreement.clone(),
            expires_at: lease.map(|grant| clock::text(grant.until)),
            created_at: clock::text(self.created_at),
            size: Some(self.size),
            ending: self.machine.ending().cloned(),
            snapshot: self.snapshot.clone(),
            continues: self.continues.clone(),
            cleanup_due: self.machine.is_cleanup_due(),
            log: self.log.clone(),
        }
    }
}

impl RemoteRecord {
    pub(crate) fn view(&self) -> DelegationView {
        let lease = self.machine.lease();
        DelegationView {
            id: self.machine.id().to_string(),
            side: Side::Remote,
            state: self.machine.phase(),
            peer_url: None,
            dir: self.mount_point.display().to_string(),
            task: self.task.prompt.clone(),
            agreement: self.machine.agreement().cloned(),
            expires_at: lease.map(|grant| clock::text(grant.until)),
            created_at: clock::text(self.created_at),
            size: None,
            ending: self.machine.ending().cloned(),
            snapshot: None,
            continues: None,
            cleanup_due: self.machine.is_cleanup_due(),
            log: self.log.clone(),
        }
    }
}

/// What a log says of an ending.
pub(crate) fn words(ending: &Ending) -> String {
    match ending.failure() {
        None => "completed".to_owned(),
        Some(failure) => format!(
            "{}: {}: {} ({})",
            ending.phase(),
            failure.code.as_str(),
            failure.message,
            failure.hint
        ),
    }
}
