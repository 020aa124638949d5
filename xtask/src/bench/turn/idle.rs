//! What a session costs in memory while nobody uses it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use super::stage::{BUILTIN, Stage, session};
use crate::bench::daemon::resident_kib;
use crate::bench::figure::{Figure, Goal};

/// The built-in agent keeps no more than 256 sessions open.
const AGENTS: usize = 5;
const SESSIONS_EACH: usize = 200;
/// Whatever the first turns bring into memory is not the price of a session.
const WARM_UP_SESSIONS_EACH: usize = 10;
/// A hundred sessions in what one picture takes.
const GOAL_KIB: f64 = 100.0;
/// Clients that leave are noticed at once; this is for a machine that compiles.
const IDLE_LIMIT: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let mut stage = Stage::new(binary)?;
    let names: Vec<String> = (0..AGENTS)
        .map(|number| format!("agent-{number}"))
        .collect();
    let mut agents = Vec::new();
    for name in &names {
        agents.push(stage.start_agent(name, BUILTIN)?);
    }
    let mut memory_after = |sessions_each| {
        talk(&stage, &names, sessions_each)?;
        wait_until_idle(&mut stage)?;
        let mut agents_kib = 0.0;
        for agent in &agents {
            agents_kib += resident_kib(*agent)?;
        }
        anyhow::Ok((stage.daemon.resident_kib()?, agents_kib))
    };
    let before = memory_after(WARM_UP_SESSIONS_EACH)?;
    let after = memory_after(SESSIONS_EACH)?;
    let sessions = f64::from(u32::try_from(AGENTS * SESSIONS_EACH)?);
    let each = |kib: f64| kib / sessions;
    Ok(vec![
        Figure::new("memory per idle session", each(after.0 - before.0), "KiB")
            .beside("the agent's own", each(after.1 - before.1))
            .goal(Goal::AtMost(GOAL_KIB)),
    ])
}

/// One turn in each of so many new sessions with each agent, each by a client of its own that leaves then, as a command
/// does: what is kept for clients that stay is not the price of an idle session.
fn talk(stage: &Stage, agents: &[String], sessions_each: usize) -> anyhow::Result<()> {
    for agent in agents.iter().cycle().take(agents.len() * sessions_each) {
        let mut client = stage.daemon.connect()?;
        let session = session(&mut client, agent)?;
        let prompt = json!({"sessionId": session, "text": "hello"});
        let answer = client.call("session.prompt", &prompt)?;
        ensure!(
            answer["stopReason"] == "end_turn",
            "a turn ended otherwise: {answer}"
        );
    }
    Ok(())
}

fn wait_until_idle(stage: &mut Stage) -> anyhow::Result<()> {
    let deadline = Instant::now() + IDLE_LIMIT;
    loop {
        let list = stage.control().call("session.list", &json!({}))?;
        let sessions = list.as_array().map(Vec::as_slice).unwrap_or_default();
        if sessions.iter().all(|session| session["clients"] == 0) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "sessions were not left within {IDLE_LIMIT:?}"
        );
        thread::sleep(LOOK_AGAIN);
    }
}
