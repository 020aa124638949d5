//! Browsers: a code that works once and soon is traded for a cookie, so that no token stays in an address.
//!
//! Codes are in memory alone. Of a browser the records keep a hash, so that a page stays logged in when the daemon
//! starts anew.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{body::Body, http::header, response::Response};
use engine::{Caller, EngineError, Keep, Records, Rights, Which};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tracing::warn;

use crate::{
    Tokens,
    secret::{self, SecretHash},
    tokens::now,
};

/// How long a link may lie about before it is opened.
const CODE_LIFE: Duration = Duration::from_secs(60);

/// A working day; after it the command line prints another link.
pub(crate) const COOKIE_LIFE: Duration = Duration::from_secs(12 * 60 * 60);

/// Codes and browsers at a time; the oldest goes first. A person has a few of each.
const KEPT_MAX: usize = 64;

/// The kind of the records.
const KIND: &str = "login";

#[derive(Debug)]
pub(crate) struct Logins {
    records: Records,
    inner: Mutex<Inner>,
    /// Tells whoever reads on behalf of a browser that some login has ended.
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    codes: VecDeque<Code>,
    browsers: VecDeque<Browser>,
}

#[derive(Debug)]
struct Code {
    hash: SecretHash,
    caller: Caller,
    until: Instant,
}

#[derive(Debug, Clone)]
struct Browser {
    hash: SecretHash,
    caller: Caller,
    /// Milliseconds since the Unix epoch: it outlives this process.
    until: i64,
}

/// A browser as the store keeps it, under its hash.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    name: String,
    /// Absent for one that may do everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rights: Option<BTreeSet<String>>,
    until: i64,
}

impl Logins {
    /// Takes up the browsers that are still logged in.
    pub(crate) async fn open(records: Records) -> Result<Self, EngineError> {
        let limit = u32::try_from(KEPT_MAX).unwrap_or(u32::MAX);
        let rows = records.list::<Kept>(KIND, Which::Live, None, limit).await?;
        let logins = Self {
            records,
            inner: Mutex::default(),
            ended: watch::Sender::new(()),
        };
        for row in rows {
            match SecretHash::from_text(&row.id) {
                Some(hash) if now() < row.value.until => logins.lock().browsers.push_front(
                    // The list begins with the newest, the queue with the oldest.
                    Browser {
                        hash,
                        caller: Caller {
                            name: row.value.name,
                            rights: row.value.rights.map_or(Rights::All, Rights::Only),
                        },
                        until: row.value.until,
                    },
                ),
                Some(_) | None => logins.drop_record(&row.id).await,
            }
        }
        Ok(logins)
    }

    /// A code that logs in as the caller.
    pub(crate) fn code(&self, caller: Caller) -> String {
        self.code_until(caller, Instant::now() + CODE_LIFE)
    }

    fn code_until(&self, caller: Caller, until: Instant) -> String {
        let code = secret::fresh();
        let hash = SecretHash::of(&code);
        let entry = Code {
            hash,
            caller,
            until,
        };
        keep(&mut self.lock().codes, entry);
        code
    }

    /// Trades a code for the cookie's value. A login that cannot be kept lasts until the daemon stops.
    pub(crate) async fn redeem(&self, code: &str) -> Option<String> {
        let cookie = secret::fresh();
        let (browser, oldest) = self.trade(code, &cookie)?;
        if let Some(oldest) = oldest {
            self.ended.send_replace(());
            self.drop_record(&oldest.hash.to_text()).await;
        }
        let kept = Kept {
            name: browser.caller.name,
            rights: match browser.caller.rights {
                Rights::All => None,
                Rights::Only(rights) => Some(rights),
            },
            until: browser.until,
        };
        let id = browser.hash.to_text();
        let put = self.records.put(KIND, &id, Keep::Live, &kept, None).await;
        if let Err(error) = put {
            warn!(error = %engine::chain(&error), "could not keep a login");
        }
        Some(cookie)
    }

    /// The new browser, and the one that had to make room for it.
    fn trade(&self, code: &str, cookie: &str) -> Option<(Browser, Option<Browser>)> {
        let hash = SecretHash::of(code);
        let mut inner = self.lock();
        let index = inner.codes.iter().position(|entry| entry.hash.is(&hash))?;
        let code = inner.codes.remove(index)?;
        if code.until <= Instant::now() {
            return None;
        }
        let life = i64::try_from(COOKIE_LIFE.as_millis()).unwrap_or(i64::MAX);
        let browser = Browser {
            hash: SecretHash::of(cookie),
            caller: code.caller,
            until: now().saturating_add(life),
        };
        let oldest = keep(&mut inner.browsers, browser.clone());
        Some((browser, oldest))
    }

    /// Whose browser this is.
    pub(crate) fn caller(&self, cookie: &str) -> Option<Caller> {
        let (now, hash) = (now(), SecretHash::of(cookie));
        let inner = self.lock();
        let found = inner
            .browsers
            .iter()
            .find(|browser| browser.hash.is(&hash) && now < browser.until);
        found.map(|browser| browser.caller.clone())
    }

    /// Waits until the login is over, in whatever way: a stream that it opened is.
    pub(crate) async fn over(&self, cookie: &str) {
        let hash = SecretHash::of(cookie);
        let mut ended = self.ended.subscribe();
        loop {
            let until = {
                let inner = self.lock();
                let mut browsers = inner.browsers.iter();
                browsers
                    .find(|browser| browser.hash.is(&hash))
                    .map(|browser| browser.until)
            };
            let left = until.map_or(0, |until| until.saturating_sub(now()));
            let Ok(left @ 1..) = u64::try_from(left) else {
                return;
            };
            tokio::select! {
                // The sender is ours, so it cannot be gone.
                _ = ended.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(left)) => {}
            }
        }
    }

    /// Ends one browser's login.
    pub(crate) async fn log_out(&self, cookie: &str) {
        let hash = SecretHash::of(cookie);
        self.end(|browser| browser.hash.is(&hash)).await;
    }

    /// Ends every login under this name.
    pub(crate) async fn forget(&self, name: &str) {
        self.lock().codes.retain(|entry| entry.caller.name != name);
        self.end(|browser| browser.caller.name == name).await;
    }

    async fn end(&self, which: impl Fn(&Browser) -> bool) {
        let ended: VecDeque<Browser> = {
            let mut inner = self.lock();
            let (ended, kept) = inner.browsers.drain(..).partition(&which);
            inner.browsers = kept;
            ended
        };
        self.ended.send_replace(());
        for browser in ended {
            self.drop_record(&browser.hash.to_text()).await;
        }
    }

    async fn drop_record(&self, id: &str) {
        if let Err(error) = self.records.remove(KIND, id, None).await {
            warn!(error = %engine::chain(&error), "could not forget a login");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that a browser opened ends with its login: whoever is logged out reads on nowhere.
pub(crate) fn bound(response: Response, tokens: Tokens, cookie: Option<String>) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok());
    let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let cookie = cookie.filter(|cookie| tokens.logins().caller(cookie).is_some());
    let (Some(cookie), true) = (cookie, is_stream) else {
        return response;
    };
    let over = async move { tokens.logins().over(&cookie).await };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(over))))
}

/// Adds one, and gives the one that made room for it.
fn keep<T>(entries: &mut VecDeque<T>, entry: T) -> Option<T> {
    let oldest = if entries.len() >= KEPT_MAX {
        entries.pop_front()
    } else {
        None
    };
    entries.push_back(entry);
    oldest
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
