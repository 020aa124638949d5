//! Branches and loops.

use serde_json::json;

use super::*;

fn fan(rest: &str) -> String {
    states(&format!(
        "  a: {{type: parallel, parallel: [x, y, z], {rest} on_success: done, on_failure: bad}}\n  x: {{type: command, command: x}}\n  y: {{type: command, command: y}}\n  z: {{type: command, command: z}}"
    ))
}

#[test]
fn all_branches_must_succeed_and_the_first_failure_stops_the_rest() {
    let mut run = Run::begin(&fan(""));
    assert_eq!(run.started(), ["x", "y", "z"]);
    run.ok("a/x", "");
    run.ok("a/y", "");
    run.ok("a/z", "");
    assert_eq!(run.outcome().0, Outcome::Succeeded);
    let mut run = Run::begin(&fan(""));
    let (y, z) = (run.open("a/y").ticket, run.open("a/z").ticket);
    let effects = run.fail("a/x", 2);
    let stopped: Vec<Ticket> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Stop {
                ticket,
                reason: StopReason::NotNeeded,
            } => Some(*ticket),
            _ => None,
        })
        .collect();
    assert_eq!(stopped, [y, z]);
    run.fail("a/y", 143);
    assert!(
        run.machine.finish().is_none(),
        "the step waits until everything is gone"
    );
    run.fail("a/z", 143);
    assert_eq!(
        run.outcome(),
        (
            Outcome::Failed,
            1,
            "bad: step a: branch x failed: went wrong"
        )
    );
    assert_eq!(
        run.finish().failure.as_ref().unwrap().code.as_str(),
        "EXECUTION.PARALLEL.PARTIAL_FAILURE"
    );
}

#[test]
fn one_success_is_enough_if_the_file_says_so() {
    let mut run = Run::begin(&fan("strategy: any_succeed,"));
    run.fail("a/x", 2);
    run.ok("a/y", "winner");
    run.fail("a/z", 143);
    assert_eq!(run.outcome().0, Outcome::Succeeded);
    assert_eq!(run.machine.records()["a"].output, "winner");
    let mut run = Run::begin(&fan("strategy: any_succeed,"));
    for path in ["a/x", "a/y", "a/z"] {
        run.fail(path, 1);
    }
    assert_eq!(run.outcome().0, Outcome::Failed);
}

#[test]
fn best_effort_passes_over_failures() {
    let mut run = Run::begin(&fan("strategy: best_effort,"));
    for path in ["a/x", "a/y", "a/z"] {
        run.fail(path, 1);
    }
    assert_eq!(run.outcome().0, Outcome::Succeeded);
    assert_eq!(run.machine.records()["a"].data["x"], json!("failed"));
}

#[test]
fn no_more_branches_run_than_the_file_allows() {
    let mut run = Run::begin(&fan("max_concurrent: 2,"));
    assert_eq!(run.started(), ["x", "y"]);
    run.ok("a/y", "");
    assert_eq!(run.started(), ["x", "y", "z"]);
    run.ok("a/x", "");
    run.ok("a/z", "");
    assert_eq!(run.outcome().0, Outcome::Succeeded);
}

#[test]
fn a_timeout_of_a_group_ends_all_of_it() {
    let mut run = Run::begin(&fan("timeout: 250ms, "));
    let effects = run.wait(250);
    assert_eq!(
        effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Stop { .. }))
            .count(),
        3
    );
    for path in ["a/x", "a/y", "a/z"] {
        run.fail(path, 143);
    }
    assert_eq!(run.machine.records()["a"].status, StepStatus::TimedOut);
}

fn each(items: &str, rest: &str, body: &str) -> String {
    states(&format!(
        "  a: {{type: for_each, items: {items}, body: [w], {rest} on_complete: done, on_failure: bad}}\n  w: {{type: command, command: '{body}'}}"
    ))
}

#[test]
fn items_come_from_lists_json_and_words() {
    let cases = [
        ("[1, two, {k: v}]", vec!["0 1", "1 two", "2 {\"k\":\"v\"}"]),
        (r#"'["a","b"]'"#, vec!["0 a", "1 b"]),
        ("'a, b ,c'", vec!["0 a", "1 b", "2 c"]),
        ("''", vec![]),
        ("'{{.workflow.name}},x'", vec!["0 demo", "1 x"]),
    ];
    for (items, expected) in cases {
        let mut run = Run::begin(&each(items, "", "{{.loop.Index}} {{.loop.Item}}"));
        for index in 0..expected.len() {
            run.ok(&format!("a[{index}]/w"), "");
        }
        assert_eq!(run.started(), expected, "{items}");
        assert_eq!(run.outcome().0, Outcome::Succeeded, "{items}");
        assert_eq!(
            run.machine.records()["a"].data["Rounds"],
            json!(expected.len())
        );
    }
}

#[test]
fn loops_end_at_their_limit_their_condition_or_a_failure() {
    let mut run = Run::begin(&each(
        "[1, 2, 3, 4]",
        "max_iterations: 2,",
        "{{.loop.Item}}{{.loop.Last}}",
    ));
    run.ok("a[0]/w", "");
    run.ok("a[1]/w", "");
    assert_eq!(
        (run.started(), run.outcome().0),
        (
            vec!["1false".to_owned(), "2true".to_owned()],
            Outcome::Succeeded
        )
    );
    let told = "of 4 items the first 2 are taken";
    assert!(run.logs().iter().any(|log| log.contains(told)));

    let mut run = Run::begin(&each(
        "[1, 2, 3]",
        "break_when: 'states.w.Output == \"stop\"',",
        "x",
    ));
    run.ok("a[0]/w", "go");
    run.ok("a[1]/w", "stop");
    assert_eq!(
        (run.started().len(), run.outcome().0),
        (2, Outcome::Succeeded)
    );

    let mut run = Run::begin(&each("[1, 2, 3]", "", "x"));
    run.fail("a[0]/w", 4);
    assert_eq!(
        run.outcome(),
        (
            Outcome::Failed,
            1,
            "bad: step a: round 0, step w: went wrong"
        )
    );

    let mut run = Run::begin(&each(
        "[1, 2, 3]",
        "max_iterations: '{{.workflow.name}}',",
        "x",
    ));
    assert!(
        run.outcome().2.contains("max_iterations"),
        "{:?}",
        run.outcome()
    );
    run = Run::begin(&each("[1, 2, 3]", "max_iterations: '1 + 1',", "x"));
    run.ok("a[0]/w", "");
    run.ok("a[1]/w", "");
    assert_eq!(run.outcome().0, Outcome::Succeeded);
}

#[test]
fn while_loops_look_before_every_round() {
    let text = states(
        "  a: {type: while, while: 'states.w.Output != \"done\"', body: [w], max_iterations: 5, on_complete: done}\n  w: {type: command, command: 'poll {{.loop.Index1}} {{.loop.Length}}', on_success: a}",
    );
    let mut run = Run::begin(&text);
    run.ok("a[0]/w", "wait");
    run.ok("a[1]/w", "done");
    assert_eq!(run.started(), ["poll 1 -1", "poll 2 -1"]);
    assert_eq!(run.outcome().0, Outcome::Succeeded);
    let mut run = Run::begin(&text);
    for index in 0..5 {
        run.ok(&format!("a[{index}]/w"), "wait");
    }
    assert_eq!(run.outcome().0, Outcome::Succeeded);
    assert!(
        run.logs()
            .iter()
            .any(|log| log.contains("limit of 5 rounds"))
    );
}

#[test]
fn a_body_may_jump_inside_itself_and_out_of_the_loop() {
    let text = states(
        "  a: {type: for_each, items: [1, 2], body: [x, y, z], on_complete: done}\n  x: {type: command, command: x, transitions: [{when: 'states.x.Output == \"jump\"', goto: z}, {when: 'states.x.Output == \"leave\"', goto: b}]}\n  y: {type: command, command: y, on_success: nowhere}\n  z: {type: command, command: z, on_success: a}\n  b: {type: command, command: out, on_success: done}",
    );
    let mut run = Run::begin(&text);
    run.ok("a[0]/x", "jump");
    run.ok("a[0]/z", "");
    run.ok("a[1]/x", "");
    run.ok("a[1]/y", "");
    run.ok("a[1]/z", "");
    assert_eq!(run.started(), ["x", "z", "x", "y", "z"]);
    assert_eq!(run.outcome().0, Outcome::Succeeded);
    let mut run = Run::begin(&text);
    run.ok("a[0]/x", "leave");
    run.ok("b", "");
    assert_eq!(run.started(), ["x", "out"]);
}

#[test]
fn loops_nest_and_know_their_parents() {
    let text = states(
        "  a: {type: for_each, items: [1, 2], body: [i], on_complete: done}\n  i: {type: for_each, items: [u, v], body: [w]}\n  w: {type: command, command: '{{.loop.Parent.Item}}{{.loop.Item}}{{.loop.Parent.Index}}{{.loop.Index}}'}",
    );
    let mut run = Run::begin(&text);
    for outer in 0..2 {
        for inner in 0..2 {
            run.ok(&format!("a[{outer}]/i[{inner}]/w"), "");
        }
    }
    assert_eq!(run.started(), ["1u00", "1v01", "2u10", "2v11"]);
    assert_eq!(run.outcome().0, Outcome::Succeeded);
}

#[test]
fn a_loop_of_many_rounds_does_not_grow_the_stack() {
    let items = vec!["1"; 9000].join(",");
    let text = states(&format!(
        "  a: {{type: for_each, items: '{items}', max_iterations: 10000, body: [i], on_complete: done}}\n  i: {{type: for_each, items: [], body: [w]}}\n  w: {{type: command, command: never}}"
    ));
    let mut run = Run::new(&text);
    let effects = run.machine.apply(Input::Begin, Timestamp(0)).unwrap();
    assert!(
        matches!(effects.last(), Some(Effect::Finish(finish)) if finish.outcome == Outcome::Succeeded)
    );
    assert_eq!(run.machine.records()["a"].data["Rounds"], json!(9000));
}
