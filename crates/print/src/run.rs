//! One process for one turn: started in its own group, listened to, and ended with all it has started.

use std::{path::PathBuf, pin::pin, time::Duration};

use engine::{DriverError, DriverSurroundings, chain};
use platform::{Exit, Group, OwnerTag, Pipes, Spawn, Stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    listen::{LINGER_MAX, Listener, Silence},
    program::Invocation,
};

/// What a program gets to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// How long what is still in the pipes may take to be heard when the program has ended. A pipe holds 64 KiB, but the
/// history may be behind.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// What is kept of standard error, for the words of a failure.
const COMPLAINT_BYTES_MAX: usize = 4 * 1024;

/// A program to be run for one turn.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) program: PathBuf,
    pub(crate) invocation: Invocation,
    pub(crate) cwd: PathBuf,
    pub(crate) tag: OwnerTag,
    /// Without one it takes as long as it takes.
    pub(crate) limit: Option<Duration>,
    pub(crate) cancel: CancellationToken,
}

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Exit(Exit),
    /// It had said all there is to say, and did not end.
    Lingered,
    Cancelled,
    TimedOut,
}

/// The end of a run, and the last of what the program wrote to standard error.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    pub(crate) complaint: String,
}

impl Run {
    /// Runs the program to its end, whichever comes first: its own, the limit, or the cancellation.
    pub(crate) async fn attend(
        self,
        around: &DriverSurroundings,
        listener: &mut Listener,
    ) -> Result<Outcome, DriverError> {
        let (limit, cancel) = (self.limit, self.cancel.clone());
        let stdin = self.invocation.stdin.clone();
        let (group, pipes) = self.start(around)?;
        let stop = around.tasks.stop();
        let mut tail = Vec::new();
        let ended = {
            let mut reading = pin!(hear(pipes, stdin, listener, &mut tail));
            let mut read = None;
            let deadline = limit.map(|limit| Instant::now() + limit);
            // Only what has said all there is to say is ended for not ending.
            let mut lingering = None;
            let mut exiting = pin!(group.reap_leftovers());
            let ended = loop {
                tokio::select! { biased;
                    () = cancel.cancelled() => break Ended::Cancelled,
                    () = stop.cancelled() => break Ended::Cancelled,
                    () = until(deadline) => break Ended::TimedOut,
                    silence = &mut reading, if read.is_none() => {
                        read = Some(silence);
                        match silence {
                            Silence::Over => {}
                            Silence::Done => lingering = Some(Instant::now() + LINGER_MAX),
                            Silence::Lingers => break Ended::Lingered,
                        }
                    }
                    () = until(lingering) => break Ended::Lingered,
                    exit = &mut exiting => break Ended::Exit(exit),
                }
            };
            // It may have something to say while it ends.
            let mut ending = pin!(end(&group, ended));
            loop {
                tokio::select! { biased;
                    silence = &mut reading, if read.is_none() => read = Some(silence),
                    () = &mut ending => break,
                }
            }
            if read.is_none() {
                // Somebody outside the group may hold the pipe open; nobody waits for that one.
                let _ = tokio::time::timeout(DRAIN_MAX, &mut reading).await;
            }
            ended
        };
        let complaint = String::from_utf8_lossy(&tail).trim().to_owned();
        Ok(Outcome { ended, complaint })
    }

    fn start(self, around: &DriverSurroundings) -> Result<(Group, Pipes), DriverError> {
        let stdin = match self.invocation.stdin {
            Some(_) => Stream::Piped,
            None => Stream::Null,
        };
        let mut env = around.environment.clone();
        env.extend(self.invocation.env);
        let spawn = Spawn {
            program: self.program,
            args: self.invocation.args,
            env,
            cwd: self.cwd,
            stdin,
            stdout: Stream::Piped,
            stderr: Stream::Piped,
            owner: self.tag,
        };
        spawn
            .spawn(&around.guardian)
            .map_err(|error| DriverError::Program { why: chain(&error) })
    }
}

/// Resolves at the moment, or never.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn end(group: &Group, ended: Ended) {
    match ended {
        Ended::Exit(_) => {} // Everything is gone already.
        Ended::Lingered | Ended::Cancelled | Ended::TimedOut => {
            group.end(GRACE).await;
        }
    }
}

/// Serves all three streams until the outputs have ended, or the program has said all and lingers.
async fn hear(
    pipes: Pipes,
    prompt: Option<String>,
    listener: &mut Listener,
    tail: &mut Vec<u8>,
) -> Silence {
    let feed = async {
        if let (Some(mut stdin), Some(prompt)) = (pipes.stdin, prompt) {
            let _ = stdin.write_all(prompt.as_bytes()).await; // A program need not read all of it.
        }
    };
    let listen = async {
        match pipes.stdout {
            Some(stdout) => listener.listen(stdout).await,
            None => Silence::Over,
        }
    };
    let complain = async {
        if let Some(stderr) = pipes.stderr {
            keep_tail(stderr, tail).await;
        }
    };
    let mut beside = pin!(async { tokio::join!(feed, complain) });
    let mut listen = pin!(listen);
    tokio::select! { biased;
        silence = &mut listen => {
            if silence != Silence::Lingers && silence != Silence::Done {
                beside.await;
            }
            silence
        }
        _ = &mut beside => listen.await,
    }
}

/// The last part of a stream; the rest is read and dropped, so that the program never blocks.
async fn keep_tail(mut source: impl AsyncRead + Unpin, tail: &mut Vec<u8>) {
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = source.read(&mut chunk).await {
        tail.extend_from_slice(&chunk[..length]);
        let surplus = tail.len().saturating_sub(COMPLAINT_BYTES_MAX);
        tail.drain(..surplus);
    }
}
