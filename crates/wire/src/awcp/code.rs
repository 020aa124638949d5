//! The error codes of both dialects, and which word each has for the other's.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a delegation did not come to its end. A code of a later version is kept as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorCode {
    Declined,
    DepMissing,
    WorkspaceTooLarge,
    MountpointDenied,
    StartExpired,
    Expired,
    AuthFailed,
    MountFailed,
    TaskFailed,
    Cancelled,
    // The released implementation's own.
    WorkspaceNotFound,
    WorkspaceInvalid,
    SensitiveFiles,
    WorkdirDenied,
    SetupFailed,
    TransportError,
    ChecksumMismatch,
    /// In events alone.
    NotFound,
    /// A delegator says it of itself.
    SseFailed,
    Other(String),
}

impl ErrorCode {
    /// The codes of the protocol's text, in its order.
    pub const SEED: [Self; 10] = [
        Self::Declined,
        Self::DepMissing,
        Self::WorkspaceTooLarge,
        Self::MountpointDenied,
        Self::StartExpired,
        Self::Expired,
        Self::AuthFailed,
        Self::MountFailed,
        Self::TaskFailed,
        Self::Cancelled,
    ];

    /// What the released implementation has beside or instead of them.
    pub const RELEASED_ONLY: [Self; 9] = [
        Self::WorkspaceNotFound,
        Self::WorkspaceInvalid,
        Self::SensitiveFiles,
        Self::WorkdirDenied,
        Self::SetupFailed,
        Self::TransportError,
        Self::ChecksumMismatch,
        Self::NotFound,
        Self::SseFailed,
    ];

    pub fn as_str(&self) -> &str {
        match self {
            Self::Declined => "DECLINED",
            Self::DepMissing => "DEP_MISSING",
            Self::WorkspaceTooLarge => "WORKSPACE_TOO_LARGE",
            Self::MountpointDenied => "MOUNTPOINT_DENIED",
            Self::StartExpired => "START_EXPIRED",
            Self::Expired => "EXPIRED",
            Self::AuthFailed => "AUTH_FAILED",
            Self::MountFailed => "MOUNT_FAILED",
            Self::TaskFailed => "TASK_FAILED",
            Self::Cancelled => "CANCELLED",
            Self::WorkspaceNotFound => "WORKSPACE_NOT_FOUND",
            Self::WorkspaceInvalid => "WORKSPACE_INVALID",
            Self::SensitiveFiles => "SENSITIVE_FILES",
            Self::WorkdirDenied => "WORKDIR_DENIED",
            Self::SetupFailed => "SETUP_FAILED",
            Self::TransportError => "TRANSPORT_ERROR",
            Self::ChecksumMismatch => "CHECKSUM_MISMATCH",
            Self::NotFound => "NOT_FOUND",
            Self::SseFailed => "SSE_FAILED",
            Self::Other(word) => word,
        }
    }

    /// The nearest code of the protocol's text.
    pub fn in_seed(&self) -> Self {
        match self {
            Self::WorkdirDenied => Self::MountpointDenied,
            Self::SetupFailed | Self::TransportError | Self::ChecksumMismatch => Self::MountFailed,
            Self::WorkspaceNotFound | Self::WorkspaceInvalid | Self::SensitiveFiles => {
                Self::Declined
            }
            Self::NotFound | Self::SseFailed | Self::Other(_) => Self::TaskFailed,
            Self::Declined
            | Self::DepMissing
            | Self::WorkspaceTooLarge
            | Self::MountpointDenied
            | Self::StartExpired
            | Self::Expired
            | Self::AuthFailed
            | Self::MountFailed
            | Self::TaskFailed
            | Self::Cancelled => self.clone(),
        }
    }

    /// The word the released implementation has for it.
    pub fn in_released(&self) -> Self {
        match self {
            Self::MountpointDenied => Self::WorkdirDenied,
            Self::MountFailed => Self::SetupFailed,
            Self::Declined
            | Self::DepMissing
            | Self::WorkspaceTooLarge
            | Self::StartExpired
            | Self::Expired
            | Self::AuthFailed
            | Self::TaskFailed
            | Self::Cancelled
            | Self::WorkspaceNotFound
            | Self::WorkspaceInvalid
            | Self::SensitiveFiles
            | Self::WorkdirDenied
            | Self::SetupFailed
            | Self::TransportError
            | Self::ChecksumMismatch
            | Self::NotFound
            | Self::SseFailed
            | Self::Other(_) => self.clone(),
        }
    }
}

impl From<&str> for ErrorCode {
    fn from(word: &str) -> Self {
        Self::SEED
            .into_iter()
            .chain(Self::RELEASED_ONLY)
            .find(|code| code.as_str() == word)
            .unwrap_or_else(|| Self::Other(word.to_owned()))
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Ok(Self::from(word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_back_as_written() {
        let unknown = ErrorCode::Other("SOMETHING_NEW".into());
        let codes = ErrorCode::SEED
            .into_iter()
            .chain(ErrorCode::RELEASED_ONLY)
            .chain([unknown]);
        for code in codes {
            let text = serde_json::to_string(&code).unwrap();
            assert_eq!(serde_json::from_str::<ErrorCode>(&text).unwrap(), code);
        }
    }

    #[test]
    fn the_dialects_have_two_words_for_two_codes() {
        let pairs = [
            (ErrorCode::MountpointDenied, ErrorCode::WorkdirDenied),
            (ErrorCode::MountFailed, ErrorCode::SetupFailed),
        ];
        for (seed, released) in pairs {
            assert_eq!(seed.in_released(), released);
            assert_eq!(released.in_seed(), seed);
        }
        for code in ErrorCode::RELEASED_ONLY {
            assert!(ErrorCode::SEED.contains(&code.in_seed()), "{code:?}");
        }
        for code in ErrorCode::SEED {
            assert_eq!(code.in_seed(), code);
            assert!(!matches!(
                code.in_released(),
                ErrorCode::MountFailed | ErrorCode::MountpointDenied
            ));
        }
    }
}
