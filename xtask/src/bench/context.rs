//! What every benchmark needs: the binary as users run it, and a home of its own.

use std::cell::OnceCell;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use tempfile::TempDir;

use crate::workspace;

#[derive(Debug)]
pub(super) struct Context {
    release_binary: OnceCell<PathBuf>,
    /// Whether programs may be built.
    builds: bool,
    minutes: u32,
}

impl Context {
    /// With a program that is there already, nothing is built.
    pub(super) fn new(binary: Option<PathBuf>, minutes: u32) -> Self {
        Self {
            builds: binary.is_none(),
            minutes,
            release_binary: binary.map_or_else(OnceCell::new, OnceCell::from),
        }
    }

    /// How long a benchmark goes on that watches something over time.
    pub(super) fn minutes(&self) -> u32 {
        self.minutes
    }

    /// The release build of `agentcraft`, built on the first call.
    pub(super) fn release_binary(&self) -> anyhow::Result<&Path> {
        if let Some(path) = self.release_binary.get() {
            return Ok(path);
        }
        let path = build_release("agentcraft", "--bin", "agentcraft")?;
        Ok(self.release_binary.get_or_init(|| path))
    }

    /// The release build of an example, or why there is none: beside a program that was there already, it must be there too.
    pub(super) fn release_example(
        &self,
        package: &str,
        name: &str,
    ) -> anyhow::Result<Result<PathBuf, String>> {
        if self.builds {
            return build_release(package, "--example", name).map(Ok);
        }
        let path = self.release_binary()?.with_file_name("examples").join(name);
        let missing = format!("there is no {}", path.display());
        Ok(path.is_file().then_some(path).ok_or(missing))
    }
}

/// The line of cargo's output that tells where an executable is.
#[derive(Debug, Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
}

fn build_release(package: &str, kind: &str, name: &str) -> anyhow::Result<PathBuf> {
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--locked", "--package", package]);
    command.args([kind, name]);
    // Cargo itself says where it put the file, whatever the target folder is.
    command
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit());
    let output = command
        .output()
        .with_context(|| format!("could not start {command:?}"))?;
    if !output.status.success() {
        bail!("could not build {name} for release");
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("cargo built no executable named {name}"))
}

fn executable(messages: &str) -> Option<PathBuf> {
    let artifacts = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    artifacts
        .filter_map(|artifact| artifact.executable)
        .next_back()
}

/// What is left to do if we are killed: end the daemon of the home and remove the home. It begins when its input ends.
const JANITOR: &str = r#"read -r _; kill "$(cat "$0/daemon.pid")"; sleep 2; rm -rf "$0""#;

/// An empty home that is deleted when it is dropped, and by a janitor if we are killed before.
#[derive(Debug)]
pub(super) struct Home {
    folder: TempDir,
    janitor: Child,
}

impl Home {
    pub(super) fn new() -> anyhow::Result<Self> {
        // The socket's path has to fit into 108 bytes, so the name stays short.
        let folder = tempfile::Builder::new().prefix("ac-bench-").tempdir();
        let folder = folder.context("could not make a temporary home")?;
        let janitor = Command::new("sh")
            .args(["-c", JANITOR])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0) // Ctrl-C is not meant for it.
            .spawn()
            .context("could not start the janitor of a temporary home")?;
        Ok(Self { folder, janitor })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A command that sees this home and nothing else of the user's.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("AGENTCRAFT_HOME", self.folder.path())
            .env("HOME", self.folder.path());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.janitor.kill(); // The folder goes by itself now.
        let _ = self.janitor.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_read_from_what_cargo_prints() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\nnot json\n\
            {\"reason\":\"compiler-artifact\",\"executable\":\"/t/release/agentcraft\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(
            executable(messages),
            Some(PathBuf::from("/t/release/agentcraft"))
        );
        assert_eq!(executable("{\"reason\":\"build-finished\"}"), None);
    }

    #[test]
    fn a_home_ends_with_its_owner() {
        let home = Home::new().unwrap();
        let path = home.path().to_owned();
        assert!(path.is_dir());
        drop(home);
        assert!(!path.exists());
    }
}
