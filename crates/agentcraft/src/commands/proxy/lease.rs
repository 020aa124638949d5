//! `agentcraft proxy NAME --lease`: the daemon's own agent on our stdin and stdout. The daemon speaks ACP by itself; we
//! carry its bytes to the editor and the editor's to it, and there is nothing to end when either leaves.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::Arc,
    time::Duration,
};

use acp::bridge::{Carried, carry, write_all};
use tokio::sync::mpsc;
use wire::daemon::{LeaseParams, LeaseResult, Overrides, ResolveParams, ResolveResult};

use super::{Client, Signals, of};
use crate::{
    args::{ProxyArgs, SessionFolder},
    config::Config,
    connection::Connection,
    error::CommandError,
    exit::Exit,
    render::Screen,
};

/// What one read takes: a pipe holds no more.
const CHUNK: usize = 64 * 1024;

/// How long the daemon has for its last answers once the editor has gone.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Each direction reports its end once.
const REPORTS_MAX: usize = 2;

/// Who left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Editor,
    Daemon,
}

pub(super) fn run(
    arguments: &ProxyArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let client = Client::take().map_err(of("take over stdin and stdout"))?;
    let (stream, early) = connect(arguments, config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(of("start the runtime"))?;
    let entered = runtime.enter();
    let mut signals = Signals::new().map_err(of("listen to signals"))?;
    drop(entered);
    let mut left = carry_both(client, stream, early).map_err(of("start a thread"))?;
    let over = runtime.block_on(async {
        tokio::select! { biased;
            () = signals.next() => Left::Editor,
            first = left.recv() => match first {
                Some(Left::Editor) => {
                    tokio::select! { biased;
                        () = signals.next() => {}
                        _ = tokio::time::timeout(LAST_ANSWERS, left.recv()) => {}
                    }
                    Left::Editor
                }
                Some(Left::Daemon) | None => Left::Daemon,
            },
        }
    });
    // Whoever still reads is stuck in a call of the system.
    runtime.shutdown_background();
    match over {
        Left::Editor => Ok(()),
        Left::Daemon => {
            screen
                .warning("the daemon has ended the connection; its sessions can be loaded again")?;
            Err(CommandError::Shown(Exit::Failed))
        }
    }
}

/// A connection on which the daemon speaks ACP, and what it has said already.
fn connect(arguments: &ProxyArgs, config: &Config) -> Result<(UnixStream, Vec<u8>), CommandError> {
    let mut connection = Connection::open(config)?;
    if let Some(template) = &arguments.template {
        let params = ResolveParams {
            name: arguments.name.to_string(),
            template: Some(template.to_string()),
            overrides: Overrides::default(),
        };
        let _: ResolveResult = connection.call("agent.resolve", &params)?;
    }
    let cwd = match arguments.cwd {
        SessionFolder::Workspace => "workspace",
        SessionFolder::Client => "client",
    };
    let params = LeaseParams {
        agent_name: arguments.name.to_string(),
        cwd: Some(cwd.to_owned()),
    };
    let _: LeaseResult = connection.call("proxy.lease", &params)?;
    connection.into_stream()
}

/// Starts the threads of both directions; each says when its side has gone.
fn carry_both(
    client: Client,
    stream: UnixStream,
    early: Vec<u8>,
) -> io::Result<mpsc::Receiver<Left>> {
    let (left, who_left) = mpsc::channel(REPORTS_MAX);
    let Client { input, output } = client;
    let daemon = stream.try_clone()?;
    let editor_left = left.clone();
    let named = |name: &str| std::thread::Builder::new().name(name.into());
    named("to the daemon").spawn(move || {
        let carried = Arc::new(Carried::default());
        carry(io::PipeReader::from(input), &daemon, None, &carried);
        let _ = editor_left.blocking_send(Left::Editor); // Nobody waits any more if the daemon went first.
        let _ = daemon.shutdown(Shutdown::Write); // As above.
    })?;
    named("to the editor").spawn(move || {
        let who = pour(stream, io::PipeWriter::from(output), &early);
        let _ = left.blocking_send(who); // As above.
    })?;
    Ok(who_left)
}

/// Carries what the daemon says until either side has gone.
fn pour(mut daemon: impl Read, editor: impl Write + AsFd, early: &[u8]) -> Left {
    let mut editor = editor;
    if write_all(&mut editor, early).is_err() {
        return Left::Editor;
    }
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = match daemon.read(&mut chunk) {
            Ok(0) => return Left::Daemon,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Left::Daemon,
        };
        if write_all(&mut editor, &chunk[..length]).is_err() {
            return Left::Editor;
        }
    }
}
