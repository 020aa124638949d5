//! Keys: the server's own, which is kept, and one for each export, which lives as long as that.

use std::path::{Path, PathBuf};

use platform::files::{self, Durability, FileError, Mode};
use russh::keys::{
    PrivateKey, PublicKey,
    ssh_key::{LineEnding, private::Ed25519Keypair},
};
use rustix::rand::{GetRandomFlags, getrandom};

/// A key of ours has some 400 bytes; one that somebody else has put there may be of another kind.
const KEY_BYTES_MAX: u64 = 16 * 1024;

/// The host's key. Clients pin it, so it is kept over restarts.
#[derive(Clone)]
pub struct HostKey(PrivateKey);

/// What a client connects with. `Debug` does not show the key.
#[derive(Clone, Eq, PartialEq)]
pub struct Credential {
    pub user: String,
    /// An ed25519 key as OpenSSH keeps it in a file.
    pub private_key: String,
    /// `ssh-ed25519 AAAA…`, to be pinned.
    pub host_key: String,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("could not make a key")]
    Generate { source: KeyFailure },
    #[error("could not read the host key: it is not an OpenSSH private key")]
    Read { source: KeyFailure },
    #[error("could not keep the host key in {path}")]
    File { path: PathBuf, source: FileError },
    #[error("could not write the key as text")]
    Write { source: KeyFailure },
    #[error("the system gave no randomness for a key")]
    Random { source: std::io::Error },
}

/// What the library of keys says.
pub type KeyFailure = russh::keys::ssh_key::Error;

impl HostKey {
    pub fn generate() -> Result<HostKey, KeyError> {
        generate().map(HostKey)
    }

    /// Reads what `to_openssh` has written.
    pub fn from_openssh(text: &str) -> Result<HostKey, KeyError> {
        let key = PrivateKey::from_openssh(text).map_err(|source| KeyError::Read { source })?;
        Ok(HostKey(key))
    }

    /// The key in this file, made and kept there the first time. Blocks.
    pub fn kept_at(path: &Path) -> Result<HostKey, KeyError> {
        let failed = |source| KeyError::File {
            path: path.to_owned(),
            source,
        };
        match files::read_bounded(path, KEY_BYTES_MAX) {
            Ok(bytes) => HostKey::from_openssh(&String::from_utf8_lossy(&bytes)),
            Err(error) if error.is_not_found() => {
                let key = HostKey::generate()?;
                let text = key.to_openssh()?;
                // Clients that have pinned it would take a lost key for an attack.
                let durability = Durability::PowerLoss;
                files::write_atomic(path, text.as_bytes(), Mode::PRIVATE, durability)
                    .map_err(failed)?;
                Ok(key)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// A secret: for a private file alone.
    pub fn to_openssh(&self) -> Result<String, KeyError> {
        to_text(&self.0)
    }

    /// `ssh-ed25519 AAAA…`
    pub fn public_line(&self) -> Result<String, KeyError> {
        self.0
            .public_key()
            .to_openssh()
            .map_err(|source| KeyError::Write { source })
    }

    pub(crate) fn private(&self) -> PrivateKey {
        self.0.clone()
    }
}

impl std::fmt::Debug for HostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostKey(***)")
    }
}

impl Credential {
    /// A new key and a user name that nobody can guess; the public half is what the server keeps.
    pub(crate) fn generate(host_key: String) -> Result<(Credential, PublicKey), KeyError> {
        let key = generate()?;
        let number = u64::from_be_bytes(random()?);
        let credential = Credential {
            user: format!("lent-{number:016x}"),
            private_key: to_text(&key)?,
            host_key,
        };
        Ok((credential, key.public_key().clone()))
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential")
            .field("user", &self.user)
            .field("private_key", &"***")
            .field("host_key", &self.host_key)
            .finish()
    }
}

fn generate() -> Result<PrivateKey, KeyError> {
    let pair = Ed25519Keypair::from_seed(&random()?);
    PrivateKey::new(pair.into(), "").map_err(|source| KeyError::Generate { source })
}

fn to_text(key: &PrivateKey) -> Result<String, KeyError> {
    let text = key.to_openssh(LineEnding::LF);
    text.map(|text| text.to_string())
        .map_err(|source| KeyError::Write { source })
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], KeyError> {
    let mut bytes = [0; LENGTH];
    let mut filled = 0;
    while filled < LENGTH {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty()).map_err(|error| {
            KeyError::Random {
                source: error.into(),
            }
        })?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_key_survives_being_kept_as_text() {
        let key = HostKey::generate().unwrap();
        let read = HostKey::from_openssh(&key.to_openssh().unwrap()).unwrap();
        assert_eq!(read.public_line().unwrap(), key.public_line().unwrap());
        assert!(key.public_line().unwrap().starts_with("ssh-ed25519 AAAA"));
        assert!(HostKey::from_openssh("nonsense").is_err());
    }

    #[test]
    fn a_kept_host_key_is_the_same_at_the_next_start_and_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let [one, two] = [(); 2].map(|()| HostKey::kept_at(&path).unwrap());
        assert_eq!(one.public_line().unwrap(), two.public_line().unwrap());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "nonsense").unwrap();
        assert!(matches!(
            HostKey::kept_at(&path),
            Err(KeyError::Read { .. })
        ));
    }

    #[test]
    fn no_two_credentials_are_alike_and_none_is_shown() {
        let (one, _) = Credential::generate("host".into()).unwrap();
        let (two, _) = Credential::generate("host".into()).unwrap();
        assert_ne!(one.user, two.user);
        assert_ne!(one.private_key, two.private_key);
        assert!(!format!("{one:?}").contains("PRIVATE KEY"));
    }
}
