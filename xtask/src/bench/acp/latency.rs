//! How much later a message arrives. A request with its answer crosses the bridge once, since the agent writes to the
//! editor's pipe by itself, and the lease twice; a word of the agent crosses the lease once.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use super::{Way, bare_agent, proxy};
use crate::bench::daemon::Pinned;
use crate::bench::editor::Editor;
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;
use crate::bench::turn::{Order, Stage, TALKER};

/// Rounds alternate between the ways, so that a busy moment of the machine hits all.
const ROUNDS: usize = 10;
const TURNS_PER_ROUND: usize = 50;
/// A turn that is only a request and its answer.
const SILENT: Order = Order {
    chunks: 0,
    pace: Duration::ZERO,
};
/// A calm agent: each word finds everybody waiting for it.
const WORDS: Order = Order {
    chunks: 50,
    pace: Duration::from_millis(2),
};
const WARM_UP_TURNS: usize = 100;
/// The bridge copies bytes from one pipe to the other; that is two wake-ups.
const BRIDGE_GOAL_US: f64 = 50.0;
/// The lease reads every message, records it and writes it again, in another process.
const LEASE_GOAL_US: f64 = 300.0;
/// A turn without words is a request and an answer.
const MESSAGES_PER_TURN: f64 = 2.0;

/// One way to the agent, and what was measured on it.
#[derive(Debug)]
struct Lane {
    editor: Editor,
    session: String,
    turns: Vec<Duration>,
    words: Vec<f64>,
}

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let mut stage = Stage::new(binary)?;
    let leased = stage.start_agent("leased", TALKER)?;
    let create = json!({"name": "direct", "template": TALKER});
    stage.control().call("agent.create", &create)?;
    let home = stage.daemon.home();
    let mut lanes = [
        Lane::open(Editor::start(&mut bare_agent()?)?)?,
        Lane::open(Editor::start(&mut proxy(
            home,
            binary,
            "direct",
            Way::Direct,
        ))?)?,
        Lane::open(Editor::start(&mut proxy(
            home,
            binary,
            "leased",
            Way::Lease,
        ))?)?,
    ];
    let mut pids: Vec<u32> = lanes.iter().map(|lane| lane.editor.pid()).collect();
    pids.extend([stage.daemon.pid(), leased]);
    let status = stage
        .control()
        .call("agent.status", &json!({"name": "direct"}))?;
    let bridged = status["pid"].as_u64().and_then(|pid| pid.try_into().ok());
    pids.push(bridged.with_context(|| format!("the bridged agent has no process: {status}"))?);
    let mut figures = Vec::new();
    {
        let _pinned = Pinned::together(&pids)?;
        figures.extend(measure("on one core", &mut lanes)?);
    }
    if let Some(_pinned) = Pinned::apart(&pids)? {
        figures.extend(measure("across cores", &mut lanes)?);
    }
    Ok(figures)
}

impl Lane {
    fn open(mut editor: Editor) -> anyhow::Result<Self> {
        editor.initialize()?;
        let session = editor.session("/")?;
        Ok(Self {
            editor,
            session,
            turns: Vec::new(),
            words: Vec::new(),
        })
    }

    fn forget(&mut self) {
        self.turns.clear();
        self.words.clear();
    }

    fn take_turns(&mut self, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            let start = Instant::now();
            self.editor.turn(&self.session, SILENT)?;
            self.turns.push(start.elapsed());
        }
        Ok(())
    }
}

fn measure(placement: &str, lanes: &mut [Lane; 3]) -> anyhow::Result<Vec<Figure>> {
    for lane in lanes.iter_mut() {
        lane.take_turns(WARM_UP_TURNS)?;
        lane.forget();
    }
    for _ in 0..ROUNDS {
        for lane in lanes.iter_mut() {
            lane.take_turns(TURNS_PER_ROUND)?;
            lane.words.extend(lane.editor.turn(&lane.session, WORDS)?);
        }
    }
    let [bare, direct, lease] = lanes;
    let turns = |lane: &Lane| Samples::microseconds(&lane.turns);
    let words = |lane: &Lane| Samples::new(lane.words.clone());
    let request = format!("request and answer {placement}");
    let word = format!("word {placement}");
    let mut figures = Vec::new();
    figures.extend(pair(
        &format!("{request}, bridge"),
        ("bare pipe", &turns(bare)?),
        &turns(direct)?,
        BRIDGE_GOAL_US,
    ));
    figures.extend(pair(
        &format!("{request}, lease"),
        ("bridge", &turns(direct)?),
        &turns(lease)?,
        LEASE_GOAL_US * MESSAGES_PER_TURN,
    ));
    figures.extend(pair(
        &format!("{word}, bridge"),
        ("bare pipe", &words(bare)?),
        &words(direct)?,
        BRIDGE_GOAL_US,
    ));
    figures.extend(pair(
        &format!("{word}, lease"),
        ("bridge", &words(direct)?),
        &words(lease)?,
        LEASE_GOAL_US,
    ));
    Ok(figures)
}

/// A way beside the one below it, and what it adds.
fn pair(what: &str, (name, floor): (&str, &Samples), ours: &Samples, goal_us: f64) -> [Figure; 3] {
    let added = ours.median() - floor.median();
    [
        Figure::new(format!("{what}, median"), ours.median(), "us").beside(name, floor.median()),
        Figure::new(format!("{what}, p99"), ours.p99(), "us").beside(name, floor.p99()),
        Figure::new(format!("{what}, added at the median"), added, "us")
            .goal(Goal::AtMost(goal_us)),
    ]
}
