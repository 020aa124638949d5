//! The clock, and moments as they are written on the wire.

use domain::Timestamp;

pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

/// RFC 3339 with milliseconds, in UTC.
pub(crate) fn text(moment: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(moment.0) {
        Ok(moment) => format!("{moment:.3}"),
        Err(_) => "9999-12-31T23:59:59.999Z".to_owned(), // Beyond what anybody writes.
    }
}

pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(moment.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_it_was_written() {
        let moment = Timestamp(1_700_000_000_123);
        assert_eq!(text(moment), "2023-11-14T22:13:20.123Z");
        assert_eq!(parse(&text(moment)), Some(moment));
        assert_eq!(parse("soon"), None);
    }
}
