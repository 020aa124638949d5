//! Why a delegation did not come to its end: a code, what happened, and what to do about it.

use serde::{Deserialize, Serialize};

/// The protocol's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
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
}

impl Code {
    pub const ALL: [Self; 10] = [
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

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
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
        }
    }

    /// What to do about it, where nothing better is known.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Declined => "ask another peer, or this one's owner why it declines",
            Self::DepMissing => "install what is missing there, or offer another transport",
            Self::WorkspaceTooLarge => {
                "lend a smaller folder, or leave out data sets, caches and build output"
            }
            Self::MountpointDenied => {
                "let the remote choose an empty folder below its own root for mounts"
            }
            Self::StartExpired => "invite again, and compare the clocks of both machines",
            Self::Expired => "delegate again with a longer lease or a smaller task",
            Self::AuthFailed => "invite again: a credential serves one lease only",
            Self::MountFailed => "check that the remote reaches the host's address and port",
            Self::TaskFailed => "read the log of the delegation",
            Self::Cancelled => "delegate again if the work is still wanted",
        }
    }
}

/// What went wrong, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: Code,
    pub message: String,
    pub hint: String,
}

impl Failure {
    /// With the code's own hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self::with_hint(code, message, code.hint())
    }

    pub fn with_hint(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_word_and_a_hint() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            let failure = Failure::new(code, "it did not go");
            assert!(!failure.hint.is_empty(), "{code:?}");
        }
    }
}
