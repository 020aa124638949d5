//! The connection's loop: reads messages until the input ends, and then ends everything that still runs.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use jsonrpc::{Connection, Limits, Received};
use platform::{Drained, Tasks, command::exit_now, confined::ConfinedError};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::{archive::Archive, methods::Agent, turn::Surroundings, workspace::Workspace};

/// Turns that were stopped close their tool calls and answer; that takes milliseconds unless the client does not read.
const END_MAX: Duration = Duration::from_secs(1);

/// Threads that did blocking work are not kept for longer: most of the time there is none to do.
const IDLE_THREAD_MAX: Duration = Duration::from_secs(1);

/// Shells tell the end by a signal as this plus its number, and so do we.
const SIGNAL_CODE_BASE: u8 = 128;

/// Names the folder for files of sessions, where the workspace is somebody else's.
const SESSIONS_IN: &str = "AGENTCRAFT_SESSIONS_IN";

/// What the agent needs of its surroundings.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder it works in, and never leaves.
    pub workspace: PathBuf,
    /// What its commands get, and `/env` looks at.
    pub environment: BTreeMap<OsString, OsString>,
}

/// Why serving ended other than by the end of the input.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("could not open the workspace")]
    Workspace { source: ConfinedError },
    #[error("could not go on reading from the client")]
    Connection { source: std::io::Error },
    /// The client asked with `/crash` to see a crash.
    #[error("was asked to crash with code {code}")]
    Crashed { code: u8 },
}

/// Serves one client until its input ends. Needs a runtime with time and IO.
pub async fn serve<R, W>(reader: R, writer: W, options: Options) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let workspace =
        Workspace::open(&options.workspace).map_err(|source| ServeError::Workspace { source })?;
    let workspace = Arc::new(workspace);
    let sessions = match options.environment.get(OsStr::new(SESSIONS_IN)) {
        None => Arc::clone(&workspace),
        Some(folder) => {
            let folder = Workspace::open(Path::new(folder));
            Arc::new(folder.map_err(|source| ServeError::Workspace { source })?)
        }
    };
    let (peer, mut incoming) = Connection::new(reader, writer, Limits::default());
    let (crash, mut crashed) = mpsc::channel(1);
    let tasks = Tasks::new();
    let surroundings = Surroundings {
        peer: peer.clone(),
        archive: Archive::new(sessions),
        workspace,
        environment: options.environment,
        crash,
    };
    let mut agent = Agent::new(Arc::new(surroundings), tasks.clone());
    loop {
        let received = tokio::select! { biased;
            Some(code) = crashed.recv() => return Err(ServeError::Crashed { code }),
            received = incoming.recv() => received,
        };
        match received {
            Some(Received::Request(request)) => agent.handle(request).await,
            Some(Received::Notification { method, params, .. }) => {
                agent.notice(&method, params.as_deref())
            }
            // Answers to questions that were withdrawn, and lines that were answered with an error already.
            Some(Received::Response { .. } | Received::Malformed { .. }) => {}
            None => break,
        }
    }
    agent.stop_all();
    let ended = tokio::time::timeout(END_MAX, async {
        // Only turns count: what they left for after the answer may be cut off.
        let _: Drained = tasks.drain(END_MAX).await;
        peer.flush().await
    });
    let _ = ended.await; // A client that does not read loses its last answers.
    match incoming.take_error() {
        // A client that closes both directions at once has just left.
        Some(source) if source.kind() != ErrorKind::BrokenPipe => {
            Err(ServeError::Connection { source })
        }
        Some(_) | None => Ok(()),
    }
}

/// The agent as a process: serves standard input and output until the input ends or a signal ends it.
pub fn run(workspace: PathBuf, environment: BTreeMap<OsString, OsString>) -> ExitCode {
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(IDLE_THREAD_MAX)
        .build();
    let Ok(runtime) = built else {
        return ExitCode::FAILURE;
    };
    let options = Options {
        workspace,
        environment,
    };
    let ended = runtime.block_on(async {
        tokio::select! { biased;
            signal = terminated() => Err(signal),
            served = serve(tokio::io::stdin(), tokio::io::stdout(), options) => Ok(served),
        }
    });
    // Drops every turn, which kills its processes. A thread may still wait in a read of standard input; it ends with
    // the process.
    runtime.shutdown_background();
    match ended {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(ServeError::Crashed { code })) => exit_now(code),
        Ok(Err(ServeError::Workspace { .. } | ServeError::Connection { .. })) => ExitCode::FAILURE,
        Err(signal) => exit_now(SIGNAL_CODE_BASE + signal),
    }
}

/// Resolves with the number of the signal that asks us to end.
async fn terminated() -> u8 {
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ];
    let [Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)] = kinds.map(signal) else {
        return std::future::pending().await; // Then a signal ends us as it ends any process.
    };
    tokio::select! {
        _ = terminate.recv() => 15,
        _ = interrupt.recv() => 2,
        _ = hangup.recv() => 1,
    }
}
