//! The socket itself: reachable by its owner alone, and never taken from a daemon that lives.

use std::{
    io,
    path::{Path, PathBuf},
};

use platform::{files, system};
use tokio::net::{UnixListener, UnixStream};

/// A bound socket; its file goes when this is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    own_uid: u32,
}

/// Why the daemon cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("another daemon already listens at {}; stop it with `agentcraft daemon stop`, or set AGENTCRAFT_SOCKET", path.display())]
    Taken { path: PathBuf },
    #[error("{} is there and is not a socket; move it away, or set AGENTCRAFT_SOCKET", path.display())]
    NotASocket { path: PathBuf },
    #[error("could not listen at {}", path.display())]
    Bind { path: PathBuf, source: io::Error },
}

impl Listener {
    /// Binds the socket. A stale one, which nobody answers at, is replaced.
    pub async fn bind(path: &Path) -> Result<Self, BindError> {
        let failed = |source| BindError::Bind {
            path: path.to_owned(),
            source,
        };
        if files::is_there(path) {
            if !files::is_socket(path) {
                return Err(BindError::NotASocket {
                    path: path.to_owned(),
                });
            }
            if UnixStream::connect(path).await.is_ok() {
                return Err(BindError::Taken {
                    path: path.to_owned(),
                });
            }
            files::remove_file_if_there(path).map_err(|error| failed(io::Error::other(error)))?;
        }
        // The mode comes with the creation: there is no moment at which others could connect.
        let before = system::umask(0o177);
        let socket = UnixListener::bind(path);
        system::umask(before);
        Ok(Self {
            socket: socket.map_err(failed)?,
            path: path.to_owned(),
            own_uid: system::effective_uid(),
        })
    }

    /// The next connection of our own user; others are turned away.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.socket.accept().await?;
            match system::peer_uid(&stream) {
                Ok(uid) if uid == self.own_uid || uid == 0 => return Ok(stream),
                other => tracing::warn!(?other, "turned away a connection of another user"),
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = files::remove_file_if_there(&self.path); // The next daemon replaces a stale one.
    }
}
