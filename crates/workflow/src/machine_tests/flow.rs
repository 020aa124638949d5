//! Where runs go: transitions, failures, hooks, ends, cancel.

use serde_json::json;

use super::*;
use crate::problem::Code;

#[test]
fn success_and_failure_lead_where_the_file_says() {
    let text = states(
        "  a: {type: command, command: one, on_success: b, on_failure: bad}\n  b: {type: command, command: 'two {{.states.a.Output}}', on_success: done, on_failure: bad}",
    );
    let mut run = Run::begin(&text);
    run.ok("a", "x");
    assert_eq!(run.started(), ["one", "two x"]);
    run.ok("b", "");
    assert_eq!(run.outcome(), (Outcome::Succeeded, 0, "fine"));

    let mut run = Run::begin(&text);
    run.fail("a", 7);
    assert_eq!(
        run.outcome(),
        (Outcome::Failed, 1, "bad: step a: went wrong")
    );
    let failure = run.finish().failure.clone().unwrap();
    assert_eq!((failure.code, failure.exit_code), (Code::CommandFailed, 7));
}

#[test]
fn transitions_beat_everything_else() {
    let text = states(
        "  a:\n    type: command\n    command: one\n    continue_on_error: true\n    on_success: bad\n    transitions:\n      - {when: 'states.a.ExitCode == 3', goto: b}\n      - {when: 'states.a.Output contains \"skip\"', goto: done}\n  b: {type: command, command: two, on_success: done}",
    );
    let cases: [(StepResult, &[&str], Option<Outcome>); 4] = [
        (StepResult::failed(3, "x"), &["one", "two"], None),
        (
            StepResult::succeeded("please skip"),
            &["one"],
            Some(Outcome::Succeeded),
        ),
        (
            StepResult::succeeded("other"),
            &["one"],
            Some(Outcome::Failed),
        ),
        (StepResult::failed(1, "x"), &["one"], Some(Outcome::Failed)),
    ];
    for (result, started, outcome) in cases {
        let mut run = Run::begin(&text);
        run.end("a", result);
        assert_eq!(run.started(), started);
        assert_eq!(run.machine.finish().map(|finish| finish.outcome), outcome);
    }
}

#[test]
fn an_inline_error_ends_with_its_own_code() {
    let text = states(
        "  a: {type: command, command: one, on_success: done, on_failure: {message: 'no {{.states.a.ExitCode}}', status: 42}}",
    );
    let mut run = Run::begin(&text);
    run.fail("a", 9);
    assert_eq!(run.outcome(), (Outcome::Failed, 42, "no 9"));
}

#[test]
fn a_failure_nobody_handles_ends_the_run_with_three() {
    let mut run = Run::begin(&states(
        "  a: {type: command, command: one, on_success: done}",
    ));
    run.fail("a", 9);
    assert_eq!(run.outcome(), (Outcome::Failed, 3, "step a: went wrong"));
    let mut run = Run::begin(&states(
        "  a: {type: command, command: one, on_success: done, continue_on_error: true}",
    ));
    run.fail("a", 9);
    assert_eq!(run.outcome(), (Outcome::Succeeded, 0, "fine"));
}

#[test]
fn hooks_run_around_steps_and_runs_and_change_nothing() {
    let text = format!(
        "{}hooks:\n  workflow_start: [{{log: 'start {{{{.workflow.name}}}}'}}, {{command: prepare}}]\n  workflow_end: [{{command: tidy}}]\n  workflow_error: [{{log: 'error {{{{.error.message}}}}'}}]\n",
        states(
            "  a:\n    type: command\n    command: one\n    hooks: {pre: [{log: before}, {command: mkdir}], post: [{command: 'after {{.states.a.ExitCode}}'}]}\n    on_success: done"
        )
    );
    let mut run = Run::begin(&text);
    assert_eq!(run.started(), ["hook prepare"]);
    run.ok("", "");
    run.fail("a", 1); // The hook before the step.
    assert_eq!(run.started(), ["hook prepare", "hook mkdir", "one"]);
    run.ok("a", "");
    run.ok("a", "");
    run.fail("", 1);
    assert_eq!(
        run.started(),
        [
            "hook prepare",
            "hook mkdir",
            "one",
            "hook after 0",
            "hook tidy"
        ]
    );
    assert_eq!(run.outcome().0, Outcome::Succeeded);
    let logs = run.logs();
    assert!(
        logs.contains(&"start demo") && logs.contains(&"before"),
        "{logs:?}"
    );
    assert!(
        logs.iter().any(|log| log.starts_with("a hook failed")),
        "{logs:?}"
    );

    let mut run = Run::begin(&text);
    run.ok("", "");
    run.ok("a", "");
    run.fail("a", 5);
    run.ok("a", "");
    assert_eq!(run.outcome().0, Outcome::Failed);
    assert!(run.logs().contains(&"error step a: went wrong"));
}

#[test]
fn outputs_are_handed_back_and_their_errors_do_not_undo_the_run() {
    let text = format!(
        "{}outputs: {{result: '{{{{.states.a.Output | trimSpace}}}}', other: '{{{{.states.b.Output}}}}'}}\n",
        states(
            "  a: {type: command, command: one, on_success: done, on_failure: b}\n  b: {type: command, command: two, on_success: done}"
        )
    );
    let mut run = Run::begin(&text);
    run.ok("a", " 42\n");
    let finish = run.finish();
    assert_eq!(
        finish.outputs,
        *json!({"result": "42", "other": null}).as_object().unwrap()
    );
    let result = finish.of_step(run.machine.records());
    assert_eq!(result.data["a"], " 42\n");
    assert_eq!(
        (result.status, result.data["result"].as_str()),
        (StepStatus::Succeeded, Some("42"))
    );
}

#[test]
fn cancel_stops_what_runs_and_then_ends() {
    let text = format!(
        "{}hooks: {{workflow_cancel: [{{command: undo}}]}}\n",
        states(
            "  a: {type: command, command: one, retry: {max_attempts: 3}, on_success: done, on_failure: bad}"
        )
    );
    let mut run = Run::begin(&text);
    let ticket = run.open("a").ticket;
    let effects = run.tell(Input::Cancel);
    assert_eq!(
        effects,
        [Effect::Stop {
            ticket,
            reason: StopReason::Cancelled
        }]
    );
    run.fail("a", 143);
    assert_eq!(run.started(), ["one", "hook undo"]);
    run.ok("", "");
    assert_eq!(run.outcome(), (Outcome::Cancelled, 130, "cancelled"));
    assert_eq!(run.machine.records()["a"].status, StepStatus::Cancelled);
    // Nobody listens any more, and nobody is confused.
    assert!(run.tell(Input::Cancel).is_empty());
    let late = Input::Finished {
        ticket,
        result: Box::default(),
    };
    assert!(run.tell(late).is_empty());
}

#[test]
fn a_second_cancel_does_not_wait() {
    let mut run = Run::begin(&states(
        "  a: {type: command, command: one, on_success: done}",
    ));
    run.tell(Input::Cancel);
    assert!(run.machine.finish().is_none());
    run.tell(Input::Cancel);
    assert_eq!(run.outcome().0, Outcome::Cancelled);
    let mut run = Run::new(&states(
        "  a: {type: command, command: one, on_success: done}",
    ));
    run.tell(Input::Cancel);
    assert_eq!(run.outcome().0, Outcome::Cancelled);
}

#[test]
fn inputs_that_have_no_place_are_refused_and_change_nothing() {
    let mut run = Run::begin(&states(
        "  a: {type: command, command: one, on_success: done}",
    ));
    let before = run.machine.state().clone();
    let ticket = run.open("a").ticket;
    let cases = [
        Input::Begin,
        Input::Finished {
            ticket: Ticket(99),
            result: Box::default(),
        },
        Input::Answer {
            ticket,
            text: "x".to_owned(),
        },
        Input::Approve {
            ticket,
            decision: Decision::Allow,
        },
        Input::Repeat {
            ticket,
            decision: Repeat::Again,
        },
    ];
    for input in cases {
        let rejected = run.machine.apply(input.clone(), Timestamp(5)).unwrap_err();
        assert_eq!(rejected.input, input.name());
        assert_eq!(run.machine.state(), &before, "{input:?}");
    }
}

#[test]
fn a_run_that_goes_in_circles_ends() {
    let text = states(
        "  a: {type: for_each, items: [], body: [w], on_complete: b, on_failure: done}\n  b: {type: for_each, items: [], body: [w], on_complete: a, on_failure: done}\n  w: {type: command, command: never}",
    );
    let mut run = Run::new(&text);
    let effects = run.machine.apply(Input::Begin, Timestamp(1)).unwrap();
    let Some(Effect::Finish(finish)) = effects.last() else {
        panic!("{:?}", effects.last())
    };
    assert_eq!(finish.failure.as_ref().unwrap().code, Code::StepsMax);
    // The same inside a loop, where the step at the top has to be ended.
    let text = states(
        "  a: {type: for_each, items: [1], body: [b, c], on_complete: done, on_failure: done}\n  b: {type: for_each, items: [], body: [w]}\n  c: {type: for_each, items: [], body: [w], on_success: b}\n  w: {type: command, command: never}",
    );
    let mut run = Run::new(&text);
    let effects = run.machine.apply(Input::Begin, Timestamp(1)).unwrap();
    assert!(matches!(effects.last(), Some(Effect::Finish(finish)) if finish.exit_code == 3));
}
