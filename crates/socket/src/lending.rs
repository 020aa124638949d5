//! Lending, as the socket sees it: another crate lends, and only on a node that others can reach.

use std::{collections::BTreeMap, fmt, pin::Pin, sync::Arc, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};
use wire::daemon::ErrorCode;

use crate::{error::RpcError, params};

/// What is asked of it.
#[derive(Debug)]
pub enum LendingCall {
    /// Lend a folder.
    Create(LendingParameters),
    /// Something that the other side says.
    Message(Value),
    List,
    Status {
        id: String,
    },
    /// How it stands when it has ended, or after so long.
    Wait {
        id: String,
        limit: Option<Duration>,
    },
    Audit {
        id: String,
    },
    Cancel {
        id: String,
    },
    Prune,
}

/// Parameters that only lending understands.
pub struct LendingParameters {
    pub(crate) raw: Option<Box<RawValue>>,
}

impl fmt::Debug for LendingParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LendingParameters") // They may hold a token.
    }
}

impl LendingParameters {
    pub fn read<P: DeserializeOwned>(&self) -> Result<P, LendingRefusal> {
        params::parse(self.raw.as_deref()).map_err(LendingRefusal)
    }
}

/// Why it was not done.
#[derive(Debug)]
pub struct LendingRefusal(pub(crate) RpcError);

impl LendingRefusal {
    /// Refused for reasons of lending; the context is for programs.
    pub fn new(message: impl Into<String>, context: BTreeMap<&str, String>) -> Self {
        let error = RpcError::new(ErrorCode::GenericBusiness, message);
        Self(
            context
                .into_iter()
                .fold(error, |error, (key, value)| error.with(key, value)),
        )
    }

    /// A parameter is wrong.
    pub fn parameter(field: &str, message: &str) -> Self {
        Self(RpcError::invalid_params(field, message))
    }
}

/// The answer of lending, on its way.
pub type LendingAnswer = Pin<Box<dyn Future<Output = Result<Value, LendingRefusal>> + Send>>;

/// Who lends. Clones are the same.
#[derive(Clone)]
pub struct Lender {
    answer: Arc<dyn Fn(LendingCall) -> LendingAnswer + Send + Sync>,
}

impl fmt::Debug for Lender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lender")
    }
}

impl Lender {
    pub fn new(answer: impl Fn(LendingCall) -> LendingAnswer + Send + Sync + 'static) -> Self {
        Self {
            answer: Arc::new(answer),
        }
    }

    pub(crate) async fn ask(&self, call: LendingCall) -> Result<Value, RpcError> {
        (self.answer)(call)
            .await
            .map_err(|LendingRefusal(error)| error)
    }
}
