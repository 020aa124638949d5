//! Pictures show every step and every way on, and no name can break them.

use std::sync::Arc;

use super::*;
use crate::machine::Setup;
use crate::world::{EmptyWorld, World};

const TEXT: &str = r#"
name: demo
inputs: [{name: who, default: Ada}]
states:
  initial: build
  build:
    type: command
    command: echo {{.inputs.who}}
    timeout: 250ms
    retry: {max_attempts: 3, initial_delay: 1s, backoff: exponential}
    on_success: fan
    on_failure: {message: "no build", status: 4}
  fan:
    type: parallel
    parallel: [lint, test]
    transitions:
      - {when: 'states.lint.Output contains "<b>|x"', goto: done}
      - {goto: done}
  lint: {type: command, command: lint}
  test: {type: agent, provider: claude, prompt: "test {{.states.build.Output}}", approval: true}
  done: {type: terminal, status: success}
"#;

fn plan() -> Plan {
    let loaded = crate::load(TEXT, &|_| Err("none".to_owned()));
    loaded
        .plan
        .unwrap_or_else(|| panic!("{:?}", loaded.problems))
}

#[test]
fn the_text_shows_every_step_and_way() {
    let shown = graph_text(&plan());
    for expected in [
        "▶ build (command)",
        "success → fan",
        "failure → ends with exit code 4",
        "runs lint, test",
        "always → done",
        "ends the run: success",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    assert!(!shown.contains("__inline"));
}

#[test]
fn the_diagram_is_mermaid_whatever_the_labels_hold() {
    let shown = graph_mermaid(&plan());
    assert!(shown.starts_with("flowchart TD\n"));
    assert!(shown.contains("start --> s0"), "{shown}");
    assert!(shown.contains("s1 -.-> s2"), "{shown}");
    assert!(shown.contains("#quot;#lt;b#gt;#124;x#quot;"), "{shown}");
    assert!(shown.contains("([\"exit 4\"])"), "{shown}");
}

#[test]
fn a_dry_run_fills_in_what_is_known_and_nothing_else() {
    let world: Arc<dyn World> = Arc::new(EmptyWorld);
    let plan = plan();
    let inputs = crate::check_inputs(&plan, &serde_json::Map::new(), world.as_ref()).unwrap();
    let setup = Setup {
        inputs,
        ..Setup::default()
    };
    let shown = plan.describe(&setup, &world).to_string();
    for expected in [
        "input who = Ada",
        "echo Ada",
        "[timeout 250ms]",
        "[up to 3 attempts, 1s apart, exponential]",
        "claude: test {{.states.build.Output}}",
        "[asks for approval first]",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
}
