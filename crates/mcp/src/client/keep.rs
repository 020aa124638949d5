//! Keeping one server there: connect, list, wait for changes or loss, and come back with a growing pause.

use std::{path::PathBuf, sync::Arc, time::Duration};

use engine::{DriverSurroundings, ServerStatus, Tool, ToolServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    connect::{Connected, connect},
    source::Shelf,
};

/// The first pause after a loss, doubled each time.
const PAUSE_FIRST: Duration = Duration::from_millis(250);

/// A server that keeps dying is tried twice a minute.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long a server has to list its tools.
const LIST_MAX: Duration = Duration::from_secs(30);

/// A server that has stayed this long is healthy, and its next loss is a first one again.
const HEALTHY: Duration = Duration::from_secs(60);

/// Keeps the server until told to stop.
pub(super) async fn keep(
    server: ToolServer,
    cwd: PathBuf,
    around: DriverSurroundings,
    shelf: Arc<Shelf>,
    stop: CancellationToken,
) {
    let mut pause = PAUSE_FIRST;
    loop {
        shelf.set_status(server.name(), ServerStatus::Starting);
        let connected = tokio::select! { biased;
            () = stop.cancelled() => return,
            connected = connect(&server, &cwd, &around) => connected,
        };
        let why = match connected {
            Err(why) => why,
            Ok(connected) => {
                let since = tokio::time::Instant::now();
                let Some(why) = attend(connected, &server, &shelf, &stop).await else {
                    return;
                };
                if since.elapsed() > HEALTHY {
                    pause = PAUSE_FIRST;
                }
                why
            }
        };
        tracing::warn!(server = server.name(), why, "an MCP server is not there");
        shelf.set_status(server.name(), ServerStatus::Down { why });
        tokio::select! { biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// While it is there. Says why it is not any more, or nothing when we were told to stop.
async fn attend(
    connected: Connected,
    server: &ToolServer,
    shelf: &Shelf,
    stop: &CancellationToken,
) -> Option<String> {
    let why = loop {
        match list(&connected, server.name()).await {
            Err(why) => break Some(why),
            Ok(tools) => shelf.set_ready(server.name(), &connected, tools),
        }
        tokio::select! { biased;
            () = stop.cancelled() => break None,
            () = connected.ear.lists_changed() => {}
            () = connected.lost() => break Some("it is gone".to_owned()),
        }
    };
    shelf.drop_connection(server.name());
    connected.end().await;
    why
}

async fn list(connected: &Connected, server: &str) -> Result<Vec<Tool>, String> {
    let peer = connected.service.peer();
    let has_tools = peer
        .peer_info()
        .is_none_or(|info| info.capabilities.tools.is_some());
    if !has_tools {
        return Ok(Vec::new());
    }
    let listed = tokio::time::timeout(LIST_MAX, peer.list_all_tools()).await;
    let tools = listed
        .map_err(|_| format!("it did not list its tools within {} s", LIST_MAX.as_secs()))?
        .map_err(|error| format!("it could not list its tools: {error}"))?;
    Ok(tools
        .into_iter()
        .map(|tool| Tool {
            server: server.to_owned(),
            name: tool.name.to_string(),
            description: tool.description.as_deref().map(str::to_owned),
            input_schema: (*tool.input_schema).clone(),
            raw: serde_json::to_value(&tool).unwrap_or(Value::Null),
        })
        .collect())
}
