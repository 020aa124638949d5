//! Which agent the bridge runs: the one that was asked for, or a copy of it if that is busy. Also what is told the daemon.
//!
//! The connection is closed while bytes are carried, so that a daemon that stops does not wait for us; the bridge goes
//! on without a daemon, and tells the next one.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use catalog::{BackendType, Interaction};
use platform::ProcessRef;
use wire::daemon::{
    AgentMeta, AttachParams, DestroyParams, DetachParams, DetachResult, Empty, NameParams,
    Overrides, ResolveParams, ResolveResult, Success,
};

use super::{Over, sessions};
use crate::{
    args::{ProxyArgs, SessionFolder},
    config::Config,
    connection::Connection,
    error::CommandError,
    render::Screen,
};

/// Letters of the name of a copy behind that of its original, and the dash between them.
const SUFFIX: usize = 6;

/// The longest name of an agent.
const NAME_MAX: usize = 63;

/// In the metadata of a copy: the process that made it, and destroys it.
const MADE_BY: &str = "proxy";

/// The agent to run, as the daemon told it.
#[derive(Debug)]
pub(super) struct Instance {
    /// Nothing while bytes are carried.
    connection: Option<Connection>,
    resolved: ResolveResult,
    /// Where the busy one works that this is a copy of.
    original: Option<PathBuf>,
    /// The process that the daemon knows.
    attached: Option<u32>,
}

impl Instance {
    pub(super) fn find(
        arguments: &ProxyArgs,
        config: &Config,
        screen: &mut Screen,
    ) -> Result<Self, CommandError> {
        let mut connection = Connection::open(config)?;
        let params = ResolveParams {
            name: arguments.name.to_string(),
            template: arguments.template.as_ref().map(ToString::to_string),
            overrides: Overrides::default(),
        };
        let resolved: ResolveResult = connection.call("agent.resolve", &params)?;
        refuse_if_silent(&resolved)?;
        let mut instance = Self {
            connection: Some(connection),
            resolved,
            original: None,
            attached: None,
        };
        if !instance.resolved.created {
            let agent = instance.status()?;
            if matches!(agent.status.as_str(), "running" | "starting" | "stopping") {
                instance.check_folder(arguments.cwd)?; // Before a copy that nobody knows is made for nothing.
                instance.copy(screen)?;
            }
        }
        Ok(instance)
    }

    pub(super) fn resolved(&self) -> &ResolveResult {
        &self.resolved
    }

    pub(super) fn is_copy(&self) -> bool {
        self.original.is_some()
    }

    /// Refuses a folder of the client's where the template does not want it.
    pub(super) fn check_folder(&self, wanted: SessionFolder) -> Result<(), CommandError> {
        if wanted == SessionFolder::Workspace || self.resolved.cwd == "client" {
            return Ok(());
        }
        Err(CommandError::Refused {
            message: format!(
                "the template of {} keeps its sessions in the workspace",
                self.resolved.instance_name
            ),
            hint:
                "set `cwd: client` in the template and create the agent again, or leave --cwd out"
                    .to_owned(),
        })
    }

    /// Where new sessions work, and where earlier ones are looked for: most agents find a session by the folder it was
    /// begun in, and those a copy is asked for were begun in the original's.
    pub(super) fn folders(&self) -> (&Path, &Path) {
        let own = Path::new(&self.resolved.workspace_dir);
        match &self.original {
            Some(original) if !sessions::are_in_workspace(&self.resolved.backend_type) => {
                (own, original)
            }
            Some(_) | None => (own, own),
        }
    }

    pub(super) fn attach(&mut self, pid: u32) -> Result<(), CommandError> {
        let params = AttachParams {
            name: self.resolved.instance_name.clone(),
            pid,
            metadata: BTreeMap::new(),
        };
        let _: AgentMeta = self.connection()?.call("agent.attach", &params)?;
        self.attached = Some(pid);
        Ok(())
    }

    pub(super) fn hang_up(&mut self) {
        self.connection = None;
    }

    /// Makes this a copy of the agent it was: from the same template, for the time of this connection.
    pub(super) fn copy(&mut self, screen: &mut Screen) -> Result<(), CommandError> {
        let busy = self.status()?;
        self.destroy_orphans();
        let mut base = busy.name.clone();
        base.truncate(NAME_MAX - SUFFIX - 1);
        let mut suffix = platform::owner::fresh_id();
        suffix.truncate(SUFFIX);
        let metadata = [
            ("autoDestroy", "true".to_owned()),
            ("copyOf", busy.name.clone()),
            (MADE_BY, ourselves()),
        ];
        let params = ResolveParams {
            name: format!("{base}-{suffix}"),
            template: Some(busy.template_name),
            overrides: Overrides {
                // The kind that the daemon destroys when its process is gone and we cannot.
                launch_mode: Some("one-shot".to_owned()),
                workspace_policy: Some("ephemeral".to_owned()),
                private: true,
                metadata: metadata.map(|(key, value)| (key.to_owned(), value)).into(),
                ..Overrides::default()
            },
        };
        self.resolved = self.connection()?.call("agent.resolve", &params)?;
        // From here on it is ours to destroy, whatever goes wrong.
        let original = PathBuf::from(busy.workspace_dir);
        self.original = Some(original.clone());
        // What is said is for whoever reads it; an editor need not.
        let _ = screen.note(&format!(
            "{} is busy; this is {}, a copy that is destroyed afterwards",
            busy.name, self.resolved.instance_name
        ));
        if sessions::are_in_workspace(&self.resolved.backend_type)
            && let Err(error) = sessions::copy(&original, Path::new(&self.resolved.workspace_dir))
        {
            // It works without them; only session/load misses what it names.
            let words = format!("could not copy the sessions of {}: {error}", busy.name);
            let _ = screen.warning(&words); // As above.
        }
        Ok(())
    }

    /// The agent has ended, and its process is gone.
    pub(super) fn leave(
        mut self,
        over: Over,
        config: &Config,
        screen: &mut Screen,
    ) -> Result<(), CommandError> {
        let crashed = matches!(over, Over::AgentEnded(exit) if !exit.success());
        // What crashed by itself stays `crashed`, for whoever looks after it; a copy goes in any case.
        if !crashed || self.is_copy() {
            let params = DetachParams {
                name: self.resolved.instance_name.clone(),
                cleanup: self.is_copy(),
                pid: self.attached,
            };
            let detached = self
                .reconnect(config)
                .and_then(|connection| connection.call::<DetachResult>("agent.detach", &params));
            match detached {
                Ok(_) => {}
                // The daemon has noticed the end of the process first, and destroyed the copy.
                Err(error) if self.is_copy() && is_gone(&error) => {}
                // It has, and the next editor has the agent already.
                Err(error) if is_anothers(&error) => {}
                Err(error) => {
                    let words = format!(
                        "could not detach {} ({error}); the daemon finds out by itself",
                        params.name
                    );
                    let _ = screen.warning(&words); // As above.
                }
            }
        }
        over.outcome(screen)
    }

    /// Nothing came of it, and no process is left: a copy goes, an agent stays as it was.
    pub(super) fn give_up(mut self, config: &Config, screen: &mut Screen) {
        if !self.is_copy() {
            return;
        }
        let params = DestroyParams {
            name: self.resolved.instance_name.clone(),
            force: true,
        };
        let destroyed = self
            .reconnect(config)
            .and_then(|connection| connection.call::<Success>("agent.destroy", &params));
        if let Err(error) = destroyed {
            // The next proxy that makes a copy destroys it.
            let _ = screen.warning(&format!("could not destroy {}: {error}", params.name));
        }
    }

    /// Copies whose proxy was killed before it could attach them; best effort, since they are in nobody's way.
    fn destroy_orphans(&mut self) {
        let Ok(connection) = self.connection() else {
            return;
        };
        let agents: Vec<AgentMeta> = connection.call("agent.list", &Empty {}).unwrap_or_default();
        for agent in agents {
            let orphaned = agent.metadata.get(MADE_BY).is_some_and(|by| !lives(by));
            if orphaned && agent.status == "created" {
                let params = DestroyParams {
                    name: agent.name,
                    force: false,
                };
                let _ = connection.call::<Success>("agent.destroy", &params); // Another proxy may do the same.
            }
        }
    }

    fn status(&mut self) -> Result<AgentMeta, CommandError> {
        let params = NameParams {
            name: self.resolved.instance_name.clone(),
        };
        self.connection()?.call("agent.status", &params)
    }

    fn connection(&mut self) -> Result<&mut Connection, CommandError> {
        self.connection.as_mut().ok_or_else(|| {
            CommandError::machine(
                "ask the daemon",
                anyhow::anyhow!("the connection is closed"),
            )
        })
    }

    fn reconnect(&mut self, config: &Config) -> Result<&mut Connection, CommandError> {
        match &mut self.connection {
            Some(connection) => Ok(connection),
            closed @ None => Ok(closed.insert(Connection::open(config)?)),
        }
    }
}

/// Whether an attach was refused because somebody else was faster.
pub(super) fn is_busy(error: &CommandError) -> bool {
    matches!(error, CommandError::Remote(remote)
        if matches!(remote.error_code.as_str(), "AGENT_ALREADY_RUNNING" | "AGENT_ALREADY_ATTACHED"))
}

fn is_gone(error: &CommandError) -> bool {
    matches!(error, CommandError::Remote(remote) if remote.error_code == "AGENT_NOT_FOUND")
}

fn is_anothers(error: &CommandError) -> bool {
    matches!(error, CommandError::Remote(remote) if remote.error_code == "AGENT_NOT_ATTACHED")
}

/// A program that is run anew for each prompt has nobody who could speak ACP.
fn refuse_if_silent(resolved: &ResolveResult) -> Result<(), CommandError> {
    let per_turn = BackendType::ALL.iter().any(|(word, backend)| {
        *word == resolved.backend_type && backend.profile().interaction == Interaction::PerTurn
    });
    if !per_turn {
        return Ok(());
    }
    let name = &resolved.instance_name;
    Err(CommandError::Refused {
        message: format!("{name} runs its program once for each prompt and does not speak ACP"),
        hint: format!("`agentcraft agent chat {name}` talks to it"),
    })
}

/// Our own process, so that a reused number is not taken for it.
fn ourselves() -> String {
    let pid = platform::pid::own_pid();
    let started = ProcessRef::of(pid).map_or(0, |process| process.start_time);
    format!("{pid}:{started}")
}

fn lives(process: &str) -> bool {
    let parsed = process.split_once(':').and_then(|(pid, started)| {
        Some(ProcessRef {
            pid: pid.parse().ok()?,
            start_time: started.parse().ok()?,
        })
    });
    // What we cannot read is not ours to destroy.
    parsed.is_none_or(ProcessRef::alive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        assert!(lives(&ourselves()));
        let (pid, _) = ourselves()
            .split_once(':')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        assert!(!lives(&format!("{pid}:1")));
        assert!(lives("nonsense"));
    }
}
