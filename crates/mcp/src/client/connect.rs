//! Reaching one server: a child process of ours, streamable HTTP, or the older transport of server-sent events.

use std::{collections::HashMap, ffi::OsString, path::Path, str::FromStr, time::Duration};

use catalog::McpServer;
use engine::{DriverSurroundings, ToolServer, chain};
use platform::{
    Group, Spawn,
    process::{Exit, Stream},
};
use rmcp::{
    RoleClient, ServiceExt,
    service::RunningService,
    transport::{
        IntoTransport, StreamableHttpClientTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio_util::sync::CancellationToken;

use super::{handler::Ear, logins::Logins, sse::SseTransport, told::Told, trouble::Trouble};

/// How long a server has for its handshake: some fetch packages when they are started for the first time.
const HANDSHAKE_MAX: Duration = Duration::from_secs(120);

/// How long a child has after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// How long a child that broke its streams has to end: how it ended says more than that they broke.
const EXIT_SOON: Duration = Duration::from_millis(500);

/// A server that answers.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) service: RunningService<RoleClient, Ear>,
    pub(super) ear: Ear,
    over: CancellationToken,
    child: Option<Group>,
}

impl Connected {
    /// Resolves when the server can be spoken to no more.
    pub(super) async fn lost(&self) {
        match &self.child {
            Some(child) => tokio::select! {
                _ = child.wait() => {}
                () = self.over.cancelled() => {}
            },
            None => self.over.cancelled().await,
        }
    }

    /// Ends the conversation, and the process if it is ours.
    pub(super) async fn end(mut self) {
        let _ = self.service.close_with_timeout(GRACE).await; // It is ended below whatever it answers.
        if let Some(child) = &self.child {
            child.end(GRACE).await;
        }
    }
}

/// Starts or finds the server and shakes hands.
pub(super) async fn connect(
    server: &ToolServer,
    cwd: &Path,
    around: &DriverSurroundings,
    logins: &Logins,
) -> Result<Connected, Trouble> {
    let ear = Ear::default();
    let (service, over, child) = match server {
        ToolServer::Stdio(server) => {
            let (group, streams) = start(server, cwd, around).await?;
            let shaken = tokio::select! { biased;
                shaken = greet(&ear, streams) => shaken,
                exit = group.wait() => Err(ended_early(&exit)),
            };
            match shaken {
                Ok((service, over)) => (service, over, Some(group)),
                Err(trouble) => {
                    let exit = tokio::time::timeout(EXIT_SOON, group.wait()).await;
                    group.end(GRACE).await;
                    return Err(exit.map_or(trouble, |exit| ended_early(&exit)));
                }
            }
        }
        ToolServer::Http { url, headers, .. } => {
            let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                .custom_headers(parse_headers(headers)?);
            // Whoever writes a token into the headers means that one.
            let has_token = headers
                .keys()
                .any(|name| name.eq_ignore_ascii_case("authorization"));
            let client = match has_token {
                true => None,
                false => logins.client(url).await?,
            };
            let (service, over) = match client {
                Some(client) => {
                    let transport = StreamableHttpClientTransport::with_client(client, config);
                    greet(&ear, transport).await?
                }
                None => greet(&ear, StreamableHttpClientTransport::from_config(config)).await?,
            };
            (service, over, None)
        }
        ToolServer::Sse { url, headers, .. } => {
            let transport = SseTransport::connect(url, parse_headers(headers)?, &around.tasks);
            let transport = shake(transport).await?;
            let (service, over) = greet(&ear, transport).await?;
            (service, over, None)
        }
    };
    Ok(Connected {
        service,
        ear,
        over,
        child,
    })
}

fn ended_early(exit: &Exit) -> Trouble {
    format!("it ended before it had answered ({exit})").into()
}

/// Shakes hands; with the service comes what tells its end.
async fn greet<E: std::error::Error + Send + Sync + 'static, A>(
    ear: &Ear,
    transport: impl IntoTransport<RoleClient, E, A>,
) -> Result<(RunningService<RoleClient, Ear>, CancellationToken), Trouble> {
    let (transport, over) = Told::new(transport.into_transport());
    let service = shake(ear.clone().serve(transport)).await?;
    Ok((service, over))
}

async fn shake<T, E: std::error::Error + 'static>(
    handshake: impl Future<Output = Result<T, E>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(HANDSHAKE_MAX, handshake).await {
        Ok(Ok(shaken)) => Ok(shaken),
        Ok(Err(error)) => Err(Trouble::of(&error)),
        Err(_) => Err(format!("it did not answer within {} s", HANDSHAKE_MAX.as_secs()).into()),
    }
}

type Streams = (
    platform::process::ChildStdout,
    platform::process::ChildStdin,
);

async fn start(
    server: &McpServer,
    cwd: &Path,
    around: &DriverSurroundings,
) -> Result<(Group, Streams), String> {
    let owner = around
        .owner
        .tag(&format!("{}.mcp-{}", around.agent, server.name))
        .map_err(|error| error.to_string())?;
    let mut env = around.environment.clone();
    env.extend(
        server
            .env
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value))),
    );
    let spawn = Spawn {
        args: server.args.iter().map(OsString::from).collect(),
        env,
        stdin: Stream::Piped,
        stdout: Stream::Piped,
        ..Spawn::new(&server.command, cwd, owner)
    };
    let guardian = around.guardian.clone();
    let spawned = around
        .tasks
        .spawn_blocking(move |_| spawn.spawn(&guardian))
        .await;
    let (group, pipes) = spawned
        .map_err(|_| "the node is shutting down".to_owned())?
        .map_err(|error| chain(&error))?;
    match (pipes.stdout, pipes.stdin) {
        (Some(stdout), Some(stdin)) => Ok((group, (stdout, stdin))),
        (_, _) => Err("its standard streams are not there".to_owned()),
    }
}

type Headers = HashMap<reqwest::header::HeaderName, reqwest::header::HeaderValue>;

fn parse_headers(headers: &std::collections::BTreeMap<String, String>) -> Result<Headers, String> {
    let parse = |(name, value): (&String, &String)| {
        let parsed = reqwest::header::HeaderName::from_str(name).ok()?;
        let value = reqwest::header::HeaderValue::from_str(value).ok()?;
        Some((parsed, value))
    };
    // The value of a header may be a secret, so only its name is told.
    headers
        .iter()
        .map(|header| parse(header).ok_or_else(|| format!("{:?} is not a valid header", header.0)))
        .collect()
}
