//! What can go wrong in the exchange, as a status, a word for programs and a way out.

use axum::http::StatusCode;
use engine::EngineError;
use platform::files::FileError;

#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("could not prepare the exchange's folder")]
    Folder { source: FileError },
    #[error("could not {act} in the exchange")]
    Store {
        act: &'static str,
        source: object_store::Error,
    },
    #[error("could not keep what lies in the exchange")]
    Records { source: EngineError },
    #[error("an object may have {max} bytes at most")]
    TooLarge { max: u64 },
    #[error("the exchange is full: {used} of {quota} bytes are taken")]
    Full { used: u64, quota: u64 },
    #[error("the upload broke off: {why}")]
    BrokenOff { why: String },
    #[error("the hash of what came is {is}, not {said}")]
    WrongHash { is: String, said: String },
    #[error("there is no resource {id}")]
    NotFound { id: String },
    #[error("this link is not valid, or no longer")]
    BadLink,
    #[error("{wanted} is not a range of {size} bytes")]
    Range { wanted: String, size: u64 },
}

impl ExchangeError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Folder { .. } | Self::Store { .. } | Self::Records { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
            Self::BrokenOff { .. } => StatusCode::BAD_REQUEST,
            Self::WrongHash { .. } => StatusCode::CONFLICT,
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::BadLink => StatusCode::FORBIDDEN,
            Self::Range { .. } => StatusCode::RANGE_NOT_SATISFIABLE,
        }
    }

    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Folder { .. } | Self::Store { .. } | Self::Records { .. } => "exchange_failed",
            Self::TooLarge { .. } => "resource_too_large",
            Self::Full { .. } => "exchange_full",
            Self::BrokenOff { .. } => "upload_broken_off",
            Self::WrongHash { .. } => "wrong_hash",
            Self::NotFound { .. } => "resource_not_found",
            Self::BadLink => "link_not_valid",
            Self::Range { .. } => "range_not_satisfiable",
        }
    }

    pub(crate) fn suggestion(&self) -> &'static str {
        match self {
            Self::Folder { .. } | Self::Store { .. } | Self::Records { .. } => {
                "look at the node's disk and log"
            }
            Self::TooLarge { .. } => "hand it over in smaller objects",
            Self::Full { .. } => "wait until older objects have gone, or raise the quota",
            Self::BrokenOff { .. } | Self::WrongHash { .. } => "send it again",
            Self::NotFound { .. } | Self::BadLink => "ask whoever gave the link for a new one",
            Self::Range { .. } => "ask for a range that the object has",
        }
    }
}
