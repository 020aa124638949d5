//! The parts put together: what a node needs to know of others, and to be known by them.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use axum::Router;
use domain::chain::Ourselves;
use engine::Records;
use platform::Tasks;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    advice::Advisers,
    answers::AnswerRule,
    discovery::{self, Discovery, Start},
    error::LanError,
    forge::Forge,
    gate,
    intents::{Deciding, Intents},
    pairing::Pairing,
    peers::{NewPeer, Peers},
    ports::{Adviser, Grants, Human},
    probe,
    reach::Reach,
    routes,
};

/// How often every peer is asked what it can do.
const REFRESH_EVERY: Duration = Duration::from_secs(60);

/// What a node says and wants of its network.
#[derive(Debug, Clone)]
pub struct LanConfig {
    pub node: Ourselves,
    /// Of our manifest; see [`Lan::set_version`].
    pub version: String,
    /// The folder below which skills of peers are written; it exists.
    pub configs: PathBuf,
    pub discovery: Discovery,
    /// Peers by address, for networks without multicast.
    pub peers: Vec<NewPeer>,
    /// How peers reach us, if they can.
    pub reach: Option<Reach>,
    /// The port of the broadcasts that find peers where multicast is filtered; none are sent without it.
    pub probe: Option<u16>,
    /// Of our certificate.
    pub fingerprint: Option<String>,
    /// Answers that the owner gave once for all.
    pub rules: Vec<AnswerRule>,
}

/// What others do for it.
#[derive(Clone)]
pub struct Ports {
    pub grants: Arc<dyn Grants>,
    pub human: Option<Arc<dyn Human>>,
    /// Chooses who does an intent, instead of the comparison of words.
    pub router: Option<Arc<dyn Adviser>>,
    /// Answers what peers ask and neither rules nor the human's own words do.
    pub answerer: Option<Arc<dyn Adviser>>,
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports").finish_non_exhaustive()
    }
}

/// The node among others. Clones are the same.
#[derive(Debug, Clone)]
pub struct Lan {
    peers: Peers,
    intents: Intents,
    pairing: Pairing,
    version: Arc<watch::Sender<String>>,
}

impl Lan {
    /// Takes up what is known and begins to look. Cancelling the tasks says goodbye.
    pub async fn start(
        config: LanConfig,
        records: Records,
        ports: Ports,
        tasks: &Tasks,
    ) -> Result<Self, LanError> {
        let tasks = tasks.child();
        let forge = Forge::new(config.configs);
        let peers = Peers::open(config.node.clone(), records, forge, tasks.clone()).await?;
        let (version, told) = watch::channel(config.version);
        if config.discovery == Discovery::On {
            let start = Start {
                node: config.node,
                reach: config.reach.clone(),
                version: told,
            };
            if let Some(port) = config.probe {
                probe::start(port, &start, &peers, &tasks);
            }
            discovery::start(start, &peers, &tasks);
        }
        let advisers = Advisers::new(ports.router, ports.answerer);
        let deciding = Deciding {
            rules: config.rules,
            human: ports.human,
            advisers,
        };
        let intents = Intents::new(peers.clone(), tasks.clone(), deciding);
        intents.take_up().await?;
        let pairing = Pairing::new(
            peers.clone(),
            ports.grants,
            tasks.clone(),
            config.reach,
            config.fingerprint,
        );
        let (asking, configured) = (peers.clone(), config.peers);
        tasks.spawn(|stop| keep_asking(asking, configured, stop));
        Ok(Self {
            peers,
            intents,
            pairing,
            version: Arc::new(version),
        })
    }

    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    pub fn intents(&self) -> &Intents {
        &self.intents
    }

    pub fn pairing(&self) -> &Pairing {
        &self.pairing
    }

    /// What we can do has changed: it is announced anew.
    pub fn set_version(&self, version: String) {
        self.version.send_if_modified(|known| {
            let is_new = *known != version;
            *known = version;
            is_new
        });
    }

    /// A face behind what each paired peer was granted.
    pub fn guard(&self, face: Router) -> Router {
        gate::behind(self.clone(), face)
    }

    /// Every path of this crate. Those of [`crate::OPEN_PATHS`] need no caller; the others take it as an extension.
    pub fn router(&self) -> Router {
        routes::router(self.clone())
    }
}

/// Asks every peer what it can do now and then, and those of the configuration until they have answered once.
async fn keep_asking(peers: Peers, mut configured: Vec<NewPeer>, stop: CancellationToken) {
    loop {
        let round = async {
            let mut missing = Vec::new();
            for new in configured.drain(..) {
                if !peers.add_configured(&new).await {
                    missing.push(new);
                }
            }
            configured = missing;
            let asked = peers.ids().into_iter().map(|id| {
                let peers = peers.clone();
                async move {
                    // Whether it answered shows in the registry.
                    let _ = peers.refresh(&id).await;
                }
            });
            futures_util::future::join_all(asked).await;
            tokio::time::sleep(REFRESH_EVERY).await;
        };
        if stop.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
#[path = "lan_tests.rs"]
mod tests;
