//! Messages of lending a workspace, in both dialects.
//!
//! `seed` is the protocol's own text: snake_case, in `data.awcp` of an A2A message. `released` is what the published
//! implementation speaks: camelCase over HTTP, with events. They share words, never shapes.

mod code;
pub mod released;
mod secret;
pub mod seed;
mod words;

pub use code::ErrorCode;
pub use secret::Secret;
pub use words::{Access, Transport};

/// How an agent card says that its agent takes part.
pub const EXTENSION_URI: &str = "https://awcp-protocol.org/v1";

/// The only version there is.
pub const VERSION: &str = "1";

/// Why something is not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Malformed {
    /// There is no object with a `type` at all.
    NoMessage,
    UnknownType {
        found: String,
    },
    /// An INVITE must say a version, and it must be ours; elsewhere it may be absent.
    Version {
        found: Option<String>,
    },
    /// The type is known and a field is missing or wrong.
    Field {
        kind: String,
        problem: String,
    },
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoMessage => write!(f, "there is no AWCP message: an object with a `type`"),
            Self::UnknownType { found } => write!(f, "{found:?} is no type of AWCP message"),
            Self::Version { found: None } => {
                write!(f, "an INVITE says its version, which must be {VERSION:?}")
            }
            Self::Version { found: Some(found) } => {
                write!(f, "version {found:?} is not spoken here, only {VERSION:?}")
            }
            Self::Field { kind, problem } => write!(f, "this {kind} cannot be read: {problem}"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Finds type and version of a message before its fields are read, so that the answer can say what is wrong.
fn check(value: &serde_json::Value, types: &[&str]) -> Result<String, Malformed> {
    let kind = value
        .get("type")
        .and_then(serde_json::Value::as_str)
        .ok_or(Malformed::NoMessage)?;
    if !types.contains(&kind) {
        return Err(Malformed::UnknownType { found: kind.into() });
    }
    let version = value.get("version").filter(|version| !version.is_null());
    match version.map(|version| (version, version.as_str())) {
        Some((_, Some(VERSION))) => Ok(kind.into()),
        None if kind != "INVITE" => Ok(kind.into()),
        None => Err(Malformed::Version { found: None }),
        Some((_, Some(text))) => Err(Malformed::Version {
            found: Some(text.into()),
        }),
        Some((other, None)) => Err(Malformed::Field {
            kind: kind.into(),
            problem: format!("its version is {other}, which is no text"),
        }),
    }
}
