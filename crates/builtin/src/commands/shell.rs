//! Commands that run programs: `/run`, and `/fork` for tests of what becomes of its processes.

use std::time::Duration;

use agent_client_protocol_schema::v1::{StopReason, ToolCallUpdateFields, ToolKind};
use platform::{
    Exit,
    command::{CommandLine, RunningCommand},
};
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};

use super::usage;
use crate::{
    session::Mode,
    tool::{Tool, Verdict},
    turn::{Interrupted, Outcome, Turn},
    words,
};

/// What is kept of a command's output. The rest is read, so that the command goes on, and left out.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// A command that runs longer is ended; somebody forgot it.
const RUN_MAX: Duration = Duration::from_secs(600);

/// Updates repeat the whole output, so they are not sent more often than a person can see.
const UPDATE_INTERVAL: Duration = Duration::from_millis(50);

/// How long output is awaited after the command itself has ended: what its children still hold is theirs.
const TAIL_MAX: Duration = Duration::from_millis(100);

/// What is repeated of an output in a message.
const SHOWN_BYTES_MAX: usize = 8 * 1024;

/// Leaves the group and the session like a daemon does, tells its pid, and sleeps.
const FORK_SCRIPT: &str = "setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &";

/// Output so far.
#[derive(Debug, Default)]
struct Output {
    bytes: Vec<u8>,
    left_out: usize,
}

/// How a command came to its end.
#[derive(Debug)]
enum End {
    Exit(Exit),
    TooLong,
}

pub(super) async fn run(turn: &Turn, rest: &str) -> Outcome {
    if rest.is_empty() {
        return usage(turn, "/run command").await;
    }
    if turn.session.state().mode == Mode::Plan {
        turn.say(format!("Plan mode: I would run `{rest}`. Nothing was run."))
            .await?;
        return Ok(StopReason::EndTurn);
    }
    let tool = turn.open_tool("run", |mut call| {
        call.title = format!("Run {}", words::shortened(rest, 200));
        call.kind(ToolKind::Execute)
            .raw_input(json!({ "command": rest }))
    });
    let tool = tool.await?;
    if let Verdict::Denied(reason) = tool.permission().await? {
        tool.fail(&format!("the command was not run, because {reason}"))
            .await?;
        return Ok(StopReason::EndTurn);
    }
    tool.start().await?;
    let running = match shell(turn, rest).start() {
        Ok(running) => running,
        Err(error) => {
            tool.fail(&words::chain(&error)).await?;
            return Ok(StopReason::EndTurn);
        }
    };
    let mut output = Output::default();
    let end = follow(&tool, running, &mut output).await?;
    let (told, code) = match end {
        End::Exit(exit @ Exit::Code(code)) => (exit.to_string(), Some(code)),
        End::Exit(exit) => (exit.to_string(), None),
        End::TooLong => (format!("ended after {} seconds", RUN_MAX.as_secs()), None),
    };
    let text = output.text();
    let fields = ToolCallUpdateFields::new()
        .content(vec![format!("{text}\n{told}").trim_start().into()])
        .raw_output(json!({ "exitCode": code, "output": text, "end": told }));
    if code == Some(0) {
        tool.complete(fields).await?;
    } else {
        tool.end_failed(fields).await?;
    }
    let shown = words::shortened(&text, SHOWN_BYTES_MAX);
    let line = if shown.is_empty() || shown.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    turn.say(format!(
        "{shown}{line}`{}`: {told}.",
        words::shortened(rest, 200)
    ))
    .await?;
    Ok(StopReason::EndTurn)
}

/// Leaves a process behind on purpose: whoever ends this agent has to find it.
pub(super) async fn fork(turn: &Turn) -> Outcome {
    if turn.session.state().mode == Mode::Plan {
        turn.say("Plan mode: I would leave a process behind. Nothing was started.")
            .await?;
        return Ok(StopReason::EndTurn);
    }
    let running = match shell(turn, FORK_SCRIPT).start() {
        Ok(running) => running,
        Err(error) => {
            turn.say(format!("That did not work: {}.", words::chain(&error)))
                .await?;
            return Ok(StopReason::EndTurn);
        }
    };
    let mut output = Output::default();
    // The pipe closes when the process has left the group and sleeps; before that it would be killed with the group.
    let read = timeout(RUN_MAX, read_all(&running, &mut output)).await;
    running.end().await;
    let pid = output.text().trim().to_owned();
    let said = match (read, pid.parse::<u32>()) {
        (Ok(()), Ok(pid)) => format!("Left behind pid {pid}."),
        (Err(_), _) | (_, Err(_)) => format!("That did not work: {pid}."),
    };
    turn.say(said).await?;
    Ok(StopReason::EndTurn)
}

fn shell(turn: &Turn, script: &str) -> CommandLine {
    let folder = turn.session.state().folder.clone();
    CommandLine {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: turn.surroundings.environment.clone(),
        cwd: turn.root().join(folder),
    }
}

/// Shows the output while it grows, until the command has ended.
async fn follow(
    tool: &Tool<'_>,
    running: RunningCommand,
    output: &mut Output,
) -> Result<End, Interrupted> {
    let deadline = Instant::now() + RUN_MAX;
    let mut shown_until = 0;
    let mut next_update = Instant::now();
    let mut buffer = vec![0; 8 * 1024];
    loop {
        let unseen = output.bytes.len() > shown_until;
        let grown = tokio::select! { biased;
            read = running.read(&mut buffer) => Some(read),
            () = sleep_until(next_update), if unseen => None,
            () = running.exited() => break,
            () = sleep_until(deadline) => {
                running.end().await;
                return Ok(End::TooLong);
            }
        };
        match grown {
            Some(Ok(0) | Err(_)) => {
                // Both outputs are closed; the command itself may go on.
                if timeout(deadline - Instant::now(), running.exited())
                    .await
                    .is_err()
                {
                    running.end().await;
                    return Ok(End::TooLong);
                }
                return Ok(End::Exit(running.end().await));
            }
            Some(Ok(length)) => output.push(&buffer[..length]),
            None => {}
        }
        if output.bytes.len() > shown_until && Instant::now() >= next_update {
            shown_until = output.bytes.len();
            next_update = Instant::now() + UPDATE_INTERVAL;
            let text = output.text();
            tool.progress(ToolCallUpdateFields::new().content(vec![text.as_str().into()]))
                .await?;
        }
    }
    // Left over in the pipe, or written by children that outlive the command for a moment.
    let _ = timeout(TAIL_MAX, read_all(&running, output)).await;
    Ok(End::Exit(running.end().await))
}

async fn read_all(running: &RunningCommand, output: &mut Output) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(length @ 1..) = running.read(&mut buffer).await {
        output.push(&buffer[..length]);
    }
}

impl Output {
    fn push(&mut self, bytes: &[u8]) {
        let room = OUTPUT_BYTES_MAX - self.bytes.len();
        let (kept, rest) = bytes.split_at(room.min(bytes.len()));
        self.bytes.extend_from_slice(kept);
        self.left_out += rest.len();
    }

    fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.bytes).into_owned();
        if self.left_out > 0 {
            text.push_str(&format!("\n… {} bytes left out", self.left_out));
        }
        text
    }
}
