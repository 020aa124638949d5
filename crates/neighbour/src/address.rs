//! What people and announcements write as the address of a node.

use reqwest::Url;
use wire::address::masked;

use crate::ClientError;

/// Characters that are told of an address that is none.
const SHOWN_MAX: usize = 200;

const NO_SCHEME: &str = "it begins with neither http:// nor https://";

/// The address of a node without what may follow it. A name or a password in it is refused: addresses are told to others.
pub fn base_of(url: &str) -> Result<String, ClientError> {
    let wrong = |why: &str| ClientError::Address {
        url: masked(url).chars().take(SHOWN_MAX).collect(),
        why: why.to_owned(),
    };
    if !url.contains("://") {
        return Err(wrong(NO_SCHEME));
    }
    let parsed = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong(NO_SCHEME));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(wrong(
            "it holds a name or a password, and addresses are told to others; a token opens a node",
        ));
    }
    let path = parsed.path().trim_end_matches('/');
    let path = path.strip_suffix("/manifest").unwrap_or(path);
    Ok(format!("{}{path}", parsed.origin().ascii_serialization()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_node_is_found_in_what_people_and_announcements_write() {
        for (url, base) in [
            ("http://10.0.0.1:7420", "http://10.0.0.1:7420"),
            ("http://10.0.0.1:7420/", "http://10.0.0.1:7420"),
            ("https://node:7420/manifest?x=1#y", "https://node:7420"),
            ("http://h/acp/manifest", "http://h/acp"),
        ] {
            assert_eq!(base_of(url).unwrap(), base);
        }
        for wrong in ["ftp://h", "node:7420", ""] {
            base_of(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        for url in [
            "http://me:hush@h",
            "https://me@h:1/x",
            "me:hush@h",
            "http://me:hu/sh@h",
        ] {
            let refused = base_of(url).unwrap_err().to_string();
            assert!(
                !refused.contains("hush") && !refused.contains("hu/sh"),
                "{refused}"
            );
        }
        let refused = base_of("http://me:hush@h").unwrap_err().to_string();
        assert!(refused.contains("a name or a password"), "{refused}");
    }
}
