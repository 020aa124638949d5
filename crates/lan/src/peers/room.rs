//! Room for one more peer: those that were only announced make way, those that somebody chose never do.

use super::{KIND, PEERS_MAX, Peers};
use crate::{
    error::LanError,
    peer::{Peer, Status},
};

/// Peers that are announced at one address and have never answered: one machine may run a hundred for a whole office, and
/// yet leave most of the registry to others.
pub(super) const UNMET_OF_ONE_MAX: usize = PEERS_MAX / 4;

impl Peers {
    /// Under the gate. Who makes room: of the same address who never answered, then anybody who never answered, then,
    /// for somebody whom the owner chose, who is away for the longest time.
    pub(super) async fn make_room(&self, new: &Peer) -> Result<(), LanError> {
        let leaving = {
            let known = self.known();
            let unmet = known.values().filter(|peer| peer.is_unmet());
            let oldest = |peer: &&Peer| peer.first_seen;
            let here = || {
                unmet
                    .clone()
                    .filter(|peer| host(&peer.url) == host(&new.url))
            };
            if new.is_unmet() && here().count() >= UNMET_OF_ONE_MAX {
                here().min_by_key(oldest).cloned()
            } else if known.len() < PEERS_MAX {
                return Ok(());
            } else if let Some(peer) = unmet.clone().min_by_key(oldest) {
                Some(peer.clone())
            } else if new.is_ours_to_keep() {
                let others = known.values().filter(|peer| !peer.is_ours_to_keep());
                let order = |peer: &&Peer| (peer.status == Status::Online, peer.last_seen);
                others.min_by_key(order).cloned()
            } else {
                None
            }
        };
        let leaving = leaving.ok_or(LanError::TooMany { max: PEERS_MAX })?;
        if !leaving.is_unmet() {
            let note = super::note("peer.removed", &leaving);
            let records = &self.inner.records;
            records.remove(KIND, &leaving.agent_id, Some(note)).await?;
        }
        self.known().remove(&leaving.agent_id);
        self.clients().remove(&leaving.agent_id);
        self.forget_files(&leaving.alias).await;
        Ok(())
    }
}

/// What an address has before its port.
pub(super) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_paths_are_no_part_of_a_host() {
        for (url, expected) in [
            ("http://10.0.0.7:7420/acp", "10.0.0.7"),
            ("https://[fe80::1]:7420", "[fe80::1]"),
            ("http://node.example", "node.example"),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }
}
