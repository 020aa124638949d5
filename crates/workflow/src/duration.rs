//! Lengths of time as files write them: `30` (seconds), `1.5`, `250ms`, `1h30m`, and as people read them.

use std::time::Duration;

/// Nothing a workflow waits for is longer than a year; beyond it a number is a mistake.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86400.0),
];

/// Reads a length of time; the error says what would have been right.
pub fn parse_duration(written: &str) -> Result<Duration, String> {
    let text = written.trim();
    if text.is_empty() {
        return Err(
            "must not be empty; write seconds (30) or a duration (250ms, 1m30s)".to_owned(),
        );
    }
    let seconds = match text.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => sum_of_parts(text)?,
    };
    if !seconds.is_finite() || seconds < 0.0 {
        return Err(format!("{written:?} is not a length of time"));
    }
    if seconds > DURATION_MAX.as_secs_f64() {
        return Err(format!("{written:?} is longer than a year"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn sum_of_parts(text: &str) -> Result<f64, String> {
    let wrong = || {
        format!("{text:?} is not a length of time; write seconds (30) or a duration (250ms, 1m30s)")
    };
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .filter(|end| *end > 0)
            .ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit_end = after
            .find(|character: char| character.is_ascii_digit() || character == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let (_, factor) = UNITS
            .iter()
            .find(|(name, _)| *name == unit.trim())
            .ok_or_else(wrong)?;
        seconds += number * factor;
        rest = after;
    }
    Ok(seconds)
}

/// The shortest form that reads back as the same length, to the millisecond.
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return if duration.is_zero() { "0s" } else { "<1ms" }.to_owned();
    }
    let mut text = String::new();
    let parts = [(3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let mut rest = millis;
    for (size, unit) in parts {
        if rest >= size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_durations_are_read() {
        let cases = [
            ("30", 30_000),
            (" 5 ", 5_000),
            ("1.5", 1_500),
            ("250ms", 250),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("2h45m", 9_900_000),
            ("1.5s", 1_500),
            ("0", 0),
            ("1000us", 1),
        ];
        for (written, millis) in cases {
            assert_eq!(
                parse_duration(written).unwrap(),
                Duration::from_millis(millis),
                "{written}"
            );
        }
    }

    #[test]
    fn what_is_no_length_of_time_is_refused_in_words() {
        for written in [
            "", "ms", "-5", "5x", "1m-2s", "NaN", "inf", "9999999h", "1..2s", "five",
        ] {
            assert!(parse_duration(written).is_err(), "{written}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for millis in [1, 250, 1_000, 61_001, 3_600_000, 5_430_250] {
            let duration = Duration::from_millis(millis);
            assert_eq!(
                parse_duration(&format_duration(duration)).unwrap(),
                duration
            );
        }
        assert_eq!(format_duration(Duration::ZERO), "0s");
    }
}
