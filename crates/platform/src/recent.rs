//! Whether a group that lived for a moment has left anybody behind, without a pass over the whole of `/proc`.
//!
//! The kernel gives numbers out in ascending order until they wrap. Whatever a leader has started, at whatever remove, has a
//! number above the leader's and not above the last one given out, so only these are looked at. Where that order cannot be
//! relied on the answer is "perhaps", and the caller makes the pass.

use std::time::Duration;

use crate::{
    owner::OwnerScope,
    pid::Stat,
    snapshot::{Environ, read_owner},
};

/// The last number given out in our own namespace. `/proc/loadavg` has it too, but containers put stale ones there.
const LAST_NUMBER: &str = "/proc/sys/kernel/ns_last_pid";

/// There are at least 32,768 numbers, and nobody uses so many up in this time. For whoever has lived longer, a pass is a trifle.
pub(crate) const LIFE_MAX: Duration = Duration::from_secs(1);

/// With more numbers than this a pass is cheaper: each costs about as much as a process does in a pass.
const NUMBERS_MAX: u32 = 64;

/// Processes may start others while we look, so the last number is asked again; a machine this busy gets the pass.
const LOOKS_MAX: usize = 8;

/// True if nobody alive is in the group or session of the leader or carries a token of the scope. The leader must have ended less
/// than [`LIFE_MAX`] after its start, without being reaped. Takes some microseconds, at most a millisecond.
pub(crate) fn surely_none(leader: u32, scope: &OwnerScope) -> bool {
    surely_none_after(leader, scope, last_number)
}

fn last_number() -> Option<u32> {
    /// A number has at most ten digits, so one call reads it.
    const NUMBER_MAX: usize = 16;
    let mut text = [0; NUMBER_MAX];
    let mut file = std::fs::File::open(LAST_NUMBER).ok()?;
    let length = std::io::Read::read(&mut file, &mut text).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    text.trim().parse().ok()
}

/// Whoever is alive when we look at its number is seen. Whoever has ended by then had started all its children before, so they
/// have numbers that are in `last` by the next look.
fn surely_none_after(
    leader: u32,
    scope: &OwnerScope,
    mut last: impl FnMut() -> Option<u32>,
) -> bool {
    let mut environ = Vec::new();
    let mut looked_to = leader;
    for _ in 0..LOOKS_MAX {
        let Some(last) = last() else {
            return false; // Another system, or a kernel without it.
        };
        if last < looked_to || last - leader > NUMBERS_MAX {
            return false; // The numbers have wrapped, or there are too many.
        }
        if last == looked_to {
            return true;
        }
        if (looked_to + 1..=last).any(|number| perhaps_ours(number, leader, scope, &mut environ)) {
            return false;
        }
        looked_to = last;
    }
    false
}

fn perhaps_ours(number: u32, leader: u32, scope: &OwnerScope, environ: &mut Vec<u8>) -> bool {
    let Some(stat) = Stat::read(number) else {
        return false;
    };
    if !stat.alive || stat.kernel_thread {
        return false;
    }
    if stat.group == leader || stat.session == leader {
        return true;
    }
    match read_owner(number, environ) {
        Environ::Owner(owner) => scope.holds(&owner),
        Environ::NoOwner => false,
        // In the middle of an exec it shows nothing at all.
        Environ::Empty => true,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::test_support::{Sleeper, fresh_owner};

    #[test]
    fn a_bearer_of_the_token_is_seen_and_one_of_another_token_is_not() {
        /// Not zero: that is the group and session of everybody whose leader is outside of our namespace.
        const NOBODY: u32 = u32::MAX;
        let owner = fresh_owner();
        let (ours, other) = (owner.tag("ours").unwrap(), owner.tag("other").unwrap());
        let neighbour = Sleeper::owned(&other);
        let alone = || {
            let mut environ = Vec::new();
            perhaps_ours(neighbour.pid(), NOBODY, &ours.scope(), &mut environ)
        };
        // Until its exec the neighbour is a copy of us, or shows nothing.
        crate::test_support::eventually("it is settled", crate::test_support::PATIENCE, || {
            !alone()
        });
        let bearer = Sleeper::owned(&ours);
        let mut environ = Vec::new();
        crate::test_support::eventually("it is seen", crate::test_support::PATIENCE, || {
            perhaps_ours(bearer.pid(), NOBODY, &ours.scope(), &mut environ)
        });
    }

    #[test]
    fn numbers_that_wrap_grow_too_fast_or_are_unknown_leave_it_open() {
        let scope = fresh_owner().tag("a").unwrap().scope();
        // Nobody has numbers like these, so only the order of them decides.
        const LEADER: u32 = 4_000_000_000;
        let ask = |numbers: &[Option<u32>]| {
            let mut numbers = numbers.iter().copied();
            surely_none_after(LEADER, &scope, || numbers.next().flatten())
        };
        assert!(ask(&[Some(LEADER)]));
        assert!(ask(&[Some(LEADER + 2), Some(LEADER + 3), Some(LEADER + 3)]));
        assert!(!ask(&[None]));
        assert!(!ask(&[Some(300)]));
        assert!(!ask(&[Some(LEADER + 2), Some(300)]));
        assert!(!ask(&[Some(LEADER + NUMBERS_MAX + 1)]));
        let racing: Vec<_> = (1..100).map(|more| Some(LEADER + more)).collect();
        assert!(!ask(&racing));
    }
}
