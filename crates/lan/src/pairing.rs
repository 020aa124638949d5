//! Pairing: two nodes exchange tokens and certificates after their owners have seen the same code on both.
//!
//! Whoever asks shows a code; the owner of the other node types it there (`peer pair --accept CODE`), which compares it
//! with the one that node worked out itself. Requests live in memory alone, few at a time and for a few minutes.

mod ask;
mod code;
mod grant;
mod messages;

pub(crate) use grant::{Allowed, Limits};
pub use grant::{Grant, Hours};
pub use messages::{Asked, RequestView, StandingStatus};
pub(crate) use messages::{Asking, Claim, Opened, Standing};

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use engine::Note;
use platform::Tasks;
use serde_json::json;
use uuid::Uuid;

use crate::{
    error::LanError,
    peer::{Origin, Paired, Peer, PeerView, now},
    peers::{Peers, stranger},
    ports::Grants,
    reach::{Reach, seen_from},
};
use code::{Agreed, NONCE_LENGTH, commitment, fresh_nonce, is_same, typed};
use messages::checked;

/// How long a code works: time to walk to the other machine.
const LIFETIME: Duration = Duration::from_secs(5 * 60);

/// Requests that wait at a time, and of one address: owners pair one machine after the other.
const WAITING_MAX: usize = 16;
const WAITING_OF_ONE_MAX: usize = 4;

/// Requests in a minute, from everybody together.
const PER_MINUTE_MAX: usize = 20;

/// Pairings that we asked for and show.
const ASKED_MAX: usize = 16;

/// What stands before a peer's name in the name of its token.
pub(crate) const CALLER: &str = "peer:";

/// Pairings of a node. Clones are the same.
#[derive(Clone)]
pub struct Pairing {
    inner: Arc<Inner>,
}

struct Inner {
    peers: Peers,
    grants: Arc<dyn Grants>,
    tasks: Tasks,
    /// How others reach us, if they can.
    reach: Option<Reach>,
    fingerprint: Option<String>,
    requests: Mutex<Requests>,
    asked: Mutex<HashMap<String, Asked>>,
}

impl fmt::Debug for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pairing").finish_non_exhaustive()
    }
}

/// What others asked of us.
#[derive(Debug, Default)]
struct Requests {
    waiting: HashMap<String, Request>,
    lately: Vec<Instant>,
}

#[derive(Debug, Clone)]
struct Request {
    from: Option<IpAddr>,
    asking: Asking,
    nonce: String,
    code: Option<String>,
    state: RequestState,
    until: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RequestState {
    Waiting,
    Refused,
    Accepted {
        token: String,
        rights: BTreeSet<String>,
    },
}

impl Pairing {
    pub(crate) fn new(
        peers: Peers,
        grants: Arc<dyn Grants>,
        tasks: Tasks,
        reach: Option<Reach>,
        fingerprint: Option<String>,
    ) -> Self {
        let inner = Inner {
            peers,
            grants,
            tasks,
            reach,
            fingerprint,
            requests: Mutex::default(),
            asked: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Somebody wants to pair.
    pub(crate) fn open(&self, asking: Asking, from: Option<IpAddr>) -> Result<Opened, LanError> {
        let mut asking = checked(asking)?;
        asking.url = asking.url.map(|url| seen_from(&url, from));
        let node = self.inner.peers.node();
        if node.is(&asking.agent_id) {
            return Err(LanError::Ourselves);
        }
        let at = Instant::now();
        let mut requests = self.requests();
        requests.waiting.retain(|_, request| at < request.until);
        requests
            .lately
            .retain(|moment| at.duration_since(*moment) < Duration::from_secs(60));
        let of_one = requests
            .waiting
            .values()
            .filter(|request| request.from == from)
            .count();
        if requests.waiting.len() >= WAITING_MAX
            || (from.is_some() && of_one >= WAITING_OF_ONE_MAX)
            || requests.lately.len() >= PER_MINUTE_MAX
        {
            return Err(LanError::PairingBusy);
        }
        requests.lately.push(at);
        let (id, nonce) = (Uuid::new_v4().to_string(), fresh_nonce());
        let request = Request {
            from,
            asking,
            nonce: nonce.clone(),
            code: None,
            state: RequestState::Waiting,
            until: at + LIFETIME,
        };
        requests.waiting.insert(id.clone(), request);
        Ok(Opened {
            id,
            nonce,
            agent_id: node.id.clone(),
            name: node.name.clone(),
            expires_in_seconds: LIFETIME.as_secs(),
        })
    }

    /// How a request stands, for whoever shows the secret it began with.
    pub(crate) async fn claim(&self, id: &str, claim: Claim) -> Result<Standing, LanError> {
        let request = self.shown(id, &claim)?;
        let standing = match &request.state {
            RequestState::Waiting => (StandingStatus::Waiting, None),
            RequestState::Refused => (StandingStatus::Refused, None),
            RequestState::Accepted { token, rights } => (
                StandingStatus::Accepted,
                Some((token.clone(), rights.clone())),
            ),
        };
        if standing.1.is_some()
            && let Some(token) = claim.token.filter(|token| token.len() <= 256)
        {
            let peer_id = request.asking.agent_id.clone();
            self.inner
                .peers
                .change(&peer_id, |peer| peer.token = Some(token))
                .await?;
            self.requests().waiting.remove(id);
            let peers = self.inner.peers.clone();
            self.inner.tasks.spawn(|stop| async move {
                // Whether it can be reached shows in the registry.
                let _ = stop.run_until_cancelled(peers.refresh(&peer_id)).await;
            });
        }
        let (token, rights) = standing.1.unzip();
        Ok(Standing {
            status: standing.0,
            token,
            rights,
        })
    }

    /// The request, after its secret was checked. The same work is done for an id that nobody has.
    fn shown(&self, id: &str, claim: &Claim) -> Result<Request, LanError> {
        let node = self.inner.peers.node();
        let mut requests = self.requests();
        let found = requests.waiting.get_mut(id);
        let found = found.filter(|request| Instant::now() < request.until);
        let nobody = commitment("");
        let expected = found
            .as_ref()
            .map_or(nobody.as_str(), |request| &request.asking.commitment);
        let is_shown = is_same(expected, &commitment(&claim.nonce));
        let request = found.filter(|_| is_shown && claim.nonce.len() == NONCE_LENGTH);
        let request = request.ok_or(LanError::NoPairing)?;
        if request.code.is_none() {
            let agreed = Agreed {
                asking_nonce: &claim.nonce,
                asked_nonce: &request.nonce,
                asking_id: &request.asking.agent_id,
                asked_id: &node.id,
                asking_fingerprint: request.asking.fingerprint.as_deref(),
                asked_fingerprint: self.inner.fingerprint.as_deref(),
            };
            request.code = Some(agreed.code());
        }
        Ok(request.clone())
    }

    /// What waits for the owner.
    pub fn waiting(&self) -> Vec<RequestView> {
        let at = Instant::now();
        let requests = self.requests();
        let waiting = requests
            .waiting
            .values()
            .filter(|request| at < request.until && request.state == RequestState::Waiting);
        let mut views: Vec<RequestView> = waiting
            .filter_map(|request| {
                Some(RequestView {
                    agent_id: request.asking.agent_id.clone(),
                    name: request.asking.name.clone(),
                    url: request.asking.url.clone(),
                    from: request.from.map(|from| from.to_string()),
                    code: request.code.clone()?,
                })
            })
            .collect();
        views.sort_by(|one, two| one.code.cmp(&two.code));
        views
    }

    /// The owner has typed the code that the other side shows.
    pub async fn accept(&self, code: &str, grant: Grant) -> Result<PeerView, LanError> {
        grant.check()?;
        let (id, request) = self.with_code(code)?;
        let asking = &request.asking;
        let url = asking.url.clone().unwrap_or_default();
        let known = stranger(&asking.agent_id, &asking.name, url.clone(), Origin::Added);
        let known = self.inner.peers.ensure(known).await?;
        let (paired, token) = self.grant(&known, &grant).await?;
        let rights = paired.rights.clone();
        let fingerprint = asking.fingerprint.clone();
        let changed = self.inner.peers.change(&asking.agent_id, |peer| {
            peer.pairing = Some(paired);
            peer.fingerprint = fingerprint;
            if !url.is_empty() {
                peer.url = url;
            }
        });
        let peer = changed.await?;
        if let Some(request) = self.requests().waiting.get_mut(&id) {
            request.state = RequestState::Accepted { token, rights };
            request.until = Instant::now() + LIFETIME;
        }
        self.audit("audit.pairing-accepted", &peer.agent_id, &peer.view().alias)
            .await;
        Ok(peer.view())
    }

    /// The owner does not want it.
    pub async fn refuse(&self, code: &str) -> Result<(), LanError> {
        let (id, request) = self.with_code(code)?;
        if let Some(request) = self.requests().waiting.get_mut(&id) {
            request.state = RequestState::Refused;
        }
        self.audit(
            "audit.pairing-refused",
            &request.asking.agent_id,
            &request.asking.name,
        )
        .await;
        Ok(())
    }

    /// Ends what a peer may do here, and forgets what we may do there.
    pub async fn end(&self, id: &str) -> Result<PeerView, LanError> {
        let peer = self.inner.peers.find(id)?;
        self.end_token(peer.pairing.as_ref()).await;
        let changed = self.inner.peers.change(&peer.agent_id, |peer| {
            peer.pairing = None;
            peer.token = None;
        });
        let peer = changed.await?;
        self.audit("audit.pairing-ended", &peer.agent_id, peer.alias.as_str())
            .await;
        Ok(peer.view())
    }

    /// Forgets a peer, with what it may do here.
    pub async fn remove(&self, id: &str) -> Result<(), LanError> {
        let peer = self.inner.peers.forget(id).await?;
        self.end_token(peer.pairing.as_ref()).await;
        Ok(())
    }

    fn with_code(&self, code: &str) -> Result<(String, Request), LanError> {
        let code = typed(code);
        let at = Instant::now();
        let requests = self.requests();
        let mut found = None;
        for (id, request) in &requests.waiting {
            let fits = request
                .code
                .as_ref()
                .is_some_and(|known| is_same(known, &code));
            if fits && at < request.until && request.state == RequestState::Waiting {
                found = Some((id.clone(), request.clone()));
            }
        }
        found.ok_or(LanError::NoPairing)
    }

    /// Gives a peer what it may do here, instead of what it might before.
    async fn grant(&self, peer: &Peer, grant: &Grant) -> Result<(Paired, String), LanError> {
        let name = format!("{CALLER}{}", peer.alias);
        let rights = grant.rights();
        let issued = self
            .inner
            .grants
            .issue(name, rights.clone(), grant.lifetime());
        let issued = issued.await.map_err(|why| LanError::Tokens { why })?;
        self.end_token(peer.pairing.as_ref()).await;
        let paired = Paired {
            token_id: issued.token_id,
            rights,
            at: now(),
            limits: grant.limits(now()),
        };
        Ok((paired, issued.token))
    }

    async fn end_token(&self, paired: Option<&Paired>) {
        let Some(paired) = paired else { return };
        if let Err(error) = self.inner.grants.revoke(paired.token_id.clone()).await {
            tracing::warn!(error, "a token of a peer could not be ended");
        }
    }

    async fn audit(&self, kind: &str, peer: &str, name: &str) {
        let note = Note {
            kind: kind.to_owned(),
            body: json!({ "peer": peer, "name": name }),
            ..Note::default()
        };
        self.inner.peers.note(note).await;
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.inner
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "pairing_tests.rs"]
mod tests;
