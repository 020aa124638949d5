//! MCP servers of this machine as what a computer lends: the engine's port of tools on one side, the office's on the other.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use engine::{
    DriverFuture, DriverSurroundings, ServerStatus, ToolCall, ToolError, ToolProgress, ToolServer,
    ToolSource, ToolSources,
};
use serde_json::{Map, Value};
use smcp::{
    Listener,
    computer::{
        Answering, CallFailure, ResourceFailure, ResourcePage, ServerTool, Tools, bundle_id,
    },
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use wire::smcp::{CallResult, ConfigAnswer, Progress, Resource};

use super::Offer;

/// A server that knows no such method, in JSON-RPC's words.
const METHOD_NOT_FOUND: i64 = -32601;

/// Words of a call's progress that wait to be said; more are stale.
const PROGRESS_MAX: usize = 16;

/// The servers of a computer, which run until this is dropped.
pub(crate) struct Lending {
    shelf: RwLock<Shelf>,
    sources: ToolSources,
    folder: PathBuf,
    around: DriverSurroundings,
    changes: watch::Sender<u64>,
}

/// What is lent at the moment.
#[derive(Debug, Default)]
struct Shelf {
    config: ConfigAnswer,
    servers: BTreeMap<String, Arc<Lent>>,
}

/// A server has a source of its own, since each may run in another folder.
#[derive(Debug)]
struct Lent {
    /// How it was started.
    server: ToolServer,
    cwd: Option<String>,
    source: Arc<dyn ToolSource>,
}

/// A server that is not there, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absent {
    pub(crate) server: String,
    pub(crate) why: String,
}

/// What a new offer has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaced {
    Nothing,
    Something,
}

impl fmt::Debug for Lending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lending")
            .field("shelf", &self.shelf)
            .finish_non_exhaustive()
    }
}

impl Lent {
    fn wants_login(&self) -> bool {
        let servers = self.source.servers();
        servers
            .iter()
            .any(|server| matches!(server.status, ServerStatus::Unauthorized { .. }))
    }
}

impl Lending {
    /// Starts the servers; they come up one by one.
    pub(crate) fn start(
        offer: Offer,
        sources: &ToolSources,
        folder: &Path,
        around: &DriverSurroundings,
    ) -> Arc<Self> {
        let lending = Self {
            shelf: RwLock::default(),
            sources: sources.clone(),
            folder: folder.to_owned(),
            around: around.clone(),
            changes: watch::channel(0).0,
        };
        lending.replace(offer);
        Arc::new(lending)
    }

    /// Lends this from now on. Servers that are in it as they were go on; what runs in the others is waited for.
    pub(crate) fn replace(&self, offer: Offer) -> Replaced {
        let mut shelf = self.shelf.write().unwrap_or_else(PoisonError::into_inner);
        let mut is_new = shelf.config != offer.config;
        let mut before = std::mem::take(&mut shelf.servers);
        for (key, (server, cwd)) in offer.servers {
            let kept = before
                .remove(&key)
                .filter(|lent| lent.server == server && lent.cwd == cwd);
            let lent = kept.unwrap_or_else(|| {
                is_new = true;
                Arc::new(self.open(server, cwd))
            });
            shelf.servers.insert(key, lent);
        }
        shelf.config = offer.config;
        is_new |= !before.is_empty();
        drop(shelf);
        if !is_new {
            return Replaced::Nothing;
        }
        self.changes.send_modify(|changes| *changes += 1);
        Replaced::Something
    }

    /// Opens the servers anew that want a login: somebody may have logged in.
    pub(crate) fn try_logins(&self) {
        let mut shelf = self.shelf.write().unwrap_or_else(PoisonError::into_inner);
        for lent in shelf.servers.values_mut() {
            if lent.wants_login() {
                *lent = Arc::new(self.open(lent.server.clone(), lent.cwd.clone()));
            }
        }
        drop(shelf);
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn open(&self, server: ToolServer, cwd: Option<String>) -> Lent {
        let folder = self.folder.join(cwd.as_deref().unwrap_or_default());
        let source = self
            .sources
            .open(vec![server.clone()], folder, self.around.clone());
        let mut changed = source.changes();
        let telling = self.changes.clone();
        self.around.tasks.spawn(|stop| async move {
            loop {
                tokio::select! { biased;
                    () = stop.cancelled() => break,
                    changed = changed.changed() => match changed {
                        Ok(()) => telling.send_modify(|changes| *changes += 1),
                        Err(_) => break, // The server is lent no more.
                    },
                }
            }
        });
        Lent {
            server,
            cwd,
            source,
        }
    }

    fn shelf(&self) -> RwLockReadGuard<'_, Shelf> {
        self.shelf.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What is lent now, by server, under the names the office shows.
    pub(crate) fn lent(&self) -> BTreeMap<String, Vec<String>> {
        let mut lent: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let tools = self.server_tools();
        let shelf = self.shelf();
        for tool in tools {
            let Some(server) = shelf.config.servers.get(&tool.server) else {
                continue;
            };
            if server.forbidden_tools.contains(&tool.name) {
                continue;
            }
            let alias = server.tool_meta.get(&tool.name);
            let alias = alias.and_then(|meta| meta.alias.clone());
            let tools = lent.entry(bundle_id(server)).or_default();
            tools.push(alias.unwrap_or(tool.name));
        }
        lent
    }

    /// The tools whole, to tell whether they have changed.
    pub(crate) fn server_tools(&self) -> Vec<ServerTool> {
        let of = |(key, lent): (&String, &Arc<Lent>)| {
            let tools = lent.source.tools().into_iter();
            tools.map(|tool| described(key, tool)).collect::<Vec<_>>()
        };
        self.shelf().servers.iter().flat_map(of).collect()
    }

    pub(crate) fn absent(&self) -> Vec<Absent> {
        let mut absent = Vec::new();
        for (key, lent) in &self.shelf().servers {
            for server in lent.source.servers() {
                match server.status {
                    ServerStatus::Starting | ServerStatus::Ready => {}
                    ServerStatus::Down { why }
                    | ServerStatus::Unauthorized { why }
                    | ServerStatus::Invalid { why } => {
                        let server = key.clone();
                        absent.push(Absent { server, why });
                    }
                }
            }
        }
        absent
    }

    async fn list_resources(&self, server: &str) -> Result<ResourcePage, ResourceFailure> {
        let lent = self.lent_server(server)?;
        let listed = lent.source.resources(lent.server.name()).await;
        let listed = listed.map_err(|error| resource_failure(&error))?;
        Ok(ResourcePage {
            resources: listed.iter().filter_map(resource).collect(),
            next_cursor: None,
        })
    }

    async fn read_text(&self, server: &str, uri: &str) -> Result<String, ResourceFailure> {
        let lent = self.lent_server(server)?;
        let contents = lent.source.read(lent.server.name(), uri).await;
        let contents = contents.map_err(|error| resource_failure(&error))?;
        let texts: Vec<&str> = contents
            .iter()
            .filter_map(|content| content["text"].as_str())
            .collect();
        match texts.is_empty() {
            true => Err(ResourceFailure::Failed("it holds no text".to_owned())),
            false => Ok(texts.join("\n")),
        }
    }

    fn lent_server(&self, server: &str) -> Result<Arc<Lent>, ResourceFailure> {
        let lent = self.shelf().servers.get(server).cloned();
        lent.ok_or(ResourceFailure::NoSuchServer)
    }
}

impl Tools for Lending {
    fn config(&self) -> ConfigAnswer {
        self.shelf().config.clone()
    }

    fn revision(&self) -> Option<u64> {
        Some(*self.changes.borrow())
    }

    fn tools(&self) -> Answering<'_, Vec<ServerTool>> {
        Box::pin(async { self.server_tools() })
    }

    fn call(
        &self,
        server: &str,
        tool: &str,
        params: Map<String, Value>,
        cancel: CancellationToken,
        listener: Option<Listener>,
    ) -> Answering<'_, Result<CallResult, CallFailure>> {
        let (server, tool) = (server.to_owned(), tool.to_owned());
        Box::pin(async move {
            let lent = self
                .lent_server(&server)
                .map_err(|_| CallFailure::NotRunning(format!("nothing called {server} is lent")))?;
            let (telling, told) = mpsc::channel(PROGRESS_MAX);
            let call = ToolCall {
                server: lent.server.name().to_owned(),
                tool,
                arguments: params,
                cancel,
                progress: listener.is_some().then_some(telling),
            };
            match heard(lent.source.call(call), told, listener).await {
                Ok(output) => Ok(result(output.raw)),
                Err(error @ (ToolError::NoServer { .. } | ToolError::Down { .. })) => {
                    Err(CallFailure::NotRunning(error.to_string()))
                }
                Err(ToolError::Unauthorized { why, .. }) => {
                    Err(CallFailure::Unauthorized { hint: Some(why) })
                }
                Err(ToolError::Forbidden { why, .. }) => {
                    Err(CallFailure::Forbidden { hint: Some(why) })
                }
                Err(
                    error @ (ToolError::NoTool { .. }
                    | ToolError::Refused { .. }
                    | ToolError::Cancelled),
                ) => Err(CallFailure::Failed(error.to_string())),
            }
        })
    }

    fn resources(
        &self,
        server: &str,
        _cursor: Option<&str>,
    ) -> Answering<'_, Result<ResourcePage, ResourceFailure>> {
        let server = server.to_owned();
        Box::pin(async move { self.list_resources(&server).await })
    }

    fn read(&self, server: &str, uri: &str) -> Answering<'_, Result<String, ResourceFailure>> {
        let (server, uri) = (server.to_owned(), uri.to_owned());
        Box::pin(async move { self.read_text(&server, &uri).await })
    }
}

/// Waits for a result, and passes on what is said meanwhile.
async fn heard<T>(
    calling: DriverFuture<'_, T>,
    mut told: mpsc::Receiver<ToolProgress>,
    listener: Option<Listener>,
) -> T {
    let Some(listener) = listener else {
        return calling.await;
    };
    tokio::pin!(calling);
    loop {
        let told = tokio::select! { biased;
            Some(told) = told.recv() => told,
            result = &mut calling => return result,
        };
        listener.hear(Progress {
            progress: told.progress,
            total: told.total,
            message: told.message,
        });
    }
}

fn described(key: &str, tool: engine::Tool) -> ServerTool {
    let part = |name: &str| tool.raw.get(name).filter(|part| !part.is_null()).cloned();
    let tags = tool.raw.pointer("/_meta/a2c_tool_meta/tags");
    let tags = tags.and_then(Value::as_array).into_iter().flatten();
    ServerTool {
        server: key.to_owned(),
        description: tool.description.clone().unwrap_or_default(),
        output_schema: part("outputSchema"),
        annotations: part("annotations"),
        tags: tags
            .filter_map(|tag| tag.as_str().map(str::to_owned))
            .collect(),
        name: tool.name,
        input_schema: Value::Object(tool.input_schema),
    }
}

/// A result of MCP as the office writes it.
fn result(mut raw: Value) -> CallResult {
    let mut take = |name: &str| raw.get_mut(name).map(Value::take);
    CallResult {
        meta: match take("_meta") {
            Some(Value::Object(meta)) => Some(meta),
            Some(_) | None => None,
        },
        content: match take("content") {
            Some(Value::Array(content)) => content,
            Some(_) | None => Vec::new(),
        },
        structured_content: take("structuredContent").filter(|content| !content.is_null()),
        is_error: take("isError") == Some(Value::Bool(true)),
    }
}

fn resource(raw: &Value) -> Option<Resource> {
    let text = |name: &str| raw[name].as_str().map(str::to_owned);
    Some(Resource {
        uri: text("uri")?,
        name: text("name").unwrap_or_default(),
        description: text("description"),
        mime_type: text("mimeType"),
        size: raw["size"].as_u64(),
        annotations: raw["annotations"].as_object().cloned(),
        meta: raw["_meta"].as_object().cloned(),
    })
}

fn resource_failure(error: &ToolError) -> ResourceFailure {
    match error {
        ToolError::Refused {
            code: METHOD_NOT_FOUND,
            ..
        } => ResourceFailure::NotOffered,
        ToolError::NoServer { .. } => ResourceFailure::NoSuchServer,
        ToolError::NoTool { .. }
        | ToolError::Down { .. }
        | ToolError::Unauthorized { .. }
        | ToolError::Forbidden { .. }
        | ToolError::Refused { .. }
        | ToolError::Cancelled => ResourceFailure::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_and_resources_keep_what_the_office_has_words_for() {
        let raw = json!({
            "content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3},
            "isError": false, "_meta": {"a": 1}, "resultType": "complete"
        });
        assert_eq!(
            json!(result(raw)),
            json!({
                "content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3},
                "isError": false, "meta": {"a": 1}
            })
        );
        assert_eq!(result(Value::Null), CallResult::default());
        let window = json!({"uri": "window://a", "name": "a", "mimeType": "text/plain", "size": 3});
        assert_eq!(
            json!(resource(&window)),
            json!({"uri": "window://a", "name": "a", "mime_type": "text/plain", "size": 3})
        );
        assert_eq!(resource(&json!({"name": "a"})), None);
    }
}
