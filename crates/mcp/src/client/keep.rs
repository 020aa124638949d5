//! Keeping one server there: connect, list, wait for changes or loss, and come back with a growing pause.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use engine::{DriverSurroundings, Tool, ToolServer};
use rmcp::{ServiceError, model::SubscribeRequestParams};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    connect::{Connected, connect},
    logins::Logins,
    source::Shelf,
    trouble::Trouble,
};

/// The first pause after a loss, doubled each time.
const PAUSE_FIRST: Duration = Duration::from_millis(250);

/// A server that keeps dying is tried twice a minute.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long a server has to list its tools.
pub(super) const LIST_MAX: Duration = Duration::from_secs(30);

/// A server that has stayed this long is healthy, and its next loss is a first one again.
const HEALTHY: Duration = Duration::from_secs(60);

/// How often a server over HTTP is looked at: its tools go away in that time when it does.
const LOOK_EVERY: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 15 });

/// What the addresses of windows begin with, which is all that anybody is told of.
const WINDOW: &str = "window://";

/// Windows of one server that are followed; a desktop shows fewer.
const WINDOWS_MAX: usize = 64;

/// Who keeps one server there.
pub(super) struct Keeper {
    pub(super) server: ToolServer,
    pub(super) cwd: PathBuf,
    pub(super) around: DriverSurroundings,
    pub(super) logins: Logins,
    pub(super) shelf: Arc<Shelf>,
}

impl Keeper {
    /// Keeps the server until told to stop.
    pub(super) async fn keep(self, stop: CancellationToken) {
        let (server, shelf) = (&self.server, &self.shelf);
        let mut pause = PAUSE_FIRST;
        loop {
            let connected = tokio::select! { biased;
                () = stop.cancelled() => return,
                connected = connect(server, &self.cwd, &self.around, &self.logins) => connected,
            };
            let trouble = match connected {
                Err(trouble) => trouble,
                Ok(connected) => {
                    let since = tokio::time::Instant::now();
                    let Some(trouble) = attend(connected, server, shelf, &stop).await else {
                        return;
                    };
                    if since.elapsed() > HEALTHY {
                        pause = PAUSE_FIRST;
                    }
                    trouble
                }
            };
            tracing::warn!(server = server.name(), why = %trouble, "an MCP server is not there");
            shelf.set_status(server.name(), trouble.status());
            if trouble.is_final() {
                // Nothing but a login or other headers helps, and with those the server is opened anew.
                stop.cancelled().await;
                return;
            }
            tokio::select! { biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// While it is there. Says why it is not any more, or nothing when we were told to stop.
async fn attend(
    connected: Connected,
    server: &ToolServer,
    shelf: &Shelf,
    stop: &CancellationToken,
) -> Option<Trouble> {
    let mut followed = BTreeSet::new();
    let mut seen = None;
    let mut is_news = true;
    let trouble = loop {
        match list(&connected, server.name()).await {
            // It may be busy with a call, which must not be ended for that.
            Err(Trouble::Late) if seen.is_some() => {}
            Err(trouble) => break Some(trouble),
            Ok(tools) => {
                if is_news || seen.as_ref() != Some(&tools) {
                    shelf.set_ready(server.name(), &connected, tools.clone());
                    follow_windows(&connected, &mut followed, stop).await;
                }
                seen = Some(tools);
            }
        }
        is_news = tokio::select! { biased;
            () = stop.cancelled() => break None,
            () = connected.ear.lists_changed() => true,
            () = connected.lost() => break Some("it is gone".into()),
            () = connected.ear.doubted() => false,
            () = look_again(server) => false,
        };
    };
    shelf.drop_connection(server.name());
    connected.end().await;
    trouble
}

/// When to look whether a server is still there. Of a line that is always open the system tells when it breaks; a server
/// over HTTP has none, and what goes without a word is missed by nobody.
async fn look_again(server: &ToolServer) {
    match server {
        ToolServer::Http { .. } => tokio::time::sleep(LOOK_EVERY).await,
        ToolServer::Stdio(_) | ToolServer::Sse { .. } => std::future::pending().await,
    }
}

/// Asks to be told when a window changes. A server that does not say is looked at again when its windows are shown.
async fn follow_windows(
    connected: &Connected,
    followed: &mut BTreeSet<String>,
    stop: &CancellationToken,
) {
    let peer = connected.service.peer();
    let can_say = peer.peer_info().is_some_and(|info| {
        let resources = info.capabilities.resources.as_ref();
        resources.is_some_and(|resources| resources.subscribe == Some(true))
    });
    if !can_say {
        return;
    }
    let following = async {
        let listed = peer.list_all_resources().await?;
        let windows = listed.into_iter().map(|resource| resource.uri);
        for uri in windows.filter(|uri| uri.starts_with(WINDOW)) {
            if followed.len() >= WINDOWS_MAX {
                break;
            }
            if followed.insert(uri.clone()) {
                #[expect(
                    deprecated,
                    reason = "we shake hands with `initialize`, where this is how one subscribes"
                )]
                peer.subscribe(SubscribeRequestParams::new(uri)).await?;
            }
        }
        Ok::<(), ServiceError>(())
    };
    tokio::select! { biased;
        () = stop.cancelled() => {}
        followed = timeout(LIST_MAX, following) => match followed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(why = %Trouble::of(&error), "an MCP server does not tell of its windows"),
            Err(_) => debug!("an MCP server does not answer whether it tells of its windows"),
        },
    }
}

async fn list(connected: &Connected, server: &str) -> Result<Vec<Tool>, Trouble> {
    let peer = connected.service.peer();
    let has_tools = peer
        .peer_info()
        .is_none_or(|info| info.capabilities.tools.is_some());
    if !has_tools {
        return Ok(Vec::new());
    }
    let listed = tokio::time::timeout(LIST_MAX, peer.list_all_tools()).await;
    let tools = listed
        .map_err(|_| Trouble::Late)?
        .map_err(|error| Trouble::of(&error))?;
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
