//! `agentcraft mcp office`: the tools of an office as an MCP server on stdio. Standard output belongs to the protocol.

use std::{sync::Arc, time::Duration};

use platform::Tasks;

use super::mcp_serve::stop_on_signals;
use crate::{
    args::McpOfficeArgs,
    config::Config,
    connection::VERSION,
    error::CommandError,
    log,
    office::{self, OfficeTools},
};

/// How long leaving may take; the office notices in any case.
const LEAVE_MAX: Duration = Duration::from_secs(2);

pub(super) fn run(arguments: &McpOfficeArgs, config: &Config) -> Result<(), CommandError> {
    log::to_stderr(config);
    let link = office::link(&arguments.place, office::AGENT, config)?;
    let face = mcp::OfficeFace {
        version: VERSION.to_owned(),
        instructions: format!(
            "Tools of the computers in the office {}. A name begins with the computer that has the tool; computers \
             come and go, and their tools with them.",
            arguments.place.office
        ),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    let result = runtime.block_on(async {
        let stop = stop_on_signals()?;
        let tasks = Tasks::new();
        let timeout = Duration::from_secs(arguments.timeout);
        let source = Arc::new(OfficeTools::start(link, timeout, &tasks));
        let serving = mcp::serve_office(face, source.clone(), stop);
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
        served.map_err(|error| CommandError::machine("serve the client", error))
    });
    // A read of standard input that is not a pipe cannot be ended; the process ends without waiting for it.
    runtime.shutdown_background();
    result
}
