//! The tokens of the node: the owner's in a file of the home, those of peers and programs as hashes in the records.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use engine::{Authenticator, Caller, EngineError, Keep, Note, Records, Rights, TokenId, Which};
use platform::files::{self, Durability, FileError, Mode};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::{
    login::Logins,
    secret::{self, SecretHash},
};

/// The owner's token, in the home; readable by the owner alone.
pub const OWNER_TOKEN_FILE: &str = "listener.token";

/// Begins every token, so that one is recognised in a log or a leak.
pub(crate) const PREFIX: &str = "act_";

/// Longer than any token; what is longer is not worth hashing.
const TOKEN_MAX: usize = 128;

/// Tokens that may exist: each request is compared with all of them.
const TOKENS_MAX: usize = 1024;

/// A name is shown in lists and audit lines.
const NAME_MAX: usize = 128;

/// The kind of the records.
const KIND: &str = "token";

const RESERVED: [&str; 2] = ["owner", "nobody"];
const RESERVED_BEFORE: [&str; 2] = ["peer:", "open:"];

/// Every token of the node. Clones are the same.
#[derive(Clone, Debug)]
pub struct Tokens {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    records: Records,
    owner_file: PathBuf,
    owner: SecretHash,
    known: Mutex<Vec<Known>>,
    /// Tokens are made one after the other, so that two never get one name.
    making: tokio::sync::Mutex<()>,
    logins: Logins,
}

#[derive(Debug, Clone)]
struct Known {
    id: String,
    hash: SecretHash,
    caller: Caller,
    created_at: i64,
    expires_at: Option<i64>,
}

/// A token as the store keeps it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    name: String,
    hash: String,
    /// Absent for one that may do everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rights: Option<BTreeSet<String>>,
    created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
}

/// What to create.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Who will use it; audit lines carry it.
    pub name: String,
    pub rights: Rights,
    pub lifetime: Option<Duration>,
}

/// A token as lists show it; the secret itself is shown once, when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    pub id: String,
    pub name: String,
    /// Absent for one that may do everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rights: Option<BTreeSet<String>>,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("could not keep the owner's token in {}", path.display())]
    OwnerFile { path: PathBuf, source: FileError },
    #[error("could not keep or read the tokens")]
    Records { source: EngineError },
    #[error("a token needs a name of 1 to {NAME_MAX} characters without control characters")]
    Name,
    #[error("{name:?} is what this node calls somebody itself; a token needs another name")]
    Reserved { name: String },
    #[error("there is a token for {name:?} already; revoke that one first, or choose another name")]
    Taken { name: String },
    #[error("there are {TOKENS_MAX} tokens already; revoke some that nobody uses")]
    TooMany,
    #[error("there is no token {id}")]
    NotFound { id: String },
}

impl Tokens {
    /// Reads the tokens, and makes the owner's if the home has none.
    pub async fn open(home: &Path, records: Records) -> Result<Self, TokenError> {
        let owner_file = home.join(OWNER_TOKEN_FILE);
        let owner = SecretHash::of(&owner_token(&owner_file)?);
        let rows = records.list::<Kept>(KIND, Which::Live, None, TOKENS_MAX as u32);
        let rows = rows
            .await
            .map_err(|source| TokenError::Records { source })?;
        let known = rows
            .into_iter()
            .filter_map(|row| known(row.id, row.value))
            .collect();
        let logins = Logins::open(records.clone()).await;
        let logins = logins.map_err(|source| TokenError::Records { source })?;
        let inner = Inner {
            records,
            owner_file,
            owner,
            known: Mutex::new(known),
            making: tokio::sync::Mutex::default(),
            logins,
        };
        let tokens = Self {
            inner: Arc::new(inner),
        };
        tokens.drop_expired().await;
        Ok(tokens)
    }

    /// Where the command line finds the owner's token.
    pub fn owner_file(&self) -> &Path {
        &self.inner.owner_file
    }

    /// Makes a token; the secret is told here and never again. What a caller began is theirs by their name, so no two
    /// have one.
    pub async fn create(&self, new: NewToken) -> Result<(TokenView, String), TokenError> {
        let _making = self.inner.making.lock().await;
        let name = new.name.trim();
        if is_reserved(name) {
            return Err(TokenError::Reserved {
                name: name.to_owned(),
            });
        }
        self.drop_expired().await;
        if self.known().iter().any(|known| known.caller.name == name) {
            return Err(TokenError::Taken {
                name: name.to_owned(),
            });
        }
        self.make(new).await
    }

    /// Makes one for somebody whom this node itself has a name for, such as a peer; the one before it is still there.
    pub async fn issue(&self, new: NewToken) -> Result<(TokenView, String), TokenError> {
        let _making = self.inner.making.lock().await;
        self.drop_expired().await;
        self.make(new).await
    }

    /// Those that are over are no longer kept.
    async fn drop_expired(&self) {
        let now = now();
        let expired: Vec<Known> = {
            let mut known = self.known();
            let (works, expired) = known.drain(..).partition(|known| known.works_at(now));
            *known = works;
            expired
        };
        for known in expired {
            if let Err(error) = self.end(&known, "audit.token-expired").await {
                warn!(error = %engine::chain(&error), id = known.id, "a token that is over stays in the store");
            }
        }
    }

    async fn make(&self, new: NewToken) -> Result<(TokenView, String), TokenError> {
        let name = new.name.trim();
        if name.is_empty() || name.chars().count() > NAME_MAX || name.chars().any(char::is_control)
        {
            return Err(TokenError::Name);
        }
        if self.known().len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        let token = format!("{PREFIX}{}", secret::fresh());
        let now = now();
        let lifetime = new
            .lifetime
            .map(|life| i64::try_from(life.as_millis()).unwrap_or(i64::MAX));
        let known = Known {
            id: format!("t-{}", uuid::Uuid::now_v7()),
            hash: SecretHash::of(&token),
            caller: Caller {
                name: name.to_owned(),
                rights: new.rights,
            },
            created_at: now,
            expires_at: lifetime.map(|life| now.saturating_add(life)),
        };
        let note = audit("audit.token-created", &known);
        let kept = known.kept();
        let put = self
            .inner
            .records
            .put(KIND, &known.id, Keep::Live, &kept, Some(note));
        put.await.map_err(|source| TokenError::Records { source })?;
        let view = known.view();
        self.known().push(known);
        Ok((view, token))
    }

    /// Those that still work, the oldest first.
    pub fn list(&self) -> Vec<TokenView> {
        let now = now();
        let mut views: Vec<TokenView> = self
            .known()
            .iter()
            .filter(|known| known.works_at(now))
            .map(Known::view)
            .collect();
        views.sort_by(|one, two| (one.created_at, &one.id).cmp(&(two.created_at, &two.id)));
        views
    }

    /// Ends a token; what it opened is refused from the next request on.
    pub async fn revoke(&self, id: &str) -> Result<(), TokenError> {
        let known = self.known().iter().find(|known| known.id == id).cloned();
        let known = known.ok_or_else(|| TokenError::NotFound { id: id.to_owned() })?;
        // It ends at once in memory: a store that fails must not keep a door open.
        self.known().retain(|known| known.id != id);
        self.end(&known, "audit.token-revoked").await
    }

    /// What is left of a token that is no longer in memory.
    async fn end(&self, known: &Known, kind: &str) -> Result<(), TokenError> {
        self.inner.logins.forget(&known.caller.name).await;
        let note = audit(kind, known);
        let removed = self.inner.records.remove(KIND, &known.id, Some(note)).await;
        removed.map_err(|source| TokenError::Records { source })
    }

    /// Whose token this is.
    pub fn check(&self, token: &str) -> Option<Caller> {
        self.whose(token).map(|(caller, _)| caller)
    }

    /// The same, with the token's id unless it is the owner's.
    pub(crate) fn whose(&self, token: &str) -> Option<(Caller, Option<TokenId>)> {
        if token.len() > TOKEN_MAX {
            return None;
        }
        let hash = SecretHash::of(token);
        if hash.is(&self.inner.owner) {
            return Some((Caller::owner(), None));
        }
        let now = now();
        let known = self.known();
        let found = known
            .iter()
            .filter(|known| known.works_at(now))
            .find(|known| known.hash.is(&hash));
        found.map(|known| (known.caller.clone(), Some(TokenId(known.id.clone()))))
    }

    /// For faces whose tokens do not come in a header.
    pub fn authenticator(&self) -> Authenticator {
        let tokens = self.clone();
        Authenticator::new(move |token| tokens.check(token))
    }

    /// A path with a code that logs a browser in as the caller, once and soon.
    pub fn login_path(&self, caller: Caller) -> String {
        format!("/login?code={}", self.inner.logins.code(caller))
    }

    pub(crate) fn logins(&self) -> &Logins {
        &self.inner.logins
    }

    #[cfg(test)]
    pub(crate) fn kept_ids(&self) -> Vec<String> {
        self.known().iter().map(|known| known.id.clone()).collect()
    }

    fn known(&self) -> MutexGuard<'_, Vec<Known>> {
        self.inner
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn works_at(&self, now: i64) -> bool {
        self.expires_at.is_none_or(|expires| now < expires)
    }

    fn kept(&self) -> Kept {
        Kept {
            name: self.caller.name.clone(),
            hash: self.hash.to_text(),
            rights: listed(&self.caller.rights),
            created_at: self.created_at,
            expires_at: self.expires_at,
        }
    }

    fn view(&self) -> TokenView {
        TokenView {
            id: self.id.clone(),
            name: self.caller.name.clone(),
            rights: listed(&self.caller.rights),
            created_at: self.created_at,
            expires_at: self.expires_at,
        }
    }
}

fn known(id: String, kept: Kept) -> Option<Known> {
    let hash = SecretHash::from_text(&kept.hash)?;
    let rights = kept.rights.map_or(Rights::All, Rights::Only);
    Some(Known {
        id,
        hash,
        caller: Caller {
            name: kept.name,
            rights,
        },
        created_at: kept.created_at,
        expires_at: kept.expires_at,
    })
}

/// Names that this node gives itself: to its owner, to peers, to passers-by, and to those it does not know.
fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.contains(&name.as_str())
        || RESERVED_BEFORE
            .iter()
            .any(|before| name.starts_with(before))
}

fn listed(rights: &Rights) -> Option<BTreeSet<String>> {
    match rights {
        Rights::All => None,
        Rights::Only(rights) => Some(rights.clone()),
    }
}

fn audit(kind: &str, known: &Known) -> Note {
    Note {
        kind: kind.to_owned(),
        body: serde_json::json!({ "id": known.id, "name": known.caller.name }),
        ..Note::default()
    }
}

/// The token in the file, or a new one. The file is written anew each time, so that its mode is right whoever touched it.
fn owner_token(path: &Path) -> Result<String, TokenError> {
    let failed = |source| TokenError::OwnerFile {
        path: path.to_owned(),
        source,
    };
    let kept = match files::read_bounded(path, TOKEN_MAX as u64) {
        Ok(bytes) => String::from_utf8(bytes).ok(),
        Err(error) if error.is_not_found() => None,
        Err(FileError::TooLarge { .. }) => None,
        Err(source) => return Err(failed(source)),
    };
    let kept = kept.map(|text| text.trim().to_owned());
    let is_whole = |token: &String| {
        token
            .strip_prefix(PREFIX)
            .is_some_and(|rest| rest.len() == 43)
    };
    let token = kept
        .filter(is_whole)
        .unwrap_or_else(|| format!("{PREFIX}{}", secret::fresh()));
    let line = format!("{token}\n");
    files::write_atomic(path, line.as_bytes(), Mode::PRIVATE, Durability::default())
        .map_err(failed)?;
    Ok(token)
}

pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
