//! One step at a time: actions, retries, timeouts, approvals, conversations.

use serde_json::json;

use super::*;
use crate::plan::Provider;

fn with_who(steps: &str, files: &[(&str, &str)]) -> Run {
    let text = format!(
        "name: demo\ninputs: [{{name: who}}]\nstates:\n  initial: a\n{steps}\n  done: {{type: terminal, message: '{{{{.states.b.Data}}}}'}}\n"
    );
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    let desk = Desk {
        files: files.collect(),
        ..Desk::default()
    };
    let inputs = json!({"who": "ada"}).as_object().cloned().unwrap();
    let mut run = Run::with(&text, inputs, desk);
    run.tell(Input::Begin);
    run
}

#[test]
fn commands_and_prompts_are_filled_in() {
    let mut run = with_who(
        "  a: {type: command, script_file: 'run.sh', dir: '{{.inputs.who}}', on_success: b}\n  b: {type: agent, provider: 'template:{{.inputs.who}}', prompt_file: ask.md, system_prompt: 'be {{.inputs.who}}', role: '{{.inputs.who}}', skills: [one, {path: two}], options: {model: 'm-{{.inputs.who}}', n: 3}, conversation: {}, on_success: done}",
        &[
            ("run.sh", "#!/bin/sh\necho {{.inputs.who}}"),
            ("ask.md", "Hello {{.inputs.who}}, {{.states.a.Output}}"),
        ],
    );
    let Action::Command(command) = &run.open("a").action else {
        panic!()
    };
    assert_eq!(command.line, "#!/bin/sh\necho ada");
    assert_eq!(command.dir.as_deref(), Some("ada"));
    assert_eq!(command.script.as_deref(), Some("run.sh"));
    run.ok("a", "ok");
    let Action::Agent(agent) = &run.open("b").action else {
        panic!()
    };
    assert_eq!(agent.provider, Provider::Template("ada".to_owned()));
    assert_eq!(agent.prompt, "Hello ada, ok");
    assert_eq!(agent.system_prompt.as_deref(), Some("be ada"));
    assert_eq!(agent.skills, ["one", "./two"]);
    assert_eq!(
        Value::Object(agent.options.clone()),
        json!({"model": "m-ada", "n": 3})
    );
    assert_eq!(agent.session, SessionUse::Keep);
}

#[test]
fn operations_and_calls_are_filled_in_at_any_depth() {
    let mut run = with_who(
        "  a: {type: database.query, config: {sql: 'select {{.inputs.who}}', deep: [{x: '{{.inputs.who}}'}]}, on_success: b}\n  b: {type: call_workflow, workflow: 'pack/{{.inputs.who}}', inputs: {n: 3, w: '{{.inputs.who}}'}, outputs: {build: image}, on_success: done}",
        &[],
    );
    let Action::Operation(operation) = &run.open("a").action else {
        panic!()
    };
    assert_eq!(operation.name, "database.query");
    let expected = json!({"sql": "select ada", "deep": [{"x": "ada"}]});
    assert_eq!(Value::Object(operation.inputs.clone()), expected);
    run.ok("a", "");
    let Action::Workflow(call) = &run.open("b").action else {
        panic!()
    };
    assert_eq!(
        (call.workflow.as_str(), call.call_stack.len()),
        ("pack/ada", 1)
    );
    assert_eq!(
        Value::Object(call.inputs.clone()),
        json!({"n": 3, "w": "ada"})
    );
    let data = json!({"build": "img:1", "x": 1})
        .as_object()
        .cloned()
        .unwrap();
    run.end(
        "b",
        StepResult {
            data,
            ..StepResult::default()
        },
    );
    assert_eq!(
        run.outcome(),
        (Outcome::Succeeded, 0, r#"{"image":"img:1"}"#)
    );
}

#[test]
fn a_step_that_cannot_be_filled_in_fails_without_being_started() {
    let text = states(
        "  a: {type: agent, provider: claude, prompt_file: gone.md, retry: {max_attempts: 5}, on_success: done, on_failure: bad}",
    );
    let run = Run::begin(&text);
    assert!(run.started().is_empty());
    assert_eq!(
        run.outcome(),
        (Outcome::Failed, 1, "bad: step a: gone.md is not there")
    );
}

#[test]
fn retries_wait_longer_each_time_and_then_give_up() {
    let text = states(
        "  a: {type: command, command: one, retry: {max_attempts: 3, initial_delay: 1s, backoff: exponential, multiplier: 3, max_delay: 2500ms}, on_success: done, on_failure: bad}",
    );
    let mut run = Run::begin(&text);
    let effects = run.fail("a", 1);
    assert!(
        effects.contains(&Effect::WakeAt {
            at: Timestamp(2000)
        }),
        "{effects:?}"
    );
    assert!(run.wait(999).is_empty());
    run.wait(1);
    assert_eq!(run.open("a").attempt, 2);
    run.fail("a", 1);
    run.wait(2499);
    assert_eq!(run.started().len(), 2);
    run.wait(1);
    assert_eq!(run.open("a").attempt, 3);
    run.fail("a", 1);
    assert_eq!(run.outcome().0, Outcome::Failed);
    assert_eq!(run.machine.records()["a"].attempts, 3);
}

#[test]
fn only_the_named_exit_codes_are_retried_and_every_kind_of_step_can_be() {
    let text = states(
        "  a: {type: command, command: one, retry: {max_attempts: 3, retryable_exit_codes: [75]}, on_success: done, on_failure: bad}",
    );
    let mut run = Run::begin(&text);
    run.fail("a", 75);
    run.fail("a", 2);
    assert_eq!(run.started().len(), 2);
    for step in [
        "{type: agent, provider: claude, prompt: hi, retry: 2, on_success: done}",
        "{type: operation, operation: x.y, retry: {max_attempts: 2}, on_success: done}",
        "{type: call_workflow, workflow: w, retry: {max_attempts: 2}, on_success: done}",
    ] {
        let mut run = Run::begin(&states(&format!("  a: {step}")));
        run.fail("a", 1);
        run.ok("a", "");
        assert_eq!(
            (run.started().len(), run.outcome().0),
            (2, Outcome::Succeeded),
            "{step}"
        );
    }
    let group = states(
        "  a: {type: parallel, parallel: [b, c], retry: {max_attempts: 2}, on_success: done}\n  b: {type: command, command: b}\n  c: {type: command, command: c}",
    );
    let mut run = Run::begin(&group);
    run.ok("a/b", "");
    run.fail("a/c", 1);
    run.ok("a/b", "");
    run.ok("a/c", "");
    assert_eq!(run.outcome().0, Outcome::Succeeded);
}

#[test]
fn a_timeout_below_a_second_counts() {
    let text = states(
        "  a: {type: command, command: sleep, timeout: 500ms, retry: {max_attempts: 2}, on_success: done, on_failure: bad}",
    );
    let mut run = Run::begin(&text);
    assert_eq!(run.machine.next_wake(), Some(Timestamp(1500)));
    assert!(run.wait(499).is_empty());
    let ticket = run.open("a").ticket;
    assert_eq!(
        run.wait(1),
        [Effect::Stop {
            ticket,
            reason: StopReason::TimedOut
        }]
    );
    run.fail("a", 143);
    assert_eq!(run.open("a").attempt, 2);
    run.wait(500);
    run.fail("a", 143);
    assert_eq!(run.machine.records()["a"].status, StepStatus::TimedOut);
    assert_eq!(
        run.outcome(),
        (Outcome::Failed, 1, "bad: step a: timed out after 500ms")
    );
}

#[test]
fn work_that_was_done_when_time_ran_out_counts() {
    let text = states(
        "  a: {type: command, command: sleep, timeout: 1, on_success: done, on_failure: bad}",
    );
    let mut run = Run::begin(&text);
    run.wait(1000);
    run.ok("a", "made it");
    assert_eq!(run.outcome().0, Outcome::Succeeded);
}

#[test]
fn approvals_decide_what_happens() {
    let cases = [
        ("on_deny: skip", Decision::Allow, 1, Outcome::Succeeded, 0),
        ("on_deny: skip", Decision::Deny, 0, Outcome::Succeeded, 0),
        ("on_deny: error", Decision::Deny, 0, Outcome::Failed, 1),
        ("on_deny: abort", Decision::Deny, 0, Outcome::Failed, 3),
    ];
    for (rule, decision, starts, outcome, code) in cases {
        let text = states(&format!(
            "  a: {{type: command, command: 'rm {{{{.workflow.name}}}}', approval: {{message: 'Really?', {rule}}}, retry: {{max_attempts: 3}}, on_success: done, on_failure: bad}}"
        ));
        let mut run = Run::begin(&text);
        let ask = run.approval().clone();
        assert_eq!(
            (ask.message.as_str(), ask.summary.as_str()),
            ("Really?", "rm demo")
        );
        assert!(run.started().is_empty());
        run.tell(Input::Approve {
            ticket: ask.ticket,
            decision,
        });
        if decision == Decision::Allow {
            run.ok("a", "");
        }
        assert_eq!(run.started().len(), starts, "{rule}");
        assert_eq!(
            (run.outcome().0, run.outcome().1),
            (outcome, code),
            "{rule}"
        );
    }
}

#[test]
fn silence_is_a_no_and_a_gate_needs_nothing_but_an_answer() {
    let text = states(
        "  a: {type: approval, approval: {message: Go?, timeout: 250ms}, on_success: done, on_failure: bad}",
    );
    let mut run = Run::begin(&text);
    run.wait(250);
    assert_eq!(
        run.outcome(),
        (Outcome::Failed, 1, "bad: step a: nobody approved in time")
    );
    let mut run = Run::begin(&states(
        "  a: {type: approval, message: Go on?, on_success: done}",
    ));
    let ticket = run.approval().ticket;
    assert_eq!(run.approval().message, "Go on?");
    run.tell(Input::Approve {
        ticket,
        decision: Decision::Allow,
    });
    assert_eq!(run.outcome().0, Outcome::Succeeded);
}

#[test]
fn a_conversation_goes_on_until_the_user_leaves() {
    for word in ["", "exit", " QUIT "] {
        let text = states(
            "  a: {type: agent, provider: codex, mode: conversation, prompt: hello, timeout: 5, on_success: b}\n  b: {type: agent, provider: codex, prompt: sum up, conversation: {continue_from: a}, on_success: done}",
        );
        let mut run = Run::begin(&text);
        let answer = |output: &str| StepResult {
            session: Some("s-9".to_owned()),
            ..StepResult::succeeded(output)
        };
        run.end("a", answer("hi"));
        assert_eq!(
            (run.question().text.as_str(), run.question().turns),
            ("hi", 1)
        );
        // People may take longer than a turn.
        assert!(run.wait(60_000).is_empty());
        let ticket = run.question().ticket;
        run.tell(Input::Answer {
            ticket,
            text: "tell me more".to_owned(),
        });
        let Action::Agent(agent) = &run.open("a").action else {
            panic!()
        };
        assert_eq!(
            (agent.prompt.as_str(), &agent.session),
            (
                "tell me more",
                &SessionUse::Continue {
                    session: "s-9".to_owned()
                }
            )
        );
        run.end("a", answer("more"));
        let ticket = run.question().ticket;
        run.tell(Input::Answer {
            ticket,
            text: word.to_owned(),
        });
        assert_eq!(run.machine.records()["a"].output, "more");
        let Action::Agent(agent) = &run.open("b").action else {
            panic!()
        };
        assert_eq!(
            agent.session,
            SessionUse::Continue {
                session: "s-9".to_owned()
            }
        );
        run.ok("b", "");
        assert_eq!(run.outcome().0, Outcome::Succeeded);
    }
}

#[test]
fn a_conversation_may_begin_with_the_user() {
    let mut run = Run::begin(&states(
        "  a: {type: agent, provider: claude, mode: conversation, on_success: done}",
    ));
    assert!(run.started().is_empty());
    let ticket = run.question().ticket;
    run.tell(Input::Answer {
        ticket,
        text: "first words".to_owned(),
    });
    assert_eq!(run.started(), ["first words"]);
}

#[test]
fn a_session_that_was_never_left_cannot_be_continued() {
    let text = states(
        "  a: {type: agent, provider: codex, prompt: x, conversation: {}, on_success: b}\n  b: {type: agent, provider: codex, prompt: y, conversation: {continue_from: a}, on_success: done, on_failure: bad}",
    );
    let mut run = Run::begin(&text);
    run.ok("a", "");
    assert!(
        run.outcome().2.contains("has left no session"),
        "{:?}",
        run.outcome()
    );
}

#[test]
fn answers_are_shaped_as_the_step_asks() {
    let text = |format: &str| {
        states(&format!(
            "  a: {{type: agent, provider: claude, prompt: x, output_format: {format}, on_success: b, on_failure: bad}}\n  b: {{type: command, command: '{{{{.states.a.Output}}}}|{{{{.states.a.JSON}}}}', on_success: done}}"
        ))
    };
    let cases = [
        (
            "json",
            "```json\n{\"a\": [1]}\n```\n",
            Some("```json\n{\"a\": [1]}\n```\n|{\"a\":[1]}"),
        ),
        ("text", "```\nplain\n```", Some("plain|")),
        ("raw", "```\nplain\n```", Some("```\nplain\n```|")),
        ("json", "no json", None),
    ];
    for (format, output, expected) in cases {
        let mut run = Run::begin(&text(format));
        run.ok("a", output);
        match expected {
            Some(line) => assert_eq!(run.started()[1], line),
            None => assert!(run.outcome().2.contains("not JSON")),
        }
    }
}

#[test]
fn output_is_kept_up_to_a_bound() {
    let text =
        states("  a: {type: command, command: one, capture: {max_size: 4}, on_success: done}");
    let mut run = Run::begin(&text);
    run.ok("a", "aé€xyz");
    let record = &run.machine.records()["a"];
    assert_eq!((record.output.as_str(), record.truncated), ("aé", true));
}

#[test]
fn workflows_cannot_call_themselves_or_go_too_deep() {
    let text =
        states("  a: {type: call_workflow, workflow: demo, on_success: done, on_failure: bad}");
    let run = Run::begin(&text);
    assert!(
        run.outcome().2.contains("is being run already"),
        "{:?}",
        run.outcome()
    );
    let setup = Setup {
        call_stack: vec!["w".to_owned(); CALL_DEPTH_MAX],
        ..Setup::default()
    };
    let problems = Machine::new(plan_of(&text), setup, Arc::new(Desk::default())).unwrap_err();
    assert_eq!(problems[0].code.as_str(), "EXECUTION.WORKFLOW.NESTING");
    let above: Vec<String> = (1..CALL_DEPTH_MAX)
        .map(|level| format!("w{level}"))
        .collect();
    let deep =
        states("  a: {type: call_workflow, workflow: other, on_success: done, on_failure: bad}");
    let setup = Setup {
        call_stack: above,
        ..Setup::default()
    };
    let mut machine = Machine::new(plan_of(&deep), setup, Arc::new(Desk::default())).unwrap();
    machine.apply(Input::Begin, Timestamp(0)).unwrap();
    assert!(machine.finish().unwrap().message.contains("deep"));
}
