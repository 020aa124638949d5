//! Tools of others as an MCP server on stdio: whatever an [`engine::ToolSource`] offers, such as the computers of an
//! office, with news of every change and with cancellation.

mod names;
mod resources;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use engine::{ServerStatus, ToolCall, ToolError, ToolSource};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
        CustomResult, Implementation, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities,
        ServerConfig, SubscriptionFilter,
    },
    service::{
        NotificationContext, Peer, RequestContext, ServerInitializeError, SubscriptionContext,
    },
    transport::async_rw::AsyncRwTransport,
};
use serde_json::Value;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use crate::{
    caller::Caller,
    failure,
    lines::Lines,
    server::{ServeError, Watched},
};

/// Calls at once; a model that makes more has lost its way.
const CALLS_MAX: usize = 64;

/// How long a list waits for servers that are only coming up: many clients ask once, and as the first thing.
const FIRST_LIST_MAX: Duration = Duration::from_secs(10);

/// How long calls have to tell the other side that nobody waits for them any more.
const LEAVE_GRACE: Duration = Duration::from_secs(5);

/// Words of progress that wait for the client; more are stale.
const PROGRESS_MAX: usize = 16;

/// What the client is told.
#[derive(Debug, Clone)]
pub struct OfficeFace {
    pub version: String,
    /// What these tools are, for the model.
    pub instructions: String,
}

/// Serves one client on standard input and output, until it closes the input or `stop` is cancelled.
pub async fn serve_office(
    face: OfficeFace,
    source: Arc<dyn ToolSource>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let (reader, writer) = rmcp::transport::io::stdio_pipes();
    let shop = Shop {
        face,
        source,
        gone: stop.child_token(),
        calls: TaskTracker::new(),
        room: Arc::new(Semaphore::new(CALLS_MAX)),
        is_initialized: Arc::default(),
    };
    let reader = Watched {
        reader: Lines::new(reader),
        gone: shop.gone.clone(),
    };
    let transport = AsyncRwTransport::new_server(reader, writer);
    let ended = match shop.clone().serve_with_ct(transport, stop).await {
        Ok(running) => {
            let peer = running.peer().clone();
            let (ended, ()) = tokio::join!(
                async {
                    let ended = running.waiting().await;
                    shop.gone.cancel();
                    ended
                },
                shop.tell_of_changes(peer)
            );
            ended
                .map(|reason| info!(?reason, "the client has left"))
                .map_err(|source| ServeError::Loop { source })
        }
        // It left before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(source) => Err(ServeError::Handshake {
            source: Box::new(source),
        }),
    };
    shop.gone.cancel();
    shop.calls.close();
    if timeout(LEAVE_GRACE, shop.calls.wait()).await.is_err() {
        warn!(
            calls = shop.calls.len(),
            "left while calls were still ending"
        );
    }
    ended
}

#[derive(Debug, Clone)]
struct Shop {
    face: OfficeFace,
    source: Arc<dyn ToolSource>,
    /// The client is gone, or we are told to end.
    gone: CancellationToken,
    calls: TaskTracker,
    room: Arc<Semaphore>,
    /// The client expects notices; newer ones ask for them with a subscription.
    is_initialized: Arc<AtomicBool>,
}

impl Shop {
    /// Waits, for a while, until every server has come up or is known to be away.
    async fn settled(&self) {
        let mut changes = self.source.changes();
        let is_starting = || {
            let servers = self.source.servers();
            servers
                .iter()
                .any(|server| server.status == ServerStatus::Starting)
        };
        let settled = async { while is_starting() && changes.changed().await.is_ok() {} };
        let _ = timeout(FIRST_LIST_MAX, settled).await; // Those that are late are told of later.
    }

    async fn tell_of_changes(&self, peer: Peer<RoleServer>) {
        let mut watching = Watching::new(&*self.source);
        loop {
            tokio::select! { biased;
                () = self.gone.cancelled() => return,
                changed = watching.changed(&*self.source) => if changed.is_none() { return },
            }
            if self.is_initialized.load(Ordering::Relaxed)
                && let Err(error) = peer.notify_tool_list_changed().await
            {
                debug!(%error, "could not tell the client that the tools have changed");
            }
        }
    }

    async fn carry(
        &self,
        call: ToolCall,
        mut progress: mpsc::Receiver<String>,
        context: &RequestContext<RoleServer>,
    ) -> Result<engine::ToolOutput, ToolError> {
        let cancel = call.cancel.clone();
        let mut caller = Caller::new(context, self.gone.clone(), self.calls.clone());
        let calling = self.source.call(call);
        tokio::pin!(calling);
        loop {
            tokio::select! { biased;
                outcome = &mut calling => return outcome,
                () = context.ct.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                Some(words) = progress.recv() => caller.tell(words).await,
            }
        }
    }
}

impl ServerHandler for Shop {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .build();
        let implementation =
            Implementation::new("agentcraft-office", &self.face.version).with_title("AgentCraft");
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(&self.face.instructions)
    }

    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {
        self.is_initialized.store(true, Ordering::Relaxed);
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        // The library keeps of it what we have said we can tell.
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut watching = Watching::new(&*self.source);
        loop {
            tokio::select! { biased;
                () = self.gone.cancelled() => return Ok(()),
                () = context.cancelled() => return Ok(()),
                changed = watching.changed(&*self.source) => if changed.is_none() { return Ok(()) },
            }
            if let Err(error) = context.sink().notify_tool_list_changed().await {
                debug!(%error, "a subscriber was not told that the tools have changed");
            }
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(failure::unknown_or_misshapen(&request))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        tokio::select! { biased;
            () = context.ct.cancelled() => {}
            () = self.gone.cancelled() => {}
            () = self.settled() => {}
        }
        let tools = names::shown(self.source.tools());
        Ok(ListToolsResult::with_all_items(
            tools.into_iter().map(names::Shown::describe).collect(),
        ))
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listing = async {
            self.settled().await;
            resources::list(&*self.source).await
        };
        let listed = tokio::select! { biased;
            () = context.ct.cancelled() => Vec::new(),
            () = self.gone.cancelled() => Vec::new(),
            listed = listing => listed,
        };
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = tokio::select! { biased;
            () = context.ct.cancelled() => Vec::new(),
            () = self.gone.cancelled() => Vec::new(),
            read = resources::read(&*self.source, &request.uri) => read?,
        };
        Ok(ReadResourceResult::new(contents).into())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let shown = names::shown(self.source.tools());
        let Some(found) = shown.into_iter().find(|shown| shown.name == request.name) else {
            // It may have been there when the client listed the tools.
            return Ok(failure(format!(
                "there is no tool called {} now; its computer may have left",
                request.name
            )));
        };
        let Ok(_place) = self.room.try_acquire() else {
            return Ok(failure(format!(
                "{CALLS_MAX} calls are under way already; wait for one to end"
            )));
        };
        let _counted = self.calls.token();
        let (telling, progress) = mpsc::channel(PROGRESS_MAX);
        let call = ToolCall {
            server: found.tool.server,
            tool: found.tool.name,
            arguments: request.arguments.unwrap_or_default(),
            cancel: self.gone.child_token(),
            progress: Some(telling),
        };
        Ok(match self.carry(call, progress, &context).await {
            Ok(output) => result(output.raw),
            Err(error) => failure(error.to_string()),
        })
    }
}

/// The tools as they were last seen, to tell what has changed from what has only moved.
struct Watching {
    changes: watch::Receiver<u64>,
    seen: Vec<engine::Tool>,
}

impl Watching {
    fn new(source: &dyn ToolSource) -> Self {
        Self {
            changes: source.changes(),
            seen: source.tools(),
        }
    }

    /// Waits until the tools are others; nothing when they will never be.
    async fn changed(&mut self, source: &dyn ToolSource) -> Option<()> {
        loop {
            self.changes.changed().await.ok()?;
            let now = source.tools();
            if now != self.seen {
                self.seen = now;
                return Some(());
            }
        }
    }
}

fn failure(words: String) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(words)]).into()
}

/// The answer as it came. What is no answer of this protocol is handed on as text rather than lost.
fn result(raw: Value) -> CallToolResponse {
    match serde_json::from_value::<CallToolResult>(raw.clone()) {
        Ok(mut result) => {
            // Which version the client speaks is for the library to know.
            result.result_type = CallToolResult::default().result_type;
            result.into()
        }
        Err(_) if raw["isError"] == true => failure(raw.to_string()),
        Err(_) => CallToolResult::success(vec![ContentBlock::text(raw.to_string())]).into(),
    }
}
