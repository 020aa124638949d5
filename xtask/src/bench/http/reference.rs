//! A server that others wrote, if it is installed: a Python program in the environment that `./test` makes for it.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// Lines among which the address must be.
const FIRST_LINES_MAX: usize = 20;

/// It ends with its owner.
#[derive(Debug)]
pub(in crate::bench) struct Reference {
    child: Child,
    address: SocketAddr,
}

impl Reference {
    /// Starts the script, which prints its address and ends with its input; or says why there is none.
    /// `module` is what the environment called `name` must be able to import.
    pub(in crate::bench) fn start(
        name: &str,
        module: &str,
        script: &str,
    ) -> anyhow::Result<Result<Self, String>> {
        let Some(python) = python(name) else {
            return Ok(Err(format!("there is no venv-{name}; ./test makes it")));
        };
        let imported = Command::new(&python)
            .args(["-c", &format!("import {module}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .with_context(|| format!("could not start {}", python.display()))?;
        if !imported.success() {
            return Ok(Err(format!("venv-{name} cannot import {module}")));
        }
        let mut child = Command::new(&python)
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start {}", python.display()))?;
        let output = child.stdout.take().context("the server has no output")?;
        // Some say other things first.
        let lines = BufReader::new(output).lines().take(FIRST_LINES_MAX);
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.trim().parse().ok());
        let Some(address) = address else {
            let _ = child.kill(); // It may be gone already.
            let _ = child.wait();
            return Ok(Err(format!("the server of venv-{name} did not start")));
        };
        Ok(Ok(Self { child, address }))
    }

    pub(in crate::bench) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(in crate::bench) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may be gone already.
        let _ = self.child.wait();
    }
}

/// The interpreter of an environment, where `./test` puts them.
pub(in crate::bench) fn python(name: &str) -> Option<PathBuf> {
    let own = env::var_os("AGENTCRAFT_TEST_CACHE").map(PathBuf::from);
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder = own.or_else(|| Some(cache.or(home)?.join("agentcraft-test")))?;
    let python = folder.join(format!("venv-{name}/bin/python"));
    python.is_file().then_some(python)
}
