//! Why a mount did not come up, told apart as far as ssh and sshfs tell it.

use std::{io, path::PathBuf};

use platform::{Exit, SpawnError, files::FileError, guardian::GuardianError};

#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("could not mount: {missing}")]
    DepMissing { missing: Missing },
    #[error("could not mount: the host refused the key, or is not the host it should be: {detail}")]
    AuthFailed { detail: String },
    #[error("could not mount: {detail}")]
    MountFailed { detail: String },
    #[error("could not mount: the {what} that the host gave is not one")]
    BadPlan { what: &'static str },
    #[error("could not mount: {path} is not empty")]
    NotEmpty { path: PathBuf },
    #[error("could not look into the mount point")]
    List { source: FileError },
    #[error("could not prepare the mount point {path}")]
    Folder { path: PathBuf, source: io::Error },
    #[error("could not keep the key of the mount")]
    Secrets { source: FileError },
    #[error("could not put the mount under the guardian's watch")]
    Guardian { source: GuardianError },
    #[error("could not start a program for the mount")]
    Start { source: SpawnError },
    #[error("the mount was stopped before it was up")]
    Stopped,
}

/// What the machine lacks. It displays what and what to do about it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Missing {
    Sshfs,
    Ssh,
    Fusermount,
    Device,
}

impl Missing {
    pub fn remedy(self) -> &'static str {
        match self {
            Missing::Sshfs => {
                "install sshfs (Debian: sshfs, Fedora: fuse-sshfs, macOS: macFUSE and sshfs)"
            }
            Missing::Ssh => "install an OpenSSH client (Debian: openssh-client)",
            Missing::Fusermount => "install FUSE 3 (Debian: fuse3)",
            Missing::Device => "load the kernel module `fuse`, or give the container /dev/fuse",
        }
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self {
            Missing::Sshfs => "sshfs",
            Missing::Ssh => "ssh",
            Missing::Fusermount => "fusermount3",
            Missing::Device => "/dev/fuse",
        };
        write!(f, "{what} is missing: {}", self.remedy())
    }
}

/// The mount is still in the kernel's table.
#[derive(Debug, thiserror::Error)]
#[error("could not unmount {point}")]
pub struct UnmountError {
    pub point: PathBuf,
}

/// What ssh says when it is not let in, or will not go in.
const AUTH_WORDS: [&str; 5] = [
    "Permission denied (",
    "Host key verification failed",
    "REMOTE HOST IDENTIFICATION HAS CHANGED",
    "Too many authentication failures",
    "No supported authentication methods",
];

/// `exit` is absent if it took too long.
pub(super) fn explain(complaints: String, exit: Option<Exit>) -> MountError {
    let said = complaints.trim();
    let detail = match (said.is_empty(), exit) {
        (true, Some(exit)) => format!("sshfs ended with {exit}"),
        (true, None) => "it took too long".to_owned(),
        (false, _) => said.to_owned(),
    };
    if AUTH_WORDS.iter().any(|words| complaints.contains(words)) {
        return MountError::AuthFailed { detail };
    }
    let lacks_device = complaints.contains("/dev/fuse")
        || complaints.contains("fuse: device not found, try 'modprobe fuse'");
    if lacks_device {
        return MountError::DepMissing {
            missing: Missing::Device,
        };
    }
    MountError::MountFailed { detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_ssh_tell_why() {
        for (complaints, expected) in [
            (
                "lent-1@127.0.0.1: Permission denied (publickey).\nread: Connection reset by peer\n",
                "could not mount: the host refused the key, or is not the host it should be: \
                 lent-1@127.0.0.1: Permission denied (publickey).\nread: Connection reset by peer",
            ),
            (
                "fuse: device not found, try 'modprobe fuse' first",
                "could not mount: /dev/fuse is missing: load the kernel module `fuse`, or give the container /dev/fuse",
            ),
            ("", "could not mount: sshfs ended with exit code 1"),
            (
                "ssh: connect to host x port 1: Connection refused",
                "could not mount: ssh: connect to host x port 1: Connection refused",
            ),
        ] {
            let error = explain(complaints.to_owned(), Some(Exit::Code(1)));
            assert_eq!(error.to_string(), expected);
        }
    }
}
