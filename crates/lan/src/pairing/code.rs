//! The code that both sides show: if anybody stands between them, the two codes differ.
//!
//! Who asks commits to a secret before the other side says its own, so nobody in between can look for a pair of secrets
//! that give the same code on both sides. The certificates and ids of both are part of it.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use wire::hex;

/// A secret of one side in hex: 32 bytes.
pub(super) const NONCE_LENGTH: usize = 64;

/// What both sides must agree on.
#[derive(Debug, Clone)]
pub(super) struct Agreed<'a> {
    pub(super) asking_nonce: &'a str,
    pub(super) asked_nonce: &'a str,
    pub(super) asking_id: &'a str,
    pub(super) asked_id: &'a str,
    pub(super) asking_fingerprint: Option<&'a str>,
    pub(super) asked_fingerprint: Option<&'a str>,
}

impl Agreed<'_> {
    /// Six digits.
    pub(super) fn code(&self) -> String {
        let mut hash = Sha256::new();
        let parts = [
            "agentcraft pairing 1",
            self.asking_nonce,
            self.asked_nonce,
            self.asking_id,
            self.asked_id,
            self.asking_fingerprint.unwrap_or_default(),
            self.asked_fingerprint.unwrap_or_default(),
        ];
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let bytes = hash.finalize();
        let number = bytes[..8]
            .iter()
            .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        format!("{:06}", number % 1_000_000)
    }
}

pub(super) fn fresh_nonce() -> String {
    // Three ids from the system's generator hold 366 random bits; the hash keeps 256 of them.
    let mut hash = Sha256::new();
    for _ in 0..3 {
        hash.update(Uuid::new_v4().as_bytes());
    }
    hex(&hash.finalize())
}

pub(super) fn commitment(nonce: &str) -> String {
    hex(&Sha256::digest(nonce.as_bytes()))
}

/// Takes the same time whatever differs.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// What was typed, without what people put between digits.
pub(super) fn typed(code: &str) -> String {
    code.chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_agree_only_when_everything_does() {
        let agreed = Agreed {
            asking_nonce: "a",
            asked_nonce: "b",
            asking_id: "id-a",
            asked_id: "id-b",
            asking_fingerprint: Some("sha256:a"),
            asked_fingerprint: Some("sha256:b"),
        };
        let code = agreed.code();
        assert!(code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit()));
        assert_eq!(code, agreed.clone().code());
        let others = [
            Agreed {
                asking_nonce: "x",
                ..agreed.clone()
            },
            Agreed {
                asked_nonce: "x",
                ..agreed.clone()
            },
            Agreed {
                asking_id: "x",
                ..agreed.clone()
            },
            Agreed {
                asked_fingerprint: Some("sha256:middle"),
                ..agreed.clone()
            },
            Agreed {
                asking_fingerprint: None,
                ..agreed.clone()
            },
            Agreed {
                asking_nonce: "ab",
                asked_nonce: "",
                ..agreed.clone()
            },
        ];
        for other in others {
            assert_ne!(other.code(), code, "{other:?}");
        }
    }

    #[test]
    fn a_secret_is_known_by_its_commitment() {
        let nonce = fresh_nonce();
        assert_eq!(nonce.len(), NONCE_LENGTH);
        assert_ne!(nonce, fresh_nonce());
        assert!(is_same(&commitment(&nonce), &commitment(&nonce)));
        assert!(!is_same(&commitment(&nonce), &commitment("other")));
        assert_eq!(typed(" 123-456 "), "123456");
    }
}
