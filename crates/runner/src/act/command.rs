//! A command line in a shell, or a script with its own interpreter, in a group of its own.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use engine::chain;
use platform::{
    Exit, Group, Pipes, Spawn,
    files::{self, Durability, Mode},
    process::Stream,
    tasks::block_here,
};
use tokio::{sync::Notify, time::MissedTickBehavior};
use workflow::{CommandAction, StepResult, StepStatus};

use super::{Act, heard::Heard};
use crate::show::Lines;

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
    let file = match Script::write(act, command) {
        Ok(file) => file,
        Err(why) => return StepResult::failed(127, why),
    };
    match start(act, command, file.as_ref()) {
        Ok((group, pipes)) => attend(act, command, group, pipes).await,
        Err(why) => StepResult::failed(127, why),
    }
}

/// The text of a script with its own interpreter, in a file that is gone with the step: the interpreter reads it, and the
/// standard input is empty, as for every command.
struct Script {
    folder: PathBuf,
    path: PathBuf,
}

impl Script {
    fn write(act: &Act, command: &CommandAction) -> Result<Option<Self>, String> {
        let (Some(_), Some(named)) = (shebang(command), &command.script) else {
            return Ok(None);
        };
        let folder = act.overflow("script");
        let name = Path::new(named).file_name().unwrap_or(OsStr::new("script"));
        let script = Self {
            path: folder.join(name),
            folder,
        };
        let written = block_here(|| {
            files::create_private_dir(&script.folder)?;
            files::write_atomic(
                &script.path,
                command.line.as_bytes(),
                Mode::PRIVATE,
                Durability::ProcessDeath,
            )
        });
        written.map_err(|error| chain(&error))?;
        Ok(Some(script))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let removed = block_here(|| files::remove_tree(&self.folder));
        if let Err(error) = removed {
            tracing::warn!(error = %chain(&error), "could not remove the script of a step");
        }
        if let Some(run) = self.folder.parent() {
            files::remove_dir_if_empty(run);
        }
    }
}

fn start(
    act: &Act,
    command: &CommandAction,
    script: Option<&Script>,
) -> Result<(Group, Pipes), String> {
    let around = &act.scene.node.around;
    let owner = around
        .owner
        .tag(&act.tag())
        .map_err(|error| error.to_string())?;
    let cwd = match &command.dir {
        Some(dir) => act.scene.cwd.join(dir),
        None => act.scene.cwd.clone(),
    };
    let (program, args) = interpreter(act, command, script);
    let spawn = Spawn {
        args,
        env: act.scene.environment().clone(),
        stdin: Stream::Null,
        stdout: Stream::Piped,
        stderr: Stream::Piped,
        ..Spawn::new(program, cwd, owner)
    };
    // A start takes less than two changes of threads would.
    block_here(|| spawn.spawn(&around.guardian)).map_err(|error| chain(&error))
}

/// A script is read by the interpreter it names; a line is an argument of the shell.
fn interpreter(
    act: &Act,
    command: &CommandAction,
    script: Option<&Script>,
) -> (PathBuf, Vec<OsString>) {
    match shebang(command).zip(script) {
        None => (
            PathBuf::from("/bin/sh"),
            vec!["-c".into(), act.scene.places.located(&command.line).into()],
        ),
        Some((words, script)) => {
            let mut words = words.split_whitespace().map(OsString::from);
            let program = words.next().unwrap_or_else(|| "/bin/sh".into());
            let args = words.chain([script.path.clone().into()]).collect();
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
    let is_streamed = act.audience.is_streamed();
    let mut output = Heard::new(limit, act.overflow("stdout"));
    let mut errors = Heard::new(limit, act.overflow("stderr"));
    let seen = Seen::default();
    let ended = {
        let mut reading = Box::pin(async {
            tokio::join!(
                output.read(pipes.stdout, tasks, |bytes| seen.add(Which::Output, bytes)),
                errors.read(pipes.stderr, tasks, |bytes| seen.add(Which::Errors, bytes)),
            );
        });
        let mut show = tokio::time::interval(SHOW_EVERY);
        show.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut read = false;
        let ended = loop {
            tokio::select! { biased;
                () = act.stop.cancelled() => break None,
                () = &mut reading, if !read => read = true,
                exit = group.wait() => break Some(exit),
                () = seen.news.notified(), if is_streamed => act.audience.printed(&act.path, &seen.whole_lines()),
                _ = show.tick(), if !is_streamed => seen.show(act),
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
    if is_streamed {
        act.audience.printed(&act.path, &seen.rest());
    }
    output.flush(tasks).await;
    errors.flush(tasks).await;
    let (output_text, error_text) = (output.text(), errors.text());
    act.audience
        .whole_output(&act.path, &both(&output_text, &error_text));
    for file in [output.file(), errors.file()].into_iter().flatten() {
        act.audience.notice(format!(
            "{} has printed more than is kept; it is in {file}",
            act.path
        ));
    }
    StepResult {
        truncated: output.is_cut() || errors.is_cut(),
        output_path: output.file(),
        stderr_path: errors.file(),
        ..result(ended, output_text, error_text)
    }
}

/// What was printed so far, as much of it as is kept, for whoever watches.
#[derive(Debug, Default)]
struct Seen {
    printed: Mutex<Printed>,
    /// Something has come.
    news: Notify,
}

#[derive(Debug, Default)]
struct Printed {
    output: Vec<u8>,
    errors: Vec<u8>,
    /// How much of both was told line by line.
    told: (usize, usize),
    is_new: bool,
}

enum Which {
    Output,
    Errors,
}

impl Seen {
    fn add(&self, which: Which, bytes: &[u8]) {
        let mut printed = self.printed();
        match which {
            Which::Output => printed.output.extend_from_slice(bytes),
            Which::Errors => printed.errors.extend_from_slice(bytes),
        }
        printed.is_new = true;
        drop(printed);
        self.news.notify_one();
    }

    /// The lines that have ended since the last time.
    fn whole_lines(&self) -> Lines {
        let mut printed = self.printed();
        let Printed {
            output,
            errors,
            told,
            ..
        } = &mut *printed;
        let after_line = |bytes: &[u8], told: usize| {
            let end = bytes[told..].iter().rposition(|byte| *byte == b'\n');
            end.map_or(told, |end| told + end + 1)
        };
        let until = (after_line(output, told.0), after_line(errors, told.1));
        let lines = Lines {
            output: String::from_utf8_lossy(&output[told.0..until.0]).into_owned(),
            errors: String::from_utf8_lossy(&errors[told.1..until.1]).into_owned(),
        };
        *told = until;
        lines
    }

    /// What has not been told when everything was printed, as whole lines.
    fn rest(&self) -> Lines {
        let mut printed = self.printed();
        let (output, errors) = printed.told;
        printed.told = (printed.output.len(), printed.errors.len());
        let line = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            match text.is_empty() || text.ends_with('\n') {
                true => text,
                false => text + "\n",
            }
        };
        Lines {
            output: line(&printed.output[output..]),
            errors: line(&printed.errors[errors..]),
        }
    }

    fn printed(&self) -> MutexGuard<'_, Printed> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows it, if something has come since the last time.
    fn show(&self, act: &Act) {
        let mut printed = self.printed();
        if !std::mem::take(&mut printed.is_new) {
            return;
        }
        let output = String::from_utf8_lossy(&printed.output);
        let errors = String::from_utf8_lossy(&printed.errors);
        let text = both(&output, &errors);
        act.audience.output_so_far(&act.path, &text);
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
