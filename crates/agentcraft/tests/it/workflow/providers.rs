//! Programs of every provider as steps, with what the real ones printed.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Project, editor::Editor};

/// The provider and its program.
pub(super) const PROVIDERS: [(&str, &str); 5] = [
    ("claude", "claude"),
    ("codex", "codex"),
    ("gemini", "gemini"),
    ("github_copilot", "copilot"),
    ("opencode", "opencode"),
];

/// A program that prints what the real one printed.
pub(super) fn stub(project: &mut Project, program: &str, script: &str) {
    let bin = project.folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let path = bin.join(program);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let all = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    project.home.set_env("PATH", Some(&all));
}

/// What the real program printed.
pub(super) fn recorded(program: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../print/fixtures");
    fixtures.join(format!("{program}.jsonl"))
}

fn ask(provider: &str) -> String {
    format!(
        "name: ask\nstates:\n  initial: ask\n  ask:\n    type: agent\n    provider: {provider}\n    prompt: list the files\n    \
         on_success: keep\n    on_failure: failed\n  keep:\n    type: command\n    \
         command: printf '%s' {{{{escape .states.ask.Output}}}} > said.txt\n    on_success: done\n  \
         done: {{type: terminal}}\n  failed: {{type: terminal, status: failure}}\n"
    )
}

#[test]
fn what_each_program_really_printed_becomes_text_thoughts_and_tool_calls() {
    for (provider, program) in PROVIDERS {
        let mut project = Project::new();
        let recorded = recorded(program);
        stub(
            &mut project,
            program,
            &format!("cat '{}'", recorded.display()),
        );
        project.workflow("ask", &ask(provider));
        let output = project.run(&["ask", "-f", "json"], 0);
        let events: Vec<Value> = output
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of = |kind: &str| {
            events
                .iter()
                .filter(|event| event["type"] == kind)
                .collect::<Vec<_>>()
        };
        let said: String = of("text")
            .iter()
            .filter_map(|event| event["text"].as_str())
            .collect();
        assert!(
            said.contains("Let me run a command."),
            "{provider}: {said:?}"
        );
        assert_eq!(project.read("said.txt").trim(), said.trim(), "{provider}");
        let inner: Vec<&str> = of("tool-call")
            .iter()
            .filter_map(|call| call["id"].as_str())
            .filter(|id| id.contains(":ask::"))
            .collect();
        assert!(!inner.is_empty(), "{provider}: its tool is not told");
        for id in inner {
            // One that tells of a tool only when it is over has no update.
            let mut told = events.iter().filter(|event| event["id"] == id);
            let last = told.rfind(|event| event["status"].is_string());
            assert_eq!(last.unwrap()["status"], "completed", "{provider}: {id}");
        }
        project.nothing_is_left();
    }
}

#[test]
fn every_fragment_is_in_the_editor_before_the_program_says_the_next() {
    let mut project = Project::new();
    // It goes on only when somebody has seen what it said.
    let script = r#"echo '{"type":"stream_event","event":{"type":"message_start","message":{"id":"m"}}}'
for number in 1 2 3 4 5 6 7 8 9 10; do
  echo '{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"<'$number'>"}}}'
  while [ ! -e "seen-$number" ]; do sleep 0.01; done
done
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"<1><2><3><4><5><6><7><8><9><10>"}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"s"}'"#;
    stub(&mut project, "claude", script);
    project.workflow("ask", &ask("claude"));
    let mut editor = Editor::open(&project);
    let asked = editor.begin("/ask");
    let mut all = String::new();
    for number in 1..=10 {
        all.push_str(&format!("<{number}>"));
        editor.until("the fragment is there", |editor| editor.words() == all);
        fs::write(project.folder.join(format!("seen-{number}")), "").unwrap();
    }
    let answer = editor.answer(&serde_json::json!(asked));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(editor.words(), all, "nothing is said twice");
    editor.close();
    project.nothing_is_left();
}

#[test]
fn a_secret_that_a_program_prints_in_two_pieces_is_masked() {
    let mut project = Project::new();
    project.home.set_env("API_KEY_X", Some("opensesame-1234"));
    let delta = |text: &str| {
        format!(
            r#"echo '{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}}}'"#
        )
    };
    let script = [
        r#"echo '{"type":"system","subtype":"init","session_id":"s"}'"#.to_owned(),
        r#"echo '{"type":"stream_event","event":{"type":"message_start","message":{"id":"m"}}}'"#.to_owned(),
        delta("it is opensesa"),
        delta("me-1234, yes"),
        r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"ok","session_id":"s"}'"#.to_owned(),
    ];
    stub(&mut project, "claude", &script.join("\n"));
    project.workflow("ask", &ask("claude"));
    let output = project.run(&["ask", "-f", "json"], 0);
    let all = format!("{}{}", output.stdout, output.stderr);
    assert!(all.contains("***"), "{all}");
    assert!(
        !all.contains("opensesa") && !all.contains("me-1234"),
        "{all}"
    );
    assert!(
        project.read("said.txt").contains("opensesame-1234"),
        "later steps see what was said"
    );
}

#[test]
fn a_program_that_is_missing_fails_the_step_in_words() {
    let mut project = Project::new();
    project.home.set_env("PATH", Some("/nowhere"));
    project.workflow("ask", &ask("codex"));
    let output = project.run(&["ask"], 1);
    assert!(output.stderr.contains("codex"), "{}", output.stderr);
}
