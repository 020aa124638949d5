//! What an editor has of a session beside its turns: commands that change, choices, and what a restart leaves.

#![expect(
    clippy::unwrap_used,
    reason = "A test that cannot go on says so by panicking."
)]

use std::fs;

use serde_json::{Value, json};
use testkit::eventually;

use super::{
    Project,
    editor::{Editor, project, step},
};
use crate::node;

/// The names of the commands that were told last.
fn commands(editor: &Editor) -> Vec<String> {
    let updates = editor.updates("available_commands_update");
    let last = updates.last().map(|update| &update["availableCommands"]);
    let commands = last.and_then(|commands| commands.as_array()).into_iter();
    commands
        .flatten()
        .map(|command| command["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn commands_are_told_again_when_files_come_and_go() {
    let project = Project::new();
    fs::remove_dir_all(project.folder.join(".agentcraft")).unwrap();
    let mut editor = Editor::open(&project);
    editor.until("the commands are told", |editor| {
        !editor.updates("available_commands_update").is_empty()
    });
    assert_eq!(commands(&editor), [""; 0]);
    // The folder is not there yet, so what is above it is watched.
    fs::create_dir_all(project.folder.join(".agentcraft/workflows")).unwrap();
    project.workflow("fresh", &step("echo fresh"));
    editor.until("the new one is told", |editor| {
        commands(editor) == ["fresh"]
    });
    project.workflow("second", &step("echo second"));
    editor.until("another one is told", |editor| {
        commands(editor) == ["fresh", "second"]
    });
    assert_eq!(editor.prompt("/second"), "end_turn");
    fs::remove_file(project.folder.join(".agentcraft/workflows/fresh.yaml")).unwrap();
    editor.until("one that went is not told", |editor| {
        commands(editor) == ["second"]
    });
    editor.close();
    project.nothing_is_left();
}

#[test]
fn a_role_and_an_agent_can_be_chosen_for_the_steps() {
    let project = Project::new();
    let roles = project.folder.join(".agents/roles/pirate");
    fs::create_dir_all(&roles).unwrap();
    fs::write(roles.join("AGENTS.md"), "Speak as a pirate.").unwrap();
    let bin = project.folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let stub = "#!/bin/sh\necho \"$@\" >> args.txt\n\
        echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"aye\",\"session_id\":\"s\"}'\n";
    fs::write(bin.join("claude"), stub).unwrap();
    let executable = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(bin.join("claude"), executable).unwrap();
    let mut project = project;
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    project.home.set_env("PATH", Some(&path));
    let text = "name: ask\nstates:\n  initial: ask\n  ask:\n    type: agent\n    provider: 'acp: no-such-program'\n    \
                prompt: hello\n    on_success: done\n  done: {type: terminal}\n";
    project.workflow("ask", text);
    let mut editor = Editor::open(&project);
    let opened = editor.call(
        "session/new",
        json!({"cwd": project.folder, "mcpServers": []}),
    );
    editor.session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let options = &opened["result"]["configOptions"];
    let values = |option: &Value| -> Vec<String> {
        let options = option["options"].as_array().unwrap().iter();
        options
            .map(|option| option["value"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(values(&options[0]), ["as-written", "pirate"]);
    assert!(
        values(&options[1]).contains(&"claude".to_owned()),
        "{options}"
    );
    assert_eq!(opened["result"]["modes"]["currentModeId"], "as-written");
    let set = |id: &str, value: &str| json!({"configId": id, "value": value});
    for wanted in [set("provider", "claude"), set("role", "pirate")] {
        let mut params = wanted;
        params["sessionId"] = json!(editor.session);
        let chosen = editor.call("session/set_config_option", params.clone());
        let options = chosen["result"]["configOptions"].as_array().unwrap();
        let option = options.iter().find(|it| it["id"] == params["configId"]);
        assert_eq!(option.unwrap()["currentValue"], params["value"]);
    }
    let mut params = set("provider", "nobody");
    params["sessionId"] = json!(editor.session);
    let refused = editor.call("session/set_config_option", params);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(editor.prompt("/ask"), "end_turn", "{}", editor.words());
    assert!(
        project.read("args.txt").contains("Speak as a pirate."),
        "{}",
        project.read("args.txt")
    );
    editor.close();
}

#[test]
fn a_prompt_without_a_name_goes_to_the_default() {
    let project = project();
    fs::write(
        project.folder.join("acp.yaml"),
        "default_workflow: 01-greet\n",
    )
    .unwrap();
    let command = project.command(&["acp-serve", "--config", "acp.yaml"]);
    let mut editor = Editor::with(command, &project, json!({}));
    assert_eq!(editor.prompt("Ann"), "end_turn", "{}", editor.words());
    assert!(editor.words().contains("greeted Ann"), "{}", editor.words());
    editor.close();
    let settings = "default_agent: 'acp: agentcraft builtin-agent'\n";
    fs::write(project.folder.join("acp.yaml"), settings).unwrap();
    let command = project.command(&["acp-serve", "--config", "acp.yaml"]);
    let mut editor = Editor::with(command, &project, json!({}));
    assert_eq!(editor.prompt("hello there"), "end_turn");
    assert!(editor.words().contains("hello there"), "{}", editor.words());
    assert_eq!(editor.prompt("/01-greet who=Bob"), "end_turn");
    assert!(editor.words().contains("greeted Bob"), "{}", editor.words());
    editor.close();
    project.nothing_is_left();
}

#[test]
fn a_conversation_that_waits_goes_on_after_the_daemon_was_started_again() {
    let project = Project::of(node().stopped());
    project.examples();
    let Project { mut home, folder } = project;
    home.start();
    let mut project = Project { home, folder };
    let mut editor = Editor::open(&project);
    assert_eq!(editor.prompt("/10-conversation"), "end_turn");
    assert_eq!(editor.prompt("before"), "end_turn");
    let session = editor.session.clone();
    project.home.kill();
    drop(editor);
    project.home.start();
    let mut editor = Editor::open(&project);
    let params = json!({"sessionId": session, "cwd": project.folder, "mcpServers": []});
    let loaded = editor.call("session/load", params);
    assert!(loaded["result"].is_object(), "{loaded}");
    assert!(
        editor.words().contains("You said: before"),
        "{}",
        editor.words()
    );
    editor.session = session;
    editor.told.clear();
    assert_eq!(editor.prompt("after"), "end_turn");
    assert!(
        editor.words().contains("You said: after"),
        "{}",
        editor.words()
    );
    assert_eq!(editor.prompt("exit"), "end_turn");
    assert!(project.read("said.txt").contains("after"));
    let listed = project.cli(&["workflow", "history", "-f", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["runs"][0]["state"], "succeeded", "{listed}");
    editor.close();
}

#[test]
fn without_a_daemon_sessions_are_loaded_by_the_next_server_however_the_last_one_ended() {
    let project = Project::of(node().stopped());
    project.examples();
    for is_killed in [false, true] {
        let mut editor = Editor::open(&project);
        assert_eq!(editor.prompt("/10-conversation"), "end_turn");
        assert_eq!(editor.prompt("before"), "end_turn");
        let session = editor.session.clone();
        if is_killed {
            editor.child.kill().unwrap();
            editor.child.wait().unwrap();
        } else {
            editor.close();
        }
        project.nothing_is_left();
        let mut editor = Editor::open(&project);
        let listed = editor.call("session/list", json!({}));
        let listed = listed["result"]["sessions"].as_array().unwrap().clone();
        let is_listed = |it: &Value| it["sessionId"] == session.as_str();
        assert!(listed.iter().any(is_listed), "{listed:?}");
        let params = json!({"sessionId": session, "cwd": project.folder, "mcpServers": []});
        let loaded = editor.call("session/load", params);
        assert!(loaded["result"].is_object(), "{loaded}");
        assert!(editor.words().contains("You said: before"), "{is_killed}");
        editor.session = session;
        editor.told.clear();
        assert_eq!(editor.prompt("after"), "end_turn");
        assert!(
            editor.words().contains("You said: after"),
            "{is_killed}: {}",
            editor.words()
        );
        assert_eq!(editor.prompt("exit"), "end_turn");
        editor.close();
        project.nothing_is_left();
    }
}

#[test]
fn a_session_that_was_closed_is_listed_and_loaded_again() {
    for home in [node().stopped(), node().start()] {
        let project = Project::of(home);
        project.workflow("hi", &step("echo hello there"));
        let mut editor = Editor::open(&project);
        assert_eq!(editor.prompt("/hi"), "end_turn");
        let session = editor.session.clone();
        let closed = editor.call("session/close", json!({"sessionId": session}));
        assert!(closed["result"].is_object(), "{closed}");
        let listed = editor.call("session/list", json!({}));
        let listed = listed["result"]["sessions"].as_array().unwrap().clone();
        let is_listed = |it: &Value| it["sessionId"] == session.as_str();
        assert!(listed.iter().any(is_listed), "{listed:?}");
        let load = |id: &str| json!({"sessionId": id, "cwd": project.folder, "mcpServers": []});
        editor.told.clear();
        let loaded = editor.call("session/load", load(&session));
        assert!(loaded["result"].is_object(), "{loaded}");
        let told = serde_json::to_string(&editor.told).unwrap();
        assert!(told.contains("hello there"), "{told}");
        assert_eq!(editor.prompt("/hi"), "end_turn");
        let unknown = editor.call("session/load", load("nobody-has-it"));
        assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
        editor.close();
        project.nothing_is_left();
    }
}

#[test]
fn a_session_that_is_loaded_from_another_folder_runs_there() {
    let project = Project::of(node().stopped());
    project.workflow("here", &step("pwd > where.txt"));
    let mut editor = Editor::open(&project);
    assert_eq!(editor.prompt("/here"), "end_turn");
    let session = editor.session.clone();
    editor.close();
    let other = project.home.scratch("other");
    let workflows = other.join(".agentcraft/workflows");
    std::fs::create_dir_all(&workflows).unwrap();
    std::fs::write(workflows.join("there.yaml"), step("pwd > where.txt")).unwrap();
    let mut editor = Editor::open(&project);
    let params = json!({"sessionId": session, "cwd": other, "mcpServers": []});
    let loaded = editor.call("session/load", params);
    assert!(loaded["result"].is_object(), "{loaded}");
    editor.session = session;
    assert_eq!(editor.prompt("/there"), "end_turn", "{}", editor.words());
    let place = std::fs::read_to_string(other.join("where.txt")).unwrap();
    assert_eq!(place.trim(), other.to_string_lossy());
    editor.close();
}

#[test]
fn a_step_that_was_cut_off_is_told_as_interrupted_with_its_run() {
    let project = Project::of(node().stopped());
    let text = "name: long\nstates:\n  initial: both\n  both: {type: parallel, parallel: [a, b], on_success: done}\n  \
                a: {type: command, command: touch started; sleep 60}\n  b: {type: approval, message: 'Go on?'}\n  done: {type: terminal}\n";
    project.workflow("long", text);
    let mut editor = Editor::open(&project);
    editor.choice = "";
    editor.begin("/long");
    eventually("the step is at work", || {
        project.folder.join("started").exists()
    });
    // A question is asked once everything before it is written down.
    editor.until("it is asked", |editor| editor.asked == 1);
    let session = editor.session.clone();
    editor.child.kill().unwrap();
    editor.child.wait().unwrap();
    project.nothing_is_left();
    let mut editor = Editor::open(&project);
    editor.told.clear();
    let params = json!({"sessionId": session, "cwd": project.folder, "mcpServers": []});
    let loaded = editor.call("session/load", params);
    assert!(loaded["result"].is_object(), "{loaded}");
    let run = project.newest();
    editor.until("the run is named", |editor| {
        serde_json::to_string(&editor.told)
            .unwrap()
            .contains(&format!("workflow resume {run}"))
    });
    let updates = editor.told.iter().map(|told| &told["params"]["update"]);
    let calls: Vec<&Value> = updates
        .filter(|update| !update["toolCallId"].is_null())
        .collect();
    let call = calls.last().expect("the call was told");
    assert_eq!(call["status"], "failed", "{:?}", editor.told);
    assert!(call.to_string().contains("interrupted"), "{call}");
    let plan = (*editor.updates("plan").last().unwrap()).clone();
    assert!(!plan.to_string().contains("in_progress"), "{plan}");
    editor.close();
    for _ in 0..2 {
        let mut editor = Editor::open(&project);
        editor.told.clear();
        let params = json!({"sessionId": session, "cwd": project.folder, "mcpServers": []});
        let loaded = editor.call("session/load", params);
        assert!(loaded["result"].is_object(), "{loaded}");
        editor.call("session/list", json!({})); // What was said meanwhile is here.
        let told = serde_json::to_string(&editor.told).unwrap();
        assert_eq!(told.matches("was interrupted here").count(), 1, "{told}");
        editor.close();
    }
    project.nothing_is_left();
}

#[test]
fn two_servers_at_once_do_not_disturb_each_other() {
    let project = project();
    let mut first = Editor::open(&project);
    let mut second = Editor::open(&project);
    for editor in [&mut first, &mut second] {
        assert_eq!(editor.prompt("/01-greet who=Ann"), "end_turn");
    }
    first.close();
    assert_eq!(second.prompt("/01-greet who=Ann"), "end_turn");
    second.close();
    project.nothing_is_left();
}

#[test]
fn an_agent_or_a_template_of_the_users_own_that_is_called_workflows_is_left_alone() {
    for is_agent in [true, false] {
        let project = Project::of(node().stopped());
        project.examples();
        let Project { mut home, folder } = project;
        home.start();
        let project = Project { home, folder };
        let mine = json!({"backend": {"type": "builtin"}});
        let (template, agent) = match is_agent {
            true => ("plain", "workflows"),
            false => ("workflows", "helper"),
        };
        project.home.template(template, mine);
        let mut client = project.home.client();
        client.ok("agent.create", json!({"name": agent, "template": template}));
        // Twice: the second finds what the first has made.
        for _ in 0..2 {
            let mut editor = Editor::open(&project);
            assert_eq!(editor.prompt("/01-greet who=Ann"), "end_turn");
            assert!(editor.words().contains("greeted Ann"), "{}", editor.words());
            editor.close();
        }
        let own = client.ok("agent.status", json!({"name": agent}));
        assert_eq!(own["backendType"], "builtin", "{own}");
        let listed = client.ok("agent.list", json!({}));
        let agents = listed.as_array().unwrap().iter();
        let names: Vec<&str> = agents.map(|it| it["name"].as_str().unwrap()).collect();
        let wanted = match is_agent {
            true => ["workflows", "workflows-2"],
            false => ["helper", "workflows-2"],
        };
        assert_eq!(names, wanted);
    }
}

#[test]
fn an_agent_of_the_daemon_is_an_agent_of_a_run_on_the_command_line() {
    let project = Project::of(node().stopped());
    let Project { mut home, folder } = project;
    home.start();
    let project = Project { home, folder };
    project
        .home
        .template("plain", json!({"backend": {"type": "builtin"}}));
    let mut client = project.home.client();
    client.ok(
        "agent.create",
        json!({"name": "helper", "template": "plain"}),
    );
    client.ok("agent.start", json!({"name": "helper"}));
    let text = "name: ask\nstates:\n  initial: ask\n  ask:\n    type: agent\n    provider: agent:helper\n    \
                prompt: tell me\n    on_success: done\n    on_failure: failed\n  done: {type: terminal}\n  \
                failed: {type: terminal, status: failure}\n";
    project.workflow("ask", text);
    let output = project.run(&["ask"], 0);
    assert!(output.stdout.contains("tell me"), "{}", output.stdout);
    project.workflow("nobody", &text.replace("agent:helper", "agent:nobody"));
    project.run(&["nobody"], 1);
}

#[test]
fn retries_and_errors_are_updates_of_their_step() {
    let project = Project::new();
    let text = "name: shaky\nstates:\n  initial: shaky\n  shaky:\n    type: command\n    \
                command: echo tried >> tries.txt; test $(wc -l < tries.txt) -ge 2 || exit 7\n    \
                retry: {max_attempts: 3, initial_delay: 10ms}\n    on_success: broken\n    on_failure: bad\n  \
                broken: {type: command, command: 'echo oh no >&2; exit 9', on_success: done, on_failure: bad}\n  \
                done: {type: terminal}\n  bad: {type: terminal, status: failure, message: it broke}\n";
    project.workflow("shaky", text);
    let mut editor = Editor::open(&project);
    let asked = editor.begin("/shaky");
    let answer = editor.answer(&json!(asked));
    assert_eq!(answer["result"]["stopReason"], "refusal", "{answer}");
    let said = "EXECUTION.COMMAND.FAILED: it broke";
    assert!(editor.words().contains(said), "{}", editor.words());
    let told = |step: &str| -> Vec<(String, String)> {
        let updates = editor.updates("tool_call_update").into_iter();
        let own = updates.filter(|update| update["toolCallId"].as_str().unwrap().ends_with(step));
        own.map(|update| {
            let status = update["status"].as_str().unwrap().to_owned();
            (status, update["content"].to_string())
        })
        .collect()
    };
    let shaky = told(":shaky");
    let is_retry = |(status, content): &(String, String)| {
        status == "in_progress" && content.contains("attempt 1 failed")
    };
    assert!(shaky.iter().any(is_retry), "{shaky:?}");
    let (status, content) = shaky.last().unwrap();
    assert_eq!(status, "completed", "{shaky:?}");
    assert!(!content.contains("attempt"), "{shaky:?}");
    let broken = told(":broken");
    let (status, content) = broken.last().unwrap();
    assert_eq!(status, "failed", "{broken:?}");
    assert!(
        content.contains("oh no") && content.contains("exit code 9"),
        "{broken:?}"
    );
    editor.close();
}

#[test]
fn nothing_is_asked_of_an_editor_that_lends_its_files_and_terminals() {
    let project = project();
    fs::write(project.folder.join("notes.txt"), "noted\n").unwrap();
    let text = "name: look\nstates:\n  initial: look\n  \
                look: {type: agent, provider: 'acp: agentcraft builtin-agent', prompt: /fs read notes.txt, on_success: done}\n  \
                done: {type: terminal}\n";
    project.workflow("look", text);
    let lends = json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
    let mut editor = Editor::with(project.command(&["acp-serve"]), &project, lends);
    for prompt in ["/01-greet who=Ann", "/04-agent", "/look"] {
        assert_eq!(editor.prompt(prompt), "end_turn", "{}", editor.words());
    }
    assert!(editor.words().contains("noted"), "{}", editor.words());
    let asked: Vec<&Value> = editor
        .told
        .iter()
        .filter(|message| message.get("id").is_some())
        .collect();
    assert_eq!(asked, [&Value::Null; 0], "it was asked for something");
    editor.close();
    project.nothing_is_left();
}

#[test]
fn a_run_that_fails_ends_its_turn_with_words_and_a_code_that_a_loaded_session_shows_again() {
    let project = project();
    let says = "EXECUTION.COMMAND.FAILED: step step: exit code 7: oh no";
    project.workflow("broken", &step("echo oh no >&2; exit 7"));
    let mut editor = Editor::open(&project);
    let id = editor.begin("/broken");
    let answer = editor.answer(&json!(id));
    assert_eq!(answer["result"]["stopReason"], "refusal", "{answer}");
    let about = &answer["result"]["_meta"]["agentcraft"];
    assert_eq!(
        about,
        &json!({"code": "EXECUTION.COMMAND.FAILED", "exitCode": 3})
    );
    assert!(editor.words().contains(says), "{}", editor.words());
    assert_eq!(editor.prompt("/01-greet who=Ann"), "end_turn");
    let session = editor.session.clone();
    editor.close();
    let mut editor = Editor::open(&project);
    let cwd = project.folder.to_string_lossy().into_owned();
    let load = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let answer = editor.call("session/load", load);
    assert!(answer["result"].is_object(), "{answer}");
    assert!(editor.words().contains(says), "{}", editor.words());
    editor.close();
}
