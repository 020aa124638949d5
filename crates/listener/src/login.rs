//! Browsers: a code that works once and soon is traded for a cookie, so that no token stays in an address.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use engine::Caller;

use crate::secret::{self, SecretHash};

/// How long a link may lie about before it is opened.
const CODE_LIFE: Duration = Duration::from_secs(60);

/// A working day; after it the command line prints another link.
pub(crate) const COOKIE_LIFE: Duration = Duration::from_secs(12 * 60 * 60);

/// Codes and browsers at a time; the oldest goes first. A person has a few of each.
const KEPT_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Logins {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    codes: VecDeque<Entry>,
    browsers: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    hash: SecretHash,
    caller: Caller,
    until: Instant,
}

impl Logins {
    /// A code that logs in as the caller.
    pub(crate) fn code(&self, caller: Caller) -> String {
        self.code_until(caller, Instant::now() + CODE_LIFE)
    }

    fn code_until(&self, caller: Caller, until: Instant) -> String {
        let code = secret::fresh();
        keep(&mut self.lock().codes, &code, caller, until);
        code
    }

    /// Trades a code for the cookie's value.
    pub(crate) fn redeem(&self, code: &str) -> Option<String> {
        let (now, hash) = (Instant::now(), SecretHash::of(code));
        let mut inner = self.lock();
        let index = inner.codes.iter().position(|entry| entry.hash.is(&hash))?;
        let entry = inner.codes.remove(index)?;
        if entry.until <= now {
            return None;
        }
        let cookie = secret::fresh();
        keep(
            &mut inner.browsers,
            &cookie,
            entry.caller,
            now + COOKIE_LIFE,
        );
        Some(cookie)
    }

    /// Whose browser this is.
    pub(crate) fn caller(&self, cookie: &str) -> Option<Caller> {
        let (now, hash) = (Instant::now(), SecretHash::of(cookie));
        let inner = self.lock();
        let found = inner
            .browsers
            .iter()
            .find(|entry| entry.hash.is(&hash) && now < entry.until);
        found.map(|entry| entry.caller.clone())
    }

    /// Ends one browser's login.
    pub(crate) fn log_out(&self, cookie: &str) {
        let hash = SecretHash::of(cookie);
        self.lock().browsers.retain(|entry| !entry.hash.is(&hash));
    }

    /// Ends every login under this name.
    pub(crate) fn forget(&self, name: &str) {
        let mut inner = self.lock();
        inner.codes.retain(|entry| entry.caller.name != name);
        inner.browsers.retain(|entry| entry.caller.name != name);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep(entries: &mut VecDeque<Entry>, secret: &str, caller: Caller, until: Instant) {
    if entries.len() >= KEPT_MAX {
        entries.pop_front();
    }
    entries.push_back(Entry {
        hash: SecretHash::of(secret),
        caller,
        until,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once_and_gives_a_cookie() {
        let logins = Logins::default();
        let code = logins.code(Caller::owner());
        let cookie = logins.redeem(&code).unwrap();
        assert_eq!(logins.caller(&cookie), Some(Caller::owner()));
        assert_eq!(logins.redeem(&code), None, "a second time");
        assert_eq!(logins.caller(&code), None, "a code is no cookie");
        logins.log_out(&cookie);
        assert_eq!(logins.caller(&cookie), None);
    }

    #[test]
    fn a_code_that_is_too_old_gives_nothing() {
        let logins = Logins::default();
        let code = logins.code_until(Caller::owner(), Instant::now());
        assert_eq!(logins.redeem(&code), None);
    }

    #[test]
    fn the_oldest_codes_make_room_for_new_ones() {
        let logins = Logins::default();
        let codes: Vec<String> = (0..=KEPT_MAX)
            .map(|_| logins.code(Caller::owner()))
            .collect();
        assert_eq!(logins.redeem(&codes[0]), None);
        assert!(logins.redeem(&codes[KEPT_MAX]).is_some());
    }

    #[test]
    fn a_revoked_name_is_logged_out_everywhere() {
        let logins = Logins::default();
        let (code, other) = (logins.code(Caller::owner()), logins.code(Caller::owner()));
        let cookie = logins.redeem(&code).unwrap();
        logins.forget("owner");
        assert_eq!(logins.caller(&cookie), None);
        assert_eq!(logins.redeem(&other), None);
    }
}
