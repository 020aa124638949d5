//! Office servers as processes: ours without a node, which takes fewer connections, and the barest relay there can be.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use crate::bench::context::Home;

/// Lines among which address and token must be.
const FIRST_LINES_MAX: usize = 5;

/// It ends with its owner.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) token: String,
    pub(super) home: Option<Home>,
}

impl Server {
    /// `agentcraft office serve` with a token that opens every office.
    pub(super) fn ours(binary: &Path) -> anyhow::Result<Self> {
        let home = Home::new()?;
        let mut command = home.command(binary);
        command.args(["office", "serve", "--listen", "127.0.0.1:0"]);
        let (child, lines) = start(command)?;
        let after = |start: &str| {
            let line = lines.iter().find_map(|line| line.strip_prefix(start));
            line.map(str::to_owned)
                .with_context(|| format!("the server did not say its {start:?}"))
        };
        let (address, token) = (after("office server at http://")?, after("token: ")?);
        Ok(Self {
            child,
            address: address.parse().context("that is no address")?,
            token,
            home: Some(home),
        })
    }

    /// The example of the relay's own crate.
    pub(super) fn bare(program: &Path) -> anyhow::Result<Self> {
        let (child, lines) = start(Command::new(program))?;
        let address = lines.iter().find_map(|line| line.parse().ok());
        Ok(Self {
            child,
            address: address.context("the bare relay did not say its address")?,
            token: String::new(),
            home: None,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may be gone already.
        let _ = self.child.wait();
    }
}

/// Starts it, and gives what it says first.
fn start(mut command: Command) -> anyhow::Result<(Child, Vec<String>)> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("could not start {command:?}"))?;
    let output = child.stdout.take().context("the server has no output")?;
    let mut lines = Vec::new();
    for line in BufReader::new(output).lines().take(FIRST_LINES_MAX) {
        let line = line.context("could not read what the server says")?;
        let is_last = line.starts_with("token: ") || line.parse::<SocketAddr>().is_ok();
        lines.push(line);
        if is_last {
            break;
        }
    }
    Ok((child, lines))
}
