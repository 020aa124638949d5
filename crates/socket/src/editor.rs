//! A connection that becomes an editor's: after `proxy.lease` its lines are ACP, and another crate speaks it.

use std::pin::Pin;

use catalog::WorkingDirectory;
use domain::Name;
use engine::{Engine, Overrides};
use jsonrpc::{Incoming, Peer};
use platform::Tasks;
use wire::daemon::{ErrorCode, LeaseParams, LeaseResult};

use crate::{error::RpcError, params, server::Call};

/// The method that changes what a connection speaks.
pub(crate) const LEASE: &str = "proxy.lease";

/// Where an editor's sessions may work.
const FOLDERS: [(&str, EditorFolder); 2] = [
    ("workspace", EditorFolder::Workspace),
    ("client", EditorFolder::Client),
];

/// An editor, and the agent that it shall have.
#[derive(Debug)]
pub struct EditorLink {
    pub engine: Engine,
    pub agent: Name,
    pub folder: EditorFolder,
    pub asks: EditorAsks,
    /// Tells this editor from every other client.
    pub number: u64,
    pub peer: Peer,
    pub incoming: Incoming,
    pub tasks: Tasks,
}

/// Where new sessions work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditorFolder {
    Workspace,
    Client,
}

/// Whether the editor answers what the agent asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditorAsks {
    Relayed,
    Unheard,
}

/// Speaks to an editor until it leaves.
pub type ServeEditor = fn(EditorLink) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a client of `proxy.lease` gets.
#[derive(Debug)]
pub(crate) struct Lease {
    engine: Engine,
    agent: Name,
    folder: EditorFolder,
    number: u64,
    tasks: Tasks,
}

impl Lease {
    /// Checks that there is an agent to talk to, and that its sessions may work where the editor wants them.
    pub(crate) async fn of(call: &Call) -> Result<Self, RpcError> {
        let given: LeaseParams = call.params()?;
        let target = params::target("agentName", &given.agent_name)?;
        let folder = given.cwd.as_deref().unwrap_or("workspace");
        let folder = params::word("cwd", folder, &FOLDERS)?;
        let engine = call.service.engine.clone();
        let agent = engine.agent_for(&target).await?;
        engine.sessions().driver(&agent)?;
        if folder == EditorFolder::Client {
            let resolved = engine
                .resolve(agent.clone(), None, Overrides::default())
                .await?;
            if resolved.cwd != WorkingDirectory::Client {
                let message = format!(
                    "the template of {agent} keeps its sessions in the workspace; set `cwd: client` in the template \
                     and create the agent again, or leave --cwd out"
                );
                let error = RpcError::new(ErrorCode::GenericBusiness, message);
                return Err(error.with("agentName", agent.as_str()));
            }
        }
        Ok(Self {
            engine,
            agent,
            folder,
            number: call.caller.number,
            tasks: call.caller.tasks.clone(),
        })
    }

    pub(crate) fn result(&self) -> LeaseResult {
        LeaseResult {
            agent_name: self.agent.to_string(),
            protocol: "acp".to_owned(),
        }
    }

    pub(crate) async fn serve(self, serve: ServeEditor, peer: Peer, incoming: Incoming) {
        let Self {
            engine,
            agent,
            folder,
            number,
            tasks,
        } = self;
        let asks = EditorAsks::Relayed;
        serve(EditorLink {
            engine,
            agent,
            folder,
            asks,
            number,
            peer,
            incoming,
            tasks,
        })
        .await;
    }
}
