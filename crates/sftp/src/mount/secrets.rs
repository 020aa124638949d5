//! The private folder with the key and the known host of one mount.

use std::path::{Path, PathBuf};

use platform::files::{self, Durability, Mode};

use super::{HostTrust, MountError, MountPlan};

/// How the name of each such folder begins: whoever finds one that no mount uses may remove it.
pub const SECRETS_PREFIX: &str = "mount-";

/// The folder with the key; dropped with all that is in it.
#[derive(Debug)]
pub(super) struct Secrets {
    pub(super) folder: PathBuf,
    pub(super) key: PathBuf,
    pub(super) certificate: Option<PathBuf>,
    pub(super) known_hosts: PathBuf,
}

impl Secrets {
    pub(super) fn write(plan: &MountPlan) -> Result<Secrets, MountError> {
        let folder = plan
            .private_folder
            .join(format!("{SECRETS_PREFIX}{}", platform::owner::fresh_id()));
        let secrets = Secrets {
            key: folder.join("key"),
            certificate: plan
                .key
                .certificate
                .as_ref()
                .map(|_| folder.join("key-cert.pub")),
            known_hosts: folder.join("known_hosts"),
            folder,
        };
        secrets.fill(plan).map_err(|source| {
            secrets.remove();
            MountError::Secrets { source }
        })?;
        Ok(secrets)
    }

    fn fill(&self, plan: &MountPlan) -> Result<(), files::FileError> {
        let write = |path: &Path, text: &str| {
            files::write_atomic(path, text.as_bytes(), Mode::PRIVATE, Durability::default())
        };
        files::create_private_dir(&self.folder)?;
        write(&self.key, &plan.key.private_key)?;
        if let (Some(path), Some(certificate)) = (&self.certificate, &plan.key.certificate) {
            write(path, certificate)?;
        }
        let known = match &plan.trust {
            HostTrust::Pinned(line) => format!("[{}]:{} {}\n", plan.host, plan.port, line.trim()),
            HostTrust::FirstUse => String::new(),
        };
        write(&self.known_hosts, &known)
    }

    pub(super) fn forget_key(&self) {
        for path in std::iter::once(&self.key).chain(&self.certificate) {
            if let Err(error) = files::remove_file_if_there(path) {
                tracing::warn!(%error, "could not remove the key of a mount");
            }
        }
    }

    pub(super) fn remove(&self) {
        if let Err(error) = files::remove_tree(&self.folder) {
            tracing::warn!(%error, "could not remove the private folder of a mount");
        }
    }
}
