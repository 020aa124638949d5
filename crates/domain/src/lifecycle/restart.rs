//! When a service that crashed is started again: after 1 s, doubling to 60 s, five times, forgiven after 300 s.

use std::time::Duration;

/// How often a service is restarted before it is given up.
pub const RESTARTS_MAX: u32 = 5;

/// How long a service must run before its earlier crashes are forgiven.
pub const STABLE_AFTER: Duration = Duration::from_secs(300);

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// How long to wait before restart number `restart`, counted from zero.
pub fn backoff(restart: u32) -> Duration {
    let factor = 1u32.checked_shl(restart).unwrap_or(u32::MAX);
    FIRST.saturating_mul(factor).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_a_minute() {
        let waits: Vec<u64> = (0..9).map(|n| backoff(n).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(backoff(40).as_secs(), 60);
    }
}
