//! Every face behind the node's port, joined with the parts that serve it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use awcp::{AwcpConfig, Delegations, SandboxConfig, SftpConfig};
use dashboard::Workflows;
use domain::{chain::Ourselves, office::Role, target::Target};
use engine::{Calls, Engine, Note};
use lan::{Discovery, Lan, LanConfig, NewPeer, PROBE_PORT, Ports, Reach};
use listener::{Listener, Tokens};
use platform::{Guardian, Owner, Tasks};
use runs::{PublicAgents, Runs, RunsConfig};
use serde_json::{Value, json};
use smcp::server::OfficeServer;

use super::{
    adviser::adviser, census::Census, grants::NodeGrants, lending::LentWorkspaces,
    metrics::Sources, said::Said, wording::Wording,
};
use crate::{
    config::{Config, Webhooks},
    connection::VERSION,
    endpoints::Endpoints,
};

/// Refusals of the relay that wait to be written down; beyond it the log alone has them.
const REFUSALS_MAX: usize = 256;

/// How often the node looks whether it can do something else than it announced.
const VERSION_EVERY: Duration = Duration::from_secs(2);

/// Who watches over processes that a face starts.
#[derive(Debug, Clone)]
pub(crate) struct Children {
    pub(crate) guardian: Guardian,
    pub(crate) owner: Owner,
}

/// What the faces share.
pub(super) struct Faces<'a> {
    pub(super) config: &'a Config,
    pub(super) engine: &'a Engine,
    pub(super) tasks: &'a Tasks,
    pub(super) tokens: Tokens,
    pub(super) calls: Calls,
    pub(super) node: Ourselves,
    pub(super) children: &'a Children,
    pub(super) endpoints: &'a Endpoints,
}

impl Faces<'_> {
    /// Mounts all of them.
    pub(super) async fn mount(&self, listener: &mut Listener) -> anyhow::Result<()> {
        let mcp = mcp::Config {
            socket: self.config.socket.clone(),
            home: self.config.home.clone(),
            version: VERSION.to_owned(),
        };
        self.make_public().await;
        listener.mount("mcp", mcp::router(mcp, self.tasks.stop()));
        let runs = self.open_runs(listener).await?;
        let lan = self.join(listener, &runs).await?;
        // Signed links are for those who have no token.
        listener.open_path("/resources");
        listener.mount("runs", lan.guard(runs.router()));
        let delegations = self.mount_lending(listener).await?;
        self.mount_a2a(listener, delegations.clone(), &lan).await?;
        let offices = self.mount_offices(listener);
        for path in lan::OPEN_PATHS {
            listener.open_path(path);
        }
        listener.mount("peers", lan.router());
        self.mount_views(
            listener,
            Census {
                engine: self.engine.clone(),
                workflow_runs: self.endpoints.run_records().clone(),
                lan,
                delegations,
                offices,
            },
        );
        Ok(())
    }

    /// Those who see the whole: the page, and whoever watches the node's numbers.
    fn mount_views(&self, listener: &mut Listener, census: Census) {
        let page = dashboard::router(dashboard::Config {
            engine: self.engine.clone(),
            runs: self.endpoints.run_records().clone(),
            workflows: offered_workflows(self.config),
            around: census.around(),
            version: VERSION.to_owned(),
            name: node_name(self.config),
            tasks: self.tasks.child(),
        });
        listener.mount("dashboard", page);
        let offices = super::offices::of(census.offices.clone(), self.config, self.tasks);
        listener.mount("dashboard", dashboard::offices(offices));
        let logs = dashboard::logs(crate::daemon::agent_logs(self.config));
        listener.mount("dashboard", logs);
        let sources = Sources {
            census,
            traffic: listener.traffic().clone(),
            store: self.config.store_file(),
        };
        listener.mount("metrics", super::metrics::router(sources));
    }

    async fn open_runs(&self, listener: &Listener) -> anyhow::Result<Runs> {
        let writer = adviser(self.engine, self.config.network.lan.describer.as_ref());
        let wording = match writer {
            Some(writer) => {
                let records = self.engine.records();
                Some(Wording::open(writer, records, self.tasks).await?)
            }
            None => None,
        };
        let configs = self.config.configs_dir.clone();
        let said = Said::new(configs, self.engine.clone(), wording);
        let shown = self.public();
        let exchange = self.config.runs.exchange(self.config.home.join("exchange"));
        let config = RunsConfig {
            description: said
                .description()
                .unwrap_or_else(|| format!("The agents of {}", node_name(self.config))),
            public: match shown {
                None => PublicAgents::All,
                Some(names) => PublicAgents::Only(names),
            },
            default_agent: self.config.network.lan.agent.clone(),
            persistent: self.config.runs.persistent.clone(),
            scheme: listener.scheme(),
            public_url: self.config.network.url.clone(),
            limits: self.config.runs.limits(),
            session_ttl: self.config.runs.session_ttl(),
            history_from: self.config.runs.history_from.clone(),
            capabilities: said.capabilities(self.public()),
            exchange,
            calls: self.calls.clone(),
        };
        Runs::open(config, self.engine.clone(), self.tasks.child())
            .await
            .context("could not take up the runs")
    }

    async fn mount_a2a(
        &self,
        listener: &mut Listener,
        delegations: Delegations,
        lan: &Lan,
    ) -> anyhow::Result<()> {
        let mut config = a2a::A2aConfig::new(&node_name(self.config), VERSION);
        config.base = match &self.config.network.url {
            Some(url) => a2a::BaseUrl::Fixed(url.clone()),
            None => a2a::BaseUrl::FromHost {
                scheme: listener.scheme(),
            },
        };
        if let Some(names) = self.public() {
            config.public = a2a::PublicAgents::Only(names);
        }
        config.calls = self.endpoints.calls().clone();
        config.needs_token = self.config.network.trust == crate::config::Trust::Tokens;
        config.push = match self.config.network.webhooks {
            Webhooks::Off => a2a::PushPolicy::Off,
            Webhooks::Public => a2a::PushPolicy::Public,
            Webhooks::Anywhere => a2a::PushPolicy::Anywhere,
        };
        let extensions = vec![LentWorkspaces::extension(delegations)];
        let router = a2a::router(config, self.engine.clone(), self.tasks.child(), extensions)
            .await
            .context("could not take up the tasks of A2A")?;
        listener.open_reading(a2a::is_card_path);
        listener.mount("a2a", lan.guard(router));
        Ok(())
    }

    /// Lending and taking workspaces. Remotes come with the secret of their delegation instead of a token.
    async fn mount_lending(&self, listener: &mut Listener) -> anyhow::Result<Delegations> {
        let settings = &self.config.network.lending;
        let home = &self.config.home;
        let mut config = AwcpConfig::new(
            home.join("lending"),
            home.join("lent"),
            &self.public_url(listener),
        );
        config.executor = settings.executor.clone();
        config.sources = settings.sources.clone();
        settings.limit(&mut config);
        config.environment = self.config.environment.clone();
        config.fingerprint = listener.fingerprint().map(str::to_owned);
        config.known_peers = self.endpoints.known_peers();
        config.calls = self.endpoints.lending_calls();
        let is_anywhere = listener.local_addr().ip().is_unspecified();
        if is_anywhere && self.config.network.url.is_none() {
            config.reach = awcp::Reach::Anywhere;
        }
        config.audit_age = self.config.journal_age;
        config.node_home = Some(home.clone());
        config.lendable = vec![self.config.instances_dir.clone(), home.join("lent")];
        config.sandbox = settings.sandbox.as_ref().map(|sandbox| SandboxConfig {
            network: sandbox.network,
            exec: sandbox.exec,
            read: sandbox.read.clone(),
            write: sandbox.write.clone(),
        });
        config.sftp = settings.sftp.map(|listen| SftpConfig {
            listen,
            public_host: settings
                .sftp_host
                .clone()
                .unwrap_or_else(|| listen.ip().to_string()),
        });
        let delegations = Delegations::open(
            config,
            self.engine.clone(),
            self.tasks.child(),
            self.children.guardian.clone(),
            self.children.owner.clone(),
        )
        .await
        .context("could not take up what was lent")?;
        self.endpoints.lending().fill(delegations.clone());
        listener.open_path("/awcp");
        listener.mount("delegations", awcp::router(delegations.clone()));
        let tokens = self.tokens.authenticator();
        listener.mount(
            "delegations",
            awcp::released_router(delegations.clone(), tokens),
        );
        Ok(delegations)
    }

    /// Other nodes: those that are found, those that pair, and where an intent goes.
    async fn join(&self, listener: &Listener, runs: &Runs) -> anyhow::Result<Lan> {
        let settings = &self.config.network.lan;
        let address = listener.local_addr();
        // A node on this machine alone may still be reached through a proxy or a tunnel, if it says where.
        let is_reached = !address.ip().is_loopback() || self.config.network.url.is_some();
        let reach = is_reached.then(|| Reach {
            scheme: listener.scheme(),
            port: address.port(),
            url: match (&self.config.network.url, address.ip().is_unspecified()) {
                (Some(url), _) => Some(url.clone()),
                (None, false) => Some(listener.local_url()),
                (None, true) => None,
            },
        });
        let discovery = match (settings.discovery, &reach) {
            (Some(true), _) => Discovery::On,
            (None, Some(_)) if !address.ip().is_loopback() => Discovery::On,
            (Some(false) | None, _) => Discovery::Off,
        };
        let peers = settings.peers.iter().map(|url| NewPeer {
            url: url.clone(),
            token: None,
            fingerprint: None,
        });
        let config = LanConfig {
            node: self.node.clone(),
            version: manifest_version(runs),
            configs: self.config.configs_dir.clone(),
            discovery,
            peers: peers.collect(),
            reach,
            probe: Some(PROBE_PORT),
            fingerprint: listener.fingerprint().map(str::to_owned),
            rules: settings.answers.clone(),
        };
        let ports = Ports {
            grants: Arc::new(NodeGrants(self.tokens.clone())),
            human: None,
            router: adviser(self.engine, settings.router.as_ref()),
            answerer: adviser(self.engine, settings.answerer.as_ref()),
        };
        let lan = Lan::start(config, self.engine.records(), ports, self.tasks)
            .await
            .context("could not take up the peers")?;
        self.endpoints.know(lan.peers());
        self.endpoints.joined().fill(lan.clone());
        self.keep_version(runs, &lan);
        Ok(lan)
    }

    /// What this node can do changes while it runs; its announcement follows.
    fn keep_version(&self, runs: &Runs, lan: &Lan) {
        let (runs, lan) = (runs.clone(), lan.clone());
        self.tasks.spawn(|stop| async move {
            let follow = async {
                loop {
                    tokio::time::sleep(VERSION_EVERY).await;
                    lan.set_version(manifest_version(&runs));
                }
            };
            stop.run_until_cancelled(follow).await
        });
    }

    /// The address under which others reach this node.
    fn public_url(&self, listener: &Listener) -> String {
        let url = self.config.network.url.clone();
        url.unwrap_or_else(|| listener.local_url())
    }

    /// The relay asks for tokens itself: Socket.IO clients send them in their own words.
    fn mount_offices(&self, listener: &mut Listener) -> OfficeServer {
        let tokens = self.tokens.authenticator();
        let authenticate: smcp::Authenticator = Arc::new(move |token| {
            let caller = tokens.check(token)?;
            let name = caller.name.clone();
            let member = smcp::Caller::new(name, move |role, office| {
                let role = match role {
                    Role::Agent => "agent",
                    Role::Computer => "computer",
                };
                caller.may(&format!("office:{role}:{office}"))
            });
            // A connection outlives many requests, so its token is looked at again with each.
            let (tokens, token) = (tokens.clone(), token.to_owned());
            Some(member.while_valid(move || tokens.check(&token).is_some()))
        });
        let (router, server) = smcp::server::router(
            smcp::server::OfficeConfig::default(),
            authenticate,
            self.audit(),
            self.tasks,
        );
        listener.open_path("/socket.io");
        listener.mount("offices", router);
        server
    }

    /// Writes down whom the relay refused.
    fn audit(&self) -> smcp::Audit {
        let (refusals, mut waiting) = tokio::sync::mpsc::channel::<smcp::Refused>(REFUSALS_MAX);
        let records = self.engine.records();
        self.tasks.spawn(|stop| async move {
            loop {
                let refused = tokio::select! { biased;
                    () = stop.cancelled() => return,
                    refused = waiting.recv() => refused,
                };
                let Some(refused) = refused else {
                    return;
                };
                let note = Note {
                    kind: "audit.refused".to_owned(),
                    body: json!({
                        "face": "office",
                        "caller": refused.caller,
                        "event": refused.event,
                        "office": refused.office,
                        "code": refused.code,
                        "reason": refused.reason,
                    }),
                    ..Note::default()
                };
                if let Err(error) = records.note(note).await {
                    tracing::warn!(error = %engine::chain(&error), "could not write down a refusal");
                }
            }
        });
        Arc::new(move |refused| {
            if let Err(error) = refusals.try_send(refused) {
                tracing::warn!(%error, "more refusals than can be written down");
            }
        })
    }

    /// The names that callers see; nothing if they see all.
    fn public(&self) -> Option<BTreeSet<String>> {
        let public = &self.config.network.public;
        let name = |written: &String| {
            let target = written.parse::<Target>();
            target.map_or_else(
                |_| written.clone(),
                |target| target.agent_name().to_string(),
            )
        };
        (!public.iter().any(|name| name == "*")).then(|| public.iter().map(name).collect())
    }

    /// Makes the agents of targets that are offered, such as a workflow.
    async fn make_public(&self) {
        for written in &self.config.network.public {
            let Ok(target @ Target::Made(_)) = written.parse() else {
                continue;
            };
            if let Err(error) = self.engine.ensure(&target).await {
                tracing::warn!(%target, error = %engine::chain(&error), "could not offer a target");
            }
        }
    }
}

/// Of everything the node says of itself, wherever it is reached.
fn manifest_version(runs: &Runs) -> String {
    runs.manifest("").version.unwrap_or_default()
}

/// What other nodes and people call this one.
pub(crate) fn node_name(config: &Config) -> String {
    let name = config.network.name.clone();
    name.unwrap_or_else(platform::system::hostname)
}

/// The workflows of the node; the target `workflow:NAME` runs one.
fn offered_workflows(config: &Config) -> Workflows {
    let folder = config.configs_dir.clone();
    let secret_names = config.secret_names.clone();
    let shelf = runner::Shelf {
        chosen: None,
        shared: vec![folder.join("workflows")],
        user: None,
        awf: None,
    };
    Workflows::new(move || {
        let found = shelf.list(&folder);
        let plans = found
            .iter()
            .filter_map(|found| Some((found, found.plan(&folder).ok()?)));
        plans
            .map(|(found, plan)| described(&found.name, &runner::offered(plan, &secret_names)))
            .collect()
    })
}

/// A workflow and its steps, with what leads to what.
pub(crate) fn described(name: &str, plan: &workflow::Plan) -> Value {
    let steps = plan.written_steps().map(|step| {
        let next = step.transitions.iter().map(|transition| &transition.goto);
        let next: Vec<&String> = next.chain(&step.on_success).collect();
        let mut when: BTreeMap<&String, String> = BTreeMap::new();
        for transition in &step.transitions {
            let Some(condition) = &transition.when else {
                continue;
            };
            when.entry(&transition.goto)
                .and_modify(|said| *said = format!("{said} or {condition}"))
                .or_insert_with(|| condition.clone());
        }
        json!({
            "name": step.name,
            "kind": step.kind.word(),
            "next": next,
            "when": when,
            "failure": step.on_failure,
            "inner": step.kind.inner(),
            "outcome": match &step.kind {
                workflow::StepKind::Terminal(end) => json!(end.status),
                _ => Value::Null,
            },
        })
    });
    json!({
        "name": name,
        "description": plan.description,
        "inputs": plan.inputs,
        "steps": steps.collect::<Vec<_>>(),
    })
}
