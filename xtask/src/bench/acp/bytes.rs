//! Bytes per second from the editor to the agent: the bridge beside `cat` in its place.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::{Way, proxy};
use crate::bench::context::Home;
use crate::bench::editor::Editor;
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;
use crate::bench::turn::{Stage, ourselves, write_template};

/// The template and the agent that only takes.
const SINK: &str = "sink";
/// A round lasts long beside its start and short beside our patience.
const ROUND_BYTES: usize = 256 * 1024 * 1024;
const ROUNDS: usize = 5;
/// The length of a message, with its end: what editors send when they attach a part of a file.
const LINE_BYTES: usize = 4096;
/// What is written at once: a pipe holds no more.
const WRITE_BYTES: usize = 64 * 1024;
/// The bridge looks for one field in every message; `cat` looks at nothing.
const RATIO_GOAL: f64 = 0.8;
const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let home = Home::new()?;
    let length = ROUND_BYTES.to_string();
    write_template(&home, SINK, &ourselves(&["--sink-agent", &length])?)?;
    let mut stage = Stage::in_home(binary, home)?;
    let create = serde_json::json!({"name": SINK, "template": SINK});
    stage.control().call("agent.create", &create)?;
    let home = stage.daemon.home();
    let mut bridge = Editor::start(&mut proxy(home, binary, SINK, Way::Direct))?;
    let mut cat = Editor::start(&mut behind_cat(&length)?)?;
    let block = block();
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(round(&mut bridge, &block)?);
        floor.push(round(&mut cat, &block)?);
    }
    let name = format!("bytes through the bridge, lines of {LINE_BYTES}");
    Ok(vec![
        Figure::new(name, Samples::new(ours)?.median(), "MiB/s")
            .beside("cat in its place", Samples::new(floor)?.median())
            .goal(Goal::RatioAtLeast(RATIO_GOAL)),
    ])
}

/// The same agent with `cat` before it.
fn behind_cat(length: &str) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("could not find our own program")?;
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"cat | "$0" bench --sink-agent "$1""#])
        .arg(program)
        .arg(length);
    Ok(command)
}

/// Messages as an editor writes them, as many as go in one write.
fn block() -> Vec<u8> {
    let before = r#"{"jsonrpc":"2.0","method":"session/update","params":{"text":""#;
    let after = "\"}}\n";
    let filling = LINE_BYTES - before.len() - after.len();
    let line = format!("{before}{}{after}", "x".repeat(filling));
    line.repeat(WRITE_BYTES / LINE_BYTES).into_bytes()
}

/// MiB per second, until the agent says that it has everything.
fn round(editor: &mut Editor, block: &[u8]) -> anyhow::Result<f64> {
    let start = Instant::now();
    for _ in 0..ROUND_BYTES / block.len() {
        editor.write(block)?;
    }
    editor.receive()?;
    let mebibytes = f64::from(u32::try_from(ROUND_BYTES)?) / MIB;
    Ok(mebibytes / start.elapsed().as_secs_f64())
}

/// Takes bytes from the standard input, and says a line after every `length` of them.
pub(in crate::bench) fn serve_sink(length: usize) -> anyhow::Result<()> {
    ensure!(length > 0, "an agent that takes nothing has nothing to say");
    let mut input = io::stdin().lock();
    let mut buffer = vec![0; WRITE_BYTES];
    let mut taken = 0;
    loop {
        let read = input.read(&mut buffer).context("could not read")?;
        if read == 0 {
            return Ok(());
        }
        taken += read;
        while taken >= length {
            taken -= length;
            let mut output = io::stdout().lock();
            output
                .write_all(b"{}\n")
                .and_then(|()| output.flush())
                .context("could not say a line")?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_whole_blocks_of_whole_lines() {
        let block = block();
        assert_eq!(block.len(), WRITE_BYTES);
        assert_eq!(ROUND_BYTES % block.len(), 0);
        let lines = block.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, WRITE_BYTES / LINE_BYTES);
        let line = block.split(|byte| *byte == b'\n').next().unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(line).is_ok());
    }
}
