//! Running a shell command in the workspace, in a group of its own that ends with the turn.

use std::{path::Path, time::Duration};

use engine::{DriverSurroundings, chain};
use platform::{Spawn, process::Stream};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use super::{OUTPUT_MAX, shortened};

/// What a command has to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// How long what is in the pipes may take once the command is over: somebody outside its group may hold them open.
const DRAIN_MAX: Duration = Duration::from_secs(2);

pub(super) async fn run(
    command: &str,
    timeout_ms: u64,
    cwd: &Path,
    around: &DriverSurroundings,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let owner = around
        .owner
        .tag(&format!("{}.run", around.agent))
        .map_err(|error| error.to_string())?;
    let spawn = Spawn {
        args: vec!["-c".into(), command.into()],
        env: around.environment.clone(),
        stdout: Stream::Piped,
        stderr: Stream::Piped,
        ..Spawn::new("/bin/sh", cwd, owner)
    };
    let guardian = around.guardian.clone();
    let spawned = around.tasks.spawn_blocking(move |_| spawn.spawn(&guardian));
    let (group, pipes) = spawned
        .await
        .map_err(|_| "the node is shutting down".to_owned())?
        .map_err(|error| chain(&error))?;
    let (mut output, mut complaint) = (String::new(), String::new());
    let reading = async {
        tokio::join!(
            collect(pipes.stdout, &mut output),
            collect(pipes.stderr, &mut complaint)
        );
    };
    let mut reading = Box::pin(reading);
    let limit = Duration::from_millis(timeout_ms);
    let mut deadline = Box::pin(tokio::time::sleep(limit));
    let mut read = false;
    let ended = loop {
        tokio::select! { biased;
            () = cancel.cancelled() => break None,
            () = &mut deadline => break None,
            () = &mut reading, if !read => read = true,
            exit = group.wait() => break Some(exit),
        }
    };
    let timed_out = ended.is_none() && !cancel.is_cancelled();
    let exit = match ended {
        Some(_) => group.reap_leftovers().await,
        None => group.end(GRACE).await,
    };
    if !read {
        let _ = tokio::time::timeout(DRAIN_MAX, &mut reading).await; // What came by then is told.
    }
    drop(reading);
    let mut words = format!("{output}{complaint}");
    if timed_out {
        words.push_str(&format!("\nended after {timeout_ms} ms"));
        return Err(shortened(words));
    }
    if exit.success() {
        Ok(shortened(words))
    } else {
        words.push_str(&format!("\n{exit}"));
        Err(shortened(words))
    }
}

/// What is printed, as text, as far as it fits; the rest is read and forgotten so that the command is not stuck.
async fn collect(source: Option<impl AsyncRead + Unpin>, into: &mut String) {
    let Some(mut source) = source else {
        return;
    };
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(count) = source.read(&mut chunk).await {
        if count == 0 {
            return;
        }
        if into.len() < OUTPUT_MAX {
            into.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
    }
}
