//! Moments as this protocol writes them. The one place of the crate that asks what time it is.

use domain::Timestamp;

pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

/// RFC 3339 with milliseconds, in UTC.
pub(crate) fn text(moment: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(moment.0)
        .map_or_else(|_| String::new(), |moment| format!("{moment:.3}"))
}

/// Nothing if it is no moment.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(moment.as_millisecond()))
}

/// As HTTP headers write it.
pub(crate) fn http_date(moment: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(moment.0).map_or_else(
        |_| String::new(),
        |moment| moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_for_json_and_for_headers() {
        let moment = Timestamp(1_700_000_000_050);
        assert_eq!(text(moment), "2023-11-14T22:13:20.050Z");
        assert_eq!(http_date(moment), "Tue, 14 Nov 2023 22:13:20 GMT");
        assert_eq!(parse(&text(moment)), Some(moment));
        assert_eq!(parse("yesterday"), None);
    }
}
