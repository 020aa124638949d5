//! A command line in a shell, or a script with its own interpreter, in a group of its own.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use engine::chain;
use platform::{Exit, Group, Pipes, Spawn, process::Stream, tasks::block_here};
use tokio::io::AsyncWriteExt;
use workflow::{CommandAction, StepResult, StepStatus};

use super::{Act, heard::Heard};

/// What is kept of each stream unless the step says otherwise.
const OUTPUT_MAX: usize = 1024 * 1024;

/// The most a step may ask for; states are held in memory and in the store.
const OUTPUT_MAX_MAX: usize = 16 * 1024 * 1024;

/// What a command has to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// How long what is in the pipes may take once the command is over: a child in the background may hold them open.
const DRAIN_MAX: Duration = Duration::from_millis(500);

/// How often whoever watches is shown what was printed meanwhile.
const SHOW_EVERY: Duration = Duration::from_millis(250);

pub(super) async fn run(act: &Act, command: &CommandAction) -> StepResult {
    match start(act, command) {
        Ok((group, pipes)) => attend(act, command, group, pipes).await,
        Err(why) => StepResult::failed(127, why),
    }
}

fn start(act: &Act, command: &CommandAction) -> Result<(Group, Pipes), String> {
    let around = &act.scene.node.around;
    let owner = around
        .owner
        .tag(&act.tag())
        .map_err(|error| error.to_string())?;
    let cwd = match &command.dir {
        Some(dir) => act.scene.cwd.join(dir),
        None => act.scene.cwd.clone(),
    };
    let (program, args) = interpreter(command);
    let spawn = Spawn {
        args,
        env: act.scene.environment().clone(),
        stdin: match shebang(command) {
            Some(_) => Stream::Piped,
            None => Stream::Null,
        },
        stdout: Stream::Piped,
        stderr: Stream::Piped,
        ..Spawn::new(program, cwd, owner)
    };
    // A start takes less than two changes of threads would.
    block_here(|| spawn.spawn(&around.guardian)).map_err(|error| chain(&error))
}

/// The text itself is read from the standard input by an interpreter of its own; a line is an argument of the shell.
fn interpreter(command: &CommandAction) -> (PathBuf, Vec<OsString>) {
    match shebang(command) {
        None => (
            PathBuf::from("/bin/sh"),
            vec!["-c".into(), OsString::from(&command.line)],
        ),
        Some(words) => {
            let mut words = words.split_whitespace().map(OsString::from);
            let program = words.next().unwrap_or_else(|| "/bin/sh".into());
            let args = words.chain(["/dev/stdin".into()]).collect();
            (PathBuf::from(program), args)
        }
    }
}

/// The interpreter that a script names.
fn shebang(command: &CommandAction) -> Option<&str> {
    command.script.as_ref()?;
    command.line.lines().next()?.strip_prefix("#!")
}

async fn attend(act: &Act, command: &CommandAction, group: Group, pipes: Pipes) -> StepResult {
    let limit = command.capture.max_size.map_or(OUTPUT_MAX, |size| {
        usize::try_from(size)
            .unwrap_or(OUTPUT_MAX)
            .min(OUTPUT_MAX_MAX)
    });
    let tasks = &act.scene.node.around.tasks;
    let mut output = Heard::new(limit, act.overflow("stdout"));
    let mut errors = Heard::new(limit, act.overflow("stderr"));
    let ended = {
        let script = shebang(command).map(|_| command.line.clone());
        let mut reading = Box::pin(async {
            tokio::join!(
                feed(pipes.stdin, script),
                output.read(pipes.stdout, tasks, now_and_then(act)),
                errors.read(pipes.stderr, tasks, |_| {}),
            );
        });
        let mut read = false;
        let ended = loop {
            tokio::select! { biased;
                () = act.stop.cancelled() => break None,
                () = &mut reading, if !read => read = true,
                exit = group.wait() => break Some(exit),
            }
        };
        let exit = match ended {
            Some(_) => group.reap_leftovers().await,
            None => group.end(GRACE).await,
        };
        if !read {
            let _ = tokio::time::timeout(DRAIN_MAX, &mut reading).await; // What came by then counts.
        }
        ended.map(|_| exit)
    };
    output.flush(tasks).await;
    errors.flush(tasks).await;
    let (output_text, error_text) = (output.text(), errors.text());
    act.audience
        .whole_output(&act.path, &both(&output_text, &error_text));
    StepResult {
        truncated: output.is_cut() || errors.is_cut(),
        output_path: output.file(),
        stderr_path: errors.file(),
        ..result(ended, output_text, error_text)
    }
}

/// Shows what was printed, if the last time was a while ago.
fn now_and_then(act: &Act) -> impl FnMut(&[u8]) {
    let mut shown = tokio::time::Instant::now();
    move |bytes| {
        if shown.elapsed() >= SHOW_EVERY {
            let text = String::from_utf8_lossy(bytes);
            act.audience.output_so_far(&act.path, &text);
            shown = tokio::time::Instant::now();
        }
    }
}

/// What people see: the output, and below it what the command complained about.
fn both(output: &str, errors: &str) -> String {
    let gap = match output {
        "" => "",
        output if output.ends_with('\n') => "",
        _ => "\n",
    };
    format!(
        "{output}{}{errors}",
        if errors.is_empty() { "" } else { gap }
    )
}

fn result(ended: Option<Exit>, output: String, stderr: String) -> StepResult {
    let (status, exit_code) = match ended {
        None => (StepStatus::Cancelled, 130),
        Some(Exit::Code(0)) => (StepStatus::Succeeded, 0),
        Some(Exit::Code(code)) => (StepStatus::Failed, code),
        // As shells tell it.
        Some(Exit::Signal(signal)) => (StepStatus::Failed, 128 + signal),
        Some(Exit::Lost) => (StepStatus::Failed, 1),
    };
    let error = (status == StepStatus::Failed).then(|| {
        let last = stderr.trim().lines().last().unwrap_or_default();
        match last {
            "" => format!("exit code {exit_code}"),
            last => format!("exit code {exit_code}: {last}"),
        }
    });
    StepResult {
        status,
        output,
        stderr,
        exit_code,
        error,
        ..StepResult::default()
    }
}

/// A script is given to its interpreter; any other command finds its input at the end.
async fn feed(stdin: Option<platform::process::ChildStdin>, script: Option<String>) {
    if let (Some(mut stdin), Some(script)) = (stdin, script) {
        let _ = stdin.write_all(script.as_bytes()).await; // It may not want to read all of it.
    }
}
