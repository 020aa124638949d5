//! A daemon with the agent in it, and the sessions that are held with it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::agent::Order;
use crate::bench::context::Home;
use crate::bench::daemon::{Connection, Daemon, request, result_of};

/// The template of the agent that says what it is told to.
pub(in crate::bench) const TALKER: &str = "talker";
/// The template of the agent that is part of the program.
pub(in crate::bench) const BUILTIN: &str = "builtin";

/// A daemon, and the connection that steers it.
#[derive(Debug)]
pub(in crate::bench) struct Stage {
    pub(in crate::bench) daemon: Daemon,
    control: Connection,
}

impl Stage {
    pub(in crate::bench) fn new(binary: &Path) -> anyhow::Result<Self> {
        Self::in_home(binary, Home::new()?)
    }

    /// In a home that has been prepared.
    pub(in crate::bench) fn in_home(binary: &Path, home: Home) -> anyhow::Result<Self> {
        write_template(&home, TALKER, &ourselves(&["--turn-agent"])?)?;
        write_template(&home, BUILTIN, &json!({"type": "builtin"}))?;
        let daemon = Daemon::start_in(binary, home)?;
        Ok(Self {
            control: daemon.connect()?,
            daemon,
        })
    }

    /// Creates and starts an agent; gives its process.
    pub(in crate::bench) fn start_agent(
        &mut self,
        name: &str,
        template: &str,
    ) -> anyhow::Result<u32> {
        let create = json!({"name": name, "template": template});
        self.control.call("agent.create", &create)?;
        self.control.call("agent.start", &json!({"name": name}))?;
        let status = self.control.call("agent.status", &json!({"name": name}))?;
        let pid = status["pid"].as_u64().and_then(|pid| pid.try_into().ok());
        pid.with_context(|| format!("the agent has no process: {status}"))
    }

    /// A new session with an agent.
    pub(super) fn session(&mut self, agent: &str) -> anyhow::Result<String> {
        session(&mut self.control, agent)
    }

    /// Gives an order to a session; [`Stage::finished`] takes the answer, which comes when the turn is over.
    pub(super) fn order(&mut self, session: &str, order: Order) -> anyhow::Result<()> {
        let params = json!({"sessionId": session, "text": order.prompt()});
        self.control.send(&request("session.prompt", &params))
    }

    /// Waits until one of the ordered turns is over.
    pub(super) fn finished(&mut self) -> anyhow::Result<()> {
        let answer = result_of(self.control.receive()?)?;
        ensure!(answer["stopReason"] == "end_turn", "a turn ended otherwise");
        Ok(())
    }

    /// Ends the daemon, and starts another one that finds what the first one kept.
    pub(super) fn restart(&mut self, binary: &Path) -> anyhow::Result<()> {
        self.daemon.restart(binary)?;
        self.control = self.daemon.connect()?;
        Ok(())
    }

    pub(in crate::bench) fn control(&mut self) -> &mut Connection {
        &mut self.control
    }
}

pub(super) fn session(connection: &mut Connection, agent: &str) -> anyhow::Result<String> {
    let created = connection.call("session.create", &json!({"agentName": agent}))?;
    let session = created["sessionId"].as_str();
    Ok(session.context("a session has no id")?.to_owned())
}

/// The backend of agents that are this very program.
pub(in crate::bench) fn ourselves(arguments: &[&str]) -> anyhow::Result<Value> {
    let program = std::env::current_exe().context("could not find our own program")?;
    let arguments = [&["bench"], arguments].concat();
    Ok(json!({
        "type": "custom",
        "config": {"executablePath": program, "args": arguments, "protocol": "acp"},
    }))
}

/// Writes a template that the next daemon of the home finds.
pub(in crate::bench) fn write_template(
    home: &Home,
    name: &str,
    backend: &Value,
) -> anyhow::Result<()> {
    let folder = home.path().join("configs/templates");
    fs::create_dir_all(&folder).context("could not make the folder of templates")?;
    let template = template(name, backend).to_string();
    fs::write(folder.join(format!("{name}.json")), template)
        .with_context(|| format!("could not write the template {name}"))
}

fn template(name: &str, backend: &Value) -> Value {
    json!({
        "name": name,
        "version": "1.0.0",
        "provider": {"type": "custom"},
        "domainContext": {},
        "backend": backend,
    })
}
