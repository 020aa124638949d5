//! Peers that somebody names by their address: they are asked who they are. Those of the settings that have not said it yet
//! are listed with what is in the way.

use sha2::{Digest, Sha256};
use tracing::warn;
use wire::{hex, runs::Manifest};

use super::{
    NewPeer, Peers,
    contact::{is_id, met},
    room::host,
    stranger,
};
use crate::{
    client::{Address, Certificate, Client, Seen, base_of, normal},
    error::LanError,
    peer::{Origin, Peer},
};

/// What a node says of itself, and the certificate by which it is known from now on, if it made that itself.
struct Introduced {
    manifest: Manifest,
    agents: Vec<String>,
    learnt: Option<String>,
}

impl Peers {
    /// Makes a peer known by its address: asks it who it is. One that made its certificate itself is known by that from
    /// then on, as one that was found is; a token is sent to none that was not vouched for.
    pub async fn add(&self, new: NewPeer) -> Result<crate::PeerView, LanError> {
        let fingerprint = new.fingerprint.as_deref().map(normal).transpose();
        let fingerprint = fingerprint.map_err(|error| LanError::Invalid {
            what: error.to_string(),
        })?;
        let url = base_of(&new.url)?;
        let Introduced {
            manifest,
            agents,
            learnt,
        } = self.introduced(&url, &new, fingerprint.as_deref()).await?;
        let fingerprint = fingerprint.or(learnt);
        let id = id_of(&manifest, &url)?;
        if self.node().is(&id) {
            return Err(LanError::Ourselves);
        }
        let moves = match self.get(&id) {
            Ok(known) => known.url != url,
            Err(_) => false,
        };
        if moves {
            self.check_move(&id, &new, fingerprint.as_deref())?;
        }
        self.ensure(stranger(&id, &manifest.name, url.clone(), Origin::Added))
            .await?;
        let peer = self
            .change(&id, |peer| {
                peer.origin = Origin::Added;
                peer.url = url;
                if moves && fingerprint != peer.fingerprint {
                    // What was trusted there is not trusted here.
                    (peer.token, peer.fingerprint) = (None, None);
                }
                peer.token = new.token.or(peer.token.take());
                peer.fingerprint = fingerprint.or(peer.fingerprint.take());
                met(peer, manifest, agents);
            })
            .await?;
        Ok(peer.view())
    }

    async fn introduced(
        &self,
        url: &str,
        new: &NewPeer,
        fingerprint: Option<&str>,
    ) -> Result<Introduced, LanError> {
        let address = |certificate| Address {
            url: url.to_owned(),
            token: new.token.clone(),
            certificate,
        };
        let certificate = match fingerprint {
            Some(fingerprint) => Certificate::Pinned(fingerprint.to_owned()),
            None => Certificate::Roots,
        };
        let answered = self.connect(address(certificate))?.manifest().await;
        let (answered, learnt) = match answered {
            Err(error) if error.is_about_certificate() && fingerprint.is_none() => {
                let seen = Seen::default();
                let client = Client::new(address(Certificate::Learn(seen.clone())))?;
                let answered = client.manifest().await;
                let shown = seen.fingerprint().ok_or(error)?;
                if new.token.is_some() {
                    let url = url.to_owned();
                    return Err(LanError::Unproven { url, shown });
                }
                (answered, Some(shown))
            }
            answered => (answered, None),
        };
        match answered {
            Ok((manifest, agents)) => Ok(Introduced {
                manifest,
                agents,
                learnt,
            }),
            Err(error) if error.status() == Some(401) && new.token.is_none() => {
                let url = url.to_owned();
                Err(LanError::Unpaired { url, shown: learnt })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Anybody may say that it is a node that is known elsewhere: it shows its certificate, or whoever adds it brings a
    /// token for it.
    fn check_move(
        &self,
        id: &str,
        new: &NewPeer,
        fingerprint: Option<&str>,
    ) -> Result<(), LanError> {
        let known = self.get(id)?;
        let is_trusted = known.token.is_some() || known.fingerprint.is_some();
        let is_proved = fingerprint.is_some() && fingerprint == known.fingerprint.as_deref();
        if is_trusted && !is_proved && new.token.is_none() {
            return Err(LanError::KnownElsewhere {
                name: known.alias.to_string(),
                url: known.url,
            });
        }
        Ok(())
    }

    /// Asks a node of the settings who it is; says whether it is known now.
    pub(crate) async fn add_configured(&self, new: &NewPeer) -> bool {
        let error = match self.add(new.clone()).await {
            Ok(_) => None,
            Err(LanError::Unpaired {
                shown: Some(shown), ..
            }) if self.is_known_by(&shown) => None,
            Err(error) => Some(error),
        };
        let url = base_of(&new.url).unwrap_or_else(|_| new.url.clone());
        let Some(error) = error else {
            self.unmet().remove(&url);
            self.tell_change();
            return true;
        };
        let why = engine::chain(&error);
        let before = self.unmet().insert(url.clone(), why.clone());
        if before.as_ref() != Some(&why) {
            warn!(url, error = why, "a configured peer is not known yet");
            self.tell_change();
        }
        false
    }

    /// Under another address, perhaps because it was found.
    fn is_known_by(&self, fingerprint: &str) -> bool {
        let known = self.known();
        let mut peers = known.values();
        peers.any(|peer| peer.fingerprint.as_deref() == Some(fingerprint))
    }

    /// The nodes of the settings that are not known yet, as peers that are not there.
    pub(super) fn waited_for(&self) -> Vec<Peer> {
        let unmet = self.unmet().clone();
        let known = self.known();
        let is_waited_for = |url: &str| known.values().all(|peer| peer.url != url);
        let waited_for = unmet.into_iter().filter(|(url, _)| is_waited_for(url));
        let peers = waited_for.map(|(url, why)| {
            let name = host(&url).to_owned();
            let mut peer = stranger(&id_at(&url), &name, url, Origin::Added);
            peer.trouble = Some(why);
            peer
        });
        peers.collect()
    }
}

/// A server of the standard alone has no id; its address stands for it.
fn id_of(manifest: &Manifest, url: &str) -> Result<String, LanError> {
    match &manifest.agent_id {
        Some(id) if is_id(id) => Ok(id.clone()),
        Some(_) => Err(LanError::Invalid {
            what: "the peer calls itself by something that is no id".to_owned(),
        }),
        None => Ok(id_at(url)),
    }
}

fn id_at(url: &str) -> String {
    format!("at-{}", &hex(&Sha256::digest(url.as_bytes()))[..16])
}
