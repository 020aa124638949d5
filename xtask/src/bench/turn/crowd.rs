//! Many sessions that stream at once. That nothing is lost or out of place is not a figure: otherwise there are none.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::agent::Order;
use super::stage::{Stage, TALKER};
use super::watcher::Watcher;
use crate::bench::figure::Figure;
use crate::bench::samples::Samples;

const AGENTS: usize = 4;
const SESSIONS_EACH: usize = 50;
/// The pace at which a model speaks when it is quick.
const ORDER: Order = Order {
    chunks: 200,
    pace: Duration::from_millis(20),
};
/// The unit of processor time in `/proc`, the same on every machine Linux runs on.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let mut stage = Stage::new(binary)?;
    let mut watcher = Watcher::connect(&stage.daemon)?;
    let (mut agents, mut sessions) = (Vec::new(), Vec::new());
    for number in 0..AGENTS {
        let name = format!("{TALKER}-{number}");
        agents.push(stage.start_agent(&name, TALKER)?);
        for _ in 0..SESSIONS_EACH {
            let session = stage.session(&name)?;
            watcher.attach(&session)?;
            sessions.push(session);
        }
    }
    let daemon = stage.daemon.pid();
    let (before, agents_before) = (cpu_seconds(&[daemon])?, cpu_seconds(&agents)?);
    for session in &sessions {
        stage.order(session, ORDER)?;
    }
    let arrivals = watcher.collect(sessions.len(), |_| Ok(()))?;
    for _ in &sessions {
        stage.finished()?;
    }
    let spent = cpu_seconds(&[daemon])? - before;
    let agents_spent = cpu_seconds(&agents)? - agents_before;
    let delays = watcher.check(&arrivals, ORDER.chunks)?;
    let expected = sessions.len() * usize::try_from(ORDER.chunks)?;
    ensure!(
        delays.len() == expected,
        "{} of {expected} words came",
        delays.len()
    );
    let events = f64::from(u32::try_from(expected)?);
    let delays = Samples::new(delays)?;
    let what = format!("{} sessions at once", sessions.len());
    Ok(vec![
        Figure::new(format!("word in {what}, median"), delays.median(), "us"),
        Figure::new(format!("word in {what}, p99"), delays.p99(), "us"),
        Figure::new(format!("processor time of {what}"), spent, "s")
            .beside("the agents", agents_spent),
        Figure::new("processor time per event", spent * 1e6 / events, "us")
            .beside("the agents", agents_spent * 1e6 / events),
    ])
}

/// What processes have spent so far.
pub(in crate::bench) fn cpu_seconds(pids: &[u32]) -> anyhow::Result<f64> {
    let mut ticks = 0.0;
    for pid in pids {
        let path = format!("/proc/{pid}/stat");
        let stat = fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
        ticks += ticks_in(&stat).with_context(|| format!("{path} tells no processor time"))?;
    }
    Ok(ticks / TICKS_PER_SECOND)
}

/// The sum of the times for the process itself and for the system on its behalf.
fn ticks_in(stat: &str) -> Option<f64> {
    // The name before the bracket may hold anything, also brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let own: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(own + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_from_the_line_of_a_process() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 99";
        assert_eq!(ticks_in(stat), Some(300.0));
        assert_eq!(ticks_in("7 (a"), None);
    }
}
