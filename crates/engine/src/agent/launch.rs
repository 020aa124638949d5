//! From a record to something that can be started: program, arguments, environment, folder.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use catalog::{EnvironmentPattern, Interaction, Program, launch_command};
use domain::{Name, lifecycle::Process};
use platform::{
    Guardian, Owner, OwnerTag, Sandbox, Spawn, Stream, base_environment,
    sandbox::{Network, Programs},
    system::find_program,
};

use super::{AgentRecord, log::AgentLog};
use crate::{DriverSurroundings, Drivers, EngineConfig, LauncherMode};

/// Numbers that no process can have, since the kernel's own stop below four million.
static NEXT_MOCK_PID: AtomicU32 = AtomicU32::new(1 << 30);

/// The role of our own program that enters a sandbox and becomes another one.
pub(crate) const SANDBOXED: &str = "sandboxed-program";

/// Turns records into plans.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) config: EngineConfig,
    pub(crate) guardian: Guardian,
    pub(crate) owner: Owner,
}

/// How to shake hands with a process that speaks.
#[derive(Debug)]
pub(crate) struct Speaker {
    pub(crate) drivers: Drivers,
    pub(crate) around: DriverSurroundings,
}

/// What to start.
#[derive(Debug)]
pub(crate) enum Plan {
    Mock {
        process: Process,
    },
    Real {
        spawn: Box<Spawn>,
        guardian: Guardian,
        grace: Duration,
        log: AgentLog,
        speaker: Option<Box<Speaker>>,
    },
}

impl Launcher {
    /// What starting this agent means, or why it cannot be started.
    pub(crate) fn plan(
        &self,
        record: &AgentRecord,
        drivers: Drivers,
        around: DriverSurroundings,
    ) -> Result<Plan, String> {
        let dir = record.place.dir();
        let command = launch_command(&record.template, &dir.to_string_lossy())
            .map_err(|error| error.to_string())?;
        match command.interaction {
            Interaction::Acp | Interaction::None => {}
            Interaction::PerTurn => {
                return Err(
                    "it has no lasting process: each prompt runs its program once".to_owned(),
                );
            }
            Interaction::Endpoint => {
                return Err("it has no process and needs no start: prompt it".to_owned());
            }
        }
        if self.config.launcher == LauncherMode::Mock {
            let pid = NEXT_MOCK_PID.fetch_add(1, Ordering::Relaxed);
            return Ok(Plan::Mock {
                process: Process { pid, started: 0 },
            });
        }
        let environment = launch_environment(&self.config, record, &command.environment);
        let speaker = command
            .speaks_acp()
            .then(|| Box::new(Speaker { drivers, around }));
        let program = self.program(&command.program);
        let args = command.args.into_iter().map(OsString::from).collect();
        let (program, args) = self.confine(record, program, args, &environment);
        let confined = record.confinement.as_ref();
        let spawn = Spawn {
            program,
            args,
            env: environment,
            cwd: confined.map_or(dir, |confined| &confined.cwd).clone(),
            stdin: Stream::Piped,
            stdout: Stream::Piped,
            stderr: Stream::Piped,
            owner: self.tag(record)?,
        };
        let grace = record
            .template
            .stop_grace_ms
            .map_or(self.config.stop_grace, Duration::from_millis);
        let log = self.log_of(&record.name);
        Ok(Plan::Real {
            spawn: Box::new(spawn),
            guardian: self.guardian.clone(),
            grace,
            log,
            speaker,
        })
    }

    /// The command line that becomes the program inside its sandbox, where it has one.
    fn confine(
        &self,
        record: &AgentRecord,
        program: PathBuf,
        args: Vec<OsString>,
        environment: &BTreeMap<OsString, OsString>,
    ) -> (PathBuf, Vec<OsString>) {
        let confinement = record.confinement.as_ref();
        let walls = confinement.and_then(|confined| Some((confined, confined.sandbox.as_ref()?)));
        let Some((confined, walls)) = walls else {
            return (program, args);
        };
        let mut sandbox = Sandbox {
            read: walls.read.clone(),
            write: walls.write.clone(),
            network: match walls.network {
                true => Network::Internet,
                false => Network::None,
            },
            programs: match walls.exec {
                true => Programs::Any,
                false => Programs::None,
            },
        };
        let path = environment.get(OsStr::new("PATH")).cloned();
        let folders = path.clone().unwrap_or_default();
        // One that runs alone cannot be looked for any more.
        let found = match walls.exec {
            true => None,
            false => find_program(&program, &folders),
        };
        let program = found.unwrap_or(program);
        sandbox.read.push(self.config.executable.clone());
        sandbox
            .read
            .extend(std::env::split_paths(&path.unwrap_or_default()));
        let own = record.place.dir();
        let work = confined.root.as_ref().unwrap_or(&confined.cwd);
        sandbox.write.extend([work.clone(), own.clone()]);
        let mut words = vec![OsString::from(SANDBOXED)];
        words.extend(sandbox.arguments(program.as_os_str(), &args));
        (self.config.executable.clone(), words)
    }

    /// Where an agent's own words beside its protocol go.
    pub(crate) fn log_of(&self, name: &Name) -> AgentLog {
        AgentLog {
            path: self.config.agent_logs_dir.join(format!("{name}.log")),
        }
    }

    pub(crate) fn tag(&self, record: &AgentRecord) -> Result<OwnerTag, String> {
        self.owner
            .tag(record.name.as_str())
            .map_err(|error| error.to_string())
    }

    pub(crate) fn program(&self, program: &Program) -> PathBuf {
        match program {
            Program::Own => self.config.executable.clone(),
            Program::Named(name) => PathBuf::from(name),
        }
    }
}

/// The few variables every program needs, those its backend needs, and those its template sets.
pub(crate) fn launch_environment(
    config: &EngineConfig,
    record: &AgentRecord,
    patterns: &[EnvironmentPattern],
) -> BTreeMap<OsString, OsString> {
    let template = &record.template;
    let inherited = || {
        config
            .environment
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
    };
    let mut environment = base_environment(inherited());
    environment.extend(inherited().filter(|(key, _)| {
        key.to_str()
            .is_some_and(|key| patterns.iter().any(|it| it.matches(key)))
    }));
    environment.extend(
        template
            .env
            .iter()
            .map(|(key, value)| (key.into(), value.into())),
    );
    if let Some(confined) = &record.confinement {
        let set = confined.environment.iter();
        environment.extend(set.map(|(key, value)| (key.into(), value.into())));
        // What an agent keeps for itself stays in its own folder.
        environment.insert("AGENTCRAFT_SESSIONS_IN".into(), record.place.dir().into());
        if confined.sandbox.is_some() {
            // The machine's own folder for such files is outside.
            environment.insert("TMPDIR".into(), record.place.dir().into());
        }
    }
    environment
}
