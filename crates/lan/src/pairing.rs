//! Pairing: two nodes exchange tokens and certificates after their owners have seen the same code on both.
//!
//! Whoever asks shows a code; the owner of the other node types it there (`peer pair --accept CODE`), which compares it
//! with the one that node worked out itself. Requests live in memory alone, few at a time and for a few minutes.

mod ask;
mod code;

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use engine::Note;
use platform::Tasks;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::{
    client::{cut, normal},
    error::LanError,
    peer::{Origin, Paired, PeerView, now},
    peers::{Peers, stranger},
    ports::Grants,
};
use code::{Agreed, NONCE_LENGTH, commitment, fresh_nonce, is_same, typed};

/// How long a code works: time to walk to the other machine.
const LIFETIME: Duration = Duration::from_secs(5 * 60);

/// Requests that wait at a time, and of one address: owners pair one machine after the other.
const WAITING_MAX: usize = 16;
const WAITING_OF_ONE_MAX: usize = 4;

/// Requests in a minute, from everybody together.
const PER_MINUTE_MAX: usize = 20;

/// Pairings that we asked for and show.
const ASKED_MAX: usize = 16;

/// What two nodes need of each other unless their owners say otherwise.
const USUAL_RIGHTS: [&str; 2] = ["runs", "exchange"];

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
    url: Option<String>,
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

/// The body of `POST /pair/requests`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Asking {
    agent_id: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    commitment: String,
}

/// Its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Opened {
    id: String,
    nonce: String,
    agent_id: String,
    name: String,
    expires_in_seconds: u64,
}

/// The body of `POST /pair/requests/{id}`: shows the secret, and asks how it stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Claim {
    nonce: String,
    /// Once it is accepted: what the other side may use to call us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// Its answer.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Standing {
    status: StandingStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rights: Option<BTreeSet<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StandingStatus {
    Waiting,
    Accepted,
    Refused,
    Failed,
}

/// A request of somebody, as the owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestView {
    pub agent_id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub code: String,
}

/// A pairing that we asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    pub id: String,
    pub peer: String,
    pub name: String,
    pub url: String,
    /// To be typed on the other side.
    pub code: String,
    pub status: StandingStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl Pairing {
    pub(crate) fn new(
        peers: Peers,
        grants: Arc<dyn Grants>,
        tasks: Tasks,
        url: Option<String>,
        fingerprint: Option<String>,
    ) -> Self {
        let inner = Inner {
            peers,
            grants,
            tasks,
            url,
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
        let asking = checked(asking)?;
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
    pub async fn accept(
        &self,
        code: &str,
        rights: Option<BTreeSet<String>>,
    ) -> Result<PeerView, LanError> {
        let rights = rights.unwrap_or_else(usual_rights);
        let (id, request) = self.with_code(code)?;
        let asking = &request.asking;
        let url = asking.url.clone().unwrap_or_default();
        let known = stranger(&asking.agent_id, &asking.name, url.clone(), Origin::Added);
        let known = self.inner.peers.ensure(known).await?;
        let issued = self.issue(known.alias.as_str(), rights.clone()).await?;
        self.end_token(known.pairing.as_ref()).await;
        let paired = Paired {
            token_id: issued.token_id,
            rights: rights.clone(),
            at: now(),
        };
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
            let token = issued.token;
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

    async fn issue(
        &self,
        alias: &str,
        rights: BTreeSet<String>,
    ) -> Result<crate::ports::Issued, LanError> {
        let issued = self
            .inner
            .grants
            .issue(format!("peer:{alias}"), rights)
            .await;
        issued.map_err(|why| LanError::Tokens { why })
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

fn usual_rights() -> BTreeSet<String> {
    USUAL_RIGHTS
        .iter()
        .map(|right| (*right).to_owned())
        .collect()
}

/// What a stranger says of itself, bounded; it is shown to the owner.
fn checked(asking: Asking) -> Result<Asking, LanError> {
    let invalid = |what: &str| LanError::Invalid {
        what: what.to_owned(),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=64).contains(&asking.agent_id.len()) || !asking.agent_id.bytes().all(is_plain) {
        return Err(invalid("agent_id is no id"));
    }
    if asking.commitment.len() != NONCE_LENGTH {
        return Err(invalid("commitment is no SHA-256 in hex"));
    }
    let fingerprint = asking.fingerprint.as_deref().map(normal).transpose();
    let fingerprint = fingerprint.map_err(|what| LanError::Invalid { what })?;
    let url = asking
        .url
        .as_deref()
        .map(crate::client::base_of)
        .transpose()?;
    Ok(Asking {
        name: cut(&asking.name, 64).replace('\n', " "),
        url,
        fingerprint,
        ..asking
    })
}

#[cfg(test)]
#[path = "pairing_tests.rs"]
mod tests;
