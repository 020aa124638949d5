//! Every real agent as the provider of a step: what it says is the output of the step.

use std::{fs, process::Stdio};

use serde_json::Value;

use super::table::each;

#[test]
#[ignore = "slow: starts every real agent"]
fn each_is_the_provider_of_a_step() {
    each("provider of a step", &[], |scene| {
        let template = scene.agent.template(&scene.model.url());
        let options = match template["backend"]["config"]["model"].as_str() {
            Some(model) => format!("options: {{model: {model}}}, "),
            None => String::new(),
        };
        let name = scene.agent.name;
        let text = format!(
            "name: ask\nstates:\n  initial: ask\n  \
             ask: {{type: agent, provider: {name}, {options}prompt: SAY one two three, on_success: keep}}\n  \
             keep:\n    type: command\n    command: printf '%s' {{{{escape .states.ask.Output}}}} > said.txt\n    \
             on_success: done\n  done: {{type: terminal}}\n"
        );
        let folder = scene.daemon.scratch("flows");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("ask.yaml"), text).unwrap();
        let mut command = scene
            .daemon
            .command(&["workflow", "run", "ask.yaml", "-f", "json"]);
        for (key, value) in template["env"].as_object().unwrap() {
            command.env(key, value.as_str().unwrap());
        }
        let output = command
            .current_dir(&folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{shown}\n{errors}");
        let said = fs::read_to_string(folder.join("said.txt")).unwrap();
        assert!(said.trim().ends_with("one two three"), "{said:?}");
        let events: Vec<Value> = shown
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let texts = events.iter().filter(|event| event["type"] == "text");
        let texts: Vec<&str> = texts.filter_map(|event| event["text"].as_str()).collect();
        let once = texts.concat().matches("one two three").count();
        assert_eq!(once, 1, "{texts:?}");
        // Its words come as it says them, and not again with the whole message.
        assert!(name != "claude" || texts.len() > 1, "{texts:?}");
        assert!(!scene.model.asked("SAY one two three").is_empty());
    });
}
