//! What a node lends and takes, told once when it is assembled.

use std::{
    collections::BTreeMap, ffi::OsString, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration,
};

use domain::{
    chain::Ourselves,
    delegation::{Access, SIZE_MAX, SizeMax, Waits},
};

use crate::Calls;

/// Everything that lending must know of the node.
#[derive(Debug, Clone)]
pub struct AwcpConfig {
    /// Where shadow repositories, packed workspaces and the host key are kept; ours alone.
    pub home: PathBuf,
    /// Below it lent workspaces appear. It lies outside the node's own folders.
    pub mount_root: PathBuf,
    /// The agent, or the template, that works in lent workspaces. Without one none are taken.
    pub executor: Option<String>,
    /// Where peers reach this node, such as `https://host:7420`.
    pub public_url: String,
    pub reach: Reach,
    /// The folder with everything of this node, of which nothing is lent.
    pub node_home: Option<PathBuf>,
    /// Folders in it below which there are workspaces.
    pub lendable: Vec<PathBuf>,
    /// Names and addresses that workspaces are fetched from, beside that of whoever lends them.
    pub sources: Vec<String>,
    /// Absent: workspaces are lent as archives alone.
    pub sftp: Option<SftpConfig>,
    pub size_max: SizeMax,
    /// By how much a lent workspace may grow.
    pub quota_bytes: u64,
    /// Delegations taken at once.
    pub taken_max: usize,
    /// The longest lease that is taken.
    pub ttl_max: Duration,
    /// The most that is taken.
    pub access_max: Access,
    /// For how long the result of one that came in the released dialect is kept at most, whatever its delegator wants.
    pub retention_max: Duration,
    /// How long one that came in the released dialect waits for its next round; none does if it is zero.
    pub round_silence_max: Duration,
    pub waits: Waits,
    /// How often a remote that is at work is asked how it stands: it may have ended and been unable to say so.
    pub ask_every: Duration,
    /// For how long it can be told what a delegation changed.
    pub audit_age: Duration,
    /// What holds the executor's processes; without it only their own policy does, and nothing is declared.
    pub sandbox: Option<SandboxConfig>,
    /// Of the certificate that this node shows, if it made one for itself: remotes are told with START.
    pub fingerprint: Option<String>,
    /// Which certificates paired peers are known by.
    pub known_peers: KnownPeers,
    /// What this node is called in chains of calls, and which calls are in progress.
    pub calls: Calls,
    /// The environment of git and sshfs; its PATH tells where they are.
    pub environment: BTreeMap<OsString, OsString>,
}

/// Whether peers reach this node at one address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// At the one that it is told.
    #[default]
    Fixed,
    /// At whichever of its addresses faces them: it listens at all of them.
    Anywhere,
}

/// Tells what a peer is known by, from its address without a path. Clones are the same.
#[derive(Clone)]
pub struct KnownPeers(Arc<FindPeer>);

type FindPeer = dyn Fn(&str) -> Option<KnownPeer> + Send + Sync;

/// What is known of a peer that this node is paired with.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KnownPeer {
    /// Of its certificate.
    pub fingerprint: Option<String>,
    /// Where it is reached.
    pub url: Option<String>,
    /// What we show it, where the caller names nothing else.
    pub token: Option<String>,
}

impl KnownPeers {
    pub fn new(find: impl Fn(&str) -> Option<KnownPeer> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    pub(crate) fn find(&self, origin: &str) -> KnownPeer {
        (self.0)(origin).unwrap_or_default()
    }
}

/// Nobody is known.
impl Default for KnownPeers {
    fn default() -> Self {
        Self::new(|_| None)
    }
}

impl std::fmt::Debug for KnownPeers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KnownPeers")
    }
}

/// Secrets are not shown.
impl std::fmt::Debug for KnownPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownPeer")
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// How lent workspaces are served for mounting.
#[derive(Debug, Clone)]
pub struct SftpConfig {
    pub listen: SocketAddr,
    /// The name or address under which peers reach it.
    pub public_host: String,
}

/// What the executor's processes may touch beside the lent workspace, their own folder and the system's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    pub network: bool,
    /// Whether the executor's own program may run others.
    pub exec: bool,
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
}

impl AwcpConfig {
    /// The usual limits, nothing taken, archives alone.
    pub fn new(home: PathBuf, mount_root: PathBuf, public_url: &str) -> Self {
        let public_url = public_url.trim_end_matches('/').to_owned();
        Self {
            home,
            mount_root,
            executor: None,
            sources: Vec::new(),
            sftp: None,
            size_max: SIZE_MAX,
            quota_bytes: 1 << 30,
            taken_max: 5,
            ttl_max: Duration::from_secs(4 * 60 * 60),
            access_max: Access::Rw,
            retention_max: Duration::from_secs(24 * 60 * 60),
            round_silence_max: Duration::ZERO,
            waits: Waits::default(),
            ask_every: Duration::from_secs(60),
            audit_age: Duration::from_secs(30 * 24 * 60 * 60),
            sandbox: None,
            fingerprint: None,
            known_peers: KnownPeers::default(),
            calls: Calls::alone(Ourselves {
                id: public_url.clone(),
                name: String::new(),
            }),
            public_url,
            reach: Reach::default(),
            node_home: None,
            lendable: Vec::new(),
            environment: BTreeMap::new(),
        }
    }
}
