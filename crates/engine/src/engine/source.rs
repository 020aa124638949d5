//! Where sessions find what they talk to: the driver of an agent, its folder, its MCP servers, its policy.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use catalog::McpServer;
use domain::{
    Name,
    permission::{Decision, Policy, Rule},
};
use platform::Tasks;

use super::Registry;
use crate::{
    Driver, DriverSurroundings, Drivers, EndpointAgent, EngineError, Library, PrintProgram,
    agent::{AgentRecord, Launcher, launch_environment},
};

/// How long an agent has for its first answer, unless its template says otherwise: the slowest real one measured took 22 s.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How a session reaches its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Via {
    /// The process that was started for the agent.
    Process,
    /// A program that is run for each prompt.
    Print,
}

/// Finds drivers.
#[derive(Debug)]
pub(crate) struct AgentSource {
    pub(crate) registry: Arc<Registry>,
    pub(crate) library: Arc<Library>,
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) drivers: Drivers,
    pub(crate) tasks: Tasks,
    /// Programs run for each prompt, by the agent's id; kept so that a conversation stays with its driver.
    pub(crate) print: Mutex<BTreeMap<String, Made>>,
}

/// A driver, and the stamp of what it was made of.
#[derive(Debug)]
pub(crate) struct Made {
    driver: Arc<dyn Driver>,
    stamp: u64,
}

/// What a turn needs of its agent.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) mcp_servers: Vec<McpServer>,
}

impl AgentSource {
    /// The way to the agent that is open now, if any: its process, or a program for each prompt.
    pub(crate) fn via(&self, agent: &Name) -> Result<Option<Via>, EngineError> {
        let (handle, record) = self.find(agent)?;
        Ok(match (handle.driver(), self.program_driver(&record)?) {
            (Some(_), _) => Some(Via::Process),
            (None, Some(_)) => Some(Via::Print),
            (None, None) => None,
        })
    }

    /// What the next turn of a session talks to.
    pub(crate) fn source(&self, agent: &Name, via: Via) -> Result<Source, EngineError> {
        let (handle, record) = self.find(agent)?;
        let driver = match via {
            Via::Process => handle.driver(),
            Via::Print => self.program_driver(&record)?,
        };
        let driver = driver.ok_or_else(|| EngineError::NotStarted {
            name: agent.clone(),
        })?;
        let components = &self.library.shelf().components;
        // A component that has gone since the agent was created is missed, not fatal.
        let mcp_servers = catalog::mcp_servers(&record.template, components).unwrap_or_default();
        Ok(Source {
            driver,
            mcp_servers,
        })
    }

    /// Where the agent works.
    pub(crate) fn workspace(&self, agent: &Name) -> Result<PathBuf, EngineError> {
        Ok(self.find(agent)?.1.place.dir().clone())
    }

    /// What tells the agent from a later one of the same name.
    pub(crate) fn id(&self, agent: &Name) -> Result<String, EngineError> {
        Ok(self.find(agent)?.1.id.clone())
    }

    /// An agent is gone, and so is the program that was run for it.
    pub(crate) fn forget(&self, agent_id: &str) {
        self.print
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(agent_id);
    }

    /// The node's rules, then the template's.
    pub(crate) fn policy(&self, agent: &Name, node: &Policy) -> Policy {
        let template = self
            .find(agent)
            .ok()
            .and_then(|(_, record)| record.template.permissions.clone());
        let template = match template.map(|rules| Policy::from_object(&rules)) {
            None => Policy::default(),
            Some(Ok(policy)) => policy,
            // Rules that cannot be read must not open anything: everything is asked about.
            Some(Err(_)) => Policy {
                rules: vec![Rule::any(Decision::Ask)],
                default: None,
            },
        };
        Policy::layered(node, &template)
    }

    fn find(
        &self,
        agent: &Name,
    ) -> Result<(crate::agent::AgentHandle, Arc<AgentRecord>), EngineError> {
        let handle = self
            .registry
            .get(agent.as_str())
            .filter(|handle| handle.view().is_some());
        let handle = handle.ok_or_else(|| EngineError::AgentNotFound {
            name: agent.to_string(),
        })?;
        let record = handle.record();
        Ok((handle, record))
    }

    /// What takes turns without a lasting process; nothing for an agent that needs one.
    fn program_driver(&self, record: &AgentRecord) -> Result<Option<Arc<dyn Driver>>, EngineError> {
        let backend = &record.template.backend;
        let is_endpoint = backend.backend_type().is_endpoint();
        let stamp = if is_endpoint {
            let backend_type = backend.backend_type();
            self.drivers
                .endpoint
                .stamp(backend_type.as_str(), backend.config())
        } else {
            0
        };
        let mut known = self.print.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = known.get(&record.id).filter(|made| made.stamp == stamp) {
            return Ok(Some(made.driver.clone()));
        }
        // Turns that are under way end with the driver they began with; a conversation is taken up in the new one.
        known.remove(&record.id);
        let driver = if is_endpoint {
            Some(self.endpoint_driver(record)?)
        } else {
            self.print_driver(record)
        };
        if let Some(driver) = &driver {
            let driver = driver.clone();
            known.insert(record.id.clone(), Made { driver, stamp });
        }
        Ok(driver)
    }

    fn endpoint_driver(&self, record: &AgentRecord) -> Result<Arc<dyn Driver>, EngineError> {
        let backend = &record.template.backend;
        let agent = EndpointAgent {
            backend: backend.backend_type().as_str().to_owned(),
            config: backend.config().cloned().unwrap_or_default(),
            model: backend.model().map(str::to_owned),
            around: surroundings(&self.launcher, &self.tasks, record),
        };
        let made = self.drivers.endpoint.make(agent);
        made.map_err(|error| EngineError::Launch {
            name: record.name.clone(),
            reason: error.to_string(),
        })
    }

    fn print_driver(&self, record: &AgentRecord) -> Option<Arc<dyn Driver>> {
        let backend = &record.template.backend;
        (self.drivers.print)(PrintProgram {
            backend: backend.backend_type().as_str().to_owned(),
            program: backend.executable_path().map(PathBuf::from),
            args: if backend.backend_type().takes_args() {
                backend.args()
            } else {
                Some(backend.extra_args())
            },
            model: backend.model().map(str::to_owned),
            around: surroundings(&self.launcher, &self.tasks, record),
        })
    }
}

/// What a driver of this agent may use.
pub(crate) fn surroundings(
    launcher: &Launcher,
    tasks: &Tasks,
    record: &AgentRecord,
) -> DriverSurroundings {
    let template = &record.template;
    let dir = record.place.dir();
    let patterns = catalog::launch_command(template, &dir.to_string_lossy())
        .map(|command| command.environment)
        .unwrap_or_default();
    DriverSurroundings {
        tasks: tasks.clone(),
        guardian: launcher.guardian.clone(),
        owner: launcher.owner.clone(),
        agent: record.name.to_string(),
        workspace: dir.clone(),
        environment: launch_environment(&launcher.config, record, &patterns),
        start_timeout: template
            .start_timeout_ms
            .map_or(START_TIMEOUT, Duration::from_millis),
    }
}
