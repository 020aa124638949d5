//! The node's page in a real browser while many sessions stream: what is lost, what the daemon and the page cost, and how
//! soon the page can be used.

mod page;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::context::Context;
use super::daemon::{load, request, result_of};
use super::figure::{Figure, Goal};
use super::http::{Http, Node, post};
use super::turn::{Order, TALKER, cpu_seconds};
use page::Page;

/// Agents, and sessions with each of them.
const AGENTS: usize = 4;
const SESSIONS_EACH: usize = 25;
/// Updates a second of each session.
const RATE: u32 = 50;
/// The first and the last part of the time are compared.
const PARTS: u32 = 3;

pub(super) fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let binary = context.release_binary()?;
    let mut figures: Vec<Figure> = load().into_iter().collect();
    let Some(tools) = page::tools() else {
        let why = "./test installs Chromium and the packages of tests/node/dashboard.json";
        figures.push(Figure::left_out("the page", why));
        return Ok(figures);
    };
    let length = Duration::from_secs(60) * context.minutes();
    figures.extend(measure(binary, &tools, length)?);
    Ok(figures)
}

fn measure(binary: &Path, tools: &page::Tools, length: Duration) -> anyhow::Result<Vec<Figure>> {
    let mut node = Node::start(binary)?;
    let sessions = sessions(&mut node)?;
    let daemon = node.stage.daemon.pid();
    let mut page = Page::open(tools, &link(&node)?, &sessions[0])?;
    let usable = page.usable()?;
    let order = Order {
        chunks: u32::try_from(length.as_secs())? * RATE,
        pace: Duration::from_secs(1) / RATE,
    };
    for session in &sessions {
        let params = json!({"sessionId": session, "text": order.prompt()});
        let line = request("session.prompt", &params);
        node.stage.control().send(&line)?;
    }
    let (mut spent, mut memory, mut resident) = (Vec::new(), Vec::new(), Vec::new());
    let mut meanwhile = f64::NAN;
    let start = Instant::now();
    for part in 1..=PARTS {
        let before = cpu_seconds(&[daemon])?;
        let end = length * part / PARTS;
        thread::sleep(end.saturating_sub(start.elapsed()));
        spent.push((cpu_seconds(&[daemon])? - before) / (length / PARTS).as_secs_f64() * 100.0);
        memory.push(page.memory()?);
        resident.push(page.resident()?);
        if part == 1 {
            // Between the parts that are compared, so that it is in neither.
            meanwhile = page.usable_meanwhile()?;
        }
    }
    for _ in &sessions {
        let answer = result_of(node.stage.control().receive()?)?;
        ensure!(answer["stopReason"] == "end_turn", "a turn ended otherwise");
    }
    let shown = page.finish()?;
    let lost = order.chunks - shown.min(order.chunks);
    let what = format!("{} sessions at {RATE} updates a second", sessions.len());
    let (first, last) = (0, spent.len() - 1);
    Ok(vec![
        Figure::new("page usable after a reload", usable, "ms").goal(Goal::AtMost(300.0)),
        Figure::new(format!("page usable, {what}"), meanwhile, "ms").goal(Goal::AtMost(300.0)),
        Figure::new(
            format!("updates lost on the page, {what}"),
            f64::from(lost),
            "",
        )
        .goal(Goal::AtMost(0.0)),
        Figure::new("processor time of the daemon, last third", spent[last], "%")
            .beside("first third", spent[first])
            .goal(Goal::RatioAtMost(1.25)),
        Figure::new("memory of the page, last third", memory[last], "MiB")
            .beside("first third", memory[first])
            .goal(Goal::RatioAtMost(1.5)),
        Figure::new(
            "memory of the page's process, last third",
            resident[last],
            "MiB",
        )
        .beside("first third", resident[first]),
    ])
}

fn sessions(node: &mut Node) -> anyhow::Result<Vec<String>> {
    let mut sessions = Vec::new();
    for number in 0..AGENTS {
        let name = format!("{TALKER}-{number}");
        node.stage.start_agent(&name, TALKER)?;
        for _ in 0..SESSIONS_EACH {
            let created = node.stage.control();
            let created = created.call("session.create", &json!({"agentName": name}))?;
            let id = created["sessionId"].as_str();
            sessions.push(id.context("a session has no id")?.to_owned());
        }
    }
    Ok(sessions)
}

/// A link that logs a browser in.
fn link(node: &Node) -> anyhow::Result<String> {
    let bearer = format!("Authorization: Bearer {}\r\n", node.owner());
    let request = post("/login/codes", &bearer, "{}");
    let mut http = Http::connect(node.address)?;
    let made: serde_json::Value = serde_json::from_slice(http.exchange(&request)?)
        .context("the node's answer is not JSON")?;
    let path = made["path"].as_str().context("the node gave no link")?;
    Ok(format!("http://{}{path}", node.address))
}
