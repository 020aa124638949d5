//! `agentcraft mcp office`: the tools of an office as an MCP server, for one client on stdio or for many over HTTP. On stdio,
//! standard output belongs to the protocol.

mod http;

use std::{sync::Arc, time::Duration};

use platform::Tasks;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::mcp_serve::stop_on_signals;
use crate::{
    args::McpOfficeArgs,
    config::Config,
    error::CommandError,
    log,
    office::{
        self, OfficeTools,
        hub::{self, Wish},
    },
    render::Screen,
};

/// How long leaving may take; the office notices in any case.
const LEAVE_MAX: Duration = Duration::from_secs(2);

pub(super) fn run(
    arguments: &McpOfficeArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    log::to_stderr(config);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    let result = runtime.block_on(async {
        let stop = stop_on_signals()?;
        if let Some(pipe) = pipe(arguments, config).await {
            return tokio::select! { biased;
                () = stop.cancelled() => Ok(()),
                piped = hub::pipe(pipe) => {
                    piped.map_err(|error| CommandError::machine("pass on what is said", error))
                }
            };
        }
        let link = office::link(&arguments.place, office::AGENT, config)?;
        let tasks = Tasks::new();
        let timeout = Duration::from_secs(arguments.timeout);
        let source = Arc::new(OfficeTools::start(link, timeout, &tasks));
        let serving = serve(arguments, source.clone(), &tasks, screen, stop);
        tokio::pin!(serving);
        // A server that cannot be reached may come up, and a place that is taken becomes free; one that refuses our token
        // at first would go on doing so.
        let served = tokio::select! { biased;
            joined = source.joined() => match joined {
                Err(error) if !office::is_taken(&error) => {
                    return Err(office::not_let_in(&error, &arguments.place));
                }
                Err(_) | Ok(()) => serving.await,
            },
            served = &mut serving => served,
        };
        let _ = tasks.drain(LEAVE_MAX).await; // The process ends now, and the connection with it.
        served
    });
    // A read of standard input that is not a pipe cannot be ended; the process ends without waiting for it.
    runtime.shutdown_background();
    result
}

/// The way through the daemon, where it is wanted and there is one.
async fn pipe(arguments: &McpOfficeArgs, config: &Config) -> Option<UnixStream> {
    if !arguments.shared {
        return None;
    }
    let place = &arguments.place;
    let token_file = place.token_file.as_ref();
    let wish = Wish {
        url: place.url.clone(),
        office: place.office.clone(),
        // The daemon works in another folder.
        token_file: token_file.map(std::path::absolute).transpose().ok()?,
        timeout_secs: arguments.timeout,
    };
    hub::open(&config.home, &wish).await
}

async fn serve(
    arguments: &McpOfficeArgs,
    source: Arc<OfficeTools>,
    tasks: &Tasks,
    screen: &mut Screen,
    stop: CancellationToken,
) -> Result<(), CommandError> {
    let face = office::face(&arguments.place.office);
    match arguments.listen {
        Some(address) => http::serve(arguments, address, (face, source), tasks, screen, stop).await,
        None => mcp::serve_office_stdio(face, source, tasks, stop)
            .await
            .map_err(|error| CommandError::machine("serve the client", error)),
    }
}
