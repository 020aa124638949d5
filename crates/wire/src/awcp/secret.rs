//! A text that must not be shown: it travels as it is, and prints as `***`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that opens a door.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_travels_but_does_not_print() {
        let secret = Secret("k-1".into());
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"k-1\"");
    }
}
