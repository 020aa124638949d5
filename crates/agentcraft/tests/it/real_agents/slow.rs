//! What every agent is tried with. The module's name is in the tests' names, by which the runner gives them minutes.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use testkit::kill;

use super::{
    agents::{TakesUp, Tools},
    client::Client,
    scene::{PROMPT_MARK, SKILL_MARK, Scene, TOOL_MARK},
    table::each,
};
use crate::terminal::pty::Pty;

fn text(answer: &Value) -> &str {
    answer["text"].as_str().unwrap()
}

fn expect_end_of_turn(answer: &Value, words: &str) {
    assert_eq!(answer["stopReason"], "end_turn", "{answer}");
    // Codex begins with a warning about a model it does not know.
    assert!(text(answer).ends_with(words), "{answer}");
}

#[test]
#[ignore = "slow: starts every real agent"]
fn a_prompt_is_answered_in_a_stream() {
    each("start, session, prompt", &[], |scene| {
        scene.started(json!({}));
        let session = scene.session();
        let answer = scene.prompt(&session, "SAY one two three four");
        expect_end_of_turn(&answer, "one two three four");
        let texts = scene.client.events.iter().filter(|it| it["type"] == "text");
        assert!(texts.count() >= 4, "the words come one by one");
    });
}

#[test]
#[ignore = "slow: starts every real agent"]
fn a_file_is_written_when_a_rule_allows_it() {
    each("write allowed", &[], |scene| {
        let file = scene.file("allowed.txt");
        let (prompt, rule) = scene.agent.write(file.to_str().unwrap(), "content");
        scene.started(json!({"allow": [rule]}));
        let session = scene.session();
        let answer = scene.prompt(&session, &prompt);
        assert_eq!(answer["stopReason"], "end_turn", "{answer}");
        let written = fs::read_to_string(file).unwrap_or_default();
        assert_eq!(written.trim(), "content", "{answer}");
    });
}

/// What the template says in both cases is that the write is not allowed.
fn expect_not_written(scene: &mut Scene, permissions: Value) {
    let file = scene.file("denied.txt");
    let path = file.to_str().unwrap();
    let (prompt, _) = scene.agent.write(path, "content");
    let unasked = scene.agent.write_unasked(path, "content");
    scene.started(permissions);
    let session = scene.session();
    for prompt in [Some(prompt), unasked].into_iter().flatten() {
        let answer = scene.prompt(&session, &prompt);
        assert!(!file.exists(), "{prompt}: {answer}");
    }
    let again = scene.prompt(&session, "SAY still here");
    expect_end_of_turn(&again, "still here");
}

#[test]
#[ignore = "slow: starts every real agent"]
fn a_file_is_not_written_when_a_rule_denies_it() {
    each("write denied by a rule", &[], |scene| {
        expect_not_written(scene, json!({"deny": ["edit", "execute"]}));
    });
}

#[test]
#[ignore = "slow: starts every real agent"]
fn a_file_is_not_written_when_nobody_can_be_asked() {
    each("write with nobody to ask", &[], |scene| {
        expect_not_written(scene, json!({}));
    });
}

#[test]
#[ignore = "slow: starts every real agent"]
fn a_file_is_written_when_a_person_allows_it() {
    each("write allowed when asked", &[], |scene| {
        let file = scene.file("asked.txt");
        let (prompt, _) = scene.agent.write(file.to_str().unwrap(), "content");
        scene.started(json!({}));
        let session = scene.session_with_answers();
        let params = json!({"sessionId": session, "text": prompt});
        let turn = scene.client.send("session.prompt", params);
        scene.client.until(&["ask", "turn-ended"]);
        let ask = scene.client.events.iter().find(|it| it["type"] == "ask");
        let ask = ask.expect("it asks").clone();
        assert!(!file.exists(), "it asks first");
        let options = ask["options"].as_array().unwrap();
        let once = options
            .iter()
            .find(|it| it["kind"] == "allow-once")
            .unwrap();
        let answer = json!({"sessionId": session, "ask": ask["id"], "option": once["id"]});
        scene.client.send("session.answer", answer);
        let answer = scene.client.answer(turn).unwrap();
        let written = fs::read_to_string(file).unwrap_or_default();
        assert_eq!(written.trim(), "content", "{answer}");
    });
}

#[test]
#[ignore = "slow: starts every real agent"]
fn a_chat_on_a_terminal_streams_asks_cancels_and_goes_on() {
    each("chat on a terminal", &[], |scene| {
        let file = scene.file("chatted.txt");
        let (write, _) = scene.agent.write(file.to_str().unwrap(), "content");
        scene.started(json!({}));
        let mut chat = Pty::open(&scene.daemon, 80, &["agent", "chat", "a1"]);
        chat.see("a1> ");
        chat.say("SAY one two three four");
        // What is typed is shown too.
        chat.see("one two three four");
        chat.see("one two three four");
        chat.see("a1> ");
        chat.say(&write);
        chat.see("choose 1-");
        assert!(!file.exists(), "it asks first");
        chat.say("1");
        chat.see("a1> ");
        let written = fs::read_to_string(file).unwrap_or_default();
        assert_eq!(written.trim(), "content");
        chat.say("SLOW 400");
        chat.see("tick 2");
        chat.press(b"\x03");
        chat.see("cancelled");
        chat.see("a1> ");
        chat.say("SAY after it");
        chat.see("after it");
        chat.see("after it");
        chat.see("a1> ");
        chat.say("exit");
        assert_eq!(chat.end(), 0);
    });
}

#[test]
#[ignore = "slow: starts every real agent"]
fn a_turn_is_cancelled_and_the_next_one_answered() {
    each("cancel", &[], |scene| {
        scene.started(json!({}));
        let session = scene.session();
        let params = json!({"sessionId": session, "text": "SLOW 400"});
        let prompt = scene.client.send("session.prompt", params);
        scene.client.until(&["text"]);
        let mut other = Client::connect(&scene.daemon);
        other.ok("session.cancel", json!({"sessionId": session}));
        let answer = scene.client.answer(prompt).unwrap();
        assert_eq!(answer["stopReason"], "cancelled", "{answer}");
        let after = scene.prompt(&session, "SAY after it");
        expect_end_of_turn(&after, "after it");
    });
}

#[test]
#[ignore = "slow: starts every real agent"]
fn a_second_session_knows_nothing_of_the_first() {
    each("second session", &[], |scene| {
        scene.started(json!({}));
        let (first, second) = (scene.session(), scene.session());
        scene.prompt(&first, "SAY secret-of-the-first");
        expect_end_of_turn(&scene.prompt(&second, "SAY in-the-second"), "in-the-second");
        let asked = scene.model.asked("in-the-second");
        assert!(!asked.is_empty());
        for body in asked {
            assert!(!body.contains("secret-of-the-first"), "{body}");
        }
        scene.prompt(&first, "SAY again-in-the-first");
        let remembered = scene.model.asked("SAY again-in-the-first");
        assert!(
            remembered
                .iter()
                .any(|it| it.contains("secret-of-the-first"))
        );
    });
}

#[test]
#[ignore = "slow: starts every real agent twice"]
fn a_session_goes_on_after_the_daemon_was_killed() {
    each("resume after kill -9", &[], |scene| {
        scene.started(json!({}));
        let session = scene.session();
        scene.prompt(&session, "SAY said-before-the-end");
        if scene.agent.takes_up == TakesUp::FromTheNextMinute {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            std::thread::sleep(Duration::from_secs(61 - now.as_secs() % 60));
        }
        scene.kill_and_restart();
        scene.start();
        let answer = scene.prompt(&session, "SAY said-after-it");
        assert!(
            !text(&answer).contains("said-before"),
            "what was said before is repeated: {answer}"
        );
        expect_end_of_turn(&answer, "said-after-it");
        let asked = scene.model.asked("SAY said-after-it");
        let remembered = |body: &String| body.contains("said-before-the-end");
        let notices = scene.notices(&session);
        assert!(
            asked.iter().any(remembered),
            "the agent has forgotten what was said before; what is told about it: {notices:?}"
        );
    });
}

#[test]
#[ignore = "slow: starts every real agent"]
fn skills_and_prompts_of_the_template_reach_the_model() {
    each("skill and prompt", &[], |scene| {
        scene.started(json!({}));
        let session = scene.session();
        scene.prompt(&session, "SAY hello");
        expect_words(scene);
    });
}

#[test]
#[ignore = "slow: starts every real agent"]
fn tools_of_the_template_reach_the_model() {
    each("MCP tool", &[], |scene| {
        scene.started(json!({}));
        let session = scene.session();
        // Some connect to their servers while the first turn runs.
        for _ in 0..3 {
            scene.prompt(&session, "SAY hello");
            std::thread::sleep(Duration::from_millis(500));
        }
        expect_tools(scene, scene.agent.tools);
    });
}

fn expect_words(scene: &Scene) {
    for mark in [SKILL_MARK, PROMPT_MARK] {
        let seen = !scene.model.asked(mark).is_empty();
        assert!(seen, "{mark} did not reach the model");
    }
}

fn expect_tools(scene: &Scene, tools: Tools) {
    let listed = scene.daemon.scratch("tools-were-listed").exists();
    assert!(listed, "the MCP server was not asked for its tools");
    let seen = !scene.model.asked(TOOL_MARK).is_empty();
    assert_eq!(
        seen,
        tools == Tools::Told,
        "whether the tool of the MCP server reached the model"
    );
}

#[test]
#[ignore = "slow: starts every real agent twice"]
fn no_process_is_left_however_an_agent_ends() {
    each("nothing left behind", &[], |scene| {
        scene.started(json!({}));
        let session = scene.session();
        scene.prompt(&session, "SAY hello");
        scene.client.ok("agent.stop", json!({"name": "a1"}));
        scene.expect_no_process("a stop");

        scene.start();
        scene.prompt(&session, "SAY hello");
        let status = scene.client.ok("agent.status", json!({"name": "a1"}));
        let pid = u32::try_from(status["pid"].as_u64().unwrap()).unwrap();
        // In the middle of a turn, with everything it has started.
        let params = json!({"sessionId": session, "text": "SLOW 400"});
        let prompt = scene.client.send("session.prompt", params);
        scene.client.events.clear();
        scene.client.until(&["text"]);
        kill(pid, "KILL");
        let answer = scene.client.answer(prompt).unwrap();
        assert_eq!(answer["stopReason"], "failed", "{answer}");
        scene.expect_no_process("the death of the agent");

        scene.await_status("crashed");
        scene.start();
        let params = json!({"sessionId": session, "text": "SLOW 400"});
        scene.client.send("session.prompt", params);
        scene.client.events.clear();
        scene.client.until(&["text"]);
        scene.kill_and_restart();
    });
}

#[test]
#[ignore = "slow: runs every real agent twice"]
fn print_mode_answers_and_goes_on_with_its_session() {
    each("print mode", &[], |scene| {
        scene.create(json!({}));
        let first = scene.run("SAY said-in-the-first-run", json!({})).unwrap();
        expect_end_of_turn(&first, "said-in-the-first-run");
        scene.expect_no_process("a run");
        let again = json!({"sessionId": first["sessionId"]});
        let second = scene.run("SAY said-in-the-second", again).unwrap();
        expect_end_of_turn(&second, "said-in-the-second");
        assert_eq!(second["sessionId"], first["sessionId"]);
        let asked = scene.model.asked("SAY said-in-the-second");
        assert!(
            asked
                .iter()
                .any(|body| body.contains("said-in-the-first-run")),
            "it has forgotten"
        );
        let status = scene.client.ok("agent.status", json!({"name": "a1"}));
        assert_eq!(status["status"], "created", "nothing was started for it");
    });
}

#[test]
#[ignore = "slow: runs every real agent"]
fn skills_and_prompts_reach_the_model_in_print_mode() {
    each("print mode, skill and prompt", &[], |scene| {
        scene.create(json!({}));
        let answer = scene.run("SAY hello", json!({})).unwrap();
        expect_end_of_turn(&answer, "hello");
        expect_words(scene);
    });
}

#[test]
#[ignore = "slow: runs every real agent"]
fn tools_reach_the_model_in_print_mode() {
    each("print mode, MCP tool", &[], |scene| {
        scene.create(json!({}));
        let answer = scene.run("SAY hello", json!({})).unwrap();
        expect_end_of_turn(&answer, "hello");
        expect_tools(scene, scene.agent.print_tools);
    });
}

#[test]
#[ignore = "slow: runs every real agent until its time is over"]
fn print_mode_ends_in_time_and_leaves_nothing() {
    each("print mode, timeout", &[], |scene| {
        scene.create(json!({}));
        let limit = json!({"timeoutMs": 20_000});
        let late = scene.run("SLOW 1000", limit).unwrap_err();
        let words = late["message"].as_str().unwrap();
        assert!(words.contains("did not finish within 20 s"), "{late}");
        assert!(!scene.model.asked("SLOW 1000").is_empty(), "it was at work");
        scene.expect_no_process("the timeout");
    });
}
