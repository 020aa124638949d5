//! `agentcraft office serve`: an office server that stands alone, without a daemon and without a home.

use std::{ffi::OsStr, sync::Arc, time::Duration};

use platform::Tasks;
use smcp::{
    Refused,
    server::{OfficeConfig, Sharing, router, shared_router},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::mcp_serve::stop_on_signals;
use crate::{
    args::OfficeServeArgs,
    config::Config,
    error::CommandError,
    log,
    node::token_of,
    office::{self, Identity},
    render::Screen,
};

/// Holds the address of the Redis where it is not named otherwise.
const REDIS_VARIABLE: &str = "AGENTCRAFT_OFFICE_REDIS";

/// How long connections have to end.
const DRAIN_MAX: Duration = Duration::from_secs(5);

pub(super) fn run(
    arguments: &OfficeServeArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    log::to_stderr(config);
    let (guests, made) = match &arguments.token_file {
        Some(file) => (office::read_guests(file)?, None),
        None => {
            let (guests, token) = office::generated();
            (guests, Some(token))
        }
    };
    let sharing = sharing(arguments, config)?;
    let acceptor = match (&arguments.cert, &arguments.key) {
        (Some(certificate), Some(key)) => {
            let own = Identity { certificate, key };
            let acceptor = office::acceptor(own, arguments.client_ca.as_deref());
            Some(acceptor.map_err(|error| CommandError::machine("read the certificates", error))?)
        }
        (_, _) => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    runtime.block_on(async {
        let stop = stop_on_signals()?;
        let attempt =
            |error| CommandError::machine(format!("listen on {}", arguments.listen), error);
        let socket = TcpListener::bind(arguments.listen).await.map_err(attempt)?;
        let address = socket.local_addr().map_err(attempt)?;
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let tasks = Tasks::new();
        let (config, authenticate) = (OfficeConfig::default(), guests.authenticator());
        let audit = Arc::new(write_down);
        let (router, _server) = match &sharing {
            None => router(config, authenticate, audit, &tasks),
            Some(sharing) => shared_router(config, sharing, authenticate, audit, &tasks)
                .await
                .map_err(|error| CommandError::machine("share the offices", error))?,
        };
        screen.line(&format!("office server at {scheme}://{address}"))?;
        if let Some(token) = made {
            screen.line(&format!("token: {token}"))?;
            screen.note("it opens every office in every role, and is not shown again")?;
        }
        if acceptor.is_none() && !address.ip().is_loopback() {
            screen.warning("tokens and tools travel unencrypted; --cert and --key encrypt them")?;
        }
        let connections = tasks.child();
        tasks.spawn(|stop| listener::serve_router(socket, acceptor, router, connections, stop));
        end_with(&stop, &tasks).await;
        Ok(())
    })
}

/// The Redis that other servers share, if there are any.
fn sharing(arguments: &OfficeServeArgs, config: &Config) -> Result<Option<Sharing>, CommandError> {
    if arguments
        .redis
        .as_ref()
        .is_some_and(|url| url.contains('@'))
    {
        return Err(CommandError::Refused {
            message: "everybody on this machine can read the arguments of a process".to_owned(),
            hint: format!(
                "write the address with its password into a file for --redis-file, or into {REDIS_VARIABLE}"
            ),
        });
    }
    let variable = config.environment.get(OsStr::new(REDIS_VARIABLE));
    let url = match &arguments.redis {
        Some(url) => Some(url.clone()),
        None => token_of(arguments.redis_file.as_deref())?
            .or_else(|| variable.map(|url| url.to_string_lossy().trim().to_owned())),
    };
    let sharing = url
        .filter(|url| !url.is_empty())
        .map(|url| Sharing::parse(&url));
    sharing
        .transpose()
        .map_err(|error| CommandError::machine("share the offices", error))
}

async fn end_with(stop: &CancellationToken, tasks: &Tasks) {
    stop.cancelled().await;
    let _ = tasks.drain(DRAIN_MAX).await; // What is stuck ends with the process.
}

/// The record of refusals is the log.
fn write_down(refused: Refused) {
    tracing::warn!(
        target: "audit",
        connection = refused.connection,
        caller = refused.caller,
        event = refused.event,
        office = refused.office,
        code = refused.code,
        reason = refused.reason,
        "refused"
    );
}
