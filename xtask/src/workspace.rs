//! Where the workspace is, which files it has, and how cargo is called in it.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

/// The folder of the workspace's Cargo.toml.
pub(crate) fn root() -> PathBuf {
    // Clones may share a target folder, so what cargo says now goes before what was compiled in.
    let manifest_dir =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let mut root = PathBuf::from(manifest_dir);
    root.pop();
    root
}

/// The cargo that started us, in the workspace's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The output of a command that must succeed.
pub(crate) fn output_of(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command
        .output()
        .with_context(|| format!("could not start {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?} failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}

/// Paths from the root of every file that git has or would take, sorted.
pub(crate) fn files() -> anyhow::Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ]);
    let listing =
        String::from_utf8(output_of(&mut git)?).context("git listed a path that is not UTF-8")?;
    let root = root();
    // The index still lists files deleted in the work tree.
    let mut files: Vec<String> = listing
        .split_terminator('\0')
        .filter(|path| root.join(path).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}
