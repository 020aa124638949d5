//! A tool of a real MCP server: called by a client at its own pipe, and by an agent through our server and our computer.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::member::Member;
use super::server::Server;
use crate::bench::figure::{Figure, Goal};
use crate::bench::http::python;
use crate::bench::samples::Samples;
use crate::workspace;

const CALLS: usize = 200;
const WARM_UP_CALLS: usize = 20;
/// Rounds alternate, so that a busy moment of the machine hits both.
const ROUNDS: usize = 5;
const GOAL: f64 = 1.25;
/// Python needs a while to start.
const JOIN_LIMIT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// A server of a few tools, which the tests use too.
const SERVER: &str = "crates/mcp/src/client/tests/server.py";

pub(super) fn run(binary: &Path, server: &Server) -> anyhow::Result<Vec<Figure>> {
    let what = "call of a tool of an MCP server, median";
    let Some(python) = python("main") else {
        return Ok(vec![Figure::left_out(
            what,
            "there is no venv-main; ./test makes it",
        )]);
    };
    let mut bare = Bare::start(&python)?;
    let _computer = Computer::start(binary, server, &python)?;
    let mut agent = Member::connect(server.address, &server.token)?;
    agent.join("agent", "ann", "tools")?;
    wait_for_tool(&mut agent)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut sent = 0;
    for round in 0..=ROUNDS {
        let calls = if round == 0 {
            WARM_UP_CALLS
        } else {
            CALLS / ROUNDS
        };
        for _ in 0..calls {
            sent += 1;
            let through = timed(|| call(&mut agent, sent))?;
            let at_it = timed(|| bare.call(sent))?;
            if round > 0 {
                ours.push(through);
                theirs.push(at_it);
            }
        }
    }
    let (ours, theirs) = (Samples::new(ours)?, Samples::new(theirs)?);
    Ok(vec![
        Figure::new(what, ours.median(), "us")
            .beside("at its own pipe", theirs.median())
            .goal(Goal::RatioAtMost(GOAL)),
    ])
}

fn timed(act: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

fn call(agent: &mut Member, number: usize) -> anyhow::Result<()> {
    let body = json!({
        "agent": "ann", "computer": "pc", "tool_name": "scripted__add", "req_id": format!("t{number}"),
        "params": {"a": number, "b": 1}, "timeout": 60,
    });
    let id = agent.ask("client:tool_call", &body)?;
    let (answered, answer) = agent.answer()?;
    let sum = format!("\"text\":\"{}\"", number + 1);
    ensure!(
        answered == id && answer.contains(&sum),
        "the tool said {answer}"
    );
    Ok(())
}

fn wait_for_tool(agent: &mut Member) -> anyhow::Result<()> {
    let deadline = Instant::now() + JOIN_LIMIT;
    loop {
        let body = json!({"agent": "ann", "computer": "pc", "req_id": "tools"});
        agent.ask("client:get_tools", &body)?;
        let (_, answer) = agent.answer()?;
        if answer.contains("scripted__add") {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the computer lends nothing: {answer}"
        );
        thread::sleep(LOOK_AGAIN);
    }
}

/// `agentcraft computer join`; it ends with its owner, and its guardian ends the MCP server.
struct Computer(Child);

impl Computer {
    fn start(binary: &Path, server: &Server, python: &Path) -> anyhow::Result<Self> {
        let home = server.home.as_ref().context("the server has no home")?;
        let servers = json!({"servers": {"scripted": {
            "type": "stdio", "command": python, "args": [workspace::root().join(SERVER), "stdio"],
        }}});
        let (file, token) = (home.path().join("servers.json"), home.path().join("token"));
        fs::write(&file, servers.to_string()).context("could not write the computer's file")?;
        fs::write(&token, &server.token).context("could not write the token")?;
        let mut command = home.command(binary);
        command
            .args([
                "computer",
                "join",
                &format!("http://{}", server.address),
                "tools",
            ])
            .args(["--name", "pc", "--yes", "--token-file"])
            .arg(&token)
            .arg("--config")
            .arg(&file);
        Ok(Self(command.spawn().context("could not start a computer")?))
    }
}

impl Drop for Computer {
    fn drop(&mut self) {
        let _ = self.0.kill(); // It may be gone already.
        let _ = self.0.wait();
    }
}

/// The same MCP server with a client of a few lines.
struct Bare {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Bare {
    fn start(python: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(python)
            .arg(workspace::root().join(SERVER))
            .arg("stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("could not start the MCP server")?;
        let input = child.stdin.take().context("the MCP server has no input")?;
        let output = child
            .stdout
            .take()
            .context("the MCP server has no output")?;
        let output = BufReader::new(output);
        let mut bare = Self {
            child,
            input,
            output,
        };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "0"},
        });
        bare.ask(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}))?;
        bare.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(bare)
    }

    fn call(&mut self, number: usize) -> anyhow::Result<()> {
        let params = json!({"name": "add", "arguments": {"a": number, "b": 1}});
        let answer = self.ask(
            &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}),
        )?;
        let said = answer["result"]["content"][0]["text"].as_str();
        let sum = said.and_then(|said| said.parse().ok());
        ensure!(sum == Some(number + 1), "the tool said {answer}");
        Ok(())
    }

    fn say(&mut self, message: &Value) -> anyhow::Result<()> {
        writeln!(self.input, "{message}").context("could not write to the MCP server")
    }

    fn ask(&mut self, request: &Value) -> anyhow::Result<Value> {
        self.say(request)?;
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line);
            ensure!(
                read.context("could not read from the MCP server")? > 0,
                "the MCP server left"
            );
            let answer: Value = serde_json::from_str(&line).context("that is not JSON")?;
            if answer["id"] == request["id"] {
                return Ok(answer);
            }
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may be gone already.
        let _ = self.child.wait();
    }
}
