//! Who could do an intent: by its words, or as the router of the owner's choice has it.

use super::{IntentOptions, Intents, leg::Candidate};
use crate::{advice::Offer, error::LanError, peer::Peer, rank::Ranked};

/// Peers that are tried for one intent.
const TRIED_MAX: usize = 32;

impl Intents {
    /// Whoever could do it, each once, the best first; nobody who is in the chain already.
    pub(super) async fn candidates(
        &self,
        text: &str,
        options: &IntentOptions,
    ) -> Result<Vec<Candidate>, LanError> {
        let peers = &self.inner.peers;
        let mut ranked = peers.index().route(text);
        if let Some(said) = &options.peer {
            let peer = peers.find(said)?;
            let wanted = options.capability.as_deref();
            ranked.retain(|ranked| {
                ranked.peer == peer.agent_id
                    && wanted.is_none_or(|wanted| ranked.capability == wanted)
            });
            let best = ranked.into_iter().next();
            let candidate = Candidate {
                why: best.as_ref().map_or("it was named".to_owned(), |best| {
                    format!("it was named; {}", best.why)
                }),
                score: best.as_ref().map_or(0.0, |best| best.score),
                capability: options
                    .capability
                    .clone()
                    .or(best.map(|best| best.capability)),
                peer,
            };
            return Ok(vec![candidate]);
        }
        if self.inner.deciding.advisers.have_router() {
            ranked = self.advised(text, ranked).await;
        }
        let mut candidates: Vec<Candidate> = Vec::new();
        for ranked in ranked {
            let is_there = candidates
                .iter()
                .any(|known| known.peer.agent_id == ranked.peer);
            let Ok(peer) = peers.get(&ranked.peer) else {
                continue;
            };
            if is_there || is_in(&options.chain, &peer) || candidates.len() >= TRIED_MAX {
                continue;
            }
            candidates.push(Candidate {
                peer,
                capability: Some(ranked.capability),
                score: ranked.score,
                why: ranked.why,
            });
        }
        if candidates.is_empty() {
            return Err(LanError::NoFit {
                text: text.chars().take(200).collect(),
            });
        }
        Ok(candidates)
    }

    /// As the router of the owner's choice has it; where it cannot be followed, as the words have it, and that is said.
    async fn advised(&self, text: &str, ranked: Vec<Ranked>) -> Vec<Ranked> {
        let mut offers = self.inner.peers.offers();
        // Those that fit by their words come first, for a router is not shown a thousand.
        let place = |offer: &Offer| {
            let is_it = |one: &Ranked| one.peer == offer.peer && one.capability == offer.capability;
            ranked.iter().position(is_it).unwrap_or(usize::MAX)
        };
        offers.sort_by_key(place);
        match self.inner.deciding.advisers.choose(text, offers).await {
            Ok(choice) => {
                let chosen = (1..).zip(choice.chosen).map(|(place, offer)| Ranked {
                    peer: offer.peer,
                    capability: offer.capability,
                    score: 1.0 / f64::from(place),
                    why: choice.why.clone(),
                });
                chosen.collect()
            }
            Err(why) => {
                tracing::warn!(why, "an intent is routed by its words");
                let said = ranked.into_iter().map(|one| Ranked {
                    why: format!("{}; {why}", one.why),
                    ..one
                });
                said.collect()
            }
        }
    }
}

/// Whether a chain holds the peer: its id, or its name with the beginning of it.
fn is_in(chain: &[String], peer: &Peer) -> bool {
    let node = domain::chain::Ourselves {
        id: peer.agent_id.clone(),
        name: peer.name().to_owned(),
    };
    chain.iter().any(|id| node.is(id))
}
