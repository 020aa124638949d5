//! What a mount is asked to be.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use platform::Owner;

use super::MountError;
use crate::Access;

/// What is to be mounted, where, and how.
#[derive(Clone, Debug)]
pub struct MountPlan {
    pub host: String,
    pub port: u16,
    /// The path at the host: `/workspace` for an export of ours.
    pub path: String,
    pub user: String,
    pub key: MountKey,
    pub trust: HostTrust,
    /// An empty folder of ours.
    pub mount_point: PathBuf,
    /// Where a folder for the key is made, private to us.
    pub private_folder: PathBuf,
    pub access: Access,
    pub connection: Connection,
    /// For how long listings and attributes are believed. Zero asks the host each time, which is slow.
    pub cache: Duration,
    /// The environment of sshfs and ssh; its PATH tells where they are.
    pub environment: BTreeMap<OsString, OsString>,
    /// Whose child sshfs is.
    pub owner: Owner,
}

/// The client's key. `Debug` does not show it.
#[derive(Clone, Eq, PartialEq)]
pub struct MountKey {
    pub private_key: String,
    /// Some hosts sign a certificate for the key.
    pub certificate: Option<String>,
}

/// How the host is known to be the right one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HostTrust {
    /// By its key, `ssh-ed25519 AAAA…`.
    Pinned(String),
    /// Not at all at the first connection: for hosts that cannot tell their key beforehand.
    FirstUse,
}

/// What happens when the connection is lost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Connection {
    /// Every access fails from then on. The key is removed as soon as the mount is up.
    #[default]
    Once,
    /// It is made again when somebody uses the mount. The key stays in its private folder meanwhile.
    Again,
}

impl std::fmt::Debug for MountKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MountKey(***)")
    }
}

impl MountPlan {
    /// The names come from a peer and end up on a command line, where nothing may look like an option.
    pub(super) fn check(&self) -> Result<(), MountError> {
        let plain = |text: &str, more: &[u8]| {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
            !text.is_empty() && !text.starts_with('-') && text.bytes().all(legal)
        };
        let key_line = match &self.trust {
            HostTrust::Pinned(line) => line.trim(),
            HostTrust::FirstUse => "",
        };
        let checks = [
            ("user", plain(&self.user, b"._-")),
            ("host", plain(&self.host, b".:-")),
            (
                "path",
                self.path.starts_with('/') && !self.path.contains(char::is_control),
            ),
            ("host key", !key_line.contains(char::is_control)),
        ];
        match checks.iter().find(|(_, is_legal)| !is_legal) {
            Some((what, _)) => Err(MountError::BadPlan { what }),
            None => Ok(()),
        }
    }
}
