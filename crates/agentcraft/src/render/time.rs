//! Moments and durations in words.

use std::time::Duration;

use jiff::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How far a moment of the wire is from now: `3 min ago`. What cannot be read is shown as it came.
pub(super) fn relative(moment: &str, now: Timestamp) -> String {
    let Ok(then) = moment.parse::<Timestamp>() else {
        return moment.to_owned();
    };
    let seconds = now.as_second() - then.as_second();
    let span = duration(Duration::from_secs(seconds.unsigned_abs()));
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("{span} ago"),
        ..0 => format!("in {span}"),
    }
}

/// A duration in its one or two largest units: `2 h 5 min`.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (large, large_unit, small, small_unit) = match seconds {
        0..MINUTE => return format!("{seconds} s"),
        MINUTE..HOUR => return format!("{} min", seconds / MINUTE),
        HOUR..DAY => (seconds / HOUR, "h", seconds % HOUR / MINUTE, "min"),
        DAY.. => (seconds / DAY, "d", seconds % DAY / HOUR, "h"),
    };
    if small == 0 {
        format!("{large} {large_unit}")
    } else {
        format!("{large} {large_unit} {small} {small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_by_their_distance() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let cases = [
            ("2026-11-15T12:00:00.400Z", "now"),
            ("2026-11-15T11:59:18.304Z", "42 s ago"),
            ("2026-11-15T11:57:00Z", "3 min ago"),
            ("2026-11-15T09:55:00Z", "2 h 5 min ago"),
            ("2026-11-13T12:00:00Z", "2 d ago"),
            ("2026-11-15T12:00:08Z", "in 8 s"),
            ("yesterday", "yesterday"),
        ];
        for (moment, words) in cases {
            assert_eq!(relative(moment, now), words, "{moment}");
        }
    }
}
