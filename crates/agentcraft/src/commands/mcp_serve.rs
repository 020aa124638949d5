//! `agentcraft mcp serve`: an MCP server on stdio. Standard output belongs to the protocol, so logs go to standard error.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{config::Config, connection::VERSION, error::CommandError, log};

pub(super) fn run(config: &Config) -> Result<(), CommandError> {
    log::to_stderr(config);
    let server = mcp::Config {
        socket: config.socket.clone(),
        home: config.home.clone(),
        version: VERSION.to_owned(),
    };
    // The work is waiting: one thread is enough, and starts fastest.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    let result = runtime.block_on(async {
        let stop = stop_on_signals()?;
        mcp::serve_stdio(server, stop)
            .await
            .map_err(|error| CommandError::machine("serve the client", error))
    });
    // A read of standard input that is not a pipe cannot be ended; the process ends without waiting for it.
    runtime.shutdown_background();
    result
}

/// A token that SIGTERM, SIGINT or SIGHUP cancels.
pub(super) fn stop_on_signals() -> Result<CancellationToken, CommandError> {
    let listen =
        |kind| signal(kind).map_err(|error| CommandError::machine("listen to signals", error));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    platform::Tasks::new().spawn(|_| async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        token.cancel();
    });
    Ok(stop)
}
