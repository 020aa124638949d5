//! One way to say who takes a turn, wherever somebody is named.

mod rights;

use std::fs;

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use crate::{
    network::{http::Http, mcp::McpClient},
    node,
};

/// Says what it was given.
const GREET: &str = "\
name: greet
inputs:
  - {name: whom, type: string, required: true}
states:
  initial: say
  say: {type: step, command: 'echo hello {{.inputs.whom | shell_quote}}', on_success: done, on_failure: done}
  done: {type: terminal, message: '{{.states.say.Output}}'}
";

/// Asks another agent, by a target.
const ASK: &str = "\
name: ask
inputs:
  - {name: whom, type: string, required: true}
states:
  initial: ask
  ask: {type: agent, provider: 'PROVIDER', prompt: '{{.inputs.whom}}', on_success: done, on_failure: failed}
  done: {type: terminal, message: '{{.states.ask.Output}}'}
  failed: {type: terminal, status: failure}
";

fn with_workflows() -> TestDaemon {
    let ask = |provider: &str| ASK.replace("PROVIDER", provider);
    let daemon = node()
        .listening()
        .file("configs/workflows/greet.yaml", GREET)
        .file("configs/workflows/ask.yaml", ask("workflow:greet"))
        .start();
    daemon.template("echo", json!({"backend": {"type": "builtin"}}));
    daemon
}

fn agents(daemon: &TestDaemon) -> Vec<String> {
    let listed = daemon.client().ok("agent.list", json!({}));
    let names = listed.as_array().unwrap().iter();
    names
        .map(|agent| agent["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_workflow_and_a_template_are_spoken_to_without_making_an_agent_first() {
    let daemon = with_workflows();
    let ran = daemon.cli(&["agent", "run", "workflow:greet", "-p", "Ada"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("hello Ada"), "{ran:?}");
    let ran = daemon.cli(&["agent", "prompt", "template:echo", "-m", "hello there"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("hello there"), "{ran:?}");
    // Made once, then used again.
    assert_eq!(agents(&daemon), ["template-echo", "workflow-greet"]);
    let again = daemon.cli(&["agent", "prompt", "workflow:greet", "-m", "Bob"]);
    assert!(again.stdout.contains("hello Bob"), "{again:?}");
    assert_eq!(agents(&daemon).len(), 2);
}

#[test]
fn a_workflow_that_is_nowhere_is_refused_with_those_there_are_and_leaves_no_agent() {
    let daemon = with_workflows();
    let ran = daemon.cli(&["agent", "run", "workflow:gret", "-p", "Ada"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("no workflow called gret"), "{ran:?}");
    assert!(ran.stderr.contains("greet"), "{ran:?}");
    assert!(agents(&daemon).is_empty());
}

#[test]
fn what_was_started_for_one_prompt_or_one_conversation_ends_with_it() {
    let daemon = with_workflows();
    let ran = daemon.cli(&["agent", "run", "template:echo", "-p", "hello there"]);
    assert!(ran.stdout.contains("hello there"), "{ran:?}");
    assert_eq!(daemon.agent_processes(), Vec::<u32>::new(), "after the run");
    let mut talking = daemon.client();
    let params = json!({"agentName": "template:echo", "start": true});
    talking.ok("session.create", params);
    assert_eq!(daemon.agent_processes().len(), 1);
    drop(talking);
    let mut client = daemon.client();
    eventually("the agent of the conversation has stopped", || {
        client.ok("agent.status", json!({"name": "template:echo"}))["status"] == "stopped"
    });
    assert_eq!(daemon.agent_processes(), Vec::<u32>::new());
}

#[test]
fn several_who_speak_to_a_target_at_once_find_one_agent() {
    let daemon = with_workflows();
    for round in ["made", "started again"] {
        for target in ["template:echo", "workflow:greet"] {
            let said: Vec<_> = std::thread::scope(|scope| {
                let prompt = || daemon.cli(&["agent", "prompt", target, "-m", "Ada"]);
                let asked: Vec<_> = (0..6).map(|_| scope.spawn(prompt)).collect();
                asked.into_iter().map(|one| one.join().unwrap()).collect()
            });
            for output in said {
                assert_eq!(output.code, 0, "{round} {target}: {output:?}");
            }
        }
        daemon.cli(&["agent", "stop", "template-echo"]);
    }
    assert_eq!(agents(&daemon), ["template-echo", "workflow-greet"]);
}

#[test]
fn an_agent_is_created_of_a_target_under_a_name_of_its_own() {
    let daemon = with_workflows();
    let created = daemon.cli(&["agent", "create", "greeter", "-t", "workflow:greet"]);
    assert_eq!(created.code, 0, "{created:?}");
    let ran = daemon.cli(&["agent", "run", "greeter", "-p", "Ada"]);
    assert!(ran.stdout.contains("hello Ada"), "{ran:?}");
    assert_eq!(agents(&daemon), ["greeter"]);
}

#[test]
fn a_step_of_a_workflow_names_its_agent_in_the_same_way() {
    let daemon = with_workflows();
    let ran = daemon.cli(&["agent", "run", "workflow:ask", "-p", "Eve"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("hello Eve"), "{ran:?}");
    assert_eq!(
        agents(&daemon),
        ["workflow-ask"],
        "the step's agent went with it"
    );
}

/// A node with an agent `echo` that others may ask.
fn with_echo() -> TestDaemon {
    let daemon = node().listening().start();
    daemon.template("echo", json!({"backend": {"type": "builtin"}}));
    let mut client = daemon.client();
    client.ok("agent.create", json!({"name": "echo", "template": "echo"}));
    client.ok("agent.start", json!({"name": "echo"}));
    daemon
}

/// Makes a peer known here, and gives what it is called.
fn added(here: &TestDaemon, peer: &TestDaemon) -> String {
    let token = here.scratch("peer.token");
    fs::create_dir_all(here.scratch("")).unwrap();
    fs::write(&token, peer.token()).unwrap();
    let token = token.to_str().unwrap();
    let added = here.cli(&["peer", "add", &peer.url(), "--token-file", token]);
    assert_eq!(added.code, 0, "{added:?}");
    let listed = here.cli(&["peer", "list", "-f", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let alias = listed
        .pointer("/0/alias")
        .or(listed.pointer("/peers/0/alias"));
    alias.unwrap().as_str().unwrap().to_owned()
}

#[test]
fn a_peer_is_meant_by_its_name_and_its_token_stays_in_one_place() {
    let peer = with_echo();
    let here = node().listening().start();
    let target = format!("peer:{}/echo", added(&here, &peer));
    let ran = here.cli(&["agent", "run", &target, "-p", "hello from afar"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("hello from afar"), "{ran:?}");
    let shown = here.cli(&["agent", "status", "-f", "json"]).stdout;
    assert!(shown.contains("\"node\""), "{shown}");
    assert!(!shown.contains(&peer.token()), "{shown}");
    let nobody = here.cli(&["agent", "run", "peer:nobody/echo", "-p", "hello"]);
    assert_ne!(nobody.code, 0);
    assert!(nobody.stderr.contains("nobody"), "{nobody:?}");
    assert_eq!(agents(&here).len(), 1, "a mistyped name leaves nothing");
    // A step of a run that is no daemon's finds it through the daemon.
    let file = here.scratch("ask.yaml");
    fs::write(&file, ASK.replace("PROVIDER", &target)).unwrap();
    let file = file.to_str().unwrap();
    let ran = here.cli(&["workflow", "run", file, "--input", "whom=a step from afar"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("a step from afar"), "{ran:?}");
}

#[test]
fn an_agent_on_a_peer_follows_it_to_another_address_and_ends_with_the_pairing() {
    let mut peer = with_echo();
    let here = node().listening().start();
    let alias = added(&here, &peer);
    let created = here.cli(&[
        "agent",
        "create",
        "far",
        "-t",
        &format!("peer:{alias}/echo"),
    ]);
    assert_eq!(created.code, 0, "{created:?}");
    let say = |words: &str| here.cli(&["agent", "prompt", "far", "-m", words]);
    let first = say("hello from afar");
    assert!(first.stdout.contains("hello from afar"), "{first:?}");
    peer.stop();
    peer.start();
    assert_eq!(added(&here, &peer), alias, "it is the same node");
    let moved = say("hello again");
    assert_eq!(moved.code, 0, "{moved:?}");
    assert!(moved.stdout.contains("hello again"), "{moved:?}");
    assert_eq!(here.cli(&["peer", "unpair", &alias]).code, 0);
    let refused = say("hello once more");
    assert_ne!(refused.code, 0, "{refused:?}");
    let words = format!("{}{}", refused.stdout, refused.stderr);
    assert!(words.contains("token"), "{refused:?}");
    assert_eq!(here.cli(&["peer", "remove", &alias]).code, 0);
    let unknown = say("anybody there");
    assert_ne!(unknown.code, 0, "{unknown:?}");
    let words = format!("{}{}", unknown.stdout, unknown.stderr);
    assert!(words.contains(&alias), "{unknown:?}");
}

#[test]
fn the_runs_api_offers_the_targets_that_are_public_and_no_others() {
    let daemon = node()
        .listening()
        .file("configs/workflows/greet.yaml", GREET)
        .file("configs/workflows/ask.yaml", ASK)
        .file("config.toml", "[http]\npublic = [\"workflow:greet\"]\n")
        .start();
    let http = Http::owner(&daemon);
    let run = |agent: &str| {
        let body = json!({
            "agent_name": agent, "mode": "sync",
            "input": [{"role": "user", "parts": [{"content_type": "text/plain", "content": "Ada"}]}],
        });
        http.post("/runs", &body)
    };
    let ran = run("workflow:greet");
    assert!(ran.ok().to_string().contains("hello Ada"), "{ran:?}");
    assert_eq!(run("workflow:ask").status, 404);
    assert_eq!(run("peer:x?workspace=/etc").status, 404);
}

#[test]
fn what_names_nobody_is_refused_in_words() {
    let daemon = node().stopped();
    for target in ["file:x", "workflow:", "peer:node?dir=/x"] {
        let refused = daemon.cli(&["agent", "run", target, "-p", "hello"]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("error"), "{refused:?}");
    }
}

#[test]
fn every_command_that_names_an_agent_takes_a_target() {
    let daemon = with_workflows();
    let missing = daemon.cli(&["agent", "status", "workflow:greet"]);
    assert_eq!(missing.code, 4, "{missing:?}");
    assert!(missing.stderr.contains("workflow list"), "{missing:?}");
    assert!(agents(&daemon).is_empty(), "looking makes nothing");
    let ran = daemon.cli(&["agent", "run", "workflow:greet", "-p", "Ada"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for (command, word) in [
        (&["agent", "start", "template:echo"][..], "template-echo"),
        (&["agent", "status", "workflow:greet"], "workflow-greet"),
        (
            &["agent", "resolve", "template:echo", "-f", "json"],
            "template-echo",
        ),
        (&["agent", "stop", "template:echo"], "stopped"),
        (&["agent", "list"], "workflow:greet"),
        (
            &["session", "list", "--agent", "workflow:greet"],
            "workflow-greet",
        ),
        (&["journal", "--agent", "workflow:greet"], "turn.ended"),
        (&["template", "show", "workflow:greet"], "workflow"),
        (&["policy", "show", "-t", "template:echo"], ""),
        (
            &["agent", "destroy", "workflow:greet", "--force"],
            "destroyed",
        ),
    ] {
        let done = daemon.cli(command);
        assert_eq!(done.code, 0, "{command:?}: {done:?}");
        assert!(done.stdout.contains(word), "{command:?}: {done:?}");
    }
    assert_eq!(agents(&daemon), ["template-echo"]);
    // What is left of it is still found.
    let past = daemon.cli(&["journal", "--agent", "workflow:greet"]);
    assert!(past.stdout.contains("turn.ended"), "{past:?}");
}

#[test]
fn an_unknown_peer_or_folder_is_said_as_such_and_leaves_no_agent() {
    let peer = with_echo();
    let here = node().listening().start();
    let alias = added(&here, &peer);
    let nope = here.scratch("nope");
    let nope = nope.to_str().unwrap();
    for (target, words, hint) in [
        ("peer:nobody/news".to_owned(), "no peer nobody", "peer list"),
        (
            format!("peer:{alias}/nope"),
            "shows no agent nope; it shows echo",
            "peer list",
        ),
        (
            "workflow:nope".to_owned(),
            "no workflow called nope",
            "workflow list",
        ),
        (
            format!("peer:{alias}?workspace={nope}"),
            "no folder",
            "peer list",
        ),
        (
            format!("peer:{alias}?workspace={nope}&access=ro"),
            "no folder",
            "peer list",
        ),
    ] {
        let refused = here.cli(&["agent", "run", &target, "-p", "hello"]);
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
        assert!(refused.stderr.contains(hint), "{hint}: {refused:?}");
        assert!(!refused.stderr.contains("doctor"), "{refused:?}");
    }
    assert!(agents(&here).is_empty());
    let unclear = here.cli(&[
        "agent",
        "run",
        "peer:x?workspace=.&access=maybe",
        "-p",
        "hello",
    ]);
    assert_eq!(unclear.code, 2, "{unclear:?}");
    assert!(unclear.stderr.contains("access=ro"), "{unclear:?}");
}

/// What each face says to somebody who names a target that is not there.
fn refusals(daemon: &TestDaemon, target: &str) -> Vec<(&'static str, String)> {
    let mut said = Vec::new();
    for (face, words) in [
        ("run", &["agent", "run", target, "-p", "hello"][..]),
        ("prompt", &["agent", "prompt", target, "-m", "hello"]),
        ("chat", &["agent", "chat", target]),
        ("start", &["agent", "start", target]),
        ("lease", &["proxy", target, "--lease"]),
    ] {
        let refused = daemon.cli(words);
        assert_eq!(refused.code, 4, "{face} {target}: {refused:?}");
        said.push((face, refused.stderr));
    }
    let step = daemon.scratch("step.yaml");
    fs::write(&step, ASK.replace("PROVIDER", target)).unwrap();
    let run = daemon.cli(&[
        "workflow",
        "run",
        step.to_str().unwrap(),
        "--input",
        "whom=a",
    ]);
    assert_ne!(run.code, 0, "{run:?}");
    said.push(("step", format!("{}{}", run.stdout, run.stderr)));
    let http = Http::owner(daemon);
    let run = http.post("/runs", &body_for(target));
    assert_eq!(run.status, 404, "{run:?}");
    said.push(("runs", run.text));
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": {"message": {
            "messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Ada"}], "metadata": {"agent": target},
        }},
    });
    let version = [("a2a-version", "1.0")];
    let answered = http.call("POST", "/a2a", &version, Some(&message));
    said.push(("a2a", answered.text));
    let page = http.post("/api/sessions", &json!({"agent": target}));
    assert_eq!(page.status, 404, "{page:?}");
    said.push(("dashboard", page.text));
    let asked = json!({"name": target, "message": "hello"});
    let tool = McpClient::new(http).tool("agentcraft_prompt_agent", &asked);
    assert_eq!(tool["isError"], true, "{tool}");
    said.push(("mcp", tool.to_string()));
    said
}

#[test]
fn whoever_is_not_there_is_told_in_the_same_words_at_every_face() {
    let peer = with_echo();
    let here = node().listening().start();
    let alias = added(&here, &peer);
    fs::create_dir_all(here.scratch("")).unwrap();
    let nope = here.scratch("nope");
    for (target, words) in [
        ("template:nope".to_owned(), "no template called nope"),
        ("workflow:nope".to_owned(), "no workflow called nope"),
        ("peer:nobody/news".to_owned(), "no peer nobody"),
        (
            format!("peer:{alias}?workspace={}", nope.display()),
            "no folder",
        ),
    ] {
        for (face, said) in refusals(&here, &target) {
            if face == "step" && target.starts_with("peer:") {
                continue; // A run that is no daemon's asks through a program, whose words are its own.
            }
            assert!(said.contains(words), "{face} of {target}: {said}");
        }
        assert!(agents(&here).is_empty(), "{target} leaves nothing");
    }
}

/// One prompt by the runs API.
fn body_for(agent: &str) -> Value {
    json!({
        "agent_name": agent, "mode": "sync",
        "input": [{"role": "user", "parts": [{"content_type": "text/plain", "content": "Ada"}]}],
    })
}

#[test]
fn the_network_meets_targets_that_nobody_has_made_yet_where_it_may_have_them_made() {
    let daemon = with_workflows();
    let token = |rights: &[&str]| {
        let mut words = vec!["token", "create", "bot", "-f", "quiet"];
        for right in rights {
            words.extend(["--right", right]);
        }
        daemon.cli(&words).stdout.trim().to_owned()
    };
    // Everything is public, but whoever may only run what is there makes nothing.
    let runner = Http::with_token(&daemon.url(), Some(&token(&["runs", "a2a"])));
    assert_eq!(
        runner.post("/runs", &body_for("workflow:greet")).status,
        404
    );
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Ada"}]}},
    });
    assert_ne!(runner.get("/a2a/workflow:greet").status, 200);
    assert!(agents(&daemon).is_empty());
    let owner = Http::owner(&daemon);
    let ran = owner.post("/runs", &body_for("workflow:greet"));
    assert!(ran.ok().to_string().contains("hello Ada"), "{ran:?}");
    let card = owner.get("/a2a/workflow:ask");
    assert_eq!(card.status, 200, "{card:?}");
    let version = [("a2a-version", "1.0")];
    let answered = owner.call("POST", "/a2a/workflow:ask", &version, Some(&message));
    assert!(answered.text.contains("hello Ada"), "{answered:?}");
    // Once it is there, whoever may use it names it in the same way.
    let again = runner.post("/runs", &body_for("workflow:greet"));
    assert!(again.ok().to_string().contains("hello Ada"), "{again:?}");
}
