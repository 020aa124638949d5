//! Versions of the protocol: which ones understand each other.

use std::fmt;

/// What the specification calls the protocol in a handshake.
pub const PROTOCOL: &str = "a2c-smcp";

/// The released version that we speak.
pub const SHIPPED_VERSION: Version = Version {
    major: 0,
    minor: 4,
    patch: 0,
};

/// A version of three numbers; what follows a hyphen or a plus does not decide anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

/// Why a text is not a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionError(pub String);

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invalid version: {}", self.0)
    }
}

impl std::error::Error for VersionError {}

impl Version {
    /// Reads `1`, `1.2` or `1.2.3`, with or without a suffix.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let wrong = || VersionError(text.chars().take(64).collect());
        let numbers = text.split(['-', '+']).next().unwrap_or_default();
        let mut parts = numbers.trim_start_matches('v').split('.');
        let mut number = |required: bool| match parts.next() {
            Some(part) => part.parse::<u32>().map_err(|_| wrong()),
            None if required => Err(wrong()),
            None => Ok(0),
        };
        let (major, minor, patch) = (number(true)?, number(false)?, number(false)?);
        match parts.next() {
            None => Ok(Self {
                major,
                minor,
                patch,
            }),
            Some(_) => Err(wrong()),
        }
    }

    /// Whether a member of this released version may come in: before 1.0 every minor version is another protocol.
    pub fn is_shipped(self) -> bool {
        (self.major, self.minor) == (SHIPPED_VERSION.major, SHIPPED_VERSION.minor)
    }

    /// Whether a member that names this version of the specification may come in.
    pub fn is_seed(self) -> bool {
        self.major == 0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers() {
        for (text, shown) in [
            ("0.4.2", "0.4.2"),
            ("0.4", "0.4.0"),
            ("1", "1.0.0"),
            ("0.1.2-rc1", "0.1.2"),
            ("0.4.0+build", "0.4.0"),
        ] {
            assert_eq!(Version::parse(text).unwrap().to_string(), shown);
        }
        for text in ["", "abc", "0.x", "1.2.3.4", "-1", "99999999999"] {
            assert_eq!(
                Version::parse(text).unwrap_err().to_string(),
                format!("Invalid version: {text}")
            );
        }
    }

    #[test]
    fn only_the_same_minor_version_is_let_in() {
        for (text, shipped, seed) in [
            ("0.4.0", true, true),
            ("0.4.9", true, true),
            ("0.3.9", false, true),
            ("0.5.0", false, true),
            ("1.0.0", false, false),
            ("1.4.0", false, false),
        ] {
            let version = Version::parse(text).unwrap();
            assert_eq!((version.is_shipped(), version.is_seed()), (shipped, seed));
        }
    }
}
