//! The driver: conversations of one agent whose program is run anew for every turn.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use domain::turn::{Dialect, EventKind, Stop};
use engine::{
    Continuity, Driver, DriverError, DriverFuture, NativeOpen, OpenSession, Opened, PrintProgram,
    Turn, chain,
};
use platform::{Exit, OwnerTag, files};

use crate::{
    listen::{Ear, Heard, Listener, Remember},
    program::{
        ARGUMENT_BYTES_MAX, Begin, Instructions, Invocation, Memory, Output, Program, Request,
        Servers,
    },
    programs,
    run::{Ended, Outcome, Run},
    servers::{Reached, Server, ServersFile, Transport},
    sessions::{self, Session, Sessions},
};

/// How much of what a program complains of is told.
const COMPLAINT_CHARS_MAX: usize = 2000;

/// Counts the runs of this process, for at most one live group may carry a tag.
static RUNS: AtomicU64 = AtomicU64::new(1);

/// A driver for the program, or nothing if its backend has no print mode or the template does not name a `command`.
pub fn driver(program: PrintProgram) -> Option<Arc<dyn Driver>> {
    let description = programs::find(&program.backend)?;
    let executable = match (&program.program, description.executable) {
        (Some(path), Some(name)) if speaks_acp(path) => beside(path, name),
        (Some(path), _) => path.clone(),
        (None, Some(name)) => PathBuf::from(name),
        (None, None) => return None,
    };
    let sessions = Sessions::new(&program.backend, &program.around.workspace);
    Some(Arc::new(PrintDriver {
        description,
        executable,
        sessions: Arc::new(sessions),
        program,
    }))
}

/// Whether the template names the program of the agent's other mode, which understands no arguments of this one.
fn speaks_acp(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name == "acp" || name.ends_with("-acp")
}

/// The program of this name in the same folder, where packages are installed together; else the one on the path.
fn beside(path: &Path, name: &str) -> PathBuf {
    let neighbour = path.with_file_name(name);
    if path.is_absolute() && files::is_there(&neighbour) {
        neighbour
    } else {
        PathBuf::from(name)
    }
}

#[derive(Debug)]
struct PrintDriver {
    description: Program,
    executable: PathBuf,
    sessions: Arc<Sessions>,
    program: PrintProgram,
}

impl Driver for PrintDriver {
    fn open(&self, open: OpenSession) -> DriverFuture<'_, Result<Opened, DriverError>> {
        Box::pin(self.open_session(open, Vec::new()))
    }

    fn open_with(
        &self,
        open: OpenSession,
        words: NativeOpen,
    ) -> DriverFuture<'_, Result<Opened, DriverError>> {
        let brought = match words.params.dialect {
            Dialect::Acp => Server::brought(&words.params.frame),
            Dialect::Print => Vec::new(),
        };
        Box::pin(self.open_session(open, brought))
    }

    fn turn(&self, turn: Turn) -> DriverFuture<'_, Result<Stop, DriverError>> {
        Box::pin(self.take(turn))
    }

    fn ended(&self) -> DriverFuture<'_, ()> {
        // Each turn has a program of its own.
        Box::pin(std::future::pending())
    }

    fn close<'a>(&'a self, session: &'a str) -> DriverFuture<'a, ()> {
        Box::pin(async move { self.sessions.remove(session) })
    }
}

impl PrintDriver {
    async fn open_session(
        &self,
        open: OpenSession,
        brought: Vec<Server>,
    ) -> Result<Opened, DriverError> {
        let (opened, program_id) = self.find(open.resume).await;
        let mut servers: Vec<Server> = open
            .mcp_servers
            .into_iter()
            .map(|server| Server {
                name: server.name.to_string(),
                reached: Reached::Program {
                    command: server.command,
                    args: server.args,
                    env: server.env,
                },
            })
            .collect();
        for server in brought {
            // The agent's own come first; of the others, those under other names.
            if servers.iter().any(|own| own.name == server.name) {
                continue;
            }
            match self.refusal(&server) {
                Some(text) => open.sink.emit(EventKind::Notice { text }, None),
                None => servers.push(server),
            }
        }
        let session = Session {
            cwd: open.cwd,
            sink: open.sink,
            program_id,
            servers: servers.into(),
        };
        self.sessions.insert(opened.id.clone(), session);
        Ok(opened)
    }

    /// Why the program cannot be told of a server, in words.
    fn refusal(&self, server: &Server) -> Option<String> {
        let how = match (self.description.servers, &server.reached) {
            (Servers::Untold, _) => "but those of its own settings",
            (_, Reached::Program { .. }) => return None,
            (servers, Reached::Address { transport, .. }) => match transport {
                _ if servers.reach(*transport) => return None,
                Transport::Http => "over http",
                Transport::Sse => "over sse",
            },
        };
        let (program, name) = (&self.program.backend, &server.name);
        Some(format!(
            "{program} does not get the MCP server {name}: it takes none {how}"
        ))
    }

    /// What is known of the conversation that is to be taken up: our id, and the program's own.
    async fn find(&self, resume: Option<String>) -> (Opened, Option<String>) {
        let opened = |id, continuity| Opened { id, continuity };
        let Some(asked) = resume else {
            return (opened(sessions::fresh(), Continuity::Fresh), None);
        };
        let lost = |why: &str| {
            let why = why.to_owned();
            (opened(sessions::fresh(), Continuity::Lost { why }), None)
        };
        if self.description.memory == Memory::None {
            return lost("the program remembers nothing from one turn to the next");
        }
        if !sessions::is_ours(&asked) {
            return if sessions::is_id(&asked) {
                // The program's own id, from somebody who has talked to it without us.
                let continuity = Continuity::Resumed;
                (opened(sessions::fresh(), continuity), Some(asked))
            } else {
                lost("its id is not one that a program gives")
            };
        }
        if let Some(session) = self.sessions.get(&asked) {
            return (opened(asked, Continuity::Resumed), session.program_id);
        }
        let (sessions, id) = (Arc::clone(&self.sessions), asked.clone());
        let recalling = self
            .program
            .around
            .tasks
            .spawn_blocking(move |_| sessions.recall(&id));
        match recalling.await.ok().flatten() {
            Some(program_id) => (opened(asked, Continuity::Resumed), Some(program_id)),
            None => lost("no turn of it got as far as the program giving it an id"),
        }
    }

    async fn take(&self, turn: Turn) -> Result<Stop, DriverError> {
        let Some(session) = self.sessions.get(&turn.session) else {
            return Err(DriverError::Unsupported {
                what: format!("go on with {:?}, which is not open", turn.session),
            });
        };
        let around = &self.program.around;
        let resume = session.program_id.as_deref();
        let servers = self.servers(&turn.session, &session.servers).await?;
        let file = servers.as_ref().map(ServersFile::path);
        let invocation = self.invocation(&turn, resume, (&session.servers, file))?;
        let begin = match resume {
            Some(_) => Begin::Resumed,
            None => Begin::Fresh,
        };
        let ear = match self.description.output {
            Output::Lines(reader) => Ear::Lines(reader(begin)),
            Output::Text => Ear::Text,
        };
        let memory = Remember {
            sessions: Arc::clone(&self.sessions),
            tasks: around.tasks.clone(),
            id: turn.session,
        };
        let mut listener = Listener::new(session.sink, ear, memory);
        let limit = turn.options.timeout;
        let run = Run {
            program: self.executable.clone(),
            invocation,
            cwd: session.cwd,
            tag: self.tag()?,
            limit,
            cancel: turn.cancel,
        };
        let outcome = run.attend(around, &mut listener).await?;
        Ok(self.verdict(&outcome, listener.heard(), limit))
    }

    /// The file with the servers, if there are some and the program takes one.
    async fn servers(
        &self,
        session: &str,
        servers: &Arc<[Server]>,
    ) -> Result<Option<ServersFile>, DriverError> {
        let Servers::File(form) = self.description.servers else {
            return Ok(None);
        };
        if servers.is_empty() {
            return Ok(None);
        }
        let around = &self.program.around;
        let (workspace, name) = (around.workspace.clone(), session.to_owned());
        let servers = Arc::clone(servers);
        let writing = around
            .tasks
            .spawn_blocking(move |_| ServersFile::write(&workspace, &name, &servers, form));
        let unwritten = |why: String| DriverError::Program {
            why: format!("could not write down its MCP servers: {why}"),
        };
        match writing.await {
            Ok(Ok(file)) => Ok(Some(file)),
            Ok(Err(error)) => Err(unwritten(chain(&error))),
            Err(error) => Err(unwritten(chain(&error))),
        }
    }

    fn invocation(
        &self,
        turn: &Turn,
        resume: Option<&str>,
        (servers, servers_file): (&[Server], Option<&Path>),
    ) -> Result<Invocation, DriverError> {
        let model = turn.options.model.as_deref();
        let told = match self.description.instructions {
            Instructions::Option => Cow::Borrowed(turn.prompt.as_str()),
            Instructions::InPrompt => turn.told(),
        };
        let invocation = (self.description.invoke)(&Request {
            prompt: &told,
            resume,
            options: &turn.options,
            model: model.or(self.program.model.as_deref()),
            args: self.program.args.as_deref().unwrap_or_default(),
            servers,
            servers_file,
            environment: &self.program.around.environment,
        });
        let refused = |what: String| Err(DriverError::Unsupported { what });
        for arg in &invocation.args {
            let bytes = arg.as_encoded_bytes();
            if bytes.len() > ARGUMENT_BYTES_MAX + 1024 {
                let length = bytes.len();
                return refused(format!(
                    "take an argument of {length} bytes; the system allows about {ARGUMENT_BYTES_MAX}"
                ));
            }
            if bytes.contains(&0) {
                return refused("take an argument with a NUL character in it".to_owned());
            }
        }
        Ok(invocation)
    }

    fn tag(&self) -> Result<OwnerTag, DriverError> {
        let around = &self.program.around;
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let tag = around.owner.tag(&format!("{}.run-{number}", around.agent));
        tag.map_err(|error| DriverError::Program {
            why: error.to_string(),
        })
    }

    /// What the program said counts for more than how it ended; only where it said nothing its exit decides.
    fn verdict(&self, outcome: &Outcome, heard: Heard, limit: Option<Duration>) -> Stop {
        let name = self.executable.file_name().unwrap_or_default().display();
        let failed = |message| Stop::Failed { message };
        let because = match (outcome.complaint.as_str(), heard.stray.as_deref()) {
            ("", None) => String::new(),
            ("", Some(words)) | (words, _) => format!(": {}", last_chars(words)),
        };
        match outcome.ended {
            Ended::Cancelled => Stop::Cancelled,
            Ended::Lingered => heard.stop.unwrap_or(Stop::EndTurn),
            Ended::TimedOut => failed(format!(
                "{name} did not finish within {} s and was ended",
                limit.unwrap_or_default().as_secs_f64()
            )),
            Ended::Exit(exit) => match (heard.stop, heard.silent_stop) {
                (Some(stop), _) => stop,
                (None, Some(stop)) if exit.success() => stop,
                (None, None) if exit.success() => failed(format!(
                    "{name} ended without saying how the turn went{because}"
                )),
                (None, Some(Stop::Failed { message })) => failed(message),
                (None, _) => failed(match exit {
                    Exit::Code(code) => format!("{name} ended with exit code {code}{because}"),
                    Exit::Signal(signal) => format!("{name} was ended by signal {signal}{because}"),
                    Exit::Lost => format!("{name} is gone, and nobody knows how it ended"),
                }),
            },
        }
    }
}

fn last_chars(words: &str) -> &str {
    let surplus = words.chars().count().saturating_sub(COMPLAINT_CHARS_MAX);
    let start = words.char_indices().nth(surplus).map_or(0, |(at, _)| at);
    &words[start..]
}
