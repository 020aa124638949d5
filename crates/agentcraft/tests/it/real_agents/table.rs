//! The results: one row for each agent, shown and kept also when everything went well.

use std::{
    fs,
    panic::{self, AssertUnwindSafe},
    path::Path,
    time::Instant,
};

use super::{
    agents::{self, AGENTS, Agent},
    model,
    scene::Scene,
};

/// What is expected of one agent, where that is not that it works.
#[derive(Debug, Clone, Copy)]
pub(super) enum Exception {
    /// It cannot, whatever we do.
    ByNature(&'static str),
    /// It could, but we cannot yet. When it works the mark has to go.
    Ours(&'static str),
}

/// Tries one behaviour with every agent and prints what came of it.
pub(super) fn each(behaviour: &str, exceptions: &[(&str, Exception)], check: fn(&mut Scene)) {
    let (Some(programs), Some(model)) = (agents::programs(), model::program()) else {
        println!(
            "{behaviour}: skipped, for the agents' programs or the scripted model are not here"
        );
        return;
    };
    let only = std::env::var("AGENTCRAFT_TEST_AGENT").ok(); // For whoever looks at one of them.
    let chosen = AGENTS
        .iter()
        .filter(|agent| only.as_deref().is_none_or(|only| only == agent.name));
    let mut failures = Vec::new();
    let mut lines = Vec::new();
    for agent in chosen {
        let exception = exceptions.iter().find(|(name, _)| *name == agent.name);
        let start = Instant::now();
        let tried = || attempt(agent, &programs, &model, check);
        let line = match judge(exception.map(|(_, exception)| *exception), tried) {
            Ok(line) => line,
            Err(line) => {
                failures.push(format!("{}: {line}", agent.name));
                line
            }
        };
        let (name, seconds) = (agent.name, start.elapsed().as_secs_f64());
        lines.push(format!(
            "| {behaviour} | {name} | {line} | {seconds:.1} s |"
        ));
        println!("{}", lines[lines.len() - 1]);
    }
    keep(behaviour, &lines.join("\n"));
    assert!(failures.is_empty(), "{behaviour}:\n{}", failures.join("\n"));
}

/// The words of a row; an error is a row that must not be.
fn judge(
    exception: Option<Exception>,
    tried: impl FnOnce() -> Result<(), String>,
) -> Result<String, String> {
    match exception {
        None => tried()
            .map(|()| "works".to_owned())
            .map_err(|how| format!("FAILS: {how}")),
        Some(Exception::ByNature(why)) => Ok(format!("cannot by its nature: {why}")),
        Some(Exception::Ours(why)) => match tried() {
            Err(_) => Ok(format!("we cannot yet: {why}")),
            Ok(()) => Err("works, so the mark that it does not has to go".to_owned()),
        },
    }
}

/// A scene of its own for each agent, so that the failure of one says nothing about the next.
fn attempt(
    agent: &Agent,
    programs: &Path,
    model: &Path,
    check: fn(&mut Scene),
) -> Result<(), String> {
    let tried = panic::catch_unwind(AssertUnwindSafe(|| {
        check(&mut Scene::new(agent, programs, model));
    }));
    tried.map_err(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&words| words.to_owned()));
        words.unwrap_or_default().replace(['\n', '|'], " ")
    })
}

/// The runner hides what a test that passed has printed, so `./test` shows these files.
fn keep(behaviour: &str, lines: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real-agents");
    fs::create_dir_all(&folder).unwrap();
    let name = behaviour.replace(|character: char| !character.is_alphanumeric(), "-");
    fs::write(folder.join(format!("{name}.md")), format!("{lines}\n")).unwrap();
}

#[test]
fn a_mark_says_why_and_goes_when_it_works() {
    let (works, fails) = (|| Ok(()), || Err("no answer".to_owned()));
    assert_eq!(judge(None, works), Ok("works".to_owned()));
    assert_eq!(judge(None, fails), Err("FAILS: no answer".to_owned()));
    let ours = Some(Exception::Ours("it is new"));
    assert_eq!(
        judge(ours, fails),
        Ok("we cannot yet: it is new".to_owned())
    );
    assert!(judge(ours, works).is_err());
    let nature = Some(Exception::ByNature("it has no tools"));
    let row = "cannot by its nature: it has no tools".to_owned();
    assert_eq!(judge(nature, fails), Ok(row));
}
