//! Many at once, and many after each other: sessions that each take a turn, and the memory after a thousand turns.

use std::path::Path;
use std::time::Instant;

use anyhow::ensure;

use super::{prepared, session_with_commands};
use crate::bench::daemon::resident_kib;
use crate::bench::editor::{Editor, is_answer, prompt};
use crate::bench::figure::{Figure, Goal};
use crate::bench::workflow::bare_sequence;

const SESSIONS: usize = 50;
/// After these the program has loaded and grown whatever it needs.
const FIRST_TURNS: usize = 100;
const TURNS: usize = 1000;
/// What still counts as flat: buffers and pages that the allocator keeps.
const FLAT_GOAL: f64 = 1.25;
const KIB_PER_MIB: f64 = 1024.0;

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let home = prepared()?;
    let mut editor = Editor::start(home.command(binary).arg("acp-serve"))?;
    editor.initialize()?;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(session_with_commands(&mut editor, home.path())?);
    }
    let start = Instant::now();
    let mut waiting = Vec::new();
    for session in &sessions {
        waiting.push(editor.send("session/prompt", &prompt(session, "/flow-0"))?);
    }
    while !waiting.is_empty() {
        let message = editor.message()?;
        if let Some(place) = waiting.iter().position(|id| is_answer(&message, *id)) {
            ensure!(
                message["result"]["stopReason"] == "end_turn",
                "a turn ended otherwise: {message}"
            );
            waiting.swap_remove(place);
        }
    }
    let at_once = start.elapsed().as_secs_f64() * 1000.0;
    let bare = bare_sequence(&home, SESSIONS)?;
    let mut turns = |count: usize| -> anyhow::Result<f64> {
        for _ in 0..count {
            editor.call("session/prompt", &prompt(&sessions[0], "/flow-1"))?;
        }
        Ok(resident_kib(editor.pid())? / KIB_PER_MIB)
    };
    let (early, late) = (turns(FIRST_TURNS)?, turns(TURNS)?);
    editor.leave()?;
    Ok(vec![
        Figure::new(
            format!("{SESSIONS} sessions with a turn each at once"),
            at_once,
            "ms",
        )
        .beside("bare spawns after each other", bare),
        Figure::new(format!("memory after {TURNS} turns"), late, "MiB")
            .beside(format!("after {FIRST_TURNS}"), early)
            .goal(Goal::RatioAtMost(FLAT_GOAL)),
    ])
}
