//! Runs that are taken up after their runner was killed, or run again from a step.

use serde_json::json;

use super::*;

/// The machine as another process would find it.
fn killed(run: &Run) -> Run {
    let written = serde_json::to_string(run.machine.state()).unwrap();
    let plan = serde_json::to_string(run.machine.plan().as_ref()).unwrap();
    let plan: Plan = serde_json::from_str(&plan).unwrap();
    assert_eq!(&plan, run.machine.plan().as_ref());
    let state: State = serde_json::from_str(&written).unwrap();
    Run {
        machine: Machine::restore(Arc::new(plan), state, Arc::new(Desk::default())),
        now: run.now + 60_000,
        effects: Vec::new(),
    }
}

const TWO: &str = "  a: {type: command, command: one, on_success: b}\n  b: {type: command, command: two, timeout: 5s, RULE on_success: done, on_failure: bad}";

#[test]
fn a_finished_step_is_never_repeated_and_a_doubtful_one_only_when_somebody_says_so() {
    for (decision, outcome) in [
        (Repeat::Again, Outcome::Succeeded),
        (Repeat::Fail, Outcome::Failed),
        (Repeat::Skip, Outcome::Succeeded),
    ] {
        let mut run = Run::begin(&states(&TWO.replace("RULE ", "")));
        run.ok("a", "");
        let mut run = killed(&run);
        let interrupted = run.machine.interrupted();
        assert_eq!(
            (
                interrupted.len(),
                interrupted[0].step.as_str(),
                interrupted[0].is_safe_to_repeat
            ),
            (1, "b", false)
        );
        let effects = run.tell(Input::Recover);
        assert!(run.started().is_empty());
        let Some(Effect::AskRepeat(ask)) = effects.first() else {
            panic!("{effects:?}")
        };
        assert!(
            ask.message.contains("may have done part of its work: two"),
            "{}",
            ask.message
        );
        run.tell(Input::Repeat {
            ticket: ask.ticket,
            decision,
        });
        if decision == Repeat::Again {
            assert_eq!(run.started(), ["two"]);
            assert!(run.open("b").resumed);
            assert_eq!(run.machine.next_wake(), Some(Timestamp(run.now + 5000)));
            run.ok("b", "");
        }
        assert_eq!(run.outcome().0, outcome);
    }
}

/// What asks whether to repeat a step, if anything does.
fn asked(effects: &[Effect]) -> Option<Ticket> {
    effects.iter().find_map(|effect| match effect {
        Effect::AskRepeat(ask) => Some(ask.ticket),
        _ => None,
    })
}

#[test]
fn a_doubtful_step_stays_doubtful_until_somebody_decides_however_often_the_run_is_tried_again() {
    let left = || Input::Rewind {
        from: RewindFrom::Left,
        inputs: Map::new(),
    };
    let decide = |run: &mut Run, ticket, decision| run.tell(Input::Repeat { ticket, decision });
    let mut run = Run::begin(&states(&TWO.replace("RULE ", "")));
    run.ok("a", "");
    let mut run = killed(&run);
    let ticket = asked(&run.tell(Input::Recover)).unwrap();
    decide(&mut run, ticket, Repeat::Fail);
    assert!(run.finish().doubtful);
    for _ in 0..2 {
        run = killed(&run);
        let ticket = asked(&run.tell(left())).expect("it is asked again");
        // Whoever is killed while it asks asks once more.
        run = killed(&run);
        assert_eq!(asked(&run.tell(Input::Recover)), Some(ticket));
        decide(&mut run, ticket, Repeat::Fail);
        assert!(run.started().is_empty());
    }
    let mut cancelled = killed(&run);
    cancelled.tell(left());
    cancelled.tell(Input::Cancel);
    assert!(asked(&killed(&cancelled).tell(left())).is_some());
    let mut run = killed(&run);
    let ticket = asked(&run.tell(left())).unwrap();
    decide(&mut run, ticket, Repeat::Again);
    assert_eq!(run.started(), ["two"]);
    run.fail("b", 1);
    assert!(!run.finish().doubtful);
    let mut run = killed(&run);
    assert_eq!(
        asked(&run.tell(left())),
        None,
        "this failure is no interruption"
    );
    assert_eq!(run.started(), ["two"]);
}

#[test]
fn whoever_names_a_doubtful_step_is_not_asked_about_it() {
    let mut run = Run::begin(&states(&TWO.replace("RULE ", "")));
    run.ok("a", "");
    let mut run = killed(&run);
    let ticket = asked(&run.tell(Input::Recover)).unwrap();
    let decision = Repeat::Fail;
    run.tell(Input::Repeat { ticket, decision });
    let mut run = killed(&run);
    let effects = run.tell(Input::Rewind {
        from: RewindFrom::Step("b".to_owned()),
        inputs: Map::new(),
    });
    assert_eq!(
        (asked(&effects), run.started()),
        (None, vec!["two".to_owned()])
    );
}

#[test]
fn a_run_that_was_cut_off_and_is_run_from_a_step_asks_for_that_step_alone() {
    let wide = "  a: {type: command, command: one, on_success: b}\n  \
        b: {type: parallel, parallel: [x, y], on_success: done}\n  \
        x: {type: command, command: two, retry: {max_attempts: 2}}\n  \
        y: {type: command, command: three, idempotent: true}";
    let cases = [
        (TWO.replace("RULE", "idempotent: true,"), vec!["two"]),
        (
            TWO.replace("RULE", "retry: {max_attempts: 2},"),
            vec!["two"],
        ),
        (TWO.replace("RULE ", ""), vec!["two"]),
        (wide.to_owned(), vec!["two", "three"]),
    ];
    for (text, lines) in cases {
        for from in [RewindFrom::Step("b".to_owned()), RewindFrom::Current] {
            let mut run = Run::begin(&states(&text));
            run.ok("a", "");
            let mut run = killed(&run);
            let inputs = Map::new();
            let effects = run.tell(Input::Rewind { from, inputs });
            assert_eq!(asked(&effects), None, "{text}");
            assert_eq!(run.started(), lines, "{text}");
            assert_eq!(run.machine.state().open.len(), lines.len(), "{text}");
        }
    }
}

#[test]
fn a_called_workflow_with_a_doubtful_step_is_not_begun_anew_without_a_word() {
    let mut run = Run::begin(&states(
        "  a: {type: call_workflow, workflow: w, on_success: done}",
    ));
    let mut result = StepResult::failed(3, "interrupted, and not repeated");
    result.doubtful = true;
    run.end("a", result);
    let mut run = killed(&run);
    let effects = run.tell(Input::Rewind {
        from: RewindFrom::Left,
        inputs: Map::new(),
    });
    assert!(asked(&effects).is_some());
    assert!(run.started().is_empty());
    let mut run = killed(&run);
    assert!(asked(&run.tell(Input::Recover)).is_some());
    assert!(run.started().is_empty(), "nobody has answered");
}

#[test]
fn what_is_safe_is_repeated_at_once() {
    for rule in ["idempotent: true,", "retry: {max_attempts: 2},"] {
        let mut run = Run::begin(&states(&TWO.replace("RULE", rule)));
        run.ok("a", "");
        let mut run = killed(&run);
        assert!(run.machine.interrupted()[0].is_safe_to_repeat);
        run.tell(Input::Recover);
        assert_eq!(run.started(), ["two"]);
        run.ok("b", "");
        assert_eq!(run.outcome().0, Outcome::Succeeded);
    }
    let mut run = Run::begin(&states(
        "  a: {type: call_workflow, workflow: w, on_success: done}",
    ));
    run.tell(Input::Tick);
    let mut run = killed(&run);
    run.tell(Input::Recover);
    assert!(
        run.open("a").resumed,
        "the child is taken up where it stood"
    );
}

#[test]
fn questions_are_asked_again_and_waits_go_on() {
    let mut run = Run::begin(&states(
        "  a: {type: approval, message: Go?, on_success: done}",
    ));
    run.tell(Input::Tick);
    let mut run = killed(&run);
    run.tell(Input::Recover);
    let ticket = run.approval().ticket;
    run.tell(Input::Approve {
        ticket,
        decision: Decision::Allow,
    });
    assert_eq!(run.outcome().0, Outcome::Succeeded);

    let mut run = Run::begin(&states(
        "  a: {type: command, command: one, retry: {max_attempts: 2, initial_delay: 1h}, on_success: done}",
    ));
    run.fail("a", 1);
    let mut run = killed(&run);
    let effects = run.tell(Input::Recover);
    assert_eq!(
        effects,
        [Effect::WakeAt {
            at: Timestamp(1000 + 3_600_000)
        }]
    );
    run.wait(3_600_000);
    assert_eq!(run.started(), ["one"]);
}

#[test]
fn a_cancel_survives_the_kill() {
    let mut run = Run::begin(&states(
        "  a: {type: command, command: one, on_success: done}",
    ));
    run.tell(Input::Cancel);
    let mut run = killed(&run);
    run.tell(Input::Recover);
    assert_eq!(run.outcome().0, Outcome::Cancelled);
}

#[test]
fn a_run_can_be_cancelled_while_it_asks_whether_to_repeat() {
    let mut run = Run::begin(&states(&TWO.replace("RULE ", "")));
    run.ok("a", "");
    let mut run = killed(&run);
    run.tell(Input::Recover);
    run.tell(Input::Cancel);
    assert_eq!(run.outcome().0, Outcome::Cancelled);
}

#[test]
fn hooks_and_branches_are_taken_up() {
    let text = format!(
        "{}hooks: {{workflow_start: [{{command: prepare}}]}}\n",
        states(
            "  a: {type: parallel, parallel: [x, y], on_success: done}\n  x: {type: command, command: x, idempotent: true}\n  y: {type: command, command: y, idempotent: true}"
        )
    );
    let mut run = killed(&Run::begin(&text));
    run.tell(Input::Recover);
    run.ok("", "");
    run.ok("a/x", "");
    let mut run = killed(&run);
    run.tell(Input::Recover);
    assert_eq!(run.started(), ["y"]);
    run.ok("a/y", "");
    assert_eq!(run.outcome().0, Outcome::Succeeded);
}

#[test]
fn a_run_can_be_run_again_from_a_step() {
    let text = "name: demo\ninputs: [{name: n, type: integer, default: 1}]\nstates:\n  initial: a\n  a: {type: command, command: 'a {{.inputs.n}}', on_success: b}\n  b: {type: command, command: 'b {{.inputs.n}}', on_success: c}\n  c: {type: command, command: 'c {{.inputs.n}} {{.states.a.Output}}', on_success: done, on_failure: bad}\n  done: {type: terminal}\n  bad: {type: terminal, status: failure}\n";
    let mut failed = Run::begin(text);
    failed.ok("a", "A");
    failed.ok("b", "B");
    failed.fail("c", 1);
    assert_eq!(failed.outcome().0, Outcome::Failed);
    let cases = [
        (RewindFrom::Current, "c 2 A"),
        (RewindFrom::Previous, "b 2"),
        (RewindFrom::Step("a".to_owned()), "a 2"),
    ];
    for (from, line) in cases {
        let mut run = killed(&failed);
        run.tell(Input::Rewind {
            from,
            inputs: json!({"n": "2"}).as_object().cloned().unwrap(),
        });
        assert_eq!(run.started(), [line]);
    }
    let mut run = killed(&failed);
    let nowhere = Input::Rewind {
        from: RewindFrom::Step("zz".to_owned()),
        inputs: Map::new(),
    };
    assert!(run.machine.apply(nowhere, Timestamp(0)).is_err());
    let wrong = Input::Rewind {
        from: RewindFrom::Current,
        inputs: json!({"n": "x"}).as_object().cloned().unwrap(),
    };
    assert!(run.machine.apply(wrong, Timestamp(0)).is_err());
}

/// A run of the same file that has not begun, with its beginning at a step of an earlier one.
fn again(text: &str, earlier: &Run, step: &str, extent: Extent) -> Result<Run, Vec<Problem>> {
    let mut run = Run::new(text);
    let beginning = Beginning {
        step: step.to_owned(),
        extent,
    };
    run.machine = run
        .machine
        .beginning_at(beginning, earlier.machine.records())?;
    Ok(run)
}

const CHAIN: &str = "name: demo\noutputs: {all: '{{.states.c.Output}}'}\n\
    hooks: {workflow_start: [{command: prepare}], workflow_end: [{command: tidy}]}\nstates:\n  initial: a\n  \
    a: {type: command, command: one, on_success: b}\n  \
    b: {type: command, command: 'two {{.states.a.Output}}', on_success: c, on_failure: bad}\n  \
    c: {type: command, command: 'three {{.states.b.Output}}', on_success: done}\n  \
    wide: {type: parallel, parallel: [x, y], on_success: done}\n  x: {type: command, command: x}\n  \
    y: {type: command, command: y}\n  done: {type: terminal}\n  bad: {type: terminal, status: failure}\n";

fn through_the_chain() -> Run {
    let mut run = Run::begin(CHAIN);
    run.ok("", "");
    run.ok("a", "A");
    run.ok("b", "B");
    run.ok("c", "C");
    run.ok("", "");
    assert_eq!(run.outcome().0, Outcome::Succeeded);
    run
}

#[test]
fn a_new_run_begins_at_a_step_with_what_an_earlier_one_had_come_to() {
    let earlier = through_the_chain();
    let run = again(CHAIN, &earlier, "b", Extent::Onwards).unwrap();
    let names: Vec<&String> = run.machine.records().keys().collect();
    assert_eq!(names, ["a"], "what came after the step is not taken over");
    // Whoever is killed before it has begun still begins there.
    let mut run = killed(&run);
    run.tell(Input::Begin);
    run.ok("", "");
    run.ok("b", "B2");
    run.ok("c", "C2");
    run.ok("", "");
    assert_eq!(
        run.started(),
        ["hook prepare", "two A", "three B2", "hook tidy"]
    );
    assert_eq!(run.finish().outputs["all"], "C2");
    let orders: Vec<u64> = run.machine.records().values().map(|it| it.order).collect();
    assert_eq!(orders, [1, 2, 3]);
}

#[test]
fn a_step_is_run_alone_without_the_hooks_and_outputs_of_its_workflow() {
    let earlier = through_the_chain();
    let mut run = again(CHAIN, &earlier, "b", Extent::Alone).unwrap();
    run.tell(Input::Begin);
    let mut run = {
        let mut run = killed(&run);
        let ask = match run.tell(Input::Recover).remove(0) {
            Effect::AskRepeat(ask) => ask,
            other => panic!("{other:?}"),
        };
        run.tell(Input::Repeat {
            ticket: ask.ticket,
            decision: Repeat::Again,
        });
        run
    };
    run.ok("b", "B2");
    assert_eq!(run.started(), ["two A"]);
    assert_eq!(run.outcome(), (Outcome::Succeeded, 0, ""));
    assert!(run.finish().outputs.is_empty() && run.logs().is_empty());
    let mut run = again(CHAIN, &earlier, "b", Extent::Alone).unwrap();
    run.tell(Input::Begin);
    run.fail("b", 7);
    assert_eq!(run.outcome().0, Outcome::Failed, "on_failure leads nowhere");
}

#[test]
fn what_cannot_be_begun_at_is_said_in_words() {
    let earlier = through_the_chain();
    for (step, extent, words) in [
        ("bb", Extent::Alone, "there is no step bb"),
        ("done", Extent::Alone, "done is an end and does nothing"),
        ("x", Extent::Onwards, "x is a part of wide"),
    ] {
        let refused = again(CHAIN, &earlier, step, extent).err().unwrap();
        assert_eq!(refused[0].message, words);
    }
    assert!(again(CHAIN, &earlier, "x", Extent::Alone).is_ok());
    assert!(again(CHAIN, &earlier, "done", Extent::Onwards).is_ok());
}
