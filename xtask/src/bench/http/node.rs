//! A daemon that listens, with an agent that answers with one word, and callers for it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::client::{Http, post};
use crate::bench::context::Home;
use crate::bench::turn::{Order, Stage, TALKER};

/// Any free port of this machine.
const CONFIG: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";
/// The node listens soon after it answers on its socket.
const LISTEN_LIMIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(in crate::bench) struct Node {
    pub(in crate::bench) stage: Stage,
    pub(in crate::bench) address: SocketAddr,
    owner: String,
    callers: u32,
}

impl Node {
    /// The agent [`TALKER`] runs.
    pub(in crate::bench) fn start(binary: &Path) -> anyhow::Result<Self> {
        let home = Home::new()?;
        fs::write(home.path().join("config.toml"), CONFIG)
            .context("could not write config.toml")?;
        let mut stage = Stage::in_home(binary, home)?;
        stage.start_agent(TALKER, TALKER)?;
        let folder = stage.daemon.home().path();
        let address = address(&folder.join("listener.json"))?;
        let owner = fs::read_to_string(folder.join("listener.token"))
            .context("could not read the owner's token")?;
        Ok(Self {
            address,
            owner: owner.trim().to_owned(),
            stage,
            callers: 0,
        })
    }

    /// A token nobody has used, since the node limits how often each caller may ask.
    pub(in crate::bench) fn fresh_token(&mut self) -> anyhow::Result<String> {
        self.callers += 1;
        let body = json!({"name": format!("caller-{}", self.callers)}).to_string();
        let request = post("/tokens", &bearer(&self.owner), &body);
        let mut http = Http::connect(self.address)?;
        let made: Value = serde_json::from_slice(http.exchange(&request)?)
            .context("the node's answer is not JSON")?;
        let token = made["token"].as_str();
        Ok(token.context("the node made no token")?.to_owned())
    }

    /// A request of a caller who has not asked before.
    pub(in crate::bench) fn request(
        &mut self,
        path: &str,
        headers: &str,
        body: &str,
    ) -> anyhow::Result<Vec<u8>> {
        let headers = format!("{}{headers}", bearer(&self.fresh_token()?));
        Ok(post(path, &headers, body))
    }

    pub(in crate::bench) fn owner(&self) -> &str {
        &self.owner
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// What to say to the agent so that it answers with one word.
pub(in crate::bench) fn one_word() -> String {
    let order = Order {
        chunks: 1,
        pace: Duration::ZERO,
    };
    order.prompt()
}

fn address(file: &Path) -> anyhow::Result<SocketAddr> {
    let deadline = Instant::now() + LISTEN_LIMIT;
    let text = loop {
        if let Ok(text) = fs::read_to_string(file) {
            break text;
        }
        ensure!(
            Instant::now() < deadline,
            "the node did not listen within {LISTEN_LIMIT:?}"
        );
        thread::sleep(LOOK_AGAIN);
    };
    let told: Value = serde_json::from_str(&text).context("the node's address is not JSON")?;
    let url = told["url"].as_str().unwrap_or_default();
    let address = url
        .strip_prefix("http://")
        .and_then(|rest| rest.parse().ok());
    address.with_context(|| format!("{url:?} is no address"))
}
