//! Everything that can take a turn: which driver serves which agent.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use domain::chain::Ourselves;
use engine::{
    Calls, Driver, DriverError, DriverSurroundings, Drivers, EndpointAgent, EndpointDrivers,
    Engine, Records, TurnOf,
};
use runner::Shelf;
use serde_json::{Map, Value};

use crate::config::{Config, Environment};

/// Where workflows of this home are.
pub(crate) fn shelf(config: &Config) -> Shelf {
    Shelf {
        chosen: None,
        shared: vec![config.configs_dir.join("workflows")],
        user: platform::system::home_dir(&config.environment),
        awf: runner::Folders::of(&config.environment),
    }
}

/// Through which the agents of the daemon are spoken to.
fn own_program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// What drivers need that is there before them, and the engine that is there only after them.
#[derive(Debug, Clone)]
pub(crate) struct Endpoints {
    memory: model::Memory,
    engine: Arc<OnceLock<Engine>>,
    runs: Records,
    /// Where runs have their folders.
    runs_folder: PathBuf,
    shelf: Shelf,
    /// What runs see instead of the environment of their agent.
    environment: Option<Environment>,
    secret_names: Vec<String>,
    user_home: Option<PathBuf>,
    /// Those at MCP servers that want one.
    logins: mcp::Logins,
    calls: Calls,
    node: Ourselves,
    lending: awcp::Lending,
    peers: Arc<OnceLock<lan::Peers>>,
    joined: lan::Joined,
}

impl Endpoints {
    /// `node` is what this node is called in chains of calls.
    pub(crate) fn new(config: &Config, runs: Records, node: Ourselves) -> Self {
        let user_home = platform::system::home_dir(&config.environment);
        let calls = Calls::new(node.clone());
        Self {
            memory: model::Memory::default(),
            engine: Arc::default(),
            runs,
            runs_folder: config.state_dir.join("runs"),
            shelf: shelf(config),
            environment: None,
            secret_names: config.secret_names.clone(),
            user_home,
            logins: mcp::Logins::of_home(&config.home),
            calls,
            node,
            lending: awcp::Lending::default(),
            peers: Arc::default(),
            joined: lan::Joined::default(),
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

    /// Runs of workflows of this home.
    pub(crate) fn run_records(&self) -> &Records {
        &self.runs
    }

    /// Calls in progress, which every face shares with the drivers that leave this node.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The same, of lending: an INVITE carries on what the others know, and what is done for one is known to them.
    pub(crate) fn lending_calls(&self) -> awcp::Calls {
        let (behind, entered) = (self.calls.clone(), self.calls.clone());
        awcp::Calls::new(
            self.node.clone(),
            move |trace, agent, prompt| {
                behind.chain(TurnOf {
                    trace,
                    agent,
                    prompt,
                })
            },
            move |agent, prompt, chain| {
                let turn = TurnOf {
                    trace: None,
                    agent,
                    prompt,
                };
                Box::new(entered.enter(turn, chain))
            },
        )
    }

    /// What a peer at this address is known by, if it is one that this node is paired with.
    pub(crate) fn known_peers(&self) -> awcp::KnownPeers {
        let peers = self.peers.clone();
        awcp::KnownPeers::new(move |origin| {
            let address = peers.get()?.address(origin).ok()?;
            // Of others the certificate is only what somebody showed who was called by that name.
            let token = Some(address.token?);
            Some(awcp::KnownPeer {
                url: Some(address.url),
                fingerprint: address.fingerprint,
                token,
            })
        })
    }

    /// What this node is called in chains of calls.
    pub(crate) fn node(&self) -> &Ourselves {
        &self.node
    }

    /// Where drivers find what is lent, once it is there.
    pub(crate) fn lending(&self) -> &awcp::Lending {
        &self.lending
    }

    /// Where drivers find whichever peer fits, once there are any.
    pub(crate) fn joined(&self) -> &lan::Joined {
        &self.joined
    }

    /// Peers can be meant by their names from now on.
    pub(crate) fn know(&self, peers: &lan::Peers) {
        let _ = self.peers.set(peers.clone()); // A node has one list of them.
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
                runner::driver(&agent, own.surroundings(around, own.plain()))
            }
            _ => own.plain().endpoint.make(agent),
        });
        let peers = self.peers.clone();
        Drivers {
            endpoint: endpoint
                .stamped(move |_, config| peers.get().map_or(0, |peers| stamp(peers, config))),
            ..self.plain()
        }
    }

    /// Those that need nothing of the others.
    fn plain(&self) -> Drivers {
        let (memory, calls) = (self.memory.clone(), self.calls.clone());
        let tools = mcp::tool_sources(self.logins.clone());
        let (lending, own) = (self.lending.clone(), self.clone());
        Drivers {
            acp: acp::connect,
            print: print::driver,
            endpoint: EndpointDrivers::new(move |agent| match agent.backend.as_str() {
                "openai-compatible" => model::driver(agent, tools.clone(), memory.clone()),
                "peer" if lan::Joined::is_for(&agent) => {
                    let calls = calls.clone();
                    Ok(own.joined.driver(&agent, calls))
                }
                "peer" => own.peer(agent, calls.clone()),
                "a2a" => a2a::driver(own.located(agent)?, calls.clone()),
                "delegation" => lending.driver(&own.located(agent)?),
                other => Err(DriverError::Unsupported {
                    what: format!("run on {other}: this program was built without it"),
                }),
            }),
        }
    }

    /// The driver of an agent on one node. Of a node that is named, each turn tells whether it is there.
    fn peer(&self, agent: EndpointAgent, calls: Calls) -> Result<Arc<dyn Driver>, DriverError> {
        let node = named_node(&agent.config).map(str::to_owned);
        let driver = runs::PeerDriver::make(&self.located(agent)?, calls)?;
        Ok(match (node, self.peers.get()) {
            (Some(node), Some(peers)) => peers.heard_through(node, driver),
            (None, _) | (_, None) => driver,
        })
    }

    /// Says where a node is that is only named. The token is looked up for each driver, so that it is kept in one place.
    fn located(&self, mut agent: EndpointAgent) -> Result<EndpointAgent, DriverError> {
        let Some(node) = named_node(&agent.config) else {
            return Ok(agent);
        };
        let unsupported = |what: String| DriverError::Unsupported { what };
        let peers = self.peers.get().ok_or_else(|| {
            unsupported("name another node: this one is not on the network".to_owned())
        })?;
        let found = peers.address(node);
        let address = found.map_err(|error| unsupported(format!("be reached: {error}")))?;
        let settings = [
            ("url", Some(address.url)),
            ("token", address.token),
            ("fingerprint", address.fingerprint),
        ];
        for (key, value) in settings {
            if let Some(value) = value {
                agent.config.insert(key.to_owned(), value.into());
            }
        }
        Ok(agent)
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
            folder: self.runs_folder.clone(),
            elsewhere: self.environment.as_ref().and_then(|_| own_program()),
            shelf: self.shelf.clone(),
            secret_names: self.secret_names.clone(),
            user_home: self.user_home.clone(),
        }
    }

    /// The engine is there.
    pub(crate) fn connect(&self, engine: &Engine) {
        let _ = self.memory.set(engine.records()); // There is one engine.
        let _ = self.engine.set(engine.clone()); // As above.
    }
}

/// The node that a template means by its name alone.
fn named_node(config: &Map<String, Value>) -> Option<&str> {
    match (config.get("url"), config.get("node")) {
        (None, Some(Value::String(node))) => Some(node),
        _ => None,
    }
}

/// Another one once the node that is meant is reached in another way, or is not known any more.
fn stamp(peers: &lan::Peers, config: &Map<String, Value>) -> u64 {
    let Some(node) = named_node(config) else {
        return 0;
    };
    let address = peers.address(node).ok();
    let known = address.map(|address| (address.url, address.token, address.fingerprint));
    let mut hasher = DefaultHasher::new();
    known.hash(&mut hasher);
    hasher.finish()
}
