//! The registry of peers: who they are, whether they are there, what they can do. It outlives the daemon.
//!
//! A peer that goes is marked, never deleted. Every change is kept before it is shown.

mod adding;
mod contact;
mod meetings;
mod room;

pub use contact::Ping;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use domain::{Name, chain::Ourselves};
use engine::{Keep, Note, Records, Which};
use platform::Tasks;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, watch};
use tracing::{debug, warn};

use crate::{
    advice::Offer,
    client::{Address, Certificate, Client, ClientError, builder},
    error::LanError,
    forge::Forge,
    peer::{
        Origin, Paired, Peer, PeerView, Status, alias, announced, counted_alias, longer_alias, now,
    },
    rank::{Index, Skill},
};
use meetings::Meetings;

/// A household or an office; beyond it somebody makes peers up.
pub const PEERS_MAX: usize = 1024;

/// Peers that are spoken to at once by ourselves, so that a thousand that appear together are no storm.
const CONTACTS_MAX: usize = 8;

/// When a peer was last seen is written at most so often.
const SEEN_KEPT_EVERY: Duration = Duration::from_secs(60);

const KIND: &str = "peer";

/// The peers of a node. Clones are the same.
#[derive(Debug, Clone)]
pub struct Peers {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: Ourselves,
    records: Records,
    forge: Forge,
    tasks: Tasks,
    known: Mutex<BTreeMap<String, Peer>>,
    /// Those of the settings that have not said yet who they are, by address: what is in the way.
    unmet: Mutex<BTreeMap<String, String>>,
    /// Made when it is asked for, dropped when a peer changes.
    index: Mutex<Option<Arc<Index>>>,
    /// Changes are kept one after the other.
    gate: tokio::sync::Mutex<()>,
    contacts: Semaphore,
    /// Those who have never answered have turns of their own.
    meetings: Meetings,
    /// By peer: the connections that are open, and for which address.
    clients: Mutex<HashMap<String, (Address, Client)>>,
    /// Connections to whoever is known by no certificate of its own. One for all: reading what the machine trusts is no trifle.
    plain: OnceLock<reqwest::Client>,
    changes: watch::Sender<u64>,
    /// Asks the network whether somebody is really gone.
    verify: OnceLock<mpsc::Sender<String>>,
}

/// A peer as it announced itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sighting {
    pub(crate) agent_id: String,
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) url: String,
}

/// Where a peer is that somebody names.
#[derive(Clone, Default)]
pub struct NewPeer {
    pub url: String,
    pub token: Option<String>,
    pub fingerprint: Option<String>,
}

impl std::fmt::Debug for NewPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewPeer")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Peers {
    /// Takes up the peers that are known. Nobody is taken to be there before they answer.
    pub(crate) async fn open(
        node: Ourselves,
        records: Records,
        forge: Forge,
        tasks: Tasks,
    ) -> Result<Self, LanError> {
        let rows = records
            .list::<Peer>(KIND, Which::Live, None, PEERS_MAX as u32)
            .await?;
        let mut known = BTreeMap::new();
        for row in rows {
            let mut peer = row.value;
            peer.status = Status::Offline;
            known.insert(peer.agent_id.clone(), peer);
        }
        let inner = Inner {
            node,
            records,
            forge,
            tasks,
            known: Mutex::new(known),
            unmet: Mutex::default(),
            index: Mutex::default(),
            gate: tokio::sync::Mutex::default(),
            contacts: Semaphore::new(CONTACTS_MAX),
            meetings: Meetings::new(),
            clients: Mutex::default(),
            plain: OnceLock::new(),
            changes: watch::Sender::new(0),
            verify: OnceLock::new(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    pub(crate) fn node(&self) -> &Ourselves {
        &self.inner.node
    }

    pub(crate) fn records(&self) -> &Records {
        &self.inner.records
    }

    pub(crate) fn verify_through(&self, sender: mpsc::Sender<String>) {
        let _ = self.inner.verify.set(sender); // Discovery starts once.
    }

    /// Changes whenever something that lists show of a peer has.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Every peer, by what it is called here.
    pub fn list(&self) -> Vec<PeerView> {
        let mut views: Vec<PeerView> = self.known().values().map(Peer::view).collect();
        views.extend(self.waited_for().iter().map(Peer::view));
        views.sort_by(|one, two| one.alias.cmp(&two.alias));
        views
    }

    /// One peer, by its id, what it is called here, or its address.
    pub fn show(&self, id: &str) -> Result<PeerView, LanError> {
        match self.find(id) {
            Err(LanError::NotMet { peer, .. }) => Ok(*peer),
            found => found.map(|peer| peer.view()),
        }
    }

    /// How a peer is reached, with what we show it; for drivers, never for a face.
    pub fn address(&self, said: &str) -> Result<NewPeer, LanError> {
        let peer = self.find(said)?;
        Ok(NewPeer {
            url: peer.url,
            token: peer.token,
            fingerprint: peer.fingerprint,
        })
    }

    /// For what people say. A peer chooses its own name, so that is none of the ways to mean it. What means two peers
    /// means none: one of them may be there to be taken for the other.
    pub(crate) fn find(&self, said: &str) -> Result<Peer, LanError> {
        let waited_for = self.waited_for();
        let known = self.known();
        let url = said.trim_end_matches('/');
        let named = |peer: &&Peer| peer.agent_id == said || peer.alias.as_str() == said;
        let mut meant: Vec<&Peer> = known.values().filter(named).collect();
        if meant.is_empty() {
            meant = known.values().filter(|peer| peer.url == url).collect();
        }
        match meant[..] {
            [] => match waited_for
                .into_iter()
                .find(|peer| named(&peer) || peer.url == url)
            {
                Some(peer) => Err(LanError::NotMet {
                    why: peer.trouble.clone().unwrap_or_default(),
                    peer: Box::new(peer.view()),
                }),
                None => Err(no_peer(said)),
            },
            [peer] => Ok(peer.clone()),
            [..] => Err(LanError::Ambiguous {
                said: said.chars().take(128).collect(),
                ids: meant.iter().map(|peer| peer.agent_id.clone()).collect(),
            }),
        }
    }

    /// The peer that a token was given to.
    pub(crate) fn holder(&self, token_id: &str) -> Option<Peer> {
        let known = self.known();
        let mut peers = known.values();
        let holds = |peer: &&Peer| {
            let paired = peer.pairing.as_ref();
            paired.is_some_and(|paired| paired.token_id == token_id)
        };
        peers.find(holds).cloned()
    }

    /// A client of the peer: the same one while the peer is reached in the same way, so that connections stay open.
    pub(crate) fn client(&self, peer: &Peer) -> Result<Client, ClientError> {
        let address = peer.address();
        if matches!(address.certificate, Certificate::Learn(_)) {
            return Client::new(address);
        }
        let mut clients = self.clients();
        if let Some((known, client)) = clients.get(&peer.agent_id)
            && *known == address
        {
            return Ok(client.clone());
        }
        let client = self.connect(address.clone())?;
        clients.insert(peer.agent_id.clone(), (address, client.clone()));
        Ok(client)
    }

    /// A client of an address.
    fn connect(&self, address: Address) -> Result<Client, ClientError> {
        match address.certificate {
            Certificate::Roots => {
                let plain = match self.inner.plain.get() {
                    Some(plain) => plain,
                    None => {
                        let made =
                            pinning::believing(builder).map_err(|error| ClientError::Address {
                                url: address.url.clone(),
                                why: error.to_string(),
                            })?;
                        self.inner.plain.get_or_init(|| made)
                    }
                };
                Client::over(plain.clone(), address)
            }
            Certificate::Pinned(_) | Certificate::Learn(_) => Client::new(address),
        }
    }

    /// By its id alone.
    pub(crate) fn get(&self, agent_id: &str) -> Result<Peer, LanError> {
        let known = self.known().get(agent_id).cloned();
        known.ok_or_else(|| no_peer(agent_id))
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.known().keys().cloned().collect()
    }

    /// Forgets a peer and the files we wrote of it; ends nothing that it holds, see pairing.
    pub(crate) async fn forget(&self, id: &str) -> Result<Peer, LanError> {
        let _gate = self.inner.gate.lock().await;
        let peer = self.find(id)?;
        let note = note("peer.removed", &peer);
        self.inner
            .records
            .remove(KIND, &peer.agent_id, Some(note))
            .await?;
        self.known().remove(&peer.agent_id);
        self.clients().remove(&peer.agent_id);
        self.tell_change();
        self.forget_files(&peer.alias).await;
        Ok(peer)
    }

    async fn forget_files(&self, alias: &Name) {
        let (forge, alias) = (self.inner.forge.clone(), alias.clone());
        let work = self
            .inner
            .tasks
            .spawn_blocking(move |_| forge.remove(&alias));
        if let Ok(Err(error)) = work.await {
            warn!(error = %engine::chain(&error), "the skill of a peer stays");
        }
    }

    /// The skills of those that are there, prepared for comparing.
    pub(crate) fn index(&self) -> Arc<Index> {
        let mut index = self
            .inner
            .index
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &*index {
            return index.clone();
        }
        let skills = self
            .known()
            .values()
            .filter(|peer| peer.status == Status::Online)
            .flat_map(skills)
            .collect();
        let made = Arc::new(Index::new(skills));
        *index = Some(made.clone());
        made
    }

    /// Everything that somebody could be asked for now.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        let known = self.known();
        let online = known.values().filter(|peer| peer.status == Status::Online);
        let offers = online.flat_map(|peer| {
            let manifest = peer.manifest.iter();
            let capabilities = manifest.flat_map(|manifest| &manifest.capabilities);
            capabilities.map(|capability| Offer {
                peer: peer.agent_id.clone(),
                peer_name: peer.alias.to_string(),
                capability: capability.id.clone(),
                description: capability.description.clone(),
            })
        });
        offers.collect()
    }

    /// Keeps what has changed of a peer, then shows it.
    pub(crate) async fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut Peer),
    ) -> Result<Peer, LanError> {
        let _gate = self.inner.gate.lock().await;
        let old = self.get(id)?;
        let mut new = old.clone();
        change(&mut new);
        self.keep(Some(&old), new).await
    }

    /// Adds a peer, or gives the one with that id as it is; under the gate, so that two sightings make one peer.
    pub(crate) async fn ensure(&self, new: Peer) -> Result<Peer, LanError> {
        let _gate = self.inner.gate.lock().await;
        if let Ok(known) = self.get(&new.agent_id) {
            return Ok(known);
        }
        let is_a_name = |peer: &Peer| peer.alias.as_str() == new.agent_id;
        if self.known().values().any(is_a_name) {
            return Err(LanError::Invalid {
                what: "its id is what another peer is called here".to_owned(),
            });
        }
        self.make_room(&new).await?;
        let mut new = new;
        new.alias = self.free_alias(&new);
        self.keep(None, new).await
    }

    /// A name that means no other peer, whatever that one calls itself.
    fn free_alias(&self, peer: &Peer) -> Name {
        let known = self.known();
        let is_free = |name: &Name| {
            let mut others = known.values();
            !others.any(|other| other.alias == *name || other.agent_id == name.as_str())
        };
        let longer = std::iter::once(longer_alias(&peer.alias, &peer.agent_id));
        let counted = (2..).map(|number| counted_alias(&peer.alias, &peer.agent_id, number));
        let mut names = std::iter::once(peer.alias.clone())
            .chain(longer)
            .chain(counted);
        names
            .find(is_free)
            .expect("there are fewer peers than numbers")
    }

    async fn keep(&self, old: Option<&Peer>, new: Peer) -> Result<Peer, LanError> {
        if old == Some(&new) {
            return Ok(new);
        }
        let is_only_seen = old.is_some_and(|old| {
            let mut same = old.clone();
            same.last_seen = new.last_seen;
            let after = new.last_seen.unwrap_or(0) - old.last_seen.unwrap_or(0);
            same == new && after < SEEN_KEPT_EVERY.as_millis() as i64
        });
        // It stays as it was in memory too, so that the moment of the last writing is known.
        if is_only_seen {
            return Ok(new);
        }
        if new.is_unmet() {
            // Anybody can announce anything: before somebody answers there, it is worth no line in the store.
            self.known().insert(new.agent_id.clone(), new.clone());
            self.tell_change();
            return Ok(new);
        }
        let is_first = old.is_none_or(Peer::is_unmet);
        if is_first && old.is_some() {
            self.note(note("peer.added", &new)).await;
        }
        let note = match old {
            None => Some(note("peer.added", &new)),
            Some(old) if old.status != new.status => {
                Some(note(&format!("peer.{}", new.status.as_str()), &new))
            }
            Some(_) => None,
        };
        let put = self
            .inner
            .records
            .put(KIND, &new.agent_id, Keep::Live, &new, note);
        put.await?;
        self.known().insert(new.agent_id.clone(), new.clone());
        self.tell_change();
        self.forge(old, &new).await;
        Ok(new)
    }

    /// Files follow what changed of a peer; trouble with them is told and hurts nothing else.
    async fn forge(&self, old: Option<&Peer>, new: &Peer) {
        let is_same = old.is_some_and(|old| {
            (old.status, &old.manifest, &old.url) == (new.status, &new.manifest, &new.url)
        });
        if is_same {
            return;
        }
        let (forge, peer) = (self.inner.forge.clone(), new.clone());
        let work = self.inner.tasks.spawn_blocking(move |_| forge.bind(&peer));
        match work.await {
            Ok(Ok(forged)) => debug!(peer = %new.alias, %forged, "the skill of a peer"),
            Ok(Err(error)) => {
                warn!(error = %engine::chain(&error), "the skill of a peer is not up to date")
            }
            Err(error) => warn!(%error, "the skill of a peer is not up to date"),
        }
    }

    pub(crate) async fn note(&self, note: Note) {
        if let Err(error) = self.inner.records.note(note).await {
            warn!(error = %engine::chain(&error), "a line of the journal was lost");
        }
    }

    /// To be called when what is known has changed.
    fn tell_change(&self) {
        let index = self.inner.index.lock();
        *index.unwrap_or_else(PoisonError::into_inner) = None;
        self.inner.changes.send_modify(|number| *number += 1);
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<String, (Address, Client)>> {
        self.inner
            .clients
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn unmet(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.inner
            .unmet
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Peer>> {
        self.inner
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_peer(id: &str) -> LanError {
    LanError::NoPeer {
        id: id.chars().take(128).collect(),
    }
}

/// A peer of whom nothing but this is known.
pub(crate) fn stranger(agent_id: &str, name: &str, url: String, origin: Origin) -> Peer {
    Peer {
        agent_id: agent_id.to_owned(),
        alias: alias(name, agent_id),
        announced: (origin == Origin::Found).then(|| announced(name)).flatten(),
        origin,
        url,
        status: Status::Offline,
        first_seen: now(),
        last_seen: None,
        manifest: None,
        agents: Vec::new(),
        token: None,
        fingerprint: None,
        pairing: None::<Paired>,
        trouble: None,
    }
}

fn skills(peer: &Peer) -> Vec<Skill> {
    let capabilities = peer
        .manifest
        .iter()
        .flat_map(|manifest| &manifest.capabilities);
    let skills = capabilities.map(|capability| Skill {
        peer: peer.agent_id.clone(),
        peer_name: format!("{} {}", peer.name(), peer.alias),
        capability: capability.id.clone(),
        description: capability.description.clone(),
    });
    skills.collect()
}

fn note(kind: &str, peer: &Peer) -> Note {
    Note {
        kind: kind.to_owned(),
        body: json!({ "peer": peer.agent_id, "name": peer.alias, "url": peer.url }),
        ..Note::default()
    }
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
