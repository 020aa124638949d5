//! The listener, its connections and the exports that they may reach.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use platform::Tasks;
use russh::{MethodKind, MethodSet, SshId, cipher, compression, server::Config};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
};
use tokio_util::sync::CancellationToken;

use crate::{
    connection::Connection,
    export::{Export, Grant, Lent},
    keys::{Credential, HostKey, KeyError},
};

/// Connections of all exports together, also those that have not logged in.
const CONNECTIONS_MAX: usize = 256;

/// How long a connection may take to log in; whoever has no key goes.
const LOGIN_MAX: Duration = Duration::from_secs(20);

/// A refused key is answered after this, so that trying many takes long. The first question, which every client asks
/// without a key, is answered at once.
const REJECTION_DELAY: Duration = Duration::from_millis(500);

const AUTH_ATTEMPTS_MAX: usize = 6;

/// A silent client is asked whether it is there, and is taken for lost after three times without an answer. One that
/// is there may be idle as long as it likes.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_MAX: usize = 3;

/// What a client may send before we must have read it: several of the largest writes.
const WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// Messages between the threads and a session: enough that a batch of reads goes out without waiting for each.
const EVENTS_MAX: usize = 64;

/// After an accept that failed for want of descriptors, somebody else may have closed some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An SSH server that has SFTP for the holders of grants, and nothing else for nobody else. Dropping it ends all of it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    host_key_line: String,
    exports: Arc<Exports>,
    tasks: Tasks,
}

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("could not listen for SFTP on {address}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("could not use the host key")]
    HostKey { source: KeyError },
}

#[derive(Debug, thiserror::Error)]
#[error("could not make a credential for the export {id}")]
pub struct ExportError {
    pub id: String,
    pub source: KeyError,
}

/// The exports that are lent now, by their users.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    by_user: Mutex<HashMap<String, Arc<Lent>>>,
}

impl Exports {
    pub(crate) fn find(&self, user: &str) -> Option<Arc<Lent>> {
        self.by_user().get(user).cloned()
    }

    pub(crate) fn remove(&self, user: &str) {
        self.by_user().remove(user);
    }

    fn by_user(&self) -> MutexGuard<'_, HashMap<String, Arc<Lent>>> {
        self.by_user.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Listens and serves at once; with port 0 the system chooses one.
    pub async fn bind(
        address: SocketAddr,
        host_key: &HostKey,
        tasks: &Tasks,
    ) -> Result<Server, BindError> {
        let failed = |source| BindError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let host_key_line = host_key
            .public_line()
            .map_err(|source| BindError::HostKey { source })?;
        let tasks = tasks.child();
        let exports = Arc::new(Exports::default());
        let acceptor = Acceptor {
            config: Arc::new(config(host_key)),
            exports: Arc::clone(&exports),
            tasks: tasks.clone(),
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        };
        tasks.spawn(|stop| async move { acceptor.run(listener, stop).await });
        Ok(Server {
            address,
            host_key_line,
            exports,
            tasks,
        })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// `ssh-ed25519 AAAA…`, which clients pin.
    pub fn host_key_public(&self) -> &str {
        &self.host_key_line
    }

    /// Lends a folder until the grant is dropped or its time is over.
    pub fn export(&self, export: Export) -> Result<Grant, ExportError> {
        let id = export.id.clone();
        let (credential, key) = Credential::generate(self.host_key_line.clone())
            .map_err(|source| ExportError { id, source })?;
        let user = credential.user.clone();
        let lent = Arc::new(Lent::new(export, user.clone(), key, self.tasks.child()));
        self.exports.by_user().insert(user, Arc::clone(&lent));
        Ok(Grant::new(lent, credential, Arc::downgrade(&self.exports)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

struct Acceptor {
    config: Arc<Config>,
    exports: Arc<Exports>,
    tasks: Tasks,
    places: Arc<Semaphore>,
}

impl Acceptor {
    async fn run(self, listener: TcpListener, stop: CancellationToken) {
        loop {
            tokio::select! { biased;
                () = stop.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.admit(stream, peer),
                    Err(error) => {
                        tracing::warn!(%error, "could not accept an SFTP connection");
                        tokio::select! { biased;
                            () = stop.cancelled() => break,
                            () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                        }
                    }
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            tracing::warn!(%peer, "too many SFTP connections");
            return; // Dropping the stream closes it.
        };
        let (config, exports) = (Arc::clone(&self.config), Arc::clone(&self.exports));
        self.tasks.spawn(|stop| async move {
            if let Err(error) = connect(config, exports, stream, stop, place).await {
                tracing::debug!(%peer, %error, "an SFTP connection could not be set up");
            }
        });
    }
}

/// Serves one connection until it ends, or somebody ends it.
async fn connect(
    config: Arc<Config>,
    exports: Arc<Exports>,
    stream: TcpStream,
    stop: CancellationToken,
    _place: OwnedSemaphorePermit,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // The session is a task of the library that heeds nobody; closing the line under it ends it at once.
    let line: OwnedFd = stream.as_fd().try_clone_to_owned()?;
    let (admitted, admission) = oneshot::channel();
    let connection = Connection::new(exports, admitted);
    let started = russh::server::run_stream(config, stream, connection);
    let mut session = tokio::select! { biased;
        () = stop.cancelled() => return Ok(()),
        started = tokio::time::timeout(LOGIN_MAX, started) => match started {
            Ok(Ok(session)) => session,
            Ok(Err(error)) => return Err(io::Error::other(error)),
            Err(_) => return Ok(()),
        },
    };
    let over = async {
        tokio::select! { biased;
            () = stop.cancelled() => {}
            () = lease_over(admission) => {}
        }
    };
    tokio::select! { biased;
        () = over => {
            let _ = rustix::net::shutdown(&line, rustix::net::Shutdown::Both); // The client may have gone.
            let _ = session.await; // It fails because we closed it.
        }
        ended = &mut session => if let Err(error) = ended {
            tracing::debug!(%error, "an SFTP session failed");
        },
    }
    Ok(())
}

/// Resolves when nobody has logged in in time, or when the lease of who has is over.
async fn lease_over(admission: oneshot::Receiver<Arc<Lent>>) {
    let Ok(Ok(lent)) = tokio::time::timeout(LOGIN_MAX, admission).await else {
        return;
    };
    lent.over().await;
    tracing::debug!(export = %lent.id, "an export is over");
}

fn config(host_key: &HostKey) -> Config {
    let mut config = Config {
        server_id: SshId::Standard("SSH-2.0-AgentCraft".into()),
        methods: MethodSet::from(&[MethodKind::PublicKey][..]),
        auth_rejection_time: REJECTION_DELAY,
        auth_rejection_time_initial: Some(Duration::ZERO),
        max_auth_attempts: AUTH_ATTEMPTS_MAX,
        keys: vec![host_key.private()],
        window_size: WINDOW_BYTES,
        event_buffer_size: EVENTS_MAX,
        inactivity_timeout: None,
        keepalive_interval: Some(KEEPALIVE),
        keepalive_max: KEEPALIVE_MAX,
        nodelay: true,
        ..Config::default()
    };
    // Fast on any machine of today, and authenticated; compression would only cost time.
    config.preferred.cipher = vec![
        cipher::AES_128_GCM,
        cipher::AES_256_GCM,
        cipher::CHACHA20_POLY1305,
        cipher::AES_256_CTR,
        cipher::AES_128_CTR,
    ]
    .into();
    config.preferred.compression = vec![compression::NONE].into();
    config
}
