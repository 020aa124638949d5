//! `agentcraft office serve`: an office server that stands alone, without a daemon and without a home.

use std::{sync::Arc, time::Duration};

use platform::Tasks;
use smcp::{
    Refused,
    server::{OfficeConfig, router},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::mcp_serve::{log_to_stderr, stop_on_signals};
use crate::{
    args::OfficeServeArgs,
    config::Config,
    error::CommandError,
    office::{self, Identity, TlsListener},
    render::Screen,
};

/// How long connections have to end.
const DRAIN_MAX: Duration = Duration::from_secs(5);

pub(super) fn run(
    arguments: &OfficeServeArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    log_to_stderr(config);
    let (guests, made) = match &arguments.token_file {
        Some(file) => (office::read_guests(file)?, None),
        None => {
            let (guests, token) = office::generated();
            (guests, Some(token))
        }
    };
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
        let listener = TcpListener::bind(arguments.listen).await.map_err(attempt)?;
        let address = listener.local_addr().map_err(attempt)?;
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        screen.line(&format!("office server at {scheme}://{address}"))?;
        if let Some(token) = made {
            screen.line(&format!("token: {token}"))?;
            screen.note("it opens every office in every role, and is not shown again")?;
        }
        if acceptor.is_none() && !address.ip().is_loopback() {
            screen.warning("tokens and tools travel unencrypted; --cert and --key encrypt them")?;
        }
        let tasks = Tasks::new();
        let (router, _server) = router(
            OfficeConfig::default(),
            guests.authenticator(),
            Arc::new(write_down),
            &tasks,
        );
        match acceptor {
            None => serve(listener, router, &tasks),
            Some(acceptor) => {
                let listener = TlsListener::start(listener, acceptor, &tasks).map_err(attempt)?;
                serve(listener, router, &tasks);
            }
        }
        end_with(&stop, &tasks).await;
        Ok(())
    })
}

fn serve<L>(listener: L, router: axum::Router, tasks: &Tasks)
where
    L: axum::serve::Listener,
    L::Addr: std::fmt::Debug,
{
    tasks.spawn(|stop| async move {
        let serving = axum::serve(listener, router).into_future();
        tokio::select! { biased;
            () = stop.cancelled() => {}
            served = serving => if let Err(error) = served {
                tracing::error!(%error, "the office server has ended");
            },
        }
    });
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
