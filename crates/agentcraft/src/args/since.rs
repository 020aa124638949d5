//! `--since`: a moment, written as a distance from now, as a day, or in full.

use std::str::FromStr;

use jiff::{Timestamp, civil, tz::TimeZone};

/// How far back a distance may reach: what is older than a century is a mistake in the unit.
const SECONDS_MAX: u64 = 100 * 366 * 86_400;

/// A moment as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    SecondsAgo(u64),
    /// A day or a time of day, where the reader is.
    Local(civil::DateTime),
    Moment(Timestamp),
}

impl Since {
    /// Milliseconds since the Unix epoch; nothing where a local time does not exist.
    pub(crate) fn milliseconds(self, now: Timestamp, zone: TimeZone) -> Option<i64> {
        match self {
            Self::SecondsAgo(seconds) => {
                let distance = i64::try_from(seconds).ok()?.checked_mul(1000)?;
                now.as_millisecond().checked_sub(distance)
            }
            Self::Local(local) => Some(local.to_zoned(zone).ok()?.timestamp().as_millisecond()),
            Self::Moment(moment) => Some(moment.as_millisecond()),
        }
    }
}

impl FromStr for Since {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(seconds) = distance(text) {
            return Ok(Self::SecondsAgo(seconds));
        }
        // A text with a zone is no local time, though the parser would read it as one.
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Ok(Self::Moment(moment));
        }
        if let Ok(day) = text.parse::<civil::Date>()
            && text.len() <= 10
        {
            return Ok(Self::Local(day.to_datetime(civil::Time::midnight())));
        }
        text.parse::<civil::DateTime>()
            .map(Self::Local)
            .map_err(|_| "write 90s, 30m, 2h, 7d or 2w, a day such as 2026-11-15, or a moment such as 2026-11-15T08:30")
    }
}

fn distance(text: &str) -> Option<u64> {
    let number: String = text.chars().take_while(char::is_ascii_digit).collect();
    let unit = match text[number.len()..].trim() {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    let seconds = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (seconds <= SECONDS_MAX).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_people_write_them() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let cases = [
            ("90s", "2026-11-15T11:58:30Z"),
            ("30m", "2026-11-15T11:30:00Z"),
            ("2h", "2026-11-15T10:00:00Z"),
            ("7d", "2026-11-08T12:00:00Z"),
            ("1w", "2026-11-08T12:00:00Z"),
            ("2026-11-15", "2026-11-14T23:00:00Z"),
            ("2026-11-15T08:30", "2026-11-15T07:30:00Z"),
            ("2026-11-15 08:30:10", "2026-11-15T07:30:10Z"),
            ("2026-11-15T08:30:00Z", "2026-11-15T08:30:00Z"),
            ("2026-11-15T08:30:00+02:00", "2026-11-15T06:30:00Z"),
        ];
        for (text, expected) in cases {
            let since: Since = text.parse().unwrap();
            let expected: Timestamp = expected.parse().unwrap();
            assert_eq!(
                since.milliseconds(now, zone.clone()),
                Some(expected.as_millisecond()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2",
            "h",
            "-2h",
            "yesterday",
            "99999999999999999999s",
            "9999999w",
            "2026-13-01",
        ] {
            assert!(text.parse::<Since>().is_err(), "{text}");
        }
    }
}
