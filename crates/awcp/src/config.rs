//! What a node lends and takes, told once when it is assembled.

use std::{collections::BTreeMap, ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use domain::delegation::{Access, SIZE_MAX, SizeMax, Waits};

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
    pub waits: Waits,
    /// What holds the executor's processes; without it only their own policy does, and nothing is declared.
    pub sandbox: Option<SandboxConfig>,
    /// The environment of git and sshfs; its PATH tells where they are.
    pub environment: BTreeMap<OsString, OsString>,
}

/// How lent workspaces are served for mounting.
#[derive(Debug, Clone)]
pub struct SftpConfig {
    pub listen: SocketAddr,
    /// The name or address under which peers reach it.
    pub public_host: String,
}

/// What the executor's processes may touch beside the lent workspace, their own folder and the system's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxConfig {
    pub network: bool,
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
}

impl AwcpConfig {
    /// The usual limits, nothing taken, archives alone.
    pub fn new(home: PathBuf, mount_root: PathBuf, public_url: &str) -> Self {
        Self {
            home,
            mount_root,
            executor: None,
            public_url: public_url.trim_end_matches('/').to_owned(),
            sftp: None,
            size_max: SIZE_MAX,
            quota_bytes: 1 << 30,
            taken_max: 5,
            ttl_max: Duration::from_secs(4 * 60 * 60),
            access_max: Access::Rw,
            waits: Waits::default(),
            sandbox: None,
            environment: BTreeMap::new(),
        }
    }
}
