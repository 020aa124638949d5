//! Any agent behind any face: every kind of agent, through every face, in each cell a prompt, streaming, an ask answered, a
//! cancel and a failure. A cell that makes no sense says why. docs/matrix.md shows the result.

mod faces;
mod kinds;
pub(crate) mod model;

use std::{fmt::Write, fs, panic, path::Path};

use faces::{End, FACES, Face, Seen};
use kinds::{KINDS, Kind, Scene};

/// What every cell shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Prompt,
    Streaming,
    Ask,
    Cancel,
    Failure,
}

const ACTS: [Act; 5] = [
    Act::Prompt,
    Act::Streaming,
    Act::Ask,
    Act::Cancel,
    Act::Failure,
];

impl Act {
    fn word(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Streaming => "streaming",
            Self::Ask => "ask",
            Self::Cancel => "cancel",
            Self::Failure => "failure",
        }
    }
}

fn reason(kind: &Kind, face: &Face, act: Act) -> Option<&'static str> {
    (kind.cannot)(act).or_else(|| (face.cannot)(act))
}

/// What is wrong with what was seen; nothing if it is as it should be.
fn wrong(scene: &Scene, kind: &Kind, act: Act, seen: &Seen) -> Option<String> {
    let holds = match act {
        Act::Prompt => seen.text.contains("hello matrix") && seen.end == End::Done,
        Act::Streaming => seen.pieces >= 2 && seen.end == End::Done,
        Act::Ask => scene.asked_file(kind).exists() && seen.end == End::Done,
        Act::Cancel => seen.end == End::Cancelled,
        Act::Failure => matches!(&seen.end, End::Failed(why) if why.contains("on purpose")),
    };
    (!holds).then(|| format!("{seen:?}"))
}

/// Every kind of agent through one face. All cells are tried before any of them fails the test.
fn check(face: &Face) {
    let scene = Scene::new();
    let way = (face.open)(&scene.daemon);
    let mut broken = String::new();
    for kind in &KINDS {
        for act in ACTS {
            if reason(kind, face, act).is_some() {
                continue;
            }
            let _ = fs::remove_file(scene.asked_file(kind)); // Of another act, if at all.
            let tried = panic::catch_unwind(panic::AssertUnwindSafe(|| {
                let seen = way(kind.name, act, (kind.prompt)(act));
                wrong(&scene, kind, act, &seen)
            }));
            let wrong = match tried {
                Ok(wrong) => wrong,
                Err(_) => Some("the test itself failed, see above".to_owned()),
            };
            if let Some(wrong) = wrong {
                let _ = writeln!(broken, "{} {}: {wrong}", kind.name, act.word());
            }
        }
    }
    assert!(broken.is_empty(), "through {}:\n{broken}", face.title);
}

#[test]
fn every_kind_of_agent_does_every_act_through_the_socket() {
    check(&faces::SOCKET);
}

#[test]
fn every_kind_of_agent_does_every_act_on_the_command_line() {
    check(&faces::COMMAND_LINE);
}

#[test]
fn every_kind_of_agent_does_every_act_for_an_editor() {
    check(&faces::EDITOR);
}

#[test]
fn every_kind_of_agent_does_every_act_through_mcp() {
    check(&faces::MCP);
}

#[test]
fn every_kind_of_agent_does_every_act_through_the_runs_api() {
    check(&faces::RUNS);
}

#[test]
fn every_kind_of_agent_does_every_act_through_a2a() {
    check(&faces::A2A);
}

#[test]
fn every_kind_of_agent_does_every_act_through_an_office() {
    check(&faces::OFFICE);
}

#[test]
fn every_kind_of_agent_does_every_act_through_the_dashboard() {
    check(&faces::DASHBOARD);
}

/// The page, from the tables that the tests above go by.
fn page() -> String {
    let mut reasons: Vec<&str> = Vec::new();
    let mut rows = String::new();
    for kind in &KINDS {
        let _ = write!(rows, "| {} |", kind.title);
        for face in FACES {
            let mut cell = "✓".to_owned();
            let mut left_out = Vec::new();
            for act in ACTS {
                let Some(reason) = reason(kind, face, act) else {
                    continue;
                };
                let number = reasons.iter().position(|known| *known == reason);
                let number = number.unwrap_or_else(|| {
                    reasons.push(reason);
                    reasons.len() - 1
                });
                left_out.push(format!("{} ({})", act.word(), number + 1));
            }
            if !left_out.is_empty() {
                let _ = write!(cell, " without {}", left_out.join(", "));
            }
            let _ = write!(rows, " {cell} |");
        }
        rows.push('\n');
    }
    let titles: Vec<&str> = FACES.iter().map(|face| face.title).collect();
    let mut page = format!(
        "# Any agent behind any face\n\n\
         Each kind of agent is tried through each face of a real node (`crates/agentcraft/tests/it/matrix.rs`). A ✓ stands for five\n\
         acts: a prompt and its answer, an answer that comes in parts, a question of the agent that is answered, a cancel, and a\n\
         failure whose words arrive. The test compares this page with what it tries; `AGENTCRAFT_WRITE_DOCS=1` writes it anew.\n\n\
         | agent | {} |\n|{}\n{rows}",
        titles.join(" | "),
        "---|".repeat(FACES.len() + 1),
    );
    page.push('\n');
    for (index, reason) in reasons.iter().enumerate() {
        let _ = writeln!(page, "{}. {reason}", index + 1);
    }
    page
}

#[test]
fn the_page_of_the_matrix_shows_what_is_tried() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/matrix.md");
    if std::env::var_os("AGENTCRAFT_WRITE_DOCS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), page());
}
