//! The one place that asks what time it is.

use domain::Timestamp;

pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

/// The moment as everybody writes it: RFC 3339 with milliseconds, in UTC.
pub(crate) fn text(moment: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(moment.0) {
        Ok(moment) => format!("{moment:.3}"),
        Err(_) => "1970-01-01T00:00:00.000Z".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_with_milliseconds_in_utc() {
        assert_eq!(
            text(Timestamp(1_700_000_000_050)),
            "2023-11-14T22:13:20.050Z"
        );
        assert_eq!(text(Timestamp(i64::MAX)), "1970-01-01T00:00:00.000Z");
    }
}
