//! How often a peer is asked: not faster than a person could, not again and again while it fails, and never for what it is
//! already doing for us.
//!
//! The last one stops circles through hops that drop the chain of calls: the same words come back while they are under way.
//! A person may wish for more of what is under way; from a run, whatever holds the same words is a circle.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

/// Intents to one peer in a minute: no person is faster, and a loop of agents is stopped.
pub(super) const PER_MINUTE_MAX: usize = 60;

/// Failures in a row after which a peer is left alone, and for how long.
pub(super) const FAILURES_MAX: u32 = 5;
pub(super) const PAUSE: Duration = Duration::from_secs(30);

/// Words that say as much: a hop may put something before or after them, and short ones are in everything.
const SAME_FROM: usize = 8;

/// Why a peer is not asked now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Held {
    TooFast,
    /// It has failed too often; how long it is left alone.
    Failing(Duration),
    /// The same is under way there.
    UnderWay,
}

/// Where a wish comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A person, or an agent whose calls do not say for whom: nothing tells them apart.
    Anybody,
    /// Another node, through a run here.
    Run,
}

/// What is known of one peer.
#[derive(Debug, Default)]
struct Pair {
    lately: VecDeque<Instant>,
    failures: u32,
    /// Milliseconds since the Unix epoch, as the registry says when a peer was seen.
    failed_at: i64,
    again_at: Option<Instant>,
    under_way: Vec<String>,
}

/// All pairs of this node with a peer.
#[derive(Debug, Default)]
pub(super) struct Pace {
    pairs: HashMap<String, Pair>,
}

impl Pace {
    /// A peer was away and is back since it failed: it is asked as if it had not.
    pub(super) fn seen(&mut self, peer: &str, at: Option<i64>) {
        if let Some(pair) = self.pairs.get_mut(peer)
            && at.is_some_and(|at| pair.failed_at < at)
        {
            (pair.failures, pair.again_at) = (0, None);
        }
    }

    /// Counts an intent on its way to the peer, or says why it does not go.
    pub(super) fn begin(
        &mut self,
        peer: &str,
        text: &str,
        from: Source,
        now: Instant,
    ) -> Result<(), Held> {
        let pair = self.pairs.entry(peer.to_owned()).or_default();
        if pair
            .under_way
            .iter()
            .any(|other| is_same(other, text, from))
        {
            return Err(Held::UnderWay);
        }
        if let Some(again_at) = pair.again_at {
            if now < again_at {
                return Err(Held::Failing(again_at - now));
            }
            // One is let through; whether it works decides about the next.
            pair.again_at = Some(now + PAUSE);
        }
        let minute = Duration::from_secs(60);
        while pair
            .lately
            .front()
            .is_some_and(|time| now.duration_since(*time) > minute)
        {
            pair.lately.pop_front();
        }
        if pair.lately.len() >= PER_MINUTE_MAX {
            return Err(Held::TooFast);
        }
        pair.lately.push_back(now);
        pair.under_way.push(text.to_owned());
        Ok(())
    }

    /// The intent is no longer under way there.
    pub(super) fn end(&mut self, peer: &str, text: &str) {
        if let Some(pair) = self.pairs.get_mut(peer)
            && let Some(index) = pair.under_way.iter().position(|other| other == text)
        {
            pair.under_way.swap_remove(index);
        }
    }

    pub(super) fn worked(&mut self, peer: &str) {
        if let Some(pair) = self.pairs.get_mut(peer) {
            (pair.failures, pair.again_at) = (0, None);
        }
    }

    pub(super) fn failed(&mut self, peer: &str, now: Instant) {
        let pair = self.pairs.entry(peer.to_owned()).or_default();
        pair.failures += 1;
        pair.failed_at = crate::peer::now();
        if pair.failures >= FAILURES_MAX {
            pair.again_at = Some(now + PAUSE);
        }
    }
}

fn is_same(one: &str, other: &str, from: Source) -> bool {
    let (one, other) = (one.trim(), other.trim());
    let holds = |long: &str, short: &str| {
        let is_most = from == Source::Run || short.len() * 2 >= long.len();
        short.len() >= SAME_FROM && is_most && long.contains(short)
    };
    one == other || holds(one, other) || holds(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_fails_is_left_alone_and_tried_again_once() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for number in 0..FAILURES_MAX {
            let text = number.to_string();
            pace.begin("p", &text, Source::Run, now).unwrap();
            pace.failed("p", now);
            pace.end("p", &text);
        }
        assert_eq!(
            pace.begin("p", "more", Source::Run, now),
            Err(Held::Failing(PAUSE))
        );
        assert_eq!(pace.begin("other", "more", Source::Run, now), Ok(()));
        let later = now + PAUSE;
        pace.begin("p", "try", Source::Run, later).unwrap();
        assert_eq!(
            pace.begin("p", "more", Source::Run, later),
            Err(Held::Failing(PAUSE))
        );
        pace.worked("p");
        pace.begin("p", "more", Source::Run, later).unwrap();
    }

    #[test]
    fn the_same_words_do_not_go_where_they_are_under_way() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.begin("p", "放一个轻音乐电台", Source::Run, now)
            .unwrap();
        for circle in ["放一个轻音乐电台", "please: 放一个轻音乐电台 "] {
            assert_eq!(
                pace.begin("p", circle, Source::Run, now),
                Err(Held::UnderWay),
                "{circle}"
            );
        }
        pace.begin("p", "something else", Source::Run, now).unwrap();
        pace.begin("q", "放一个轻音乐电台", Source::Run, now)
            .unwrap();
        pace.end("p", "放一个轻音乐电台");
        pace.begin("p", "放一个轻音乐电台", Source::Run, now)
            .unwrap();
    }

    #[test]
    fn a_person_may_wish_for_something_like_what_is_under_way() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.begin("p", "translate the news", Source::Anybody, now)
            .unwrap();
        let more = "translate the news, then print what came of it";
        assert_eq!(pace.begin("p", more, Source::Run, now), Err(Held::UnderWay));
        pace.begin("p", more, Source::Anybody, now).unwrap();
        let wrapped = "User: translate the news";
        let again = pace.begin("p", wrapped, Source::Anybody, now);
        assert_eq!(again, Err(Held::UnderWay));
    }

    #[test]
    fn a_peer_that_is_back_is_asked_at_once() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for _ in 0..FAILURES_MAX {
            pace.failed("p", now);
        }
        pace.seen("p", Some(crate::peer::now() - 60_000));
        let held = pace.begin("p", "x", Source::Anybody, now);
        assert_eq!(
            held,
            Err(Held::Failing(PAUSE)),
            "it was seen before it failed"
        );
        pace.seen("p", Some(crate::peer::now() + 1));
        assert_eq!(pace.begin("p", "x", Source::Anybody, now), Ok(()));
    }

    #[test]
    fn nobody_is_asked_faster_than_a_person_could() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for number in 0..PER_MINUTE_MAX {
            pace.begin("p", &number.to_string(), Source::Run, now)
                .unwrap();
        }
        assert_eq!(
            pace.begin("p", "more", Source::Run, now),
            Err(Held::TooFast)
        );
        pace.begin("p", "more", Source::Run, now + Duration::from_secs(61))
            .unwrap();
    }
}
