//! What passes between a client and an agent that speak the same protocol, beside what every agent understands: the
//! words a conversation is opened and prompted with, messages that have no other meaning here, and what the agent asks
//! of its client's machine.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use catalog::McpServer;
use domain::turn::Raw;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::{CreateSession, Driver, DriverError, EngineError, SessionView};

/// What a driver remembers word for word of what its agent said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About<'a> {
    /// When it was connected.
    Agent,
    /// When the conversation was opened.
    Conversation(&'a str),
}

/// The request with which a client opened a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeOpen {
    pub method: String,
    /// Its params.
    pub params: Raw,
    /// Earlier records do not say; theirs is the rule that was the only one.
    #[serde(default)]
    pub clash: Clash,
}

/// Whose MCP server an agent is told of where its template and whoever opens the conversation have one of the same name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clash {
    #[default]
    TemplateWins,
    /// As in a workflow, whose agents work for whoever runs it.
    OpenerWins,
}

impl NativeOpen {
    /// Those of the template that are told beside the ones of this request.
    pub(crate) fn beside(&self, template: Vec<McpServer>) -> Vec<McpServer> {
        if self.clash == Clash::TemplateWins {
            return template; // Drivers leave out what the template has already.
        }
        let params: Value = serde_json::from_str(&self.params.frame).unwrap_or_default();
        let brought = params["mcpServers"].as_array();
        let is_brought = |server: &McpServer| {
            let name = Some(server.name.as_str());
            let names = brought.into_iter().flatten();
            names
                .into_iter()
                .any(|brought| brought["name"].as_str() == name)
        };
        template
            .into_iter()
            .filter(|server| !is_brought(server))
            .collect()
    }
}

/// A message of a client's that only the agent's own protocol has words for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeMessage {
    /// The agent's own id of the conversation it is about; it takes the place of the client's.
    pub conversation: Option<String>,
    pub method: String,
    pub params: Option<Raw>,
    pub expects: Expects,
}

/// Whether a message is a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expects {
    Answer,
    Nothing,
}

/// What came back: a result, or an error in the sender's own words. JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NativeAnswer {
    Result(Arc<str>),
    Error(Arc<str>),
}

/// Something that an agent asks of its client, or tells it outside of any conversation.
#[derive(Debug)]
pub struct NativeRequest {
    pub method: String,
    pub params: Option<Raw>,
    /// The number of the newest event at that moment; the client sees those first.
    pub after: u64,
    /// Nothing for what is only told.
    pub answer: Option<oneshot::Sender<NativeAnswer>>,
    /// What is only told holds its place until the client has it.
    pub place: Option<OwnedSemaphorePermit>,
}

/// What an agent may tell a client that reads slowly before some of it is missed: far more than agents say outside of their
/// conversations, and little enough to be kept for every client.
const BACKLOG_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What the memory of a message takes beside its text.
const MESSAGE_BYTES: usize = 64;

/// Places for what a client is told outside of any conversation, and how often there was none. Clones are the same.
#[derive(Debug, Clone)]
pub struct Backlog {
    room: Arc<Semaphore>,
    missed: Arc<AtomicU64>,
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(BACKLOG_BYTES_MAX)),
            missed: Arc::default(),
        }
    }
}

impl Backlog {
    /// A place for so many bytes, if there is one; else the message counts as missed.
    pub fn place(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        // One that is larger than everything waits for nobody else.
        let bytes = bytes.saturating_add(MESSAGE_BYTES).min(BACKLOG_BYTES_MAX);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let place = Arc::clone(&self.room).try_acquire_many_owned(bytes).ok();
        if place.is_none() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
        place
    }

    /// How many messages were missed since this was last asked.
    pub fn take_missed(&self) -> u64 {
        self.missed.swap(0, Ordering::Relaxed)
    }
}

/// A client that does for the agent what this machine would do, and what it could not.
#[derive(Debug, Clone)]
pub struct Lent {
    pub to: mpsc::Sender<NativeRequest>,
    /// For what is only told.
    pub backlog: Backlog,
    /// Methods that the driver knows and the client carries out instead. What the driver does not know always goes there.
    pub instead: Vec<&'static str>,
    /// Tells it from every other client.
    pub client: u64,
    /// It has something to say to the agent; others only look on.
    pub at_work: bool,
}

/// A conversation that a client opens in its agent's own words.
#[derive(Debug, Clone)]
pub struct NativeSession {
    pub create: CreateSession,
    /// Where it takes place, if not in the workspace.
    pub cwd: Option<PathBuf>,
    pub open: NativeOpen,
    /// The agent's own id of a conversation to take up.
    pub resume: Option<String>,
}

/// A session that is not over, with what its agent calls it.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    pub view: SessionView,
    pub cwd: PathBuf,
    pub conversation: Option<String>,
}

/// A conversation that is open in an agent now.
#[derive(Debug, Clone)]
pub struct OpenConversation {
    pub driver: Arc<dyn Driver>,
    pub conversation: String,
}

/// Why a conversation could not be opened in its agent.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Agent(#[from] DriverError),
}

#[cfg(test)]
mod tests {
    use domain::{Name, turn::Dialect};

    use super::*;

    #[test]
    fn in_a_workflow_the_editors_server_wins_over_the_one_of_an_agents_template() {
        let own = |name: &str| McpServer {
            name: Name::parse(name).unwrap(),
            description: None,
            command: "own".to_owned(),
            args: Vec::new(),
            env: Default::default(),
        };
        let left = |clash| {
            let frame = r#"{"mcpServers":[{"name":"files","command":"theirs"}]}"#;
            let open = NativeOpen {
                method: "session/new".to_owned(),
                params: Raw {
                    dialect: Dialect::Acp,
                    frame: frame.into(),
                },
                clash,
            };
            let left = open.beside(vec![own("files"), own("git")]);
            let names = left.iter().map(|server| server.name.to_string());
            names.collect::<Vec<_>>()
        };
        assert_eq!(left(Clash::OpenerWins), ["git"]);
        // For an editor alone with an agent the template stays the owner's word; the driver leaves out the other one.
        assert_eq!(left(Clash::TemplateWins), ["files", "git"]);
        // Sessions that were kept before this could be said.
        let earlier = r#"{"method":"session/new","params":{"dialect":"acp","frame":"{}"}}"#;
        let earlier: NativeOpen = serde_json::from_str(earlier).unwrap();
        assert_eq!(earlier.clash, Clash::TemplateWins);
    }
}
