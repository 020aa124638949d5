//! The tools of all servers of one owner, and calls to them.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use engine::{
    DriverFuture, DriverSurroundings, ServerState, ServerStatus, Tool, ToolCall, ToolError,
    ToolOutput, ToolServer, ToolSource,
};
use platform::Tasks;
use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, ClientRequest, ReadResourceRequestParams,
        ServerResult,
    },
    service::PeerRequestOptions,
};
use serde_json::Value;
use tokio::sync::watch;

use super::{connect::Connected, handler::Ear, keep::Keeper, logins::Logins, trouble::Trouble};

/// Servers that are kept there until this is dropped.
#[derive(Debug)]
pub(super) struct McpTools {
    shelf: Arc<Shelf>,
    tasks: Tasks,
}

/// What is known of each server now.
#[derive(Debug)]
pub(super) struct Shelf {
    servers: Mutex<BTreeMap<String, Entry>>,
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Entry {
    status: ServerStatus,
    tools: Vec<Tool>,
    line: Option<Line>,
}

/// A way to a server that answers.
#[derive(Debug, Clone)]
struct Line {
    peer: Peer<RoleClient>,
    ear: Ear,
}

impl McpTools {
    pub(super) fn open(
        servers: Vec<ToolServer>,
        cwd: PathBuf,
        around: DriverSurroundings,
        logins: &Logins,
    ) -> Self {
        let tasks = around.tasks.child();
        let shelf = Arc::new(Shelf {
            servers: Mutex::default(),
            changes: watch::channel(0).0,
        });
        let around = DriverSurroundings {
            tasks: tasks.clone(),
            ..around
        };
        for server in servers {
            shelf.set_status(server.name(), ServerStatus::Starting);
            let keeper = Keeper {
                server,
                cwd: cwd.clone(),
                around: around.clone(),
                logins: logins.clone(),
                shelf: shelf.clone(),
            };
            tasks.spawn(|stop| keeper.keep(stop));
        }
        Self { shelf, tasks }
    }

    fn line(&self, server: &str) -> Result<Line, ToolError> {
        let servers = self.shelf.servers();
        let entry = servers.get(server).ok_or_else(|| ToolError::NoServer {
            server: server.to_owned(),
        })?;
        entry.line.clone().ok_or_else(|| {
            let server = server.to_owned();
            let why = match &entry.status {
                ServerStatus::Starting => "it is starting".to_owned(),
                ServerStatus::Ready => "it is going".to_owned(),
                ServerStatus::Unauthorized { why } => {
                    let why = why.clone();
                    return ToolError::Unauthorized { server, why };
                }
                ServerStatus::Down { why } | ServerStatus::Invalid { why } => why.clone(),
            };
            ToolError::Down { server, why }
        })
    }

    async fn call(&self, call: ToolCall) -> Result<ToolOutput, ToolError> {
        let line = self.line(&call.server)?;
        let known = |entry: &Entry| entry.tools.iter().any(|tool| tool.name == call.tool);
        if !self.shelf.servers().get(&call.server).is_some_and(known) {
            return Err(ToolError::NoTool {
                server: call.server,
                tool: call.tool,
            });
        }
        let params = CallToolRequestParams::new(call.tool).with_arguments(call.arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let failed = |error| refusal(&call.server, error);
        let options = PeerRequestOptions::no_options();
        let handle = line.peer.send_cancellable_request(request, options).await;
        let mut handle = handle.map_err(failed)?;
        if let Some(progress) = call.progress {
            line.ear.listen(&handle.progress_token, progress);
        }
        let token = handle.progress_token.clone();
        let answer = tokio::select! { biased;
            answer = &mut handle.rx => answer.unwrap_or(Err(ServiceError::TransportClosed)).map_err(failed),
            () = call.cancel.cancelled() => {
                let _ = handle.cancel(Some("cancelled by the caller".to_owned())).await; // It may be gone already.
                Err(ToolError::Cancelled)
            }
        };
        line.ear.stop_listening(&token);
        if matches!(
            answer,
            Err(ToolError::Down { .. } | ToolError::Unauthorized { .. })
        ) {
            line.ear.doubt();
        }
        let raw = serde_json::to_value(answer?).unwrap_or(Value::Null);
        let is_error = raw["isError"] == Value::Bool(true);
        Ok(ToolOutput { raw, is_error })
    }

    async fn read(&self, server: &str, uri: &str) -> Result<Vec<Value>, ToolError> {
        let line = self.line(server)?;
        let params = ReadResourceRequestParams::new(uri);
        let read = line.peer.read_resource(params).await;
        let read = read.map_err(|error| refusal(server, error))?;
        let raw = serde_json::to_value(ServerResult::from(read)).unwrap_or(Value::Null);
        Ok(raw["contents"].as_array().cloned().unwrap_or_default())
    }

    async fn resources(&self, server: &str) -> Result<Vec<Value>, ToolError> {
        let line = self.line(server)?;
        let listed = line.peer.list_all_resources().await;
        let listed = listed.map_err(|error| refusal(server, error))?;
        Ok(listed
            .iter()
            .map(|resource| serde_json::to_value(resource).unwrap_or(Value::Null))
            .collect())
    }
}

impl Drop for McpTools {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

impl ToolSource for McpTools {
    fn tools(&self) -> Vec<Tool> {
        let servers = self.shelf.servers();
        servers
            .values()
            .flat_map(|entry| entry.tools.clone())
            .collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.shelf.changes.subscribe()
    }

    fn servers(&self) -> Vec<ServerState> {
        let servers = self.shelf.servers();
        let state = |(name, entry): (&String, &Entry)| ServerState {
            name: name.clone(),
            status: entry.status.clone(),
        };
        servers.iter().map(state).collect()
    }

    fn call(&self, call: ToolCall) -> DriverFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(self.call(call))
    }

    fn resources<'a>(&'a self, server: &'a str) -> DriverFuture<'a, Result<Vec<Value>, ToolError>> {
        Box::pin(self.resources(server))
    }

    fn read<'a>(
        &'a self,
        server: &'a str,
        uri: &'a str,
    ) -> DriverFuture<'a, Result<Vec<Value>, ToolError>> {
        Box::pin(self.read(server, uri))
    }
}

impl Shelf {
    pub(super) fn set_status(&self, server: &str, status: ServerStatus) {
        let mut servers = self.servers();
        let entry = servers.entry(server.to_owned()).or_insert(Entry {
            status: ServerStatus::Starting,
            tools: Vec::new(),
            line: None,
        });
        entry.status = status;
        drop(servers);
        self.tell();
    }

    pub(super) fn set_ready(&self, server: &str, connected: &Connected, tools: Vec<Tool>) {
        let entry = Entry {
            status: ServerStatus::Ready,
            tools,
            line: Some(Line {
                peer: connected.service.peer().clone(),
                ear: connected.ear.clone(),
            }),
        };
        self.servers().insert(server.to_owned(), entry);
        self.tell();
    }

    /// Its tools are not offered while it is away.
    pub(super) fn drop_connection(&self, server: &str) {
        if let Some(entry) = self.servers().get_mut(server) {
            entry.line = None;
            entry.tools.clear();
        }
        self.tell();
    }

    fn tell(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(server: &str, error: ServiceError) -> ToolError {
    let server = server.to_owned();
    match error {
        ServiceError::McpError(error) => ToolError::Refused {
            server,
            code: i64::from(error.code.0),
            message: error.message.to_string(),
        },
        ServiceError::Cancelled { .. } => ToolError::Cancelled,
        other => {
            let trouble = Trouble::of(&other);
            let why = trouble.to_string();
            match trouble {
                Trouble::Unauthorized => ToolError::Unauthorized { server, why },
                Trouble::Forbidden => ToolError::Forbidden { server, why },
                Trouble::Late | Trouble::Other(_) => ToolError::Down { server, why },
            }
        }
    }
}
