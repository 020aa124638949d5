//! Runs that are taken up: what had ended is not done again, and what was decided stays so.

use serde_json::json;
use workflow::Outcome;

use super::scene::{Scene, nothing, sorted};
use crate::{RunState, StartError, TakenUp, detail};

/// Appends to a file, and waits for another one in its second step.
const INNER: &str = "inputs: [{name: who, required: true}]\nstates:\n  initial: one\n  one: {type: command, command: 'echo one-{{.inputs.who}} >> trace.txt', on_success: two}\n  two: {type: command, idempotent: true, command: 'echo two-{{.inputs.who}} >> trace.txt; while ! test -e go; do sleep 0.02; done', on_success: done}\n  done: {type: terminal, message: 'inner {{.inputs.who}}'}\n";

fn calling(workflow: &str) -> String {
    format!(
        "states:\n  initial: both\n  both: {{type: parallel, parallel: [a, b], on_success: done}}\n  \
         a: {{type: call_workflow, workflow: {workflow}, inputs: {{who: alice}}}}\n  \
         b: {{type: call_workflow, workflow: {workflow}, inputs: {{who: bob}}}}\n  \
         done: {{type: terminal, message: 'a={{{{.states.a.Output}}}} b={{{{.states.b.Output}}}}'}}\n"
    )
}

const BEGUN: [&str; 4] = ["one-alice", "one-bob", "two-alice", "two-bob"];

#[tokio::test]
async fn each_step_that_calls_a_workflow_takes_up_the_run_it_had_begun() {
    for workflow in ["inner", ".agentcraft/workflows/inner.yaml"] {
        let mut scene = Scene::new();
        scene.workflow("inner", INNER);
        scene.workflow("outer", &calling(workflow));
        let running = scene.begin("outer", nothing()).await;
        scene.until_file("trace.txt", &BEGUN).await;
        let id = running.id.clone();
        scene.killed(running).await;
        scene.write("go", "");
        let message = scene.resume(&id).await.unwrap().succeeds().await;
        assert_eq!(message, "a=inner alice b=inner bob", "{workflow}");
        let trace = scene.read("trace.txt");
        let again = [
            "one-alice",
            "one-bob",
            "two-alice",
            "two-alice",
            "two-bob",
            "two-bob",
        ];
        assert_eq!(sorted(&trace), again, "{workflow}");
        let runs = scene.history().list(100).await.unwrap();
        assert_eq!(runs.len(), 3, "{workflow}");
        assert!(
            runs.iter().all(|run| run.state == RunState::Succeeded),
            "{runs:?}"
        );
    }
}

#[tokio::test]
async fn a_called_workflow_that_had_ended_when_its_caller_died_is_not_run_again() {
    let mut scene = Scene::new();
    scene.workflow("inner", INNER);
    scene.workflow("outer", &calling("inner"));
    let running = scene.begin("outer", nothing()).await;
    scene.until_file("trace.txt", &BEGUN).await;
    let id = running.id.clone();
    scene.killed(running).await;
    scene.write("go", "");
    // One of the two ends, and nobody tells the caller.
    let runs = scene.history().list(100).await.unwrap();
    let inner = runs.iter().find(|run| run.parent.is_some()).unwrap();
    scene.resume(&inner.id).await.unwrap().succeeds().await;
    let before = scene.read("trace.txt");
    let message = scene.resume(&id).await.unwrap().succeeds().await;
    assert_eq!(message, "a=inner alice b=inner bob");
    assert_eq!(
        scene.read("trace.txt").lines().count(),
        before.lines().count() + 1
    );
    assert_eq!(scene.history().list(100).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_called_workflow_that_somebody_else_works_on_is_not_begun_anew() {
    let mut scene = Scene::new();
    scene.workflow("inner", INNER);
    scene.workflow("outer", &calling("inner"));
    let running = scene.begin("outer", nothing()).await;
    scene.until_file("trace.txt", &BEGUN).await;
    let id = running.id.clone();
    scene.killed(running).await;
    let runs = scene.history().list(100).await.unwrap();
    let inner = runs.iter().find(|run| run.parent.is_some()).unwrap();
    let other = scene.resume(&inner.id).await.unwrap();
    let (finish, _) = scene.resume(&id).await.unwrap().end().await;
    assert_eq!(finish.outcome, Outcome::Failed);
    assert_eq!(scene.history().list(100).await.unwrap().len(), 3);
    other.cancel.cancel();
    other.end().await;
}

#[tokio::test]
async fn a_run_that_has_succeeded_is_not_resumed_unless_a_step_is_named() {
    let scene = Scene::new();
    let states = "states:\n  initial: build\n  build: {type: command, command: 'echo build >> ran.txt', on_success: deploy}\n  deploy: {type: command, command: 'echo deploy >> ran.txt', on_success: done}\n  done: {type: terminal}\n";
    scene.workflow("dep", states);
    let running = scene.begin("dep", nothing()).await;
    let id = running.id.clone();
    running.succeeds().await;
    let refused = scene.resume(&id).await.err().unwrap();
    assert!(matches!(refused, StartError::Over { .. }), "{refused}");
    assert_eq!(scene.read("ran.txt"), "build\ndeploy\n");
    let running = scene.begin("dep", nothing()).await;
    let again = TakenUp {
        from: Some(workflow::RewindFrom::Step("deploy".to_owned())),
        ..TakenUp::going_on(running.watcher.audience.clone())
    };
    running.succeeds().await;
    let mut execution = crate::Execution::resume(&scene.node, &id, again)
        .await
        .unwrap();
    let never = tokio_util::sync::CancellationToken::new();
    execution.drive(&never).await.unwrap();
    assert_eq!(
        scene.read("ran.txt"),
        "build\ndeploy\nbuild\ndeploy\ndeploy\n"
    );
}

#[tokio::test]
async fn a_run_that_was_cut_off_in_a_step_does_it_once_when_it_is_named() {
    for rule in [
        "idempotent: true",
        "retry: {max_attempts: 2}",
        "timeout: 1h",
    ] {
        let mut scene = Scene::new();
        let states = format!(
            "states:\n  initial: one\n  one: {{type: command, {rule}, command: 'echo one >> seen; while ! test -e go; do sleep 0.02; done', on_success: done}}\n  done: {{type: terminal}}\n"
        );
        scene.workflow("cut", &states);
        let running = scene.begin("cut", nothing()).await;
        scene.until_file("seen", &["one"]).await;
        let id = running.id.clone();
        let named = TakenUp {
            from: Some(workflow::RewindFrom::Step("one".to_owned())),
            ..TakenUp::going_on(running.watcher.audience.clone())
        };
        scene.killed(running).await;
        scene.write("go", "");
        let mut execution = crate::Execution::resume(&scene.node, &id, named)
            .await
            .unwrap();
        let never = tokio_util::sync::CancellationToken::new();
        execution.drive(&never).await.unwrap();
        assert_eq!(scene.read("seen"), "one\none\n", "{rule}");
    }
}

const ENVY: &str = "states:\n  initial: one\n  one: {type: command, command: 'echo {{escape .env.STAGE}} {{readFile \"in.txt\"}} >> seen; rm in.txt', on_success: each}\n  each: {use_template: many, on_complete: two}\n  step: {type: command, idempotent: true, command: 'echo {{.loop.Item}} >> seen'}\n  two: {type: command, idempotent: true, command: 'echo two >> seen; while ! test -e go; do sleep 0.02; done', on_success: done}\n  done: {type: terminal, message: '{{.states.one.Status}}'}\n";

#[tokio::test]
async fn what_was_decided_is_not_decided_again_with_the_variables_and_files_of_today() {
    let mut scene = Scene::with(&[("STAGE", "prod")]);
    scene.write("in.txt", "file");
    let template = "name: many\nstates:\n  initial: many\n  many: {type: for_each, items: '[\"{{.env.STAGE}}\", \"x\"]', body: [step]}\n";
    scene.write(".agentcraft/templates/many.yaml", template);
    scene.workflow("envy", ENVY);
    let running = scene.begin("envy", nothing()).await;
    let seen = ["prod", "prod file", "two", "x"];
    scene.until_file("seen", &seen).await;
    let id = running.id.clone();
    let today = scene.seen_with(&[]).around.environment;
    let shown = detail(&scene.history(), &id, &today).await.unwrap();
    let failed = shown
        .steps
        .iter()
        .find(|step| !step.record.status.is_success());
    assert!(failed.is_none(), "{failed:?}");
    assert_eq!(shown.in_progress, ["two"]);
    scene.killed(running).await;
    std::fs::remove_file(scene.project().join(".agentcraft/templates/many.yaml")).unwrap();
    scene.write("go", "");
    let node = scene.seen_with(&[]);
    let resumed = Scene::resume_on(&node, &id).await.unwrap();
    assert_eq!(resumed.succeeds().await, "completed");
    assert_eq!(
        sorted(&scene.read("seen")),
        ["prod", "prod file", "two", "two", "x"]
    );
}

#[tokio::test]
async fn a_run_that_could_not_be_written_down_any_more_can_be_taken_up() {
    let scene = Scene::new();
    scene.workflow("inner", INNER);
    let prepared = scene.prepared("inner", json!({ "who": "eve" })).await;
    let id = prepared.id().to_owned();
    prepared.leave();
    scene.until_state(&id, RunState::Interrupted).await;
    scene.write("go", "");
    // Its first step was begun and is not safe to repeat, so somebody is asked.
    let mut running = scene.resume(&id).await.unwrap();
    let asked = running.watcher.asks.recv().await.unwrap();
    let again = domain::turn::Answer::Text {
        text: "again".to_owned(),
    };
    asked.answer.send(again).unwrap();
    assert_eq!(running.succeeds().await, "inner eve");
}
