//! Names and passwords inside of addresses: an address is told to others, so nothing secret may stand in it.

use std::borrow::Cow;

/// What stands before the host of an address: a name, perhaps with a password behind a colon.
pub fn user_info(url: &str) -> Option<&str> {
    let (start, end) = authority(url);
    url[start..end].rsplit_once('@').map(|(user, _)| user)
}

/// The address as it may be shown, also where it cannot be read: whatever may be a name or a password is hidden.
pub fn masked(url: &str) -> Cow<'_, str> {
    let (start, _) = authority(url);
    match url[start..].rfind('@') {
        Some(at) => Cow::Owned(format!("{}***{}", &url[..start], &url[start + at..])),
        None => Cow::Borrowed(url),
    }
}

/// Where host and port stand, with what is before them. Clients read a backslash as a slash.
fn authority(url: &str) -> (usize, usize) {
    let start = url.find("//").map_or(0, |slashes| slashes + 2);
    let length = url[start..].find(['/', '\\', '?', '#']);
    (start, length.map_or(url.len(), |length| start + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_password_are_found_and_hidden() {
        for (url, user, shown) in [
            (
                "http://me:pw@host:1/x",
                Some("me:pw"),
                "http://***@host:1/x",
            ),
            ("https://me@host", Some("me"), "https://***@host"),
            ("http://me:p@w@host", Some("me:p@w"), "http://***@host"),
            ("http://host/a@b", None, "http://***@b"),
            ("http://me:p/w@host", None, "http://***@host"),
            ("http://host\\@other", None, "http://***@other"),
            ("me:pw@host", Some("me:pw"), "***@host"),
            ("http://host:7420/acp", None, "http://host:7420/acp"),
            ("", None, ""),
        ] {
            assert_eq!(user_info(url), user, "{url}");
            assert_eq!(masked(url), shown, "{url}");
        }
    }
}
