//! Everything that can take a turn: which driver serves which agent.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use domain::chain::Ourselves;
use engine::{DriverError, DriverSurroundings, Drivers, EndpointDrivers, Engine, Records};
use runner::Shelf;
use runs::Calls;

use crate::config::{Config, Environment};

/// Where workflows of this home are.
pub(crate) fn shelf(config: &Config) -> Shelf {
    Shelf {
        chosen: None,
        shared: vec![config.configs_dir.join("workflows")],
        user: platform::system::home_dir(&config.environment),
    }
}

/// What drivers need that is there before them, and the engine that is there only after them.
#[derive(Debug, Clone)]
pub(crate) struct Endpoints {
    memory: model::Memory,
    engine: Arc<OnceLock<Engine>>,
    runs: Records,
    shelf: Shelf,
    /// What runs see instead of the environment of their agent.
    environment: Option<Environment>,
    user_home: Option<PathBuf>,
    calls: Calls,
    node: Ourselves,
    lending: awcp::Lending,
}

impl Endpoints {
    /// `node` is what this node is called in chains of calls.
    pub(crate) fn new(config: &Config, runs: Records, node: Ourselves) -> Self {
        let user_home = platform::system::home_dir(&config.environment);
        Self {
            memory: model::Memory::default(),
            engine: Arc::default(),
            runs,
            shelf: shelf(config),
            environment: None,
            user_home,
            calls: Calls::new(node.clone()),
            node,
            lending: awcp::Lending::default(),
        }
    }

    /// Those of a node that is one command of the user's: runs see the user's environment, as the command does.
    pub(crate) fn for_user(self, config: &Config, shelf: Shelf) -> Self {
        Self {
            environment: Some(config.environment.clone()),
            shelf,
            ..self
        }
    }

    /// Calls in progress, which the runs API shares with the drivers of peers.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// What this node is called in chains of calls.
    pub(crate) fn node(&self) -> &Ourselves {
        &self.node
    }

    /// Where drivers find what is lent, once it is there.
    pub(crate) fn lending(&self) -> &awcp::Lending {
        &self.lending
    }

    /// Every driver of this program.
    pub(crate) fn all(&self) -> Drivers {
        let own = self.clone();
        let endpoint = EndpointDrivers::new(move |agent| match agent.backend.as_str() {
            "workflow" => {
                let mut around = agent.around.clone();
                if let Some(environment) = &own.environment {
                    around.environment = environment.clone();
                }
                Ok(runner::driver(
                    &agent,
                    own.surroundings(around, own.plain()),
                ))
            }
            _ => own.plain().endpoint.make(agent),
        });
        Drivers {
            endpoint,
            ..self.plain()
        }
    }

    /// Those that need nothing of the others.
    fn plain(&self) -> Drivers {
        let (memory, calls) = (self.memory.clone(), self.calls.clone());
        let lending = self.lending.clone();
        Drivers {
            acp: acp::connect,
            print: print::driver,
            endpoint: EndpointDrivers::new(move |agent| match agent.backend.as_str() {
                "openai-compatible" => model::driver(agent, mcp::tool_sources(), memory.clone()),
                "peer" => runs::PeerDriver::make(&agent, calls.clone()),
                "a2a" => a2a::driver(agent),
                "delegation" => lending.driver(&agent),
                other => Err(DriverError::Unsupported {
                    what: format!("run on {other}: this program was built without it"),
                }),
            }),
        }
    }

    /// What runs of workflows may use.
    pub(crate) fn surroundings(
        &self,
        around: DriverSurroundings,
        drivers: Drivers,
    ) -> runner::Surroundings {
        runner::Surroundings {
            around,
            drivers,
            engine: self.engine.clone(),
            records: self.runs.clone(),
            shelf: self.shelf.clone(),
            user_home: self.user_home.clone(),
        }
    }

    /// The engine is there.
    pub(crate) fn connect(&self, engine: &Engine) {
        let _ = self.memory.set(engine.records()); // There is one engine.
        let _ = self.engine.set(engine.clone()); // As above.
    }
}
