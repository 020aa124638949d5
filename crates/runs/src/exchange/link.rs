//! Links that hold for a while: the id and the moment, signed with a key of the node.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::Timestamp;
use engine::{EngineError, Keep, Records};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Where the key is kept, in the private store.
const KIND: &str = "secret";
const ID: &str = "exchange-links";

pub(crate) struct Links {
    key: [u8; 32],
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Links")
    }
}

impl Links {
    /// With the node's key, made at the first start, so that links hold over restarts.
    pub(crate) async fn open(records: &Records) -> Result<Self, EngineError> {
        if let Some(kept) = records.get::<String>(KIND, ID).await?
            && let Ok(bytes) = URL_SAFE_NO_PAD.decode(&kept.value)
            && let Ok(key) = bytes.try_into()
        {
            return Ok(Self { key });
        }
        let mut hash = Sha256::new();
        for _ in 0..3 {
            hash.update(Uuid::new_v4().as_bytes());
        }
        let key: [u8; 32] = hash.finalize().into();
        let text = URL_SAFE_NO_PAD.encode(key);
        records.put(KIND, ID, Keep::Live, &text, None).await?;
        Ok(Self { key })
    }

    pub(crate) fn sign(&self, id: &str, until: Timestamp) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(id, until).finalize().into_bytes())
    }

    /// Takes the same time whatever differs.
    pub(crate) fn verify(&self, id: &str, until: Timestamp, signature: &str) -> bool {
        URL_SAFE_NO_PAD
            .decode(signature)
            .is_ok_and(|signature| self.mac(id, until).verify_slice(&signature).is_ok())
    }

    fn mac(&self, id: &str, until: Timestamp) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of any length is taken");
        // The id has no line end, so no two pairs give the same text.
        mac.update(format!("{id}\n{}", until.0).as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_holds_for_its_id_and_its_moment_alone() {
        let links = Links { key: [7; 32] };
        let signature = links.sign("a", Timestamp(5));
        assert!(links.verify("a", Timestamp(5), &signature));
        assert!(!links.verify("b", Timestamp(5), &signature));
        assert!(!links.verify("a", Timestamp(6), &signature));
        assert!(!links.verify("a", Timestamp(5), ""));
        let others = Links { key: [8; 32] };
        assert!(!others.verify("a", Timestamp(5), &signature));
    }
}
