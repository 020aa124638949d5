//! The port where MCP servers plug in: what a computer needs of them, and nothing of how they are run.

use std::pin::Pin;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use wire::smcp::{CallResult, ConfigAnswer, Resource};

use crate::Listener;

/// An answer that takes a while.
pub type Answering<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A tool as its server describes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerTool {
    /// The key of its server in the configuration.
    pub server: String,
    pub name: String,
    pub description: String,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub annotations: Option<Value>,
    /// What the server itself says the tool is for.
    pub tags: Vec<String>,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    #[error("the server does not run: {0}")]
    NotRunning(String),
    /// The server wants credentials that it was not given.
    #[error("the server wants its user to log in")]
    Unauthorized { hint: Option<String> },
    #[error("the server does not allow this to the credentials it was given")]
    Forbidden { hint: Option<String> },
    #[error("the call failed: {0}")]
    Failed(String),
}

/// Why a server's resources cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceFailure {
    #[error("there is no such server")]
    NoSuchServer,
    #[error("the server offers no resources")]
    NotOffered,
    #[error("the server failed: {0}")]
    Failed(String),
}

/// One page of a server's resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourcePage {
    pub resources: Vec<Resource>,
    pub next_cursor: Option<String>,
}

/// The MCP servers of a computer.
pub trait Tools: Send + Sync + 'static {
    /// The configuration as it was written, with its placeholders.
    fn config(&self) -> ConfigAnswer;

    /// Grows when the configuration or the tools have changed; without it both are looked at for every call.
    fn revision(&self) -> Option<u64> {
        None
    }

    /// The tools of all servers that run.
    fn tools(&self) -> Answering<'_, Vec<ServerTool>>;

    /// Calls a tool of a server. When `cancel` is cancelled, the server must be told, and the answer does not matter.
    /// `listener` hears what the server says of its progress.
    fn call(
        &self,
        server: &str,
        tool: &str,
        params: Map<String, Value>,
        cancel: CancellationToken,
        listener: Option<Listener>,
    ) -> Answering<'_, Result<CallResult, CallFailure>>;

    fn resources(
        &self,
        server: &str,
        cursor: Option<&str>,
    ) -> Answering<'_, Result<ResourcePage, ResourceFailure>>;

    /// The text of a resource.
    fn read(&self, server: &str, uri: &str) -> Answering<'_, Result<String, ResourceFailure>>;
}
