//! What a peer may do here: which agents, how often, at which hours, until when.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::{Duration, Instant},
};

use engine::Rights;
use serde::{Deserialize, Serialize};

use crate::error::LanError;

/// What two nodes need of each other unless their owners say otherwise.
const USUAL_RIGHTS: [&str; 2] = ["runs", "exchange"];

const MINUTES_OF_A_DAY: u16 = 24 * 60;

/// What an owner lets a peer do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// As tokens have them, such as `runs:radio`; the usual ones unless said.
    #[serde(default)]
    pub rights: Option<BTreeSet<String>>,
    /// Runs that it may begin in a minute.
    #[serde(default)]
    pub per_minute: Option<u32>,
    #[serde(default)]
    pub hours: Option<Hours>,
    /// After it the peer must be paired with again.
    #[serde(default)]
    pub lifetime_seconds: Option<u64>,
}

impl Grant {
    /// What would open nothing is refused before anybody relies on it.
    pub(super) fn check(&self) -> Result<(), LanError> {
        let rights = self.rights.clone().map(Rights::Only);
        let what = match rights.and_then(|rights| rights.mistake()) {
            Some(what) => what,
            None if self.lifetime_seconds == Some(0) => {
                "a pairing that lasts 0 seconds opens nothing; leave the lifetime out for one without an end".to_owned()
            }
            None if self.per_minute == Some(0) => {
                "a pairing with 0 runs a minute opens nothing; leave the number out for one without a limit".to_owned()
            }
            None => return Ok(()),
        };
        Err(LanError::Invalid { what })
    }

    pub(super) fn rights(&self) -> BTreeSet<String> {
        let usual = || USUAL_RIGHTS.map(str::to_owned).into_iter().collect();
        self.rights.clone().unwrap_or_else(usual)
    }

    pub(super) fn lifetime(&self) -> Option<Duration> {
        self.lifetime_seconds.map(Duration::from_secs)
    }

    pub(super) fn limits(&self, now: i64) -> Limits {
        let lifetime = self
            .lifetime_seconds
            .and_then(|seconds| i64::try_from(seconds).ok());
        Limits {
            per_minute: self.per_minute,
            hours: self.hours,
            until: lifetime.map(|seconds| now.saturating_add(seconds.saturating_mul(1000))),
        }
    }
}

/// What is kept of a grant beside its token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) per_minute: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hours: Option<Hours>,
    /// Milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<i64>,
}

/// A time of every day, such as `08:00-22:00`; it may go over midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hours {
    /// In minutes of the day.
    from: u16,
    to: u16,
}

impl Hours {
    pub(crate) fn holds(self, minute: u16) -> bool {
        if self.from <= self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

impl TryFrom<String> for Hours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let minutes = |text: &str| {
            let (hours, minutes) = text.trim().split_once(':')?;
            // Small numbers, so that nothing wraps round to another hour.
            let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
            let total = u16::from(hours) * 60 + u16::from(minutes);
            (minutes < 60 && total <= MINUTES_OF_A_DAY).then_some(total)
        };
        let parsed = text
            .split_once('-')
            .and_then(|(from, to)| Some((minutes(from)?, minutes(to)?)));
        match parsed {
            Some((from, to)) if from != to => Ok(Self { from, to }),
            _ => Err("hours are written like 08:00-22:00".to_owned()),
        }
    }
}

impl From<Hours> for String {
    fn from(hours: Hours) -> Self {
        let Hours { from, to } = hours;
        format!(
            "{:02}:{:02}-{:02}:{:02}",
            from / 60,
            from % 60,
            to / 60,
            to % 60
        )
    }
}

/// What peers have begun lately, by their id.
#[derive(Debug, Default)]
pub(crate) struct Allowed(HashMap<String, VecDeque<Instant>>);

impl Allowed {
    /// Whether one more is within the limit; then it is counted.
    pub(crate) fn take(&mut self, peer: &str, per_minute: u32, now: Instant) -> bool {
        let times = self.0.entry(peer.to_owned()).or_default();
        let minute = Duration::from_secs(60);
        while times
            .front()
            .is_some_and(|time| now.duration_since(*time) >= minute)
        {
            times.pop_front();
        }
        let is_within = times.len() < per_minute as usize;
        if is_within {
            times.push_back(now);
        }
        is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(text: &str) -> Result<Hours, String> {
        Hours::try_from(text.to_owned())
    }

    #[test]
    fn hours_are_read_and_may_go_over_midnight() {
        let day = hours("08:00-22:30").unwrap();
        assert!(
            day.holds(8 * 60) && day.holds(22 * 60) && !day.holds(22 * 60 + 30) && !day.holds(0)
        );
        let night = hours("22:00-06:00").unwrap();
        assert!(
            night.holds(23 * 60) && night.holds(0) && !night.holds(6 * 60) && !night.holds(720)
        );
        assert_eq!(String::from(day), "08:00-22:30");
        assert!(hours("00:00-24:00").unwrap().holds(1439));
        for wrong in [
            "",
            "8-22",
            "08:00",
            "08:00-25:00",
            "08:61-09:00",
            "1093:00-04:00",
            "00:65535-04:00",
            "08:00-08:00",
        ] {
            hours(wrong).unwrap_err();
        }
    }

    #[test]
    fn runs_of_a_peer_are_counted_by_the_minute() {
        let (mut allowed, now) = (Allowed::default(), Instant::now());
        assert!(allowed.take("p", 2, now) && allowed.take("p", 2, now));
        assert!(!allowed.take("p", 2, now) && allowed.take("q", 2, now));
        assert!(allowed.take("p", 2, now + Duration::from_secs(60)));
    }

    #[test]
    fn a_grant_says_what_tokens_say_and_what_they_cannot() {
        let grant: Grant = serde_json::from_str(
            r#"{"rights": ["runs:radio"], "perMinute": 3, "hours": "08:00-22:00", "lifetimeSeconds": 60}"#,
        )
        .unwrap();
        assert_eq!(grant.rights(), BTreeSet::from(["runs:radio".to_owned()]));
        let limits = grant.limits(1000);
        assert_eq!((limits.per_minute, limits.until), (Some(3), Some(61_000)));
        assert_eq!(Grant::default().rights().len(), 2);
        grant.check().unwrap();
        let nothing = Grant {
            per_minute: Some(0),
            ..grant
        };
        nothing.check().unwrap_err();
    }
}
