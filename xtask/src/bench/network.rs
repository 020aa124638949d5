//! Nodes that use one another: from a node's start to its neighbour's use of it, choosing among many skills, a run that was
//! routed beside one that was asked for directly, and what a hundred peers cost a node that does nothing.

mod crowd;
mod spaces;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::context::{Context, Home};
use super::daemon::{Daemon, load};
use super::figure::{Figure, Goal};
use super::http::{Http, Node, one_word, post};
use super::samples::Samples;
use super::turn::TALKER;
use crowd::Crowd;
use spaces::Spaces;

/// Neighbours that are started one after the other.
const STARTS: usize = 5;
const FOUND_LIMIT: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// A node sends a peer sixty intents in a minute and no more.
const RUNS: usize = 50;
const CHOICES: usize = 200;
const PEERS: usize = 100;
const SKILLS_EACH: usize = 10;
/// Long enough for every peer to be asked again.
const IDLE: Duration = Duration::from_secs(65);
/// Ticks of a process's time in a second.
const TICKS: f64 = 100.0;

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    figures.push(usable(binary)?);
    figures.push(routed(binary)?);
    figures.extend(crowded(binary)?);
    Ok(figures)
}

/// From the start of a node to the skill that its neighbour has of it.
fn usable(binary: &Path) -> anyhow::Result<Figure> {
    const NAME: &str = "start of a node until its neighbour can use it";
    let Some(mut spaces) = Spaces::new()? else {
        return Ok(Figure::left_out(NAME, "network namespaces need root"));
    };
    let node = |spaces: &mut Spaces, name: &str| -> anyhow::Result<Daemon> {
        let home = Home::new()?;
        let config =
            format!("[http]\nlisten = \"0.0.0.0:7420\"\ntrust = \"open\"\nname = \"{name}\"\n");
        fs::write(home.path().join("config.toml"), config)
            .context("could not write config.toml")?;
        Daemon::start_in(&spaces.machine(binary, home.path())?, home)
    };
    let neighbour = node(&mut spaces, "neighbour")?;
    let mut times = Vec::new();
    for number in 0..STARTS {
        let skill = format!("configs/skills/remote/node{number}.skill.yaml");
        let skill = neighbour.home().path().join(skill);
        let start = Instant::now();
        let _started = node(&mut spaces, &format!("node{number}"))?;
        while !skill.exists() {
            ensure!(start.elapsed() < FOUND_LIMIT, "the node was not found");
            thread::sleep(LOOK_AGAIN);
        }
        times.push(start.elapsed());
    }
    let median = Samples::milliseconds(&times)?.median();
    Ok(Figure::new(NAME, median, "ms").goal(Goal::AtMost(1500.0)))
}

/// A run that another node was asked for by an intent, beside the same run asked for at that node.
fn routed(binary: &Path) -> anyhow::Result<Figure> {
    let (asking, mut asked) = (Node::start(binary)?, Node::start(binary)?);
    let url = format!("http://{}", asked.address);
    let mut http = Http::connect(asking.address)?;
    let peer = json!({"url": url, "token": asked.owner()});
    call(&mut http, &asking, "/peers", &peer)?;
    let part = json!({"content_type": "text/plain", "content": one_word()});
    let body =
        json!({"agent_name": TALKER, "input": [{"role": "user", "parts": [part]}], "mode": "sync"});
    let direct = asked.request("/runs", "", &body.to_string())?;
    let mut there = Http::connect(asked.address)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = Instant::now();
        there.exchange(&direct)?;
        theirs.push(start.elapsed());
        let start = Instant::now();
        let intent = json!({"text": one_word(), "peer": url});
        let done = call(&mut http, &asking, "/intents", &intent)?;
        ours.push(start.elapsed());
        ensure!(
            done["status"] == "completed",
            "the intent did not work: {done}"
        );
    }
    let median = |times: &[_]| Samples::microseconds(times).map(|samples| samples.median());
    let figure = Figure::new("a routed run", median(&ours)?, "us");
    Ok(figure
        .beside("POST /runs", median(&theirs)?)
        .goal(Goal::RatioAtMost(1.2)))
}

/// A node with a hundred peers: choosing among what they can do, and doing nothing.
fn crowded(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let node = Node::start(binary)?;
    let crowd = Crowd::start(SKILLS_EACH)?;
    let mut http = Http::connect(node.address)?;
    for number in 0..PEERS {
        let url = format!("http://{}/n{number}", crowd.address());
        call(&mut http, &node, "/peers", &json!({"url": url}))?;
    }
    let mut times = Vec::new();
    for number in 0..CHOICES {
        let text = format!("please do job{} and play the radio 放电台", number * 5);
        let start = Instant::now();
        let ranked = call(&mut http, &node, "/intents/route", &json!({"text": text}))?;
        times.push(start.elapsed());
        let first = &ranked["ranked"][0]["capability"];
        ensure!(*first == format!("job{}", number * 5), "{first} was chosen");
    }
    let chosen = Samples::milliseconds(&times)?.median();
    let before = ticks(node.stage.daemon.pid())?;
    thread::sleep(IDLE);
    let after = ticks(node.stage.daemon.pid())?;
    let share = (after - before) / TICKS / IDLE.as_secs_f64() * 100.0;
    Ok(vec![
        Figure::new(
            format!("choosing among {} skills", PEERS * SKILLS_EACH),
            chosen,
            "ms",
        )
        .goal(Goal::AtMost(5.0)),
        Figure::new(format!("idle with {PEERS} peers"), share, "% of a core")
            .goal(Goal::AtMost(0.5)),
    ])
}

fn call(http: &mut Http, node: &Node, path: &str, body: &Value) -> anyhow::Result<Value> {
    let headers = format!("Authorization: Bearer {}\r\n", node.owner());
    let answer = http.exchange(&post(path, &headers, &body.to_string()))?;
    serde_json::from_slice(answer).context("the node's answer is not JSON")
}

/// The time that a process has had.
fn ticks(pid: u32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the daemon is gone")?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let field = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok());
    let (user, system) = (field(11), field(12));
    user.zip(system)
        .map(|(user, system)| user + system)
        .context("its time is not told")
}
