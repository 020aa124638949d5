//! Every tool a conversation has: ours, and those of its MCP servers under `server__tool`.

use std::{sync::Arc, time::Duration};

use domain::turn::{Location, ToolContent, ToolKind};
use engine::{DriverSurroundings, ServerStatus, ToolCall, ToolSource};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::tools::{self, Act, Place, shortened};

/// How long the first turn waits for MCP servers that are still starting.
const SERVERS_START_MAX: Duration = Duration::from_secs(20);

/// Between the name of a server and that of its tool.
const JOINT: &str = "__";

/// The tools of one conversation.
#[derive(Debug)]
pub(crate) struct Toolbox {
    pub(crate) place: Place,
    servers: Option<Arc<dyn ToolSource>>,
}

/// Something that the model wants done.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    Own(Act),
    Remote {
        server: String,
        tool: String,
        arguments: Map<String, Value>,
    },
}

impl Toolbox {
    pub(crate) fn new(place: Place, servers: Option<Arc<dyn ToolSource>>) -> Self {
        Self { place, servers }
    }

    /// Waits until every server is there or is known to be away.
    pub(crate) async fn settled(&self) {
        let Some(servers) = &self.servers else {
            return;
        };
        let mut changes = servers.changes();
        let settled = async {
            while servers
                .servers()
                .iter()
                .any(|server| server.status == ServerStatus::Starting)
            {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(SERVERS_START_MAX, settled).await; // Late ones are there for the next turn.
    }

    /// What the model is told.
    pub(crate) fn definitions(&self) -> Vec<Value> {
        let mut definitions = tools::definitions();
        let remote = self.servers.iter().flat_map(|servers| servers.tools());
        definitions.extend(remote.map(|tool| {
            json!({
                "type": "function",
                "function": {
                    "name": format!("{}{JOINT}{}", tool.server, tool.name),
                    "description": tool.description.unwrap_or_default(),
                    "parameters": tool.input_schema,
                },
            })
        }));
        definitions
    }

    /// What the model wants, or what is wrong with how it says so.
    pub(crate) fn parse(&self, name: &str, arguments: &str) -> Result<Task, String> {
        let arguments = if arguments.trim().is_empty() {
            "{}"
        } else {
            arguments
        };
        let arguments: Map<String, Value> = serde_json::from_str(arguments)
            .map_err(|error| format!("the arguments are no JSON object: {error}"))?;
        let known = self.servers.iter().flat_map(|servers| servers.tools());
        let remote = known
            .into_iter()
            .find(|tool| name == format!("{}{JOINT}{}", tool.server, tool.name));
        match remote {
            Some(tool) => Ok(Task::Remote {
                server: tool.server,
                tool: tool.name,
                arguments,
            }),
            None => Act::parse(name, &arguments).map(Task::Own),
        }
    }

    /// Does it. The words are for the model, of a failure too.
    pub(crate) async fn perform(
        &self,
        task: Task,
        around: &DriverSurroundings,
        cancel: &CancellationToken,
    ) -> Result<String, String> {
        match task {
            Task::Own(act) => act.perform(&self.place, around, cancel).await,
            Task::Remote {
                server,
                tool,
                arguments,
            } => {
                let servers = self.servers.as_ref().ok_or("there are no servers")?;
                let call = ToolCall {
                    server,
                    tool,
                    arguments,
                    cancel: cancel.clone(),
                    progress: None,
                };
                let output = servers
                    .call(call)
                    .await
                    .map_err(|error| error.to_string())?;
                let words = shortened(words(&output.raw));
                if output.is_error {
                    Err(words)
                } else {
                    Ok(words)
                }
            }
        }
    }
}

impl Task {
    pub(crate) fn kind(&self) -> ToolKind {
        match self {
            Self::Own(act) => act.kind(),
            Self::Remote { .. } => ToolKind::Other,
        }
    }

    pub(crate) fn title(&self) -> String {
        match self {
            Self::Own(act) => act.title(),
            Self::Remote { server, tool, .. } => format!("{server}{JOINT}{tool}"),
        }
    }

    pub(crate) fn locations(&self, place: &Place) -> Vec<Location> {
        match self {
            Self::Own(act) => act.locations(&place.root),
            Self::Remote { .. } => Vec::new(),
        }
    }

    pub(crate) fn needs_permission(&self) -> bool {
        match self {
            Self::Own(act) => act.needs_permission(),
            Self::Remote { .. } => true,
        }
    }

    pub(crate) fn preview(&self, place: &Place) -> Vec<ToolContent> {
        match self {
            Self::Own(act) => act.preview(place),
            Self::Remote { .. } => Vec::new(),
        }
    }
}

/// The texts of a result; what is no text is told by its type.
fn words(raw: &Value) -> String {
    let parts = raw["content"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let texts: Vec<String> = parts
        .iter()
        .map(|part| match part["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("[{}]", part["type"].as_str().unwrap_or("something")),
        })
        .collect();
    if texts.is_empty() && !raw["structuredContent"].is_null() {
        return raw["structuredContent"].to_string();
    }
    texts.join("\n")
}
