//! The initializer of a template: steps done once in a new workspace, none of which may leave it.

use std::{ffi::OsString, path::Path, time::Duration};

use catalog::{InitializerStep, STEP_TIMEOUT_MS_DEFAULT, Template, WorkspacePlan};
use platform::{ConfinedDir, Exit, Spawn, Stream, Tasks};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{AgentRecord, Place, launch::Launcher, launch_environment, process::chain};

/// How much of what a failing program printed is worth telling.
const OUTPUT_TOLD_MAX: usize = 2 * 1024;

/// The largest file a step may copy.
const COPY_MAX: u64 = 256 * 1024 * 1024;

/// How long a program that overran its time has to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Every file that making the workspace writes, by the plan or by a step.
pub(crate) fn written_paths(plan: &WorkspacePlan, template: &Template) -> Vec<String> {
    let planned = plan.files.iter().map(|file| file.path.as_str());
    let by_steps = template.initializer.iter().filter_map(|step| match step {
        InitializerStep::WriteFile { path, .. } | InitializerStep::FileCopy { to: path, .. } => {
            Some(path.as_str())
        }
        InitializerStep::Mkdir { .. } | InitializerStep::Exec { .. } => None,
    });
    planned.chain(by_steps).map(str::to_owned).collect()
}

/// Does every step in order; the words say which one failed and why.
pub(crate) async fn run_steps(
    tasks: &Tasks,
    launcher: &Launcher,
    record: &AgentRecord,
) -> Result<(), String> {
    for (index, step) in record.template.initializer.iter().enumerate() {
        let done = match step {
            InitializerStep::Mkdir { .. }
            | InitializerStep::WriteFile { .. }
            | InitializerStep::FileCopy { .. } => {
                let step = step.clone();
                let (configs, place) = (launcher.config.configs_dir.clone(), record.place.clone());
                let files = move |_| file_step(&step, &configs, &place);
                tasks
                    .spawn_blocking(files)
                    .await
                    .unwrap_or_else(|_| Err("interrupted".to_owned()))
            }
            InitializerStep::Exec {
                command,
                args,
                timeout_ms,
            } => {
                let limit = Duration::from_millis(timeout_ms.unwrap_or(STEP_TIMEOUT_MS_DEFAULT));
                exec(launcher, record, command, args, limit).await
            }
        };
        done.map_err(|reason| format!("initializer.steps[{index}]: {reason}"))?;
    }
    Ok(())
}

fn file_step(step: &InitializerStep, configs: &Path, place: &Place) -> Result<(), String> {
    let workspace = ConfinedDir::open(place.dir()).map_err(|error| chain(&error))?;
    let (path, content) = match step {
        InitializerStep::Mkdir { path } => {
            return workspace
                .create_dir_all(Path::new(path.as_str()))
                .map_err(|error| chain(&error));
        }
        InitializerStep::WriteFile { path, content } => (path, content.clone().into_bytes()),
        InitializerStep::FileCopy { from, to } => {
            let configs = ConfinedDir::open(configs).map_err(|error| chain(&error))?;
            (
                to,
                configs
                    .read(Path::new(from.as_str()), COPY_MAX)
                    .map_err(|error| chain(&error))?,
            )
        }
        InitializerStep::Exec { .. } => return Ok(()),
    };
    if !place.may_write(path.as_str()) {
        return Ok(()); // The user's own file stays, as asked.
    }
    let path = Path::new(path.as_str());
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        workspace
            .create_dir_all(folder)
            .map_err(|error| chain(&error))?;
    }
    workspace
        .write_atomic(path, &content)
        .map_err(|error| chain(&error))
}

async fn exec(
    launcher: &Launcher,
    record: &AgentRecord,
    command: &str,
    args: &[String],
    limit: Duration,
) -> Result<(), String> {
    let spawn = Spawn {
        program: command.into(),
        args: args.iter().map(OsString::from).collect(),
        env: launch_environment(&launcher.config, record, &[]),
        cwd: record.place.dir().clone(),
        stdin: Stream::Null,
        stdout: Stream::Piped,
        stderr: Stream::Piped,
        owner: launcher.tag(record)?,
    };
    let (group, pipes) = spawn
        .spawn(&launcher.guardian)
        .map_err(|error| chain(&error))?;
    let printed = async { tokio::join!(tail(pipes.stdout), tail(pipes.stderr)) };
    tokio::pin!(printed);
    let mut early = None;
    let waiting = async {
        tokio::select! {
            exit = group.wait() => exit,
            // Both streams may close long before the end.
            output = &mut printed => {
                early = Some(output);
                group.wait().await
            }
        }
    };
    let Ok(exit) = tokio::time::timeout(limit, waiting).await else {
        group.end(GRACE).await;
        return Err(format!(
            "{command} did not end within {} ms",
            limit.as_millis()
        ));
    };
    // What it left in the background would keep the streams open.
    group.reap_leftovers().await;
    let (stdout, stderr) = match early {
        Some(output) => output,
        None => tokio::time::timeout(GRACE, printed)
            .await
            .unwrap_or_default(),
    };
    match exit {
        Exit::Code(0) => Ok(()),
        Exit::Code(code) => Err(format!(
            "{command} ended with exit code {code}: {}",
            told(&stderr, &stdout)
        )),
        Exit::Signal(signal) => Err(format!(
            "{command} was ended by signal {signal}: {}",
            told(&stderr, &stdout)
        )),
        Exit::Lost => Err(format!("{command} is gone, and nobody knows how it ended")),
    }
}

/// The last part of what a program prints; the rest is read and dropped, so that the program never blocks.
async fn tail(source: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut source) = source else {
        return kept;
    };
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = source.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..length]);
        if kept.len() > 2 * OUTPUT_TOLD_MAX {
            kept.drain(..kept.len() - OUTPUT_TOLD_MAX);
        }
    }
    kept
}

fn told(stderr: &[u8], stdout: &[u8]) -> String {
    let text = if stderr.is_empty() { stdout } else { stderr };
    let start = text.len().saturating_sub(OUTPUT_TOLD_MAX);
    String::from_utf8_lossy(&text[start..]).trim().to_owned()
}
