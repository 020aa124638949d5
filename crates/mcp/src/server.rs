//! The MCP server: what a client may ask, answered; its life from the first line to the end of the input.

use std::{
    io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, Implementation,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    },
    service::{RequestContext, ServerInitializeError},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use crate::{
    caller::Caller,
    daemon::Daemon,
    failure::{self, Failure},
    leftovers,
    lines::Lines,
    node::Node,
    resources,
    sight::Sight,
    tools,
    visits::Visits,
};

/// Tool calls at once: each holds a connection to the daemon, and an agent that calls more at once has lost its way.
const CALLS_MAX: usize = 64;

/// How long calls under way have to cancel their turns and to remove their agents once the client is gone.
const LEAVE_GRACE: Duration = Duration::from_secs(15);

const INSTRUCTIONS: &str = "AgentCraft runs coding agents as managed services on this machine. \
    Use agentcraft_run_agent for one task with a fresh agent of a template, agentcraft_prompt_agent to talk to an agent \
    that exists, and agentcraft_list_agents to see which exist. Templates, agents and conversations are resources.";

/// What a server needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The daemon's socket.
    pub socket: PathBuf,
    /// Where the node keeps its address and its owner's token.
    pub home: PathBuf,
    /// What the client is told we are.
    pub version: String,
}

/// Why a server ended before its client left.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("could not agree with the client on how to speak")]
    Handshake { source: Box<ServerInitializeError> },
    #[error("the server's loop broke off")]
    Loop { source: tokio::task::JoinError },
}

#[derive(Debug, Clone)]
pub(crate) struct Server {
    daemon: Daemon,
    node: Node,
    version: String,
    /// The client is gone, or we are told to end.
    gone: CancellationToken,
    /// Calls under way.
    calls: TaskTracker,
    room: Arc<Semaphore>,
    /// The sessions over HTTP to which its client's belongs.
    visits: Option<Visits>,
}

impl Server {
    pub(crate) fn new(config: &Config, stop: &CancellationToken) -> Self {
        Self {
            daemon: Daemon::new(&config.socket),
            node: Node::new(config.home.clone()),
            version: config.version.clone(),
            gone: stop.child_token(),
            calls: TaskTracker::new(),
            room: Arc::new(Semaphore::new(CALLS_MAX)),
            visits: None,
        }
    }

    pub(crate) fn over_http(self, visits: Visits) -> Self {
        let visits = Some(visits);
        Self { visits, ..self }
    }
}

/// Serves one client on standard input and output, until it closes the input or `stop` is cancelled.
pub async fn serve_stdio(config: Config, stop: CancellationToken) -> Result<(), ServeError> {
    let (reader, writer) = rmcp::transport::io::stdio_pipes();
    serve(config, reader, writer, stop).await
}

/// Serves one client, by lines, until it closes its side or `stop` is cancelled. Turns of calls that nobody waits for any
/// more are cancelled before this returns.
pub async fn serve<R, W>(
    config: Config,
    reader: R,
    writer: W,
    stop: CancellationToken,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let server = Server::new(&config, &stop);
    let reader = Watched {
        reader: Lines::new(reader),
        gone: server.gone.clone(),
    };
    let transport = AsyncRwTransport::new_server(reader, writer);
    let (daemon, gone, calls) = (
        server.daemon.clone(),
        server.gone.clone(),
        server.calls.clone(),
    );
    let serving = async {
        let ended = live(server, transport, stop).await;
        gone.cancel();
        ended
    };
    // Beside the first requests, which need not wait for it.
    let cleaning = async {
        tokio::select! {
            () = gone.cancelled() => {}
            () = leftovers::remove(&daemon) => {}
        }
    };
    let (ended, ()) = tokio::join!(serving, cleaning);
    calls.close();
    if timeout(LEAVE_GRACE, calls.wait()).await.is_err() {
        warn!(calls = calls.len(), "left while calls were still ending");
    }
    ended
}

/// From the handshake to the last message.
async fn live(
    server: Server,
    transport: impl Transport<RoleServer> + 'static,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    match server.serve_with_ct(transport, stop).await {
        Ok(running) => running
            .waiting()
            .await
            .map(|reason| info!(?reason, "the client has left"))
            .map_err(|source| ServeError::Loop { source }),
        // It left before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(source) => Err(ServeError::Handshake {
            source: Box::new(source),
        }),
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        let implementation =
            Implementation::new("agentcraft", &self.version).with_title("AgentCraft");
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(INSTRUCTIONS)
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
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = tools::all();
        tools.extend(tools::peers::all(&self.node).await);
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(name) = tools::Name::parse(&request.name) else {
            let message = format!("Unknown tool: {}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let Ok(_place) = self.room.try_acquire() else {
            let message = format!("{CALLS_MAX} calls are under way already; wait for one to end");
            return Ok(Failure::busy(message).into_result().into());
        };
        let _counted = self.calls.token();
        let _visiting = self.visits.as_ref().and_then(|it| it.call(&context));
        let caller = Caller::new(&context, self.gone.clone(), self.calls.clone());
        let result = tools::call(name, request.arguments, &self.daemon, &self.node, caller);
        let result = result.await;
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = page.and_then(|page| page.cursor);
        resources::list(&self.daemon, Sight::of(&context), cursor.as_deref()).await
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let result = resources::read(&self.daemon, Sight::of(&context), &request.uri).await?;
        Ok(result.into())
    }
}

/// The input, which tells when it is over: the library would let calls go on for seconds after that.
#[derive(Debug)]
pub(crate) struct Watched<R> {
    pub(crate) reader: R,
    pub(crate) gone: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.reader).poll_read(context, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.gone.cancel();
        }
        Poll::Ready(read)
    }
}
