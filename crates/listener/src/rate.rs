//! How many requests each caller may make: a bucket that fills at a steady pace.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Callers that are counted at a time. Beyond it, those who have been quiet longest are forgotten.
const CALLERS_MAX: usize = 4096;

/// How fast, and how much at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    pub(crate) burst: f64,
}

#[derive(Debug)]
pub(crate) struct RateLimit {
    pace: Pace,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl RateLimit {
    pub(crate) fn new(pace: Pace) -> Self {
        Self {
            pace,
            buckets: Mutex::default(),
        }
    }

    /// Counts a request; the error says how long to wait.
    pub(crate) fn take(&self, caller: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= CALLERS_MAX && !buckets.contains_key(caller) {
            forget_the_quiet(&mut buckets);
        }
        let bucket = buckets.entry(caller.to_owned()).or_insert(Bucket {
            left: self.pace.burst,
            at: now,
        });
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + passed * self.pace.per_second).min(self.pace.burst);
        bucket.at = now;
        if bucket.left < 1.0 {
            let wait = (1.0 - bucket.left) / self.pace.per_second;
            return Err(Duration::from_secs_f64(wait));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

/// The older half; whoever comes back has a full bucket, which is what the quiet have anyway.
fn forget_the_quiet(buckets: &mut HashMap<String, Bucket>) {
    let mut times: Vec<Instant> = buckets.values().map(|bucket| bucket.at).collect();
    times.sort_unstable();
    let middle = times[times.len() / 2];
    buckets.retain(|_, bucket| bucket.at > middle);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        per_second: 2.0,
        burst: 3.0,
    };

    #[test]
    fn a_burst_passes_and_then_the_steady_pace() {
        let limit = RateLimit::new(PACE);
        let start = Instant::now();
        for _ in 0..3 {
            limit.take("a", start).unwrap();
        }
        assert_eq!(limit.take("a", start), Err(Duration::from_millis(500)));
        limit.take("b", start).expect("others are not touched");
        limit
            .take("a", start + Duration::from_millis(500))
            .expect("one has been earned");
        assert!(limit.take("a", start + Duration::from_millis(500)).is_err());
    }

    #[test]
    fn the_number_of_callers_is_bounded() {
        let limit = RateLimit::new(PACE);
        let start = Instant::now();
        for number in 0..3 * CALLERS_MAX {
            let at = start + Duration::from_millis(number as u64);
            limit.take(&number.to_string(), at).unwrap();
        }
        assert!(limit.buckets.lock().unwrap().len() <= CALLERS_MAX);
    }
}
