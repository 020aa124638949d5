//! What commands are given, and what is shown of them while they run.

use std::collections::BTreeMap;

use domain::turn::{EventKind, ToolContent};
use engine::Keep;
use serde_json::Value;
use workflow::Outcome;

use super::scene::{Scene, Watcher, nothing, patiently};

#[tokio::test]
async fn a_script_is_not_eaten_by_its_own_commands_and_leaves_nothing() {
    let scene = Scene::new();
    let script = "#!/bin/sh -e\necho begin\ncat >/dev/null\necho end {{.inputs.x}} of $(basename \"$0\")\ntouch finished\n";
    scene.write(".agentcraft/scripts/eat.sh", script);
    let states = "inputs: [{name: x, default: one}]\nstates:\n  initial: a\n  a: {type: command, script_file: eat.sh, on_success: done}\n  done: {type: terminal, message: '{{.states.a.Output}}'}\n";
    scene.workflow("eat", states);
    let (finish, _) = scene.run("eat", nothing()).await;
    assert_eq!(finish.outcome, Outcome::Succeeded, "{}", finish.message);
    assert_eq!(finish.message, "begin\nend one of eat.sh\n");
    assert!(scene.project().join("finished").exists());
    let folders = std::fs::read_dir(&scene.node.folder).unwrap();
    assert_eq!(folders.count(), 0, "the script is gone");
}

#[tokio::test]
async fn what_a_command_prints_is_shown_while_it_works_from_both_streams() {
    let scene = Scene::new();
    let states = "states:\n  initial: a\n  a: {type: command, command: 'echo waiting; echo odd >&2; while ! test -e go; do sleep 0.02; done; echo later', on_success: done}\n  done: {type: terminal}\n";
    scene.workflow("slow", states);
    let running = scene.begin("slow", nothing()).await;
    patiently(async {
        let mut seen = 0;
        while !shown(&running.watcher).contains(&"waiting\nodd\n".to_owned()) {
            running.watcher.log.newer_than(seen).await;
            seen = running.watcher.log.last_seq();
        }
    })
    .await;
    scene.write("go", "");
    running.succeeds().await;
}

#[tokio::test]
async fn what_a_step_prints_is_kept_once_and_apart_from_what_lists_read() {
    let scene = Scene::new();
    let states = "states:\n  initial: a\n  a: {type: command, command: 'echo marked-$((40+2))', on_success: done}\n  done: {type: terminal}\n";
    scene.workflow("marked", states);
    scene.run("marked", nothing()).await;
    let id = scene.history().list(1).await.unwrap().remove(0).id;
    let records = &scene.node.records;
    let read = async |kind: &str| {
        let read = records.get::<Value>(kind, &id).await.unwrap();
        read.map(|stored| stored.value)
    };
    let head = read("workflow-run").await.unwrap();
    let mut body = read("workflow-run-body").await.unwrap();
    assert_eq!(head.to_string().matches("marked-42").count(), 0, "{head}");
    assert_eq!(body.to_string().matches("marked-42").count(), 1, "{body}");
    // As one document, which earlier versions have written, it is read as well.
    let both = body.as_object_mut().unwrap();
    both.extend(head.as_object().unwrap().clone());
    let writing = records.put("workflow-run", &id, Keep::Finished, &both, None);
    writing.await.unwrap();
    let removing = records.remove("workflow-run-body", &id, None);
    removing.await.unwrap();
    let detail = crate::detail(&scene.history(), &id, &BTreeMap::new()).await;
    assert_eq!(detail.unwrap().steps[0].record.output, "marked-42\n");
}

fn shown(watcher: &Watcher) -> Vec<String> {
    let updates = watcher.told().into_iter().filter_map(|kind| match kind {
        EventKind::ToolUpdate(update) => update.content,
        _ => None,
    });
    let texts = updates.flatten().filter_map(|content| match content {
        ToolContent::Text { text } => Some(text),
        ToolContent::Diff { .. } | ToolContent::Terminal { .. } => None,
    });
    texts.collect()
}
