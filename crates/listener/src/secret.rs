//! Secrets of 256 bits, and the hashes by which they are known.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// A text nobody can guess: 32 bytes, of which each is random.
pub(crate) fn fresh() -> String {
    // Three ids from the system's generator hold 366 random bits; the hash keeps 256 of them.
    let mut hash = Sha256::new();
    for _ in 0..3 {
        hash.update(Uuid::new_v4().as_bytes());
    }
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

/// What is kept of a secret. It has 256 random bits, so a plain hash cannot be turned round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SecretHash([u8; 32]);

impl SecretHash {
    pub(crate) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    pub(crate) fn to_text(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Takes the same time whatever differs.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_never_the_same() {
        let (one, two) = (fresh(), fresh());
        assert_eq!(one.len(), 43);
        assert_ne!(one, two);
    }

    #[test]
    fn a_hash_survives_its_text_form_and_knows_its_secret() {
        let hash = SecretHash::of("secret");
        let read = SecretHash::from_text(&hash.to_text()).unwrap();
        assert!(read.is(&SecretHash::of("secret")));
        assert!(!read.is(&SecretHash::of("Secret")));
        assert_eq!(SecretHash::from_text("short"), None);
    }
}
