//! Many editors on one daemon: how long until all are served, what a word costs among them, what they cost the daemon.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use serde_json::json;

use super::{Way, bare_agent, proxy};
use crate::bench::editor::Editor;
use crate::bench::figure::Figure;
use crate::bench::samples::Samples;
use crate::bench::turn::{Order, Stage, TALKER};

const EDITORS: usize = 50;
/// The pace at which a model speaks when it is quick.
const ORDER: Order = Order {
    chunks: 100,
    pace: Duration::from_millis(20),
};
const KIB_PER_MIB: f64 = 1024.0;

/// An editor in its session.
#[derive(Debug)]
struct Seat {
    editor: Editor,
    session: String,
}

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let mut stage = Stage::new(binary)?;
    stage.start_agent("leased", TALKER)?;
    let create = json!({"name": "direct", "template": TALKER});
    stage.control().call("agent.create", &create)?;
    let home = stage.daemon.home();
    let before = stage.daemon.resident_kib()? / KIB_PER_MIB;
    let (mut lone, _) = seats(1, || Ok(proxy(home, binary, "leased", Way::Lease)))?;
    let alone = Samples::new(all_turn(&mut lone)?)?;
    drop(lone);
    let (mut leased, all_leased) =
        seats(EDITORS, || Ok(proxy(home, binary, "leased", Way::Lease)))?;
    let words = Samples::new(all_turn(&mut leased)?)?;
    let after = stage.daemon.resident_kib()? / KIB_PER_MIB;
    drop(leased);
    let (bare, all_bare) = seats(EDITORS, bare_agent)?;
    drop(bare);
    let (mut bridged, all_bridged) =
        seats(EDITORS, || Ok(proxy(home, binary, "direct", Way::Direct)))?;
    all_turn(&mut bridged)?;
    leave(bridged)?;
    let what = format!("{EDITORS} editors");
    Ok(vec![
        Figure::new(format!("{what} in session, lease"), all_leased, "ms"),
        Figure::new(
            format!("word to {what}, lease, median"),
            words.median(),
            "us",
        )
        .beside("one editor", alone.median()),
        Figure::new(format!("word to {what}, lease, p99"), words.p99(), "us")
            .beside("one editor", alone.p99()),
        Figure::new(format!("memory of the daemon, {what}"), after, "MiB").beside("idle", before),
        Figure::new(format!("{what} in session, bridge"), all_bridged, "ms")
            .beside("the agents alone", all_bare),
    ])
}

/// Starts so many editors at once; gives the milliseconds until the last has its session.
fn seats(
    count: usize,
    command: impl Fn() -> anyhow::Result<Command>,
) -> anyhow::Result<(Vec<Seat>, f64)> {
    let start = Instant::now();
    let editors: anyhow::Result<Vec<Editor>> =
        (0..count).map(|_| Editor::start(&mut command()?)).collect();
    let mut editors = editors?;
    let answers = at_once(&mut editors, |editor| {
        editor.initialize()?;
        editor.session("/")
    })?;
    let took = start.elapsed().as_secs_f64() * 1000.0;
    let seats = editors.into_iter().zip(answers);
    let seats = seats.map(|(editor, session)| Seat { editor, session });
    Ok((seats.collect(), took))
}

/// All take a turn at once; gives every word's delay in microseconds.
fn all_turn(seats: &mut [Seat]) -> anyhow::Result<Vec<f64>> {
    let delays = at_once(seats, |seat| seat.editor.turn(&seat.session, ORDER))?;
    Ok(delays.concat())
}

fn leave(seats: Vec<Seat>) -> anyhow::Result<()> {
    let mut editors: Vec<Option<Editor>> =
        seats.into_iter().map(|seat| Some(seat.editor)).collect();
    at_once(&mut editors, |editor| {
        editor.take().map_or(Ok(()), Editor::leave)
    })
    .map(drop)
}

/// Does something with each of them, in a thread of its own, and gives the results in their order.
fn at_once<T: Send, R: Send>(
    items: &mut [T],
    act: impl Fn(&mut T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = items
            .iter_mut()
            .map(|item| scope.spawn(move || act(item)))
            .collect();
        let results = threads.into_iter().map(|thread| {
            let joined = thread.join().map_err(|_| anyhow!("an editor panicked"))?;
            joined.context("an editor failed")
        });
        results.collect()
    })
}
