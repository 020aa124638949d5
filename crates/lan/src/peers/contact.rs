//! Speaking to peers to learn whether they are there and what they can do.

use std::time::{Duration, Instant};

use serde::Serialize;
use tracing::{debug, info};
use wire::runs::Manifest;

use super::{Peers, Sighting, room::host, stranger};
use crate::{
    client::{ANSWER_WITHIN, Certificate, Client, ClientError},
    error::LanError,
    peer::{Origin, Peer, PeerView, Status, now},
};

/// How long somebody has to say who it is who has never said anything: others wait for its turn to end.
const FIRST_WITHIN: Duration = Duration::from_secs(3);

/// The longest id of a peer; it is a UUID.
const ID_MAX: usize = 64;

/// How a peer answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ping {
    pub peer: PeerView,
    /// Absent when nobody answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub millis: Option<f64>,
}

impl Peers {
    /// Asks whether a peer is there.
    pub async fn ping(&self, id: &str) -> Result<Ping, LanError> {
        let peer = self.find(id)?;
        let start = Instant::now();
        let answered = match self.client(&peer) {
            Ok(client) => client.ping().await,
            Err(error) => Err(error),
        };
        let elapsed = start.elapsed();
        let peer = match &answered {
            Ok(()) => self.answered(&peer.agent_id).await?,
            Err(error) => self.failed(&peer.agent_id, error).await?,
        };
        Ok(Ping {
            peer: peer.view(),
            millis: answered.is_ok().then(|| millis(elapsed)),
        })
    }

    /// A peer has announced itself.
    pub(crate) async fn sighted(&self, sighting: Sighting) {
        if self.node().is(&sighting.agent_id) || !is_id(&sighting.agent_id) {
            return;
        }
        if let Err(error) = self.take_up(sighting).await {
            debug!(error = %engine::chain(&error), "a peer that announced itself was not taken up");
        }
    }

    async fn take_up(&self, sighting: Sighting) -> Result<(), LanError> {
        let Sighting {
            agent_id,
            name,
            version,
            url,
        } = sighting;
        let known = match self.get(&agent_id) {
            Ok(known) => known,
            Err(_) => {
                info!(peer = %agent_id, %url, "a peer has appeared");
                self.ensure(stranger(&agent_id, &name, url.clone(), Origin::Found))
                    .await?
            }
        };
        if known.url != url {
            if !known.may_move_to(&url) {
                debug!(peer = %agent_id, %url, "a peer is announced where we do not follow");
                return Ok(());
            }
            self.change(&agent_id, |peer| {
                if url.starts_with("http://") {
                    peer.fingerprint = None; // There is no certificate to know it by.
                }
                peer.url = url;
            })
            .await?;
        }
        let is_new = known.manifest.is_none() || version.as_deref() != known.version();
        if is_new || known.status == Status::Offline {
            self.refresh(&agent_id).await?;
        } else {
            self.answered(&agent_id).await?;
        }
        Ok(())
    }

    /// A peer says from where we know it that it goes.
    pub(crate) async fn left(&self, sighting: &Sighting) {
        if self
            .get(&sighting.agent_id)
            .is_ok_and(|peer| peer.url == sighting.url)
        {
            self.gone(&sighting.agent_id).await;
        }
    }

    /// A peer has said goodbye, or its announcement ran out.
    pub(crate) async fn gone(&self, agent_id: &str) {
        let marked = self
            .change(agent_id, |peer| peer.status = Status::Offline)
            .await;
        if let Err(error) = marked {
            debug!(error = %engine::chain(&error), "a peer that went was not known");
        }
    }

    /// Asks a peer what it can do now.
    pub async fn refresh(&self, id: &str) -> Result<PeerView, LanError> {
        let peer = self.find(id)?;
        if peer.is_unmet() {
            let meetings = &self.inner.meetings;
            let meeting = meetings.begin(&peer.agent_id, host(&peer.url)).await;
            return match meeting {
                Some(_meeting) => self.ask(id, FIRST_WITHIN).await,
                None => Ok(peer.view()), // Whoever asks it already tells the registry.
            };
        }
        let turn = self.inner.contacts.acquire().await;
        let _turn = turn.expect("it is never closed");
        self.ask(id, ANSWER_WITHIN).await
    }

    /// As above, once it is its turn.
    async fn ask(&self, id: &str, within: Duration) -> Result<PeerView, LanError> {
        let peer = self.find(id)?;
        let address = peer.address();
        let certificate = address.certificate.clone();
        let client = match &certificate {
            // Whom it has met is told by the very address.
            Certificate::Learn(_) => Client::new(address),
            Certificate::Roots | Certificate::Pinned(_) => self.client(&peer),
        };
        let answered = match client {
            Ok(client) => {
                let told = tokio::time::timeout(within, client.manifest()).await;
                told.unwrap_or_else(|_| Err(client.silent()))
            }
            Err(error) => Err(error),
        };
        let learnt = match certificate {
            Certificate::Learn(seen) => seen.fingerprint(),
            Certificate::Roots | Certificate::Pinned(_) => None,
        };
        let changed = match answered {
            Ok((manifest, agents)) => {
                let is_it = manifest
                    .agent_id
                    .as_deref()
                    .is_none_or(|id| id == peer.agent_id);
                self.change(&peer.agent_id, |peer| {
                    peer.fingerprint = peer.fingerprint.take().or(learnt);
                    if is_it {
                        met(peer, manifest, agents);
                    } else {
                        peer.status = Status::Offline;
                        peer.trouble = Some("another node answers at its address".to_owned());
                    }
                })
                .await?
            }
            Err(error) if matches!(error.status(), Some(401 | 403)) => {
                self.change(&peer.agent_id, |peer| {
                    peer.fingerprint = peer.fingerprint.take().or(learnt);
                    peer.status = Status::Online;
                    peer.last_seen = Some(now());
                    peer.trouble = Some(match peer.token {
                        None => "it wants to be paired with".to_owned(),
                        Some(_) => error.to_string(),
                    });
                })
                .await?
            }
            Err(error) => self.failed(&peer.agent_id, &error).await?,
        };
        Ok(changed.view())
    }

    /// A peer has answered something.
    pub(crate) async fn answered(&self, id: &str) -> Result<Peer, LanError> {
        self.change(id, |peer| {
            peer.status = Status::Online;
            peer.last_seen = Some(now());
        })
        .await
    }

    /// A peer has answered somebody: it is there, and if that is news it is asked what it can do.
    pub(crate) fn heard(&self, said: &str) {
        let Ok(peer) = self.find(said) else {
            return; // It was removed meanwhile.
        };
        let is_known = peer.status == Status::Online;
        let since = now() - peer.last_seen.unwrap_or(0);
        if is_known && since < super::SEEN_KEPT_EVERY.as_millis() as i64 {
            return;
        }
        self.in_background(move |peers| async move {
            let _ = peers.answered(&peer.agent_id).await; // It may have been removed meanwhile.
            if !is_known {
                let _ = peers.refresh(&peer.agent_id).await; // As above.
            }
        });
    }

    /// A call to a peer has failed: it is asked whether it is there.
    pub(crate) fn doubt(&self, said: &str) {
        let Ok(peer) = self.find(said) else {
            return; // It was removed meanwhile.
        };
        self.in_background(move |peers| async move {
            let _ = peers.ping(&peer.agent_id).await; // Whether it answered shows in the registry.
        });
    }

    fn in_background<F>(&self, work: impl FnOnce(Peers) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let work = work(self.clone());
        self.inner.tasks.spawn(|stop| async move {
            let _ = stop.run_until_cancelled(work).await; // Cancelled: nobody waits.
        });
    }

    /// A peer did not answer: it is marked at once, and the network is asked, so that everybody's announcements of it end
    /// before their time.
    pub(crate) async fn failed(&self, id: &str, error: &ClientError) -> Result<Peer, LanError> {
        let trouble = error.to_string();
        let peer = self
            .change(id, |peer| {
                peer.status = Status::Offline;
                peer.trouble = Some(trouble);
            })
            .await?;
        if let Some(verify) = self.inner.verify.get()
            && error.is_away()
        {
            let _ = verify.try_send(peer.agent_id.clone()); // Too many at once: the next failure asks again.
        }
        Ok(peer)
    }
}

/// What a peer said of itself is taken over when its version says that it changed.
pub(super) fn met(peer: &mut Peer, manifest: Manifest, agents: Vec<String>) {
    let is_same = peer
        .manifest
        .as_ref()
        .is_some_and(|known| known.version.is_some() && known.version == manifest.version);
    if !is_same {
        peer.manifest = Some(manifest);
    }
    peer.agents = agents;
    peer.status = Status::Online;
    peer.last_seen = Some(now());
    peer.trouble = None;
}

pub(super) fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=ID_MAX).contains(&id.len()) && id.bytes().all(plain)
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
