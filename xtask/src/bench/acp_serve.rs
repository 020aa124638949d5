//! Workflows in an editor: start, the list of commands, and the smallest turn; as a process alone and with a daemon.

mod crowd;
mod words;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::context::{Context, Home};
use super::daemon::{Daemon, load};
use super::editor::{Editor, is_answer, prompt};
use super::figure::{Figure, Goal};
use super::samples::Samples;
use super::workflow::{bare_sequence, write_many};

/// Where an editor's folder has its workflows.
const FOLDER: &str = ".agentcraft/workflows";
/// More than anybody keeps in one folder.
const WORKFLOWS: usize = 200;
const STARTS: usize = 21;
/// Fills the page cache before anything counts.
const WARM_UP_STARTS: usize = 2;
const TURNS_PER_START: usize = 5;
/// An editor shows its panel without a pause.
const START_GOAL_MS: f64 = 20.0;
/// The list is there before somebody has typed a slash.
const COMMANDS_GOAL_MS: f64 = 30.0;

/// What a turn may cost beyond the command that it runs.
const TURN_GOAL_MS: f64 = 4.0;

/// What was measured of all starts.
#[derive(Debug, Default)]
struct Times {
    start: Vec<Duration>,
    commands: Vec<Duration>,
    turns: Vec<Duration>,
}

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    let home = prepared()?;
    figures.extend(measure("alone", &home, binary)?);
    let daemon = Daemon::start_in(binary, prepared()?)?;
    figures.extend(measure("with a daemon", daemon.home(), binary)?);
    figures.extend(words::run(binary)?);
    figures.extend(crowd::run(binary)?);
    Ok(figures)
}

/// A home whose folder, which is also the editor's, has workflows.
fn prepared() -> anyhow::Result<Home> {
    let home = Home::new()?;
    write_many(&home.path().join(FOLDER), WORKFLOWS)?;
    Ok(home)
}

fn measure(what: &str, home: &Home, binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let mut ours = Times::default();
    let (mut agent, mut shell, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP_STARTS + STARTS {
        let mut times = Times::default();
        one_start(home, binary, &mut times)?;
        let floor = bare_start()?;
        let spawn = bare_sequence(home, 1)?;
        let read = read_all(home)?;
        if round >= WARM_UP_STARTS {
            ours.start.extend(times.start);
            ours.commands.extend(times.commands);
            ours.turns.extend(times.turns);
            agent.push(floor);
            shell.push(spawn);
            files.push(read);
        }
    }
    let median = |times: &[Duration]| Samples::milliseconds(times).map(|samples| samples.median());
    let (turn, spawn) = (median(&ours.turns)?, Samples::new(shell)?.median());
    Ok(vec![
        Figure::new(
            format!("start to initialize, {what}"),
            median(&ours.start)?,
            "ms",
        )
        .beside("an empty agent", median(&agent)?)
        .goal(Goal::AtMost(START_GOAL_MS)),
        Figure::new(
            format!("session/new to {WORKFLOWS} commands, {what}"),
            median(&ours.commands)?,
            "ms",
        )
        .beside("reading the files", median(&files)?)
        .goal(Goal::AtMost(COMMANDS_GOAL_MS)),
        Figure::new(format!("turn of one step, {what}"), turn, "ms").beside("bare spawn", spawn),
        Figure::new(
            format!("turn beyond its command, {what}"),
            turn - spawn,
            "ms",
        )
        .goal(Goal::AtMost(TURN_GOAL_MS)),
    ])
}

fn one_start(home: &Home, binary: &Path, times: &mut Times) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut editor = Editor::start(home.command(binary).arg("acp-serve"))?;
    editor.initialize()?;
    times.start.push(start.elapsed());
    let start = Instant::now();
    let session = session_with_commands(&mut editor, home.path())?;
    times.commands.push(start.elapsed());
    for _ in 0..TURNS_PER_START {
        let start = Instant::now();
        let answer = editor.call("session/prompt", &prompt(&session, "/flow-0"))?;
        times.turns.push(start.elapsed());
        ensure!(
            answer["stopReason"] == "end_turn",
            "a turn ended otherwise: {answer}"
        );
    }
    editor.leave()
}

/// A session, when both its id and the list of its commands have come, in whichever order.
fn session_with_commands(editor: &mut Editor, folder: &Path) -> anyhow::Result<String> {
    let params = json!({"cwd": folder, "mcpServers": []});
    let id = editor.send("session/new", &params)?;
    let (mut session, mut listed) = (None, false);
    while session.is_none() || !listed {
        let message = editor.message()?;
        if is_answer(&message, id) {
            let answer = message["result"]["sessionId"].as_str();
            let answer = answer.with_context(|| format!("no session was opened: {message}"))?;
            session = Some(answer.to_owned());
        }
        listed |= commands_in(&message) >= WORKFLOWS;
    }
    session.context("no session was opened")
}

fn commands_in(message: &Value) -> usize {
    let commands = &message["params"]["update"]["availableCommands"];
    commands.as_array().map_or(0, Vec::len)
}

/// How long it takes to read every workflow and do nothing with it.
fn read_all(home: &Home) -> anyhow::Result<Duration> {
    let folder = home.path().join(FOLDER);
    let start = Instant::now();
    for entry in fs::read_dir(&folder).context("could not list the workflows")? {
        let path = entry.context("could not list the workflows")?.path();
        fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
    }
    Ok(start.elapsed())
}

/// The least that a program can cost that answers `initialize`.
fn bare_start() -> anyhow::Result<Duration> {
    let program = std::env::current_exe().context("could not find our own program")?;
    let start = Instant::now();
    let mut editor = Editor::start(Command::new(program).args(["bench", "--turn-agent"]))?;
    editor.initialize()?;
    let duration = start.elapsed();
    editor.leave()?;
    Ok(duration)
}
