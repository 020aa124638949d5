//! The way of an agent's word through a run to the editor.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::FOLDER;
use crate::bench::context::Home;
use crate::bench::editor::Editor;
use crate::bench::figure::{Figure, Goal};
use crate::bench::samples::Samples;
use crate::bench::turn::Order;

/// Words of one turn, said as fast as a quick model does.
const ORDER: Order = Order {
    chunks: 300,
    pace: Duration::from_millis(4),
};
const TURNS: usize = 5;
/// Nobody sees a delay below a frame of the screen; most of that belongs to the editor.
const GOAL_MS: f64 = 2.0;

pub(super) fn run(binary: &Path) -> anyhow::Result<Vec<Figure>> {
    let home = Home::new()?;
    let folder = home.path().join(FOLDER);
    fs::create_dir_all(&folder).context("could not make the folder of workflows")?;
    let agent = std::env::current_exe().context("could not find our own program")?;
    let text = format!(
        "name: speak\ninputs:\n  - {{name: order, type: string, required: true}}\nstates:\n  initial: speak\n  speak:\n    \
         type: agent\n    provider: 'acp: {} bench --turn-agent'\n    prompt: '{{{{.inputs.order}}}}'\n    on_success: done\n  \
         done: {{type: terminal, status: success}}\n",
        agent.display()
    );
    fs::write(folder.join("speak.yaml"), text).context("could not write a workflow")?;
    let mut editor = Editor::start(home.command(binary).arg("acp-serve"))?;
    editor.initialize()?;
    let session = editor.session(&home.path().to_string_lossy())?;
    let mut delays = Vec::new();
    for _ in 0..TURNS {
        let order = format!("/speak {}", ORDER.prompt());
        delays.extend(editor.turn_of(&session, &order, ORDER)?);
    }
    editor.leave()?;
    let delays = Samples::new(delays.into_iter().map(|delay| delay / 1000.0).collect())?;
    Ok(vec![
        Figure::new("word of an agent to the editor, p50", delays.median(), "ms"),
        Figure::new("word of an agent to the editor, p95", delays.p95(), "ms"),
        Figure::new("word of an agent to the editor, p99", delays.p99(), "ms")
            .goal(Goal::AtMost(GOAL_MS)),
    ])
}
