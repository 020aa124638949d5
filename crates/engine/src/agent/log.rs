//! What an agent prints beside its protocol, kept in a file that cannot grow without end.

use std::path::PathBuf;

use platform::{Tasks, files};
use tokio::io::{AsyncRead, AsyncReadExt};

/// When a log reaches this size it becomes the former log and a new one begins.
const LOG_MAX: u64 = 1024 * 1024;

/// One agent's log file.
#[derive(Debug, Clone)]
pub(crate) struct AgentLog {
    pub(crate) path: PathBuf,
}

impl AgentLog {
    /// Removes it with its agent; what cannot be removed is only a log.
    pub(crate) fn remove(&self) {
        let mut former = self.path.clone().into_os_string();
        former.push(".old");
        for path in [self.path.clone(), former.into()] {
            if let Err(error) = files::remove_file_if_there(&path) {
                tracing::debug!(%error, "could not remove a log");
            }
        }
    }

    /// Copies everything from `source` into the log until it ends.
    pub(crate) fn copy(&self, tasks: &Tasks, mut source: impl AsyncRead + Unpin + Send + 'static) {
        let path = self.path.clone();
        let blocking = tasks.clone();
        tasks.spawn(|stop| async move {
            let mut buffer = vec![0; 8 * 1024];
            loop {
                let read = tokio::select! { biased;
                    () = stop.cancelled() => return,
                    read = source.read(&mut buffer) => read,
                };
                let Ok(length @ 1..) = read else { return };
                let (path, bytes) = (path.clone(), buffer[..length].to_vec());
                let written = blocking
                    .spawn_blocking(move |_| files::append_bounded(&path, &bytes, LOG_MAX))
                    .await;
                if let Ok(Err(error)) = written {
                    tracing::debug!(%error, "could not keep what an agent printed");
                }
            }
        });
    }
}
