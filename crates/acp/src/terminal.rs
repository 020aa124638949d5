//! `terminal/*`: commands that the agent lets us run, each a guarded process group with the tail of its output.
//!
//! A terminal belongs to a session and is ended with it, with the agent, or when the agent releases it.

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    path::Path,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use engine::{DriverSurroundings, chain};
use jsonrpc::ErrorObject;
use platform::{Exit, Group, Spawn, Stream};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{command, convert, failure::RESOURCE_NOT_FOUND, files::Workspace};

mod tail;

use tail::Tail;

/// Terminals that were not released, of all sessions: each is a process and a buffer.
const TERMINALS_MAX: usize = 64;

/// Output kept where the agent names no limit, and at most: less than a line of the protocol can carry.
const OUTPUT_MAX: usize = 1024 * 1024;

/// What a command gets between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// After the end of a whole group its last output is there already; nobody waits longer for it.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// A command is gone after the grace and the kill; a session's end does not hang on one that is not.
const END_MAX: Duration = Duration::from_secs(10);

/// Numbers of terminals, never used twice in one process: a tag names at most one live group.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The terminals of one agent.
#[derive(Debug)]
pub(crate) struct Terminals {
    around: DriverSurroundings,
    place: Arc<Workspace>,
    table: Mutex<HashMap<String, Arc<Terminal>>>,
}

#[derive(Debug)]
struct Terminal {
    session: String,
    tail: Mutex<Tail>,
    exit: watch::Sender<Option<Exit>>,
    end: CancellationToken,
}

impl Terminals {
    /// `around.tasks` must end with the agent, for the commands do so with it.
    pub(crate) fn new(around: DriverSurroundings, place: Arc<Workspace>) -> Arc<Terminals> {
        Arc::new(Terminals {
            around,
            place,
            table: Mutex::default(),
        })
    }

    /// Refuses what cannot be run whoever allows it, before anybody is asked.
    pub(crate) fn check(&self, params: &Value) -> Result<(), ErrorObject> {
        command_line(params)?;
        match convert::text(params, "cwd") {
            Some(named) => self.place.directory(Path::new(named)).map(drop),
            None => Ok(()),
        }
    }

    pub(crate) async fn create(
        &self,
        session: &str,
        cwd: &Path,
        params: &Value,
    ) -> Result<Value, ErrorObject> {
        let id = format!("terminal-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let limit = params["outputByteLimit"].as_u64();
        let limit = limit.map_or(OUTPUT_MAX, |limit| {
            usize::try_from(limit).map_or(OUTPUT_MAX, |limit| limit.min(OUTPUT_MAX))
        });
        let terminal = Arc::new(Terminal {
            session: session.to_owned(),
            tail: Mutex::new(Tail::new(limit)),
            exit: watch::Sender::new(None),
            end: CancellationToken::new(),
        });
        self.enter(&id, &terminal)?;
        let mut starting = Starting {
            terminals: self,
            id: &id,
            terminal: &terminal,
            started: false,
        };
        let (group, output) = self.start(&id, cwd, params).await?;
        starting.started = true;
        drop(starting);
        let tasks = &self.around.tasks;
        tasks.spawn(|stop| async move { terminal.attend(group, output, stop).await });
        Ok(json!({ "terminalId": id }))
    }

    pub(crate) fn output(&self, params: &Value) -> Result<Value, ErrorObject> {
        let terminal = self.find(params)?;
        let exit = *terminal.exit.borrow();
        let (output, truncated) = terminal.tail().text(exit.is_some());
        let mut answer = json!({ "output": output, "truncated": truncated });
        if let Some(exit) = exit {
            answer["exitStatus"] = status(exit);
        }
        Ok(answer)
    }

    pub(crate) async fn wait(&self, params: &Value) -> Result<Value, ErrorObject> {
        Ok(status(self.find(params)?.ended().await))
    }

    /// Ends the command; its output stays until the release.
    pub(crate) async fn kill(&self, params: &Value) -> Result<Value, ErrorObject> {
        let terminal = self.find(params)?;
        terminal.end.cancel();
        terminal.ended().await;
        Ok(json!({}))
    }

    pub(crate) fn release(&self, params: &Value) -> Result<Value, ErrorObject> {
        let id = convert::text(params, "terminalId").unwrap_or_default();
        let released = self.table().remove(id);
        released.ok_or_else(|| unknown(id))?.end.cancel();
        Ok(json!({}))
    }

    /// Ends what a session started, and returns when it is gone.
    pub(crate) async fn close(&self, session: &str) {
        let closed: Vec<_> = {
            let mut table = self.table();
            let of_session = table.extract_if(|_, terminal| terminal.session == session);
            of_session.map(|(_, terminal)| terminal).collect()
        };
        for terminal in &closed {
            terminal.end.cancel();
        }
        let gone = async {
            for terminal in &closed {
                terminal.ended().await;
            }
        };
        if tokio::time::timeout(END_MAX, gone).await.is_err() {
            tracing::warn!(session, "commands outlive their session");
        }
    }

    async fn start(
        &self,
        id: &str,
        cwd: &Path,
        params: &Value,
    ) -> Result<(Group, Receiver), ErrorObject> {
        let DriverSurroundings {
            tasks,
            guardian,
            owner,
            agent,
            environment,
            ..
        } = self.around.clone();
        let failed = |error: &dyn std::error::Error| ErrorObject::internal(chain(error));
        let tag = owner
            .tag(&format!("{agent}.{id}"))
            .map_err(|error| failed(&error))?;
        let (program, args) = command_line(params)?;
        let cwd = match convert::text(params, "cwd") {
            Some(named) => self.place.directory(Path::new(named))?,
            // A session may work elsewhere, but its commands do not.
            None => self
                .place
                .directory(cwd)
                .or_else(|_| self.place.directory(Path::new(".")))?,
        };
        let mut spawn = Spawn::new(program, cwd, tag);
        spawn.args = args.into_iter().map(Into::into).collect();
        spawn.env = environment;
        spawn.env.extend(variables(&params["env"]));
        // One pipe for both streams keeps their lines in the order they were written.
        let (reader, writer) = std::io::pipe().map_err(|error| failed(&error))?;
        let errors = writer.try_clone().map_err(|error| failed(&error))?;
        spawn.stdout = Stream::File(OwnedFd::from(writer).into());
        spawn.stderr = Stream::File(OwnedFd::from(errors).into());
        let output =
            Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(|error| failed(&error))?;
        let started = tasks.spawn_blocking(move |_| spawn.spawn(&guardian)).await;
        match started {
            Ok(Ok((group, _))) => Ok((group, output)),
            Ok(Err(error)) => Err(failed(&error)),
            Err(error) => Err(failed(&error)),
        }
    }

    fn enter(&self, id: &str, terminal: &Arc<Terminal>) -> Result<(), ErrorObject> {
        let mut table = self.table();
        if table.len() >= TERMINALS_MAX {
            return Err(ErrorObject::internal(format!(
                "{TERMINALS_MAX} terminals are open; release some first"
            )));
        }
        table.insert(id.to_owned(), Arc::clone(terminal));
        Ok(())
    }

    fn find(&self, params: &Value) -> Result<Arc<Terminal>, ErrorObject> {
        let id = convert::text(params, "terminalId").unwrap_or_default();
        let found = self.table().get(id).cloned();
        found.ok_or_else(|| unknown(id))
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Terminal>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A terminal without a command yet. If none comes, nobody finds it and nobody waits for its end.
#[derive(Debug)]
struct Starting<'a> {
    terminals: &'a Terminals,
    id: &'a str,
    terminal: &'a Terminal,
    started: bool,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if !self.started {
            self.terminals.table().remove(self.id);
            self.terminal.exit.send_replace(Some(Exit::Lost));
        }
    }
}

impl Terminal {
    /// Keeps the output until the command has ended, by itself or because it is told to, with all it started.
    async fn attend(&self, group: Group, mut output: Receiver, stop: CancellationToken) {
        let mut reading = pin!(async {
            let mut chunk = vec![0; 16 * 1024];
            while let Ok(count @ 1..) = output.read(&mut chunk).await {
                self.tail().push(&chunk[..count]);
            }
        });
        let mut ending = pin!(async {
            tokio::select! { biased;
                () = stop.cancelled() => group.end(Duration::ZERO).await,
                () = self.end.cancelled() => group.end(GRACE).await,
                _ = group.wait() => group.reap_leftovers().await,
            }
        });
        let exit = tokio::select! {
            exit = &mut ending => {
                let _ = tokio::time::timeout(DRAIN_MAX, &mut reading).await; // Somebody outside may hold the pipe.
                exit
            }
            () = &mut reading => ending.await,
        };
        self.exit.send_replace(Some(exit));
    }

    async fn ended(&self) -> Exit {
        let mut exit = self.exit.subscribe();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Lost),
            Err(_) => Exit::Lost, // The sender is ours, so it cannot be gone.
        }
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to run; a whole command line is for a shell.
fn command_line(params: &Value) -> Result<(String, Vec<String>), ErrorObject> {
    let command = convert::text(params, "command")
        .filter(|command| !command.trim().is_empty())
        .ok_or_else(|| ErrorObject::invalid_params("command is missing"))?;
    let args = params["args"].as_array().map(Vec::as_slice);
    let args: Vec<String> = args
        .unwrap_or_default()
        .iter()
        .filter_map(|arg| arg.as_str().map(str::to_owned))
        .collect();
    if args.is_empty() && command::is_for_a_shell(command) {
        let line = vec!["-c".to_owned(), command.to_owned()];
        return Ok(("/bin/sh".to_owned(), line));
    }
    Ok((command.to_owned(), args))
}

fn variables(list: &Value) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let variable = |value: &Value| {
        let name = convert::text(value, "name")?;
        let value = convert::text(value, "value")?;
        let legal = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
        legal.then(|| (name.into(), value.into()))
    };
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(variable).collect()
}

fn status(exit: Exit) -> Value {
    match exit {
        Exit::Code(code) => json!({ "exitCode": code, "signal": null }),
        Exit::Signal(signal) => json!({ "exitCode": null, "signal": signal_name(signal) }),
        Exit::Lost => json!({ "exitCode": null, "signal": null }),
    }
}

fn signal_name(signal: i32) -> String {
    let names = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (6, "SIGABRT"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
    ];
    let known = names.iter().find(|(number, _)| *number == signal);
    known.map_or_else(|| signal.to_string(), |(_, name)| (*name).to_owned())
}

fn unknown(id: &str) -> ErrorObject {
    ErrorObject::new(
        RESOURCE_NOT_FOUND,
        format!("Resource not found: there is no terminal {id:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_command_line_is_for_a_shell() {
        let check = |params: Value| {
            let (program, args) = command_line(&params).unwrap();
            format!("{program} {args:?}")
        };
        assert_eq!(check(json!({ "command": "ls" })), "ls []");
        assert_eq!(
            check(json!({ "command": "my tool", "args": ["-a", 3] })),
            r#"my tool ["-a"]"#
        );
        assert_eq!(
            check(json!({ "command": "ls -a | wc" })),
            r#"/bin/sh ["-c", "ls -a | wc"]"#
        );
        assert!(command_line(&json!({ "command": " " })).is_err());
    }

    #[test]
    fn variables_that_no_process_can_have_are_left_out() {
        let list = json!([
            { "name": "A", "value": "b" }, { "name": "", "value": "b" }, { "name": "X=Y", "value": "b" },
            { "name": "N", "value": "\u{0}" }, { "name": "M" }, 7,
        ]);
        assert_eq!(variables(&list), [("A".into(), "b".into())]);
    }
}
