//! The port for whatever offers tools: MCP servers of an agent, the computers of an office.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use catalog::McpServer;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{DriverFuture, DriverSurroundings};

/// Offers tools for as long as it lives; dropping the last handle ends what it started.
pub trait ToolSource: Send + Sync + fmt::Debug {
    /// What there is now.
    fn tools(&self) -> Vec<Tool>;

    /// Changes whenever the tools, the resources or the state of a server have changed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Counts what a server has said of its resources: when it grows, what was read of them may be stale.
    fn resource_news(&self, _server: &str) -> u64 {
        0
    }

    /// Every configured server and how it fares.
    fn servers(&self) -> Vec<ServerState>;

    /// Calls a tool and waits for its result. Cancelling reaches the server.
    fn call(&self, call: ToolCall) -> DriverFuture<'_, Result<ToolOutput, ToolError>>;

    /// The resources a server offers.
    fn resources<'a>(&'a self, server: &'a str) -> DriverFuture<'a, Result<Vec<Value>, ToolError>>;

    /// Reads one resource, as the server's `contents`.
    fn read<'a>(
        &'a self,
        server: &'a str,
        uri: &'a str,
    ) -> DriverFuture<'a, Result<Vec<Value>, ToolError>>;
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub server: String,
    /// The server's own name for it.
    pub name: String,
    pub description: Option<String>,
    /// JSON schema of the arguments.
    pub input_schema: Map<String, Value>,
    /// The whole definition as the server gave it, annotations and `_meta` included.
    pub raw: Value,
}

/// How a server fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerState {
    pub name: String,
    pub status: ServerStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerStatus {
    Starting,
    Ready,
    /// It died or could not be reached, and is tried again.
    Down {
        why: String,
    },
    /// It wants credentials that it was not given, and is not tried again until it is opened with others.
    Unauthorized {
        why: String,
    },
    /// It is not offered; the words say what is wrong with its configuration.
    Invalid {
        why: String,
    },
}

/// One call.
#[derive(Debug, Clone)]
pub struct ToolCall {
    pub server: String,
    pub tool: String,
    pub arguments: Map<String, Value>,
    pub cancel: CancellationToken,
    /// Told whenever the server reports progress.
    pub progress: Option<tokio::sync::mpsc::Sender<ToolProgress>>,
}

/// How far a call has come, in the server's own measure.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolProgress {
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// The whole result as the server gave it: `content`, `structuredContent`, `isError`, `_meta`.
    pub raw: Value,
    pub is_error: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    #[error("there is no server called {server}")]
    NoServer { server: String },
    #[error("the server {server} has no tool called {tool}")]
    NoTool { server: String, tool: String },
    #[error("the server {server} is not there: {why}")]
    Down { server: String, why: String },
    /// It wants credentials that it was not given.
    #[error("the server {server} cannot be used: {why}")]
    Unauthorized { server: String, why: String },
    #[error("the server {server} refused: {why}")]
    Forbidden { server: String, why: String },
    #[error("the server {server} answered with an error: {message} ({code})")]
    Refused {
        server: String,
        code: i64,
        message: String,
    },
    #[error("the call was cancelled")]
    Cancelled,
}

/// A server, however it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolServer {
    Stdio(McpServer),
    Http {
        name: String,
        url: String,
        headers: BTreeMap<String, String>,
    },
    /// The transport before streamable HTTP.
    Sse {
        name: String,
        url: String,
        headers: BTreeMap<String, String>,
    },
}

impl ToolServer {
    pub fn name(&self) -> &str {
        match self {
            Self::Stdio(server) => server.name.as_str(),
            Self::Http { name, .. } | Self::Sse { name, .. } => name,
        }
    }
}

/// Starts servers in a folder and offers their tools; the assembly gives it to whoever needs tools.
#[derive(Clone)]
pub struct ToolSources(Arc<OpenTools>);

type OpenTools =
    dyn Fn(Vec<ToolServer>, PathBuf, DriverSurroundings) -> Arc<dyn ToolSource> + Send + Sync;

impl ToolSources {
    pub fn new(
        open: impl Fn(Vec<ToolServer>, PathBuf, DriverSurroundings) -> Arc<dyn ToolSource>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(open))
    }

    /// Returns at once; servers come up one by one, which `changes` tells.
    pub fn open(
        &self,
        servers: Vec<ToolServer>,
        cwd: PathBuf,
        around: DriverSurroundings,
    ) -> Arc<dyn ToolSource> {
        (self.0)(servers, cwd, around)
    }
}

impl fmt::Debug for ToolSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolSources")
    }
}
