//! Files are read whole: every problem at once, in its place, with what was probably meant.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::plan::*;
use crate::problem::{Code, exit_code};

fn loaded(text: &str) -> Loaded {
    load(text, &|name| {
        match name {
        "greet" => Ok("name: greet\nparameters:\n  - {name: who, required: true}\n  - {name: tail, default: '!'}\nstates:\n  initial: say\n  say: {type: command, command: 'echo {{parameters.who}}{{.parameters.tail}} {{.inputs.x}}', timeout: 5}\n".to_owned()),
        other => Err(format!("{other} is not there")),
    }
    })
}

fn plan(text: &str) -> Plan {
    let found = loaded(text);
    found
        .plan
        .unwrap_or_else(|| panic!("{:#?}", found.problems))
}

fn problems(text: &str) -> Vec<String> {
    loaded(text)
        .problems
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// A workflow around these steps; the first line of them is line 4.
fn around(steps: &str) -> String {
    format!("name: demo\nstates:\n  initial: a\n{steps}\n  done: {{type: terminal}}\n")
}

const RELEASE: &str = r#"
name: release
description: builds and ships
version: 1.10
author: ada
tags: [ci, ship]
env: [HOME]
inputs:
  - name: target
    type: string
    required: true
    validation: {pattern: '^[a-z]+$', enum: [dev, prod]}
  - {name: count, type: integer, default: 3, validation: {min: 1, max: 5}}
hooks:
  workflow_start: [{log: hello}]
  workflow_error: [{command: 'notify {{.error.message | shell_quote}}'}]
outputs: {image: '{{.states.build.Output}}'}
states:
  initial: build
  build:
    type: STEP
    description: makes it
    command: make {{.inputs.target}}
    dir: /src
    timeout: 1m30s
    retry: {max_attempts: 3, initial_delay: 2, max_delay: 10s, backoff: exponential, multiplier: 1.5, jitter: 0.1, retryable_exit_codes: [75]}
    capture: {stdout: log, max_size: 10MB}
    hooks: {pre: [{log: before}], post: [{command: after}]}
    transitions:
      - {when: 'states.build.ExitCode == 0', goto: ask}
    on_failure: {message: 'no', status: 7}
  ask:
    type: agent
    provider: acp:my-agent --stdio 'a b'
    prompt: hello
    skills: [one, {path: ./two}]
    output_format: json
    mcp_proxy: {enable: true, plugin_tools: [{plugin: gh, expose: [issue]}]}
    approval: {message: sure?, on_deny: abort, timeout: 250ms}
    idempotent: false
    on_success: done
  done: {type: terminal, status: success, message: 'shipped {{.states.build.Output}}'}
"#;

#[test]
fn a_whole_workflow_is_read() {
    let plan = plan(RELEASE);
    assert_eq!(
        (
            plan.name.as_str(),
            plan.version.as_str(),
            plan.initial.as_str()
        ),
        ("release", "1.10", "build")
    );
    assert_eq!(plan.inputs[1].default, Some(json!(3)));
    assert_eq!(plan.inputs[0].validation.choices, ["dev", "prod"]);
    let build = plan.step("build").unwrap();
    assert_eq!(
        (build.line, build.timeout),
        (20, Some(Duration::from_secs(90)))
    );
    let retry = build.retry.as_ref().unwrap();
    assert_eq!(
        (retry.max_attempts, retry.initial_delay, retry.backoff),
        (3, Some(Duration::from_secs(2)), Backoff::Exponential)
    );
    let StepKind::Command(command) = &build.kind else {
        panic!()
    };
    assert_eq!(command.capture.max_size, Some(10 * 1024 * 1024));
    assert_eq!(build.on_failure.as_deref(), Some("__inline_error_build"));
    let ask = plan.step("ask").unwrap();
    assert_eq!(ask.approval.as_ref().unwrap().on_deny, OnDeny::Abort);
    let StepKind::Agent(agent) = &ask.kind else {
        panic!()
    };
    assert_eq!(
        Provider::parse(&agent.provider),
        Ok(Provider::Acp(vec![
            "my-agent".into(),
            "--stdio".into(),
            "a b".into()
        ]))
    );
    assert!(agent.tool_proxy.as_ref().unwrap().intercept_builtins);
    assert_eq!(
        plan.outputs,
        [("image".to_owned(), "{{.states.build.Output}}".to_owned())]
    );
    let written = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&written).unwrap(), plan);
}

/// A step, and a problem it has.
const WRONG_STEPS: &[(&str, &str)] = &[
    (
        "a: {type: comand, command: x}",
        "4:13: WORKFLOW.VALIDATION.INVALID_VALUE: \"comand\" is not one of step, command, agent, parallel, terminal, for_each, while, operation, call_workflow, approval (did you mean command?)",
    ),
    (
        "a: {type: command, command: x, on_sucess: done}",
        "4:34: WORKFLOW.PARSE.UNKNOWN_FIELD: \"on_sucess\" is not a key of step \"a\" and has no effect (did you mean on_success?)",
    ),
    (
        "a: {type: command, command: x, on_success: dome}",
        "4:46: WORKFLOW.VALIDATION.MISSING_STATE: on_success names the step \"dome\", which does not exist (did you mean done?)",
    ),
    (
        "a: {type: command, on_success: done}",
        "4:6: WORKFLOW.VALIDATION.MISSING_FIELD: command or script_file of step \"a\" is missing",
    ),
    (
        "a: {type: command, command: x, script_file: y, on_success: done}",
        "4:47: WORKFLOW.VALIDATION.INVALID_VALUE: a step has either command or script_file, not both",
    ),
    (
        "a: {type: command, command: x}",
        "4:3: WORKFLOW.VALIDATION.INVALID_TRANSITION: step \"a\" says nothing about what comes next (add on_success, on_failure or transitions)",
    ),
    (
        "a: {type: command, command: x, timeout: soon, on_success: done}",
        "4:43: WORKFLOW.VALIDATION.INVALID_VALUE: \"soon\" is not a length of time; write seconds (30) or a duration (250ms, 1m30s)",
    ),
    (
        "a: {type: command, command: [x], on_success: done}",
        "4:31: WORKFLOW.PARSE.WRONG_TYPE: must be text, but is a list",
    ),
    (
        "a: {type: command, command: x, retry: {max_attempts: 0}, on_success: done}",
        "4:56: WORKFLOW.VALIDATION.INVALID_VALUE: must be from 1 to 1000, but is 0",
    ),
    (
        "a: {type: command, command: x, retry: {max_attempts: 2, jitter: 1.5}, on_success: done}",
        "4:67: WORKFLOW.VALIDATION.INVALID_VALUE: must be from 0 to 1, but is 1.5",
    ),
    (
        "a: {type: command, command: '{{.inputs.x}}', on_success: done}",
        "4:31: WORKFLOW.VALIDATION.INVALID_REFERENCE: \"x\" is not an input of this workflow",
    ),
    (
        "a: {type: command, command: '{{.states.a.output}}', on_success: done}",
        "4:31: WORKFLOW.VALIDATION.INVALID_REFERENCE: \"output\" is not a property of states.a (did you mean Output?)",
    ),
    (
        "a: {type: command, command: '{{.stats.a}}', on_success: done}",
        "4:31: WORKFLOW.VALIDATION.INVALID_REFERENCE: \"stats\" is not what texts can refer to (did you mean states?)",
    ),
    (
        "a: {type: command, command: '{{.workflow.id', on_success: done}",
        "4:31: WORKFLOW.VALIDATION.INVALID_TEMPLATE: the template cannot be read: unclosed action",
    ),
    (
        "a: {type: command, command: '{{trimspace .workflow.id}}', on_success: done}",
        "4:31: WORKFLOW.VALIDATION.INVALID_TEMPLATE: \"trimspace\" is not a function of templates (did you mean trimSpace?)",
    ),
    (
        "a: {type: command, command: x, transitions: [{when: '1 +', goto: done}]}",
        "4:55: WORKFLOW.VALIDATION.INVALID_EXPRESSION",
    ),
    (
        "a: {type: command, command: x, transitions: [{when: '{s:{a:1}} == 1', goto: done}]}",
        "4:55: WORKFLOW.VALIDATION.INVALID_EXPRESSION",
    ),
    (
        "a: {type: command, command: x, transitions: [{when: 'input.x == 1', goto: done}]}",
        "4:55: WORKFLOW.VALIDATION.INVALID_REFERENCE: \"input\" is not what texts can refer to (did you mean inputs?)",
    ),
    (
        "a: {type: agent, prompt: x, on_success: done}",
        "4:6: WORKFLOW.VALIDATION.MISSING_FIELD: provider of step \"a\" is missing",
    ),
    (
        "a: {type: agent, provider: claude, on_success: done}",
        "4:6: WORKFLOW.VALIDATION.MISSING_FIELD: prompt or prompt_file of step \"a\" is missing",
    ),
    (
        "a: {type: agent, provider: cluade, prompt: x, on_success: done}",
        "4:30: WORKFLOW.VALIDATION.INVALID_VALUE: \"cluade\" is not a provider that is known by name (did you mean claude? For an agent of yours write agent:cluade or template:cluade)",
    ),
    (
        "a: {type: agent, provider: claude, prompt: x, mcp_proxy: {enabel: true}, on_success: done}",
        "4:61: USER.MCP_PROXY.UNKNOWN_KEY: \"enabel\" is not a key of mcp_proxy and has no effect (did you mean enable?)",
    ),
    (
        "a: {type: agent, provider: claude, prompt: x, mcp_proxy: {enable: true, intercept_builtins: false}, on_success: done}",
        "USER.MCP_PROXY.EMPTY_PROXY",
    ),
    (
        "a: {type: agent, provider: claude, prompt: x, conversation: {continue_from: b}, on_success: done}",
        "WORKFLOW.VALIDATION.MISSING_STATE: continue_from names the step \"b\"",
    ),
    (
        "a: {type: parallel, parallel: [x], on_success: done}",
        "4:34: WORKFLOW.VALIDATION.MISSING_STATE: parallel names the step \"x\", which does not exist",
    ),
    (
        "a: {type: parallel, parallel: [done], on_success: done}",
        "WORKFLOW.VALIDATION.INVALID_TRANSITION: the terminal step \"done\" cannot run inside \"a\"",
    ),
    (
        "a: {type: for_each, items: [1], body: [a], on_complete: done}",
        "WORKFLOW.VALIDATION.CYCLE_DETECTED: step \"a\" contains itself",
    ),
    (
        "a: {type: for_each, items: [1], on_complete: done}",
        "WORKFLOW.VALIDATION.MISSING_FIELD: body of step \"a\" is missing",
    ),
    (
        "a: {type: while, while: 'true', body: [], on_complete: done}",
        "WORKFLOW.VALIDATION.MISSING_FIELD: body names no step",
    ),
    (
        "a: {type: command, command: x, on_success: a, on_failure: a}",
        "WORKFLOW.VALIDATION.CYCLE_DETECTED: a run that comes to \"a\" goes in circles for ever",
    ),
    (
        "a: {type: command, command: '{{.states.b.Output}}', on_success: b}\n  b: {type: command, command: y, on_success: done}",
        "4:31: WORKFLOW.VALIDATION.INVALID_REFERENCE: step \"b\" has not run when step \"a\" uses it",
    ),
    (
        "a: {type: command, command: x, on_success: done}\n  b: {type: command, command: y, on_success: done}",
        "5:3: WORKFLOW.VALIDATION.UNREACHABLE: step \"b\" is never reached",
    ),
    (
        "a: {type: command, command: x, on_success: done, pre_hook: y}",
        "(write hooks: {pre: [...]})",
    ),
    (
        "a: {use_template: gone, on_success: done}",
        "4:21: USER.INPUT.MISSING_FILE: the template \"gone\" cannot be used: gone is not there",
    ),
    (
        "a: {use_template: greet, on_success: done}",
        "the template \"greet\" needs the parameter \"who\"",
    ),
    (
        "a: {type: call_workflow, on_success: done}",
        "WORKFLOW.VALIDATION.MISSING_FIELD: workflow of step \"a\" is missing",
    ),
    (
        "a: {type: operation, on_success: done}",
        "WORKFLOW.VALIDATION.MISSING_FIELD: operation of step \"a\" is missing",
    ),
    (
        "a: [x]",
        "4:6: WORKFLOW.PARSE.WRONG_TYPE: must be a mapping, but is a list",
    ),
];

#[test]
fn every_problem_has_its_place_code_and_hint() {
    for (step, expected) in WRONG_STEPS {
        let found = problems(&around(&format!("  {step}")));
        assert!(
            found.iter().any(|problem| problem.contains(expected)),
            "{step}\n  wanted {expected}\n  got {found:#?}"
        );
    }
}

#[test]
fn all_problems_come_at_once_in_the_order_of_the_file() {
    let text = "nam: x\nstates:\n  initial: zz\n  a: {type: command, timeout: never, on_success: gone, colour: red}\n  b: {type: nothing}\n";
    let found = loaded(text);
    assert!(found.plan.is_none());
    assert!(found.problems.len() >= 7, "{:#?}", found.problems);
    let places: Vec<_> = found
        .problems
        .iter()
        .map(|problem| (problem.line, problem.column))
        .collect();
    assert!(places.is_sorted());
    assert_eq!(exit_code(&found.problems), 2);
}

#[test]
fn a_file_that_is_no_yaml_exits_with_one() {
    for text in ["a: [", "- x", "", "name: x\nname: y\n", "\u{0}"] {
        let found = loaded(text);
        assert!(found.plan.is_none(), "{text}");
        assert_eq!(
            exit_code(&found.problems),
            1,
            "{text}: {:?}",
            found.problems
        );
    }
}

#[test]
fn unknown_keys_are_warnings_and_the_workflow_still_runs() {
    let found = loaded(&around(
        "  a: {type: command, command: x, on_success: done, colour: red}",
    ));
    assert!(found.plan.is_some());
    assert_eq!(found.problems.len(), 1);
    assert_eq!(
        (found.problems[0].severity, exit_code(&found.problems)),
        (Severity::Warning, 0)
    );
}

#[test]
fn a_key_in_a_file_is_an_error_at_its_place_that_says_what_to_write_instead() {
    let found = loaded(&around(
        "  a:\n    type: agent\n    provider: openai_compatible\n    prompt: hi\n    options:\n      model: m\n      api_key: sk-1\n    on_success: done",
    ));
    assert!(found.plan.is_none());
    let problem = found.problems.iter().find(|it| it.is_error()).unwrap();
    assert_eq!(problem.code, Code::InvalidValue);
    assert!(problem.line > 0 && problem.column > 0, "{problem:?}");
    assert!(problem.hint.as_ref().unwrap().contains("api_key_env"));
    assert!(!problem.to_string().contains("sk-1"), "{problem}");
}

#[test]
fn a_provider_that_is_not_supported_is_warned_of() {
    let agent = |provider: &str| {
        around(&format!(
            "  a: {{type: agent, provider: {provider}, prompt: hi, on_success: done}}"
        ))
    };
    assert!(problems(&agent("claude")).is_empty());
    let found = problems(&agent("mistral_vibe"));
    assert!(
        found.len() == 1 && found[0].contains("is not supported"),
        "{found:?}"
    );
}

#[test]
fn output_that_goes_unquoted_into_a_command_is_warned_of() {
    let two = |command: &str| {
        format!(
            "name: demo\ninputs:\n  - {{name: who}}\n  - {{name: count, type: integer}}\n  - {{name: stage, validation: {{enum: [dev, prod]}}}}\n\
             states:\n  initial: a\n  a: {{type: command, command: x, on_success: b}}\n  b: {{type: command, command: '{command}', on_success: done}}\n  \
             done: {{type: terminal}}\n"
        )
    };
    let cases = [
        ("echo {{.states.a.Output}}", true),
        ("echo {{states.a.Response}}", true),
        ("echo {{.states.a.Output | trimSpace}}", true),
        ("echo {{.states.a.Output | shell_quote}}", false),
        ("echo {{escape .states.a.Output}}", false),
        ("echo {{.states.a.ExitCode}}", false),
        ("echo {{.workflow.id}}", false),
        ("echo {{.states.a.Error}}", true),
        ("echo {{with .states.a}}{{.Output}}{{end}}", true),
        (
            "echo {{with .states.a}}{{.Output | shell_quote}}{{end}}",
            false,
        ),
        ("echo {{with .}}{{.states.a.Output}}{{end}}", true),
        ("{{$r := .}}echo {{$r.states.a.Output}}", true),
        (
            "{{$r := .}}echo {{$r.states.a.Output | shell_quote}}",
            false,
        ),
        ("echo {{range .states}}{{.Output}}{{end}}", true),
        ("echo {{.inputs.who}}", true),
        ("echo {{escape .inputs.who}}", false),
        ("echo {{.inputs.count}} {{.inputs.stage}}", false),
    ];
    for (command, is_warned) in cases {
        let found = loaded(&two(command));
        let warned = found
            .problems
            .iter()
            .any(|problem| problem.code == Code::UnsafeCommand);
        assert_eq!(warned, is_warned, "{command}: {:?}", found.problems);
        assert!(found.plan.is_some());
    }
    let item = |items: &str| {
        around(&format!(
            "  a: {{type: command, command: x, on_success: l}}\n  l: {{type: for_each, items: {items}, body: [w], on_complete: done}}\n  w: {{type: command, command: 'cat {{{{.loop.Item}}}}'}}"
        ))
    };
    assert!(
        problems(&item("'{{.states.a.Output}}'"))
            .iter()
            .any(|problem| problem.contains("UNSAFE"))
    );
    assert!(problems(&item("[a, b]")).is_empty());
    for (word, is_warned) in [("message", true), ("exit_code", false)] {
        let hook = format!(
            "{}hooks:\n  workflow_error: [{{command: 'echo {{{{.error.{word}}}}}'}}]\n",
            two("x")
        );
        let found = problems(&hook);
        let warned = found.iter().any(|problem| problem.contains("UNSAFE"));
        assert_eq!(warned, is_warned, "{word}: {found:?}");
    }
}

#[test]
fn what_would_have_no_effect_is_warned_of() {
    let agent = |more: &str| {
        around(&format!(
            "  a: {{type: agent, provider: claude, prompt: x, {more}, on_success: done}}"
        ))
    };
    let operation = |name: &str| {
        around(&format!(
            "  a: {{type: operation, operation: {name}, on_success: done}}"
        ))
    };
    let cases = [
        (
            agent("mcp_proxy: {enable: true}"),
            "kept from their own tools",
        ),
        (
            agent(
                "mcp_proxy: {enable: true, intercept_builtins: false, plugin_tools: [{plugin: gh}]}",
            ),
            "there are no plugins here",
        ),
        (
            agent("options: {allowed_tools: [Read]}"),
            "\"allowed_tools\" has no effect",
        ),
        (
            operation("github.get_issue"),
            "there is no operation \"github.get_issue\"",
        ),
    ];
    for (text, expected) in cases {
        let found = loaded(&text);
        assert!(found.plan.is_some(), "{text}");
        let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        assert!(
            problems.len() == 1 && problems[0].contains(expected),
            "{problems:?}"
        );
    }
    for text in [
        agent("options: {model: m, max_turns: 3}"),
        operation("http.request"),
    ] {
        assert_eq!(problems(&text), [""; 0]);
    }
}

#[test]
fn templates_of_steps_are_expanded_and_overridden() {
    let text = "name: demo\ninputs: [{name: x}]\nstates:\n  initial: a\n  a: {use_template: greet, parameters: {who: Ada}, timeout: 9, on_success: done}\n  done: {type: terminal}\n";
    let plan = plan(text);
    let step = plan.step("a").unwrap();
    let StepKind::Command(command) = &step.kind else {
        panic!()
    };
    assert_eq!(
        command.script,
        Script::Inline("echo Ada! {{.inputs.x}}".to_owned())
    );
    assert_eq!(step.timeout, Some(Duration::from_secs(9)));
}

#[test]
fn both_forms_that_are_in_use_are_accepted() {
    let text = "name: demo\ninputs:\n  who: {type: string, default: ada, enum: [ada, bob]}\nstates:\n  initial: a\n  a:\n    type: call_workflow\n    call_workflow: {workflow: child, inputs: {x: '{{.inputs.who}}'}, outputs: {r: result}}\n    on_success: b\n  b: {type: database.query, config: {sql: x}, on_success: done}\n  done: {type: terminal}\n";
    let plan = plan(text);
    assert_eq!(plan.inputs[0].validation.choices, ["ada", "bob"]);
    let StepKind::Workflow(call) = &plan.step("a").unwrap().kind else {
        panic!()
    };
    assert_eq!((call.workflow.as_str(), call.outputs.len()), ("child", 1));
    assert!(
        matches!(&plan.step("b").unwrap().kind, StepKind::Operation(operation) if operation.name == "database.query")
    );
}

#[test]
fn directories_of_the_format_are_known() {
    let text = around("  a: {type: command, command: '{{.awf.scripts_dir}}/x', on_success: done}");
    assert!(problems(&text).is_empty(), "{:?}", problems(&text));
}

#[test]
fn providers_are_understood() {
    let cases = [
        ("claude", Ok(Provider::Known("claude".into()))),
        ("copilot", Ok(Provider::Known("github_copilot".into()))),
        (
            "openai_compatible",
            Ok(Provider::Known("openai_compatible".into())),
        ),
        (
            "template:reviewer",
            Ok(Provider::Template("reviewer".into())),
        ),
        ("agent reviewer", Ok(Provider::Agent("reviewer".into()))),
        (
            "acp: node agent.js",
            Ok(Provider::Acp(vec!["node".into(), "agent.js".into()])),
        ),
        ("mine", Ok(Provider::Named("mine".into()))),
        ("", Err(())),
        ("agent:", Err(())),
        ("acp: 'open", Err(())),
        ("two words", Err(())),
    ];
    for (written, expected) in cases {
        assert_eq!(
            Provider::parse(written).map_err(drop),
            expected,
            "{written}"
        );
    }
}

#[test]
fn a_thousand_files_are_read() {
    let mut read = 0;
    for index in 0..1000 {
        let mut text = format!("name: w{index}\nstates:\n  initial: s0\n");
        for step in 0..5 {
            let next = if step == 4 {
                "done".to_owned()
            } else {
                format!("s{}", step + 1)
            };
            let _ = writeln!(
                text,
                "  s{step}: {{type: command, command: 'echo {{{{.workflow.id}}}}', on_success: {next}}}"
            );
        }
        text.push_str("  done: {type: terminal}\n");
        read += usize::from(loaded(&text).plan.is_some());
    }
    assert_eq!(read, 1000);
}
