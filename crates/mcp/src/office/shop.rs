//! What one client may ask: tools, calls, resources, and to be told of what changes.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use engine::{ServerStatus, ToolCall, ToolError, ToolProgress, ToolSource};
use platform::Tasks;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
        CustomResult, Implementation, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
        ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SubscribeRequestParams,
        SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{NotificationContext, Peer, RequestContext, SubscriptionContext},
};
use serde_json::Value;
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tracing::debug;

use super::{
    OfficeFace, names,
    news::{FOLLOWED_MAX, News, Watching},
    resources,
};
use crate::{caller::Caller, failure, visits::Visits};

/// Calls at once; a model that makes more has lost its way.
const CALLS_MAX: usize = 64;

/// How long a list waits for servers that are only coming up: many clients ask once, and as the first thing.
const FIRST_LIST_MAX: Duration = Duration::from_secs(10);

/// Words of progress that wait for the client; more are stale.
const PROGRESS_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Shop {
    face: OfficeFace,
    source: Arc<dyn ToolSource>,
    tasks: Tasks,
    /// The client is gone, or we are told to end.
    gone: CancellationToken,
    calls: TaskTracker,
    room: Arc<Semaphore>,
    /// The sessions over HTTP to which its client's belongs.
    visits: Option<Visits>,
    /// The client is told of changes without asking; newer ones ask with a subscription.
    is_telling: AtomicBool,
    /// Addresses that a client of the older kind follows.
    followed: Arc<Mutex<BTreeSet<String>>>,
    /// Ends what was begun for the client with this.
    _ending: Option<DropGuard>,
}

impl Shop {
    pub(super) fn new(
        face: OfficeFace,
        source: Arc<dyn ToolSource>,
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Self {
        Self {
            face,
            source,
            tasks: tasks.clone(),
            gone: stop.child_token(),
            calls: TaskTracker::new(),
            room: Self::room(),
            visits: None,
            is_telling: AtomicBool::new(false),
            followed: Arc::default(),
            _ending: None,
        }
    }

    /// Room for as many calls as one client may have.
    pub(super) fn room() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(CALLS_MAX))
    }

    pub(super) fn over_http(self, visits: Visits, room: Arc<Semaphore>) -> Self {
        let visits = Some(visits);
        Self {
            visits,
            room,
            ..self
        }
    }

    pub(super) fn ending_when_dropped(self) -> Self {
        let ending = Some(self.gone.clone().drop_guard());
        Self {
            _ending: ending,
            ..self
        }
    }

    pub(super) fn gone(&self) -> CancellationToken {
        self.gone.clone()
    }

    pub(super) fn calls(&self) -> TaskTracker {
        self.calls.clone()
    }

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

    async fn carry(
        &self,
        call: ToolCall,
        mut progress: mpsc::Receiver<ToolProgress>,
        context: &RequestContext<RoleServer>,
    ) -> Result<engine::ToolOutput, ToolError> {
        let cancel = call.cancel.clone();
        let mut caller = Caller::new(context, self.gone.clone(), self.calls.clone());
        let calling = self.source.call(call);
        tokio::pin!(calling);
        loop {
            tokio::select! { biased;
                () = context.ct.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                Some(told) = progress.recv() => caller.tell_progress(told).await,
                outcome = &mut calling => return outcome,
            }
        }
    }

    fn followed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        followed(&self.followed)
    }
}

fn followed(book: &Mutex<BTreeSet<String>>) -> MutexGuard<'_, BTreeSet<String>> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells a client of the older kind what has changed, until it is gone.
async fn tell_of_changes(
    source: Arc<dyn ToolSource>,
    peer: Peer<RoleServer>,
    book: Arc<Mutex<BTreeSet<String>>>,
    gone: CancellationToken,
) {
    let mut watching = Watching::new(&*source);
    loop {
        let news = tokio::select! { biased;
            () = gone.cancelled() => return,
            news = watching.news(&*source) => news,
        };
        let Some(news) = news else { return };
        let stale = news.stale(&*followed(&book));
        let told = async {
            if news.tools {
                peer.notify_tool_list_changed().await?;
            }
            if !news.servers.is_empty() {
                peer.notify_resource_list_changed().await?;
            }
            for uri in stale {
                let updated = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(updated).await?;
            }
            Ok::<(), rmcp::ServiceError>(())
        };
        if let Err(error) = told.await {
            debug!(%error, "could not tell the client what has changed");
        }
    }
}

/// The same for one that has subscribed.
async fn tell_subscriber(context: &SubscriptionContext, news: &News) {
    let accepted = context.accepted();
    let wants = |wanted: Option<bool>| wanted == Some(true);
    let told = async {
        if news.tools && wants(accepted.tools_list_changed) {
            context.sink().notify_tool_list_changed().await?;
        }
        if !news.servers.is_empty() && wants(accepted.resources_list_changed) {
            context.sink().notify_resource_list_changed().await?;
        }
        for uri in news.stale(accepted.resource_subscriptions.iter().flatten()) {
            context.sink().notify_resource_updated(uri).await?;
        }
        Ok::<(), rmcp::service::SubscriptionSendError>(())
    };
    if let Err(error) = told.await {
        debug!(%error, "a subscriber was not told what has changed");
    }
}

impl ServerHandler for Shop {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .build();
        let implementation =
            Implementation::new("agentcraft-office", &self.face.version).with_title("AgentCraft");
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(&self.face.instructions)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.is_telling.swap(true, Ordering::SeqCst) {
            return; // It has said so before.
        }
        let (source, followed, gone) = (
            self.source.clone(),
            self.followed.clone(),
            self.gone.clone(),
        );
        self.tasks
            .spawn(|_| tell_of_changes(source, context.peer, followed, gone));
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        // The library keeps of it what we have said we can tell.
        let mut accepted = requested.clone();
        if let Some(followed) = &mut accepted.resource_subscriptions {
            followed.truncate(FOLLOWED_MAX);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut watching = Watching::new(&*self.source);
        loop {
            let news = tokio::select! { biased;
                () = self.gone.cancelled() => return Ok(()),
                () = context.cancelled() => return Ok(()),
                news = watching.news(&*self.source) => news,
            };
            let Some(news) = news else { return Ok(()) };
            tell_subscriber(&context, &news).await;
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if resources::server_of(&request.uri).is_none() {
            let words = format!("there is no resource {}", request.uri);
            return Err(ErrorData::resource_not_found(words, None));
        }
        let mut followed = self.followed();
        if followed.len() >= FOLLOWED_MAX && !followed.contains(&request.uri) {
            let words = format!("{FOLLOWED_MAX} resources are followed already");
            return Err(ErrorData::invalid_request(words, None));
        }
        followed.insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.followed().remove(&request.uri);
        Ok(())
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
        let _visiting = self.visits.as_ref().and_then(|it| it.call(&context));
        let (telling, progress) = mpsc::channel(PROGRESS_MAX);
        let wants_news = context.meta.get_progress_token().is_some();
        let call = ToolCall {
            server: found.tool.server,
            tool: found.tool.name,
            arguments: request.arguments.unwrap_or_default(),
            cancel: self.gone.child_token(),
            progress: wants_news.then_some(telling),
        };
        Ok(match self.carry(call, progress, &context).await {
            Ok(output) => result(output.raw),
            Err(error) => failure(error.to_string()),
        })
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
