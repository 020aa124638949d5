//! Starting the daemon in the background: our own program in a session of its own, and the wait until it answers.

use std::{
    ffi::OsString,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    time::{Duration, Instant},
};

use platform::{
    ConfinedDir,
    confined::Access,
    files::{self, create_private_dir},
    system::{Detached, spawn_detached},
};

use crate::{config::Config, connection::Connection, error::CommandError, log::LOG_MAX};

/// A start opens the store and looks at every agent; this is far more than that takes on a slow disk.
const START_MAX: Duration = Duration::from_secs(60);

/// The first look comes this soon, and each pause is twice as long as the last.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// How much of what the daemon wrote is read when it failed.
const REPORT_BYTES_MAX: u64 = 16 * 1024;

/// How many lines of that are shown.
const REPORT_LINES_MAX: usize = 12;

/// The process that answers after a start.
#[derive(Debug)]
pub(super) enum Started {
    Ours(u32),
    /// Somebody else started one at the same time and was faster.
    Anothers(u32),
}

pub(super) fn start(config: &Config) -> Result<Started, CommandError> {
    // Before the start, which looks for its own words after what is there.
    files::empty_grown_log(&config.log_file, LOG_MAX)
        .map_err(|error| CommandError::machine("bound the log", error))?;
    let log_start = config
        .log_file
        .metadata()
        .map_or(0, |metadata| metadata.len());
    let mut detached =
        spawn(config).map_err(|error| CommandError::machine("start the daemon", error))?;
    wait_until_ready(config, &mut detached, log_start)
}

fn spawn(config: &Config) -> anyhow::Result<Detached> {
    create_private_dir(&config.home)?;
    create_private_dir(config.log_file.parent().unwrap_or(&config.home))?;
    let executable = std::env::current_exe()?;
    Ok(spawn_detached(
        &executable,
        &arguments(config),
        &config.environment,
        &config.log_file,
    )?)
}

/// It starts in another folder, so it is told every path that a person may have given relative to this one.
fn arguments(config: &Config) -> Vec<OsString> {
    let option = |name: &str, path: &Path| [OsString::from(name), path.into()];
    let mut arguments = Vec::new();
    arguments.extend(option("--home", &config.home));
    arguments.extend(option("--socket", &config.socket));
    arguments.extend(option("--configs-dir", &config.configs_dir));
    arguments.extend(["daemon", "start", "--foreground"].map(OsString::from));
    arguments
}

fn wait_until_ready(
    config: &Config,
    detached: &mut Detached,
    log_start: u64,
) -> Result<Started, CommandError> {
    let deadline = Instant::now() + START_MAX;
    let mut pause = FIRST_PAUSE;
    loop {
        // Looked at before the socket: whoever lost the race to another daemon ends after that one listens.
        let exit = detached
            .exit()
            .map_err(|error| CommandError::machine("watch the daemon start", error))?;
        if let Some(pid) = answering(config)? {
            return Ok(if pid == detached.pid() {
                Started::Ours(pid)
            } else {
                Started::Anothers(pid)
            });
        }
        let how = match exit {
            Some(status) => format!("it ended with {status}"),
            None if Instant::now() >= deadline => {
                format!("it does not answer after {} s", START_MAX.as_secs())
            }
            None => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        let report = read_report(&config.log_file, log_start).unwrap_or_default();
        return Err(CommandError::NotStarted {
            how,
            report,
            log: config.log_file.clone(),
        });
    }
}

/// The daemon that answers. One that listens but is not done with its recovery does not yet.
fn answering(config: &Config) -> Result<Option<u32>, CommandError> {
    let Some(mut connection) = Connection::open_if_running(config)? else {
        return Ok(None);
    };
    match connection.ping() {
        Ok(ping) => Ok(Some(ping.pid)),
        Err(CommandError::Lost(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What this start wrote into the log: from the error message on if there is one, else the last lines.
fn read_report(log: &Path, start: u64) -> io::Result<String> {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else {
        return Ok(String::new());
    };
    let folder = ConfinedDir::open(folder).map_err(io::Error::other)?;
    let mut file = folder
        .open_file(name, Access::Read)
        .map_err(io::Error::other)?;
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(
        start.max(end.saturating_sub(REPORT_BYTES_MAX)),
    ))?;
    let mut bytes = Vec::new();
    file.take(REPORT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(gist(&String::from_utf8_lossy(&bytes)))
}

fn gist(written: &str) -> String {
    let lines: Vec<&str> = written.lines().collect();
    let from = match lines.iter().rposition(|line| line.starts_with("error:")) {
        Some(error) => error,
        None => lines.len().saturating_sub(REPORT_LINES_MAX),
    };
    let shown: Vec<&str> = lines[from..]
        .iter()
        .take(REPORT_LINES_MAX)
        .copied()
        .collect();
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_the_error_or_the_last_lines() {
        assert_eq!(
            gist("INFO a\nerror: b\n  because c\n"),
            "error: b\n  because c"
        );
        let many: String = (0..40).map(|number| format!("{number}\n")).collect();
        assert_eq!(gist(&many).lines().next(), Some("28"));
        assert_eq!(gist(""), "");
    }
}
