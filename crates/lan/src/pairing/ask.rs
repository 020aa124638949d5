//! The side that asks: begins a pairing, shows the code, and waits for the other side's owner.

use std::{
    collections::HashMap,
    sync::{MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    ASKED_MAX, Agreed, Asked, Asking, Claim, Grant, LIFETIME, Opened, Pairing, Standing,
    StandingStatus, commitment, fresh_nonce,
};
use crate::{
    client::{Address, Certificate, Client, ClientError, Seen, base_of, cut},
    error::LanError,
    peer::Origin,
    peers::stranger,
    reach::Reach,
};

/// How often the other side is asked whether its owner has typed the code.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// What was begun with the other side.
struct Begun {
    client: Client,
    nonce: String,
    opened: Opened,
    fingerprint: Option<String>,
    grant: Grant,
}

impl Pairing {
    /// Asks a node to pair; `whom` is a peer that is known, or an address. `grant` is what it may do here.
    pub async fn ask(&self, whom: &str, grant: Grant) -> Result<Asked, LanError> {
        grant.check()?;
        let url = self.url_of(whom)?;
        let seen = Seen::default();
        let address = |certificate| Address {
            url: url.clone(),
            token: None,
            certificate,
        };
        let first = Client::new(address(Certificate::Learn(seen.clone())))?;
        let node = self.inner.peers.node();
        let nonce = fresh_nonce();
        let asking = Asking {
            agent_id: node.id.clone(),
            name: node.name.clone(),
            url: self.inner.reach.as_ref().and_then(Reach::base),
            fingerprint: self.inner.fingerprint.clone(),
            commitment: commitment(&nonce),
        };
        let opened: Opened = first.post("/pair/requests", &asking).await?;
        if node.is(&opened.agent_id) {
            return Err(LanError::Ourselves);
        }
        // From here on only the certificate that is part of the code will do.
        let fingerprint = seen.fingerprint();
        let certificate = fingerprint
            .clone()
            .map_or(Certificate::Roots, Certificate::Pinned);
        let client = Client::new(address(certificate))?;
        let code = Agreed {
            asking_nonce: &nonce,
            asked_nonce: &opened.nonce,
            asking_id: &node.id,
            asked_id: &opened.agent_id,
            asking_fingerprint: self.inner.fingerprint.as_deref(),
            asked_fingerprint: fingerprint.as_deref(),
        }
        .code();
        let claim = Claim {
            nonce: nonce.clone(),
            token: None,
        };
        let path = format!("/pair/requests/{}", opened.id);
        client.post::<Standing>(&path, &claim).await?;
        let asked = Asked {
            id: opened.id.clone(),
            peer: opened.agent_id.clone(),
            name: cut(&opened.name, 64),
            url,
            code,
            status: StandingStatus::Waiting,
            trouble: None,
        };
        self.remember(&asked);
        let begun = Begun {
            client,
            nonce,
            opened,
            fingerprint,
            grant,
        };
        let (pairing, told) = (self.clone(), asked.clone());
        self.inner
            .tasks
            .spawn(|stop| async move { pairing.see_through(told, begun, stop).await });
        Ok(asked)
    }

    fn url_of(&self, whom: &str) -> Result<String, LanError> {
        match self.inner.peers.find(whom) {
            Ok(peer) => Ok(peer.url),
            Err(LanError::NotMet { peer, .. }) => Ok(peer.url),
            // Several may be announced at an address; it says itself who it is.
            Err(error @ LanError::Ambiguous { .. }) => base_of(whom).map_err(|_| error),
            Err(_) => Ok(base_of(whom)?),
        }
    }

    /// How a pairing stands that we asked for.
    pub fn asked(&self, id: &str) -> Result<Asked, LanError> {
        self.all_asked().get(id).cloned().ok_or(LanError::NoPairing)
    }

    async fn see_through(&self, mut asked: Asked, begun: Begun, stop: CancellationToken) {
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            ended = self.wait(&asked, &begun) => ended,
        };
        match ended {
            Ok(status) => asked.status = status,
            Err(error) => {
                asked.status = StandingStatus::Failed;
                asked.trouble = Some(engine::chain(&error));
            }
        }
        self.remember(&asked);
    }

    async fn wait(&self, asked: &Asked, begun: &Begun) -> Result<StandingStatus, LanError> {
        let until = Instant::now() + LIFETIME;
        let path = format!("/pair/requests/{}", begun.opened.id);
        let claim = Claim {
            nonce: begun.nonce.clone(),
            token: None,
        };
        while Instant::now() < until {
            match begun.client.post::<Standing>(&path, &claim).await {
                Ok(standing) => match (standing.status, standing.token) {
                    (StandingStatus::Accepted, Some(token)) => {
                        self.finish(asked, begun, token).await?;
                        return Ok(StandingStatus::Accepted);
                    }
                    (StandingStatus::Refused, _) => return Ok(StandingStatus::Refused),
                    _ => {}
                },
                Err(error @ ClientError::Refused { .. }) => return Err(error.into()),
                Err(error) => warn!(%error, "a pairing waits for a node that does not answer"),
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Err(LanError::NoPairing)
    }

    /// Keeps what the other side gave us, and gives it a token of ours.
    async fn finish(&self, asked: &Asked, begun: &Begun, token: String) -> Result<(), LanError> {
        let peers = &self.inner.peers;
        let known = stranger(&asked.peer, &asked.name, asked.url.clone(), Origin::Added);
        let known = peers.ensure(known).await?;
        let (paired, given) = self.grant(&known, &begun.grant).await?;
        let (url, fingerprint) = (asked.url.clone(), begun.fingerprint.clone());
        let changed = peers.change(&asked.peer, |peer| {
            peer.url = url;
            peer.token = Some(token);
            peer.fingerprint = fingerprint;
            peer.pairing = Some(paired);
        });
        changed.await?;
        let claim = Claim {
            nonce: begun.nonce.clone(),
            token: Some(given),
        };
        let path = format!("/pair/requests/{}", begun.opened.id);
        begun.client.post::<Standing>(&path, &claim).await?;
        self.audit("audit.pairing-accepted", &asked.peer, &asked.name)
            .await;
        peers.refresh(&asked.peer).await?;
        Ok(())
    }

    fn remember(&self, asked: &Asked) {
        let mut all = self.all_asked();
        if all.len() >= ASKED_MAX && !all.contains_key(&asked.id) {
            all.retain(|_, asked| asked.status == StandingStatus::Waiting);
        }
        if all.len() < ASKED_MAX || all.contains_key(&asked.id) {
            all.insert(asked.id.clone(), asked.clone());
        }
    }

    fn all_asked(&self) -> MutexGuard<'_, HashMap<String, Asked>> {
        self.inner
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
