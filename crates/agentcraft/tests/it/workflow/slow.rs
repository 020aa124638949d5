//! What takes minutes. The module's name is in the tests' names, by which the runner gives them that time.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    Project,
    commands::{all_hundred_succeed, hundred},
    crash::{MIXED_STEPS, Story, TEN_STEPS},
    editor::Editor,
    providers::stub,
};

#[test]
#[ignore = "slow: twenty runs are killed and taken up"]
fn a_run_that_is_killed_at_twenty_moments_spread_over_it_is_taken_up() {
    killed_at_twenty_moments(&TEN_STEPS);
}

#[test]
#[ignore = "slow: twenty runs are killed and taken up"]
fn a_run_with_agents_hooks_and_approvals_that_is_killed_at_twenty_moments_is_taken_up() {
    killed_at_twenty_moments(&MIXED_STEPS);
}

fn killed_at_twenty_moments(story: &Story) {
    const MOMENTS: usize = 20;
    let whole = story.project().run(&[story.name, "-f", "json"], 0);
    let whole = whole.stdout.lines().count();
    let mut in_the_middle = 0;
    for moment in 1..=MOMENTS {
        let project = story.project();
        let mut command = project.command(&["workflow", "run", story.name, "-f", "json"]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Whatever it does after that line, it does until the signal reaches it.
        let lines = (whole * moment / (MOMENTS + 1)).max(1);
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..lines {
            told.next().unwrap().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if story.counts(&project)[story.last] == 0 {
            in_the_middle += 1;
            story.goes_on(&project, &format!("after {lines} of {whole} events"));
        }
        project.nothing_is_left();
    }
    assert!(
        in_the_middle > MOMENTS / 2,
        "only {in_the_middle} were killed in time"
    );
}

#[test]
#[ignore = "slow: four thousand processes on a busy machine"]
fn a_hundred_branches_at_once_all_succeed_forty_times_under_load() {
    let project = Project::new();
    project.workflow("many", &hundred());
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let busy = || {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "while :; do :; done"]).spawn().unwrap()
    };
    let mut load: Vec<Child> = (0..cores * 2).map(|_| busy()).collect();
    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..40 {
            all_hundred_succeed(&project);
        }
    }));
    for child in &mut load {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    if let Err(failure) = tried {
        std::panic::resume_unwind(failure);
    }
    project.nothing_is_left();
}

#[test]
#[ignore = "slow: measures, and nothing else should run"]
fn ninety_five_of_a_hundred_fragments_are_on_stdout_within_a_hundred_milliseconds() {
    const FRAGMENTS: usize = 300;
    let mut project = Project::new();
    let program = r#"exec python3 -c '
import json, time
def piece(text):
    delta = {"type": "text_delta", "text": text}
    print(json.dumps({"type": "stream_event", "parent_tool_use_id": None,
        "event": {"type": "content_block_delta", "delta": delta}}), flush=True)
for number in range(300):
    piece("%d " % time.time_ns())
    time.sleep(0.005)
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "", "session_id": "s"}), flush=True)
'"#;
    stub(&mut project, "claude", program);
    let text = "name: ask\nstates:\n  initial: ask\n  ask: {type: agent, provider: claude, prompt: count, on_success: done}\n  done: {type: terminal}\n";
    project.workflow("ask", text);
    let mut editor = Editor::open(&project);
    editor.begin("/ask");
    let mut took: Vec<Duration> = Vec::new();
    let mut read = 0;
    while took.len() < FRAGMENTS {
        editor.until("another fragment", |editor| editor.words().len() > read);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let words = editor.words();
        let new = words[read..].split_whitespace();
        took.extend(
            new.map(|sent| now.saturating_sub(Duration::from_nanos(sent.parse().unwrap()))),
        );
        read = words.len();
    }
    took.sort();
    let most = took[FRAGMENTS * 95 / 100];
    assert!(most < Duration::from_millis(100), "{most:?}");
    editor.close();
}
