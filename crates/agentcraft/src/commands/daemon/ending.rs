//! The end of the daemon: asked for, waited for, and, where the user insists, enforced.

use std::time::{Duration, Instant};

use platform::{ProcessRef, files::lock_holder, pid::Signal};
use wire::daemon::{Empty, Success};

use crate::{config::Config, connection::Connection, error::CommandError, render::Screen};

/// A template may ask for ten minutes of grace, and the daemon ends after its agents.
const STOP_MAX: Duration = Duration::from_secs(11 * 60);

/// How long a daemon that is to be killed may try to end by itself beyond the usual grace of its agents.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// A killed process is gone at once, unless the kernel holds it.
const KILLED_MAX: Duration = Duration::from_secs(10);

/// A person who waits this long is told what for.
const SILENCE_MAX: Duration = Duration::from_secs(3);

const PAUSE: Duration = Duration::from_millis(10);

/// What to do about a daemon that does not end when it is asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Insistence {
    Ask,
    Kill,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    WasNotRunning,
    ByItself,
    Killed,
}

/// Ends the daemon and returns when its process is gone.
pub(super) fn end(
    config: &Config,
    insistence: Insistence,
    screen: &mut Screen,
) -> Result<Ended, CommandError> {
    let asked = match Connection::open_if_running(config) {
        Ok(Some(mut connection)) => ask(&mut connection),
        Ok(None) => match holder(config) {
            None => return Ok(Ended::WasNotRunning),
            // It does not listen where we look: its socket was removed, or it was told another one.
            Some(process) => signal(process).map(|()| Some(process)),
        },
        Err(error) => Err(error),
    };
    match (asked, insistence) {
        (Ok(Some(process)), Insistence::Ask) => wait(process, STOP_MAX, screen)?
            .then_some(Ended::ByItself)
            .ok_or_else(|| still_there(process)),
        (Ok(Some(process)), Insistence::Kill) => {
            if wait(process, config.stop_grace + KILL_AFTER, screen)? {
                return Ok(Ended::ByItself);
            }
            kill(process, screen)
        }
        // It was gone before it could be looked at.
        (Ok(None), _) => Ok(Ended::ByItself),
        (Err(error), Insistence::Ask) => Err(error),
        (Err(error), Insistence::Kill) => kill(holder(config).ok_or(error)?, screen),
    }
}

/// Asks the daemon to end; returns the process to wait for.
fn ask(connection: &mut Connection) -> Result<Option<ProcessRef>, CommandError> {
    let process = ProcessRef::of(connection.ping()?.pid);
    match connection.call::<Success>("daemon.shutdown", &Empty {}) {
        // The connection may close before the answer is through.
        Ok(_) | Err(CommandError::Lost(socket::CallError::Closed { .. })) => Ok(process),
        Err(error) => Err(error),
    }
}

/// Whether the process is gone within the time.
fn wait(process: ProcessRef, time: Duration, screen: &mut Screen) -> Result<bool, CommandError> {
    let start = Instant::now();
    let mut told = false;
    while process.alive() {
        if start.elapsed() >= time {
            return Ok(false);
        }
        if !told && start.elapsed() >= SILENCE_MAX {
            screen.note("waiting for the agents to end")?;
            told = true;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(true)
}

/// Its guardian ends what it leaves behind.
fn kill(process: ProcessRef, screen: &mut Screen) -> Result<Ended, CommandError> {
    process.signal(Signal::KILL).map_err(|error| {
        CommandError::machine(format!("kill the daemon, process {}", process.pid), error)
    })?;
    wait(process, KILLED_MAX, screen)?
        .then_some(Ended::Killed)
        .ok_or_else(|| still_there(process))
}

fn still_there(process: ProcessRef) -> CommandError {
    CommandError::Refused {
        message: format!("the daemon, process {}, is still there", process.pid),
        hint: "`agentcraft daemon restart --force` kills it".to_owned(),
    }
}

fn signal(process: ProcessRef) -> Result<(), CommandError> {
    process.signal(Signal::TERM).map_err(|error| {
        CommandError::machine(format!("stop the daemon, process {}", process.pid), error)
    })
}

/// The process that holds the home, for a daemon that does not answer.
pub(super) fn holder(config: &Config) -> Option<ProcessRef> {
    ProcessRef::of(lock_holder(&config.home.join("daemon.lock"))?)
}
