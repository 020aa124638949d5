//! How often a connection may speak: an allowance that is spent by events and refills with time.

use std::time::Duration;

use crate::Timestamp;

/// Thousandths of an event, so that a slow refill does not round to nothing.
const MILLI: u64 = 1000;

/// One connection's allowance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    per_second: u32,
    burst: u32,
    left_milli: u64,
    refilled: Timestamp,
}

impl Allowance {
    /// A full allowance: `burst` events at once, refilled with `per_second`.
    pub fn new(per_second: u32, burst: u32, now: Timestamp) -> Self {
        Self {
            per_second,
            burst,
            left_milli: u64::from(burst) * MILLI,
            refilled: now,
        }
    }

    /// Spends one event, or says how long to wait for the next.
    pub fn spend(&mut self, now: Timestamp) -> Result<(), Duration> {
        let passed = u64::try_from(now.since(self.refilled).as_millis()).unwrap_or(u64::MAX);
        let refill = passed.saturating_mul(u64::from(self.per_second));
        self.left_milli = self
            .left_milli
            .saturating_add(refill)
            .min(u64::from(self.burst) * MILLI);
        self.refilled = self.refilled.max(now);
        match self.left_milli.checked_sub(MILLI) {
            Some(left) => {
                self.left_milli = left;
                Ok(())
            }
            None => Err(Duration::from_millis(
                (MILLI - self.left_milli).div_ceil(u64::from(self.per_second.max(1))),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_spent_and_refills_with_time() {
        let mut allowance = Allowance::new(10, 2, Timestamp(0));
        assert_eq!(allowance.spend(Timestamp(0)), Ok(()));
        assert_eq!(allowance.spend(Timestamp(0)), Ok(()));
        assert_eq!(
            allowance.spend(Timestamp(0)),
            Err(Duration::from_millis(100))
        );
        assert_eq!(allowance.spend(Timestamp(100)), Ok(()));
        assert!(allowance.spend(Timestamp(100)).is_err());
        assert_eq!(allowance.spend(Timestamp(60_000)), Ok(()));
        assert_eq!(allowance.spend(Timestamp(60_000)), Ok(()));
        assert!(allowance.spend(Timestamp(60_000)).is_err());
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let mut allowance = Allowance::new(1000, 1, Timestamp(1000));
        assert_eq!(allowance.spend(Timestamp(1000)), Ok(()));
        assert!(allowance.spend(Timestamp(0)).is_err());
        assert!(allowance.spend(Timestamp(1000)).is_err());
        assert_eq!(allowance.spend(Timestamp(1001)), Ok(()));
    }
}
