//! Agents of runs whose server was killed: marked when they are made, removed by the next server that starts.

use platform::ProcessRef;
use tracing::{debug, info};
use wire::daemon::{AgentMeta, DestroyParams, Empty, Success};

use crate::daemon::{Daemon, DaemonError, in_time};

/// The metadata of an agent that belongs to one run of one server.
const KEY: &str = "mcpServer";

/// Our mark: which process we are.
pub(crate) fn mark() -> (String, String) {
    let pid = platform::pid::own_pid();
    let start_time = ProcessRef::of(pid).map_or(0, |process| process.start_time);
    (KEY.to_owned(), write(ProcessRef { pid, start_time }))
}

/// Destroys what killed servers left behind. Without a daemon there is nothing to do.
pub(crate) async fn remove(daemon: &Daemon) {
    if let Err(error) = try_remove(daemon).await {
        debug!(%error, "could not look for leftovers");
    }
}

async fn try_remove(daemon: &Daemon) -> Result<(), DaemonError> {
    let agents: Vec<AgentMeta> = in_time(daemon.call("agent.list", &Empty {})).await?;
    for agent in agents {
        let owner = agent.metadata.get(KEY).and_then(|text| read(text));
        if owner.is_some_and(|owner| !owner.alive()) {
            info!(agent = agent.name, "removing what a killed server left");
            let params = DestroyParams {
                name: agent.name,
                force: true,
            };
            daemon.call::<Success>("agent.destroy", &params).await?;
        }
    }
    Ok(())
}

fn write(process: ProcessRef) -> String {
    format!("{}@{}", process.pid, process.start_time)
}

fn read(text: &str) -> Option<ProcessRef> {
    let (pid, start_time) = text.split_once('@')?;
    Some(ProcessRef {
        pid: pid.parse().ok()?,
        start_time: start_time.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_mark_names_a_process_that_lives() {
        let (key, value) = mark();
        assert_eq!(key, KEY);
        assert!(read(&value).unwrap().alive());
    }

    #[test]
    fn marks_that_are_none_name_nobody() {
        for text in ["", "1", "@", "a@b", "1@", "99999999999@1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
