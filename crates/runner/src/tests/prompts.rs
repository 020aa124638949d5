//! Who may run what by a prompt.

use domain::turn::Stop;
use serde_json::json;

use super::scene::{Scene, Talking};

/// A workflow that writes the text it was given to a file.
const TRIAGE: &str = "inputs: [{name: text, required: true}]\nstates:\n  initial: a\n  a: {type: command, command: 'echo {{escape .inputs.text}} >> triage.txt', on_success: done}\n  done: {type: terminal}\n";

const DEPLOY: &str = "states:\n  initial: a\n  a: {type: command, command: 'echo deployed >> deploy.txt', on_success: done}\n  done: {type: terminal}\n";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.workflow("triage", TRIAGE);
    scene.workflow("deploy", DEPLOY);
    scene.write("evil.yaml", &format!("name: evil\n{DEPLOY}"));
    scene
}

#[tokio::test]
async fn an_agent_for_one_workflow_runs_that_one_alone_whatever_is_said() {
    let scene = scene();
    let keeper = scene.keeper(json!({ "workflow": "triage" })).unwrap();
    let talk = Talking::with(keeper, scene.project()).await;
    let file = format!("/{}", scene.project().join("evil.yaml").display());
    for prompt in ["/deploy", &file, "/etc/passwd is unreadable", "plain"] {
        assert_eq!(talk.say(prompt).await, Stop::EndTurn, "{prompt}");
    }
    assert_eq!(talk.say("/triage text=named").await, Stop::EndTurn);
    let told = format!("/deploy\n{file}\n/etc/passwd is unreadable\nplain\nnamed\n");
    assert_eq!(scene.read("triage.txt"), told);
    assert_eq!(scene.read("deploy.txt"), "");
}

#[tokio::test]
async fn the_one_workflow_of_an_agent_is_not_replaced_by_a_file_of_the_folder_it_is_used_in() {
    let scene = scene();
    let keeper = scene.keeper(json!({ "workflow": "triage" })).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = elsewhere.path().join(".agentcraft/workflows");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("triage.yaml"),
        format!("name: triage\n{DEPLOY}"),
    )
    .unwrap();
    let talk = Talking::with(keeper, elsewhere.path()).await;
    assert_eq!(talk.say("hello").await, Stop::EndTurn);
    assert!(elsewhere.path().join("triage.txt").exists());
    assert!(!elsewhere.path().join("deploy.txt").exists());
}

#[tokio::test]
async fn a_prompt_names_workflows_and_never_files() {
    let scene = scene();
    let talk = Talking::with(scene.keeper(json!({})).unwrap(), scene.project()).await;
    let absolute = format!("/{}", scene.project().join("evil.yaml").display());
    for prompt in [
        "/evil.yaml",
        &absolute,
        "/.agentcraft/workflows/deploy.yaml",
    ] {
        assert_eq!(talk.say(prompt).await, Stop::Refusal, "{prompt}");
    }
    assert_eq!(scene.read("deploy.txt"), "");
    assert_eq!(talk.say("/deploy").await, Stop::EndTurn);
    assert_eq!(scene.read("deploy.txt"), "deployed\n");
}
