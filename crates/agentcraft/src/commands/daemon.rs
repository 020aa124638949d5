//! `agentcraft daemon …`: the daemon in this process, in the background, and its end.

mod background;
mod ending;

use std::sync::mpsc;

use serde_json::json;

use super::done;
use crate::{
    args::{DaemonCommand, Format, RestartArgs},
    config::Config,
    connection::{Connection, VERSION},
    daemon::Ready,
    error::CommandError,
    network::Address,
    render::{Screen, daemon_detail},
};
use background::Started;
use ending::{Ended, Insistence};

const STOPPED: &str = "stopped the daemon";
const KILLED: &str = "killed the daemon";

pub(super) fn run(
    command: DaemonCommand,
    config: Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match command {
        DaemonCommand::Start(arguments) if arguments.foreground => foreground(config, screen),
        DaemonCommand::Start(arguments) => start(&config, arguments.output.format, screen),
        DaemonCommand::Stop(output) => stop(&config, output.format, screen),
        DaemonCommand::Status(output) => status(&config, output.format, screen),
        DaemonCommand::Restart(arguments) => restart(&arguments, &config, screen),
    }
}

fn foreground(config: Config, screen: &mut Screen) -> Result<(), CommandError> {
    if say_if_running(&config, Format::Table, screen)? {
        return Ok(());
    }
    run_here(config, screen, |ready, screen| {
        screen.note(&format!(
            "the daemon is ready at {} (pid {})",
            ready.socket.display(),
            ready.pid
        ))?;
        Ok(())
    })
}

/// Runs the daemon in this process until it is told to stop; `when_ready` is called beside it, as any client would be.
pub(super) fn run_here(
    config: Config,
    screen: &mut Screen,
    when_ready: impl FnOnce(&Ready, &mut Screen) -> Result<(), CommandError> + Send,
) -> Result<(), CommandError> {
    std::thread::scope(|scope| {
        let (announce, announced) = mpsc::sync_channel::<Ready>(1);
        // The daemon's own threads must not wait for a client of theirs, so the client gets one of its own.
        let client = scope.spawn(move || match announced.recv() {
            Ok(ready) => when_ready(&ready, screen),
            Err(_) => Ok(()), // The daemon ended before it was ready, and says why itself.
        });
        let ran = crate::daemon::run(config, move |ready| {
            let _ = announce.send(ready.clone()); // The client waits for nothing else.
        });
        let greeted = client.join().unwrap_or(Ok(())); // A panic has been printed by its own thread.
        ran.map_err(|error| CommandError::machine("run the daemon", error))?;
        greeted
    })
}

fn start(config: &Config, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    if say_if_running(config, format, screen)? {
        return Ok(());
    }
    let started = background::start(config)?;
    say_started(&started, format, screen)?;
    if let (Started::Ours(_), Some(why)) = (&started, Address::why_none(config)) {
        screen.warning(&why)?;
    }
    Ok(())
}

/// Says which process is the daemon, and whether this command has started it.
fn say_started(started: &Started, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    let (pid, is_ours, words) = match started {
        Started::Ours(pid) => (pid, true, "started the daemon"),
        Started::Anothers(pid) => (pid, false, "the daemon is already running"),
    };
    let answer = json!({ "pid": pid, "started": is_ours });
    let words = format!("{words} (pid {pid})");
    done(&answer, &pid.to_string(), &words, format, screen)
}

/// Says that a daemon already runs, if one does.
pub(super) fn say_if_running(
    config: &Config,
    format: Format,
    screen: &mut Screen,
) -> Result<bool, CommandError> {
    let Some(mut connection) = Connection::open_if_running(config)? else {
        return Ok(false);
    };
    let ping = connection.ping()?;
    say_started(&Started::Anothers(ping.pid), format, screen)?;
    warn_of_versions(&ping.version, screen)?;
    Ok(true)
}

fn stop(config: &Config, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    let (is_new, words) = match ending::end(config, Insistence::Ask, screen)? {
        Ended::WasNotRunning => (false, "the daemon is not running"),
        Ended::ByItself => (true, STOPPED),
        Ended::Killed => (true, KILLED),
    };
    match format {
        Format::Json => screen.json(&json!({ "stopped": is_new }))?,
        Format::Quiet => {}
        Format::Table => screen.line(words)?,
    }
    Ok(())
}

fn restart(
    arguments: &RestartArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let insistence = if arguments.force {
        Insistence::Kill
    } else {
        Insistence::Ask
    };
    let format = arguments.output.format;
    match (ending::end(config, insistence, screen)?, format) {
        (Ended::WasNotRunning, _) | (_, Format::Json | Format::Quiet) => {}
        (Ended::ByItself, Format::Table) => screen.line(STOPPED)?,
        (Ended::Killed, Format::Table) => screen.line(KILLED)?,
    }
    start(config, format, screen)
}

fn status(config: &Config, format: Format, screen: &mut Screen) -> Result<(), CommandError> {
    let mut connection = match (Connection::open(config), ending::holder(config)) {
        (Err(_), Some(process)) => {
            return Err(CommandError::Refused {
                message: format!(
                    "a daemon runs as process {}, but does not listen at {}",
                    process.pid,
                    config.socket.display()
                ),
                hint: "`agentcraft daemon restart` mends that".to_owned(),
            });
        }
        (connection, _) => connection?,
    };
    let answer = connection.ask("daemon.ping", &wire::daemon::Empty {})?;
    if format == Format::Json {
        return Ok(screen.json(&answer)?);
    }
    let ping: wire::daemon::PingResult = connection.read("daemon.ping", answer)?;
    match format {
        Format::Quiet => screen.line(&ping.pid.to_string())?,
        Format::Table | Format::Json => {
            screen.print(&daemon_detail(&ping, config, screen.style()))?
        }
    }
    warn_of_versions(&ping.version, screen)
}

fn warn_of_versions(daemon: &str, screen: &mut Screen) -> Result<(), CommandError> {
    if daemon != VERSION {
        screen.warning(&format!(
            "this command is {VERSION} and the daemon is {daemon}; `agentcraft daemon restart` makes them one"
        ))?;
    }
    Ok(())
}
