//! The stories that the network is for, end to end: a simple instruction, questions that a human, a rule or what was said
//! before answers, what must be confirmed, roles that are swapped, work that goes on to a third node, a node that is killed.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::{RawClient, eventually};

use super::{Lan, Node, OPEN, intent, journal, knows, offer, route, told};
use crate::terminal::pty::Pty;

const RADIO: &str = "电台搜索与播放控制 plays radio stations";
const NEWS: &str = "搜索、录制新闻并生成翻译摘要";

fn household(lan: &mut Lan) -> (Node, Node) {
    let desk = lan.node("desk", OPEN);
    let nova = lan.node("nova9", OPEN);
    (desk, nova)
}

/// Prompts an agent and waits until its turn asks for a permission; gives the session and the ask.
fn asks(client: &mut RawClient, agent: &str, prompt: &str) -> (String, Value) {
    let create = json!({"agentName": agent, "stream": true, "answers": true});
    let opened = client.ok("session.create", create);
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    let params = json!({"sessionId": session, "text": prompt});
    let call =
        json!({"jsonrpc": "2.0", "id": "turn", "method": "session.prompt", "params": params});
    client.send_line(&call.to_string());
    loop {
        let line = client.receive();
        assert_ne!(
            line["id"], "turn",
            "the turn ended and asked nothing: {line}"
        );
        let event = &line["params"]["event"];
        if event.get("options").is_some() {
            return (session, event.clone());
        }
    }
}

#[test]
fn a_simple_instruction_is_carried_out_by_the_node_that_can() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, nova) = household(&mut lan);
    offer(&nova, "radio", RADIO);
    offer(&nova, "news_digest", NEWS);
    knows(&desk, "nova9", "news_digest");
    let done = intent(&desk, &["放一个轻音乐电台", "--session", "main"]);
    let leg = &done["legs"][0];
    assert_eq!(
        (&done["status"], &leg["capability"]),
        (&json!("completed"), &json!("radio")),
        "{done}"
    );
    assert!(
        leg["text"].as_str().unwrap().contains("放一个轻音乐电台"),
        "{done}"
    );
    assert!(leg["why"].as_str().unwrap().contains("电台"), "{done}");
    let news = intent(&desk, &["帮我搜一下今天的新闻", "--session", "main"]);
    assert_eq!(news["legs"][0]["capability"], "news_digest", "{news}");
    let tree = told(&desk.cli(&["session", "tree", "main", "-f", "json"]));
    assert_eq!(tree[0]["remotes"].as_array().unwrap().len(), 2, "{tree}");
    let words = desk.cli(&["session", "tree"]).stdout;
    assert!(words.contains("nova9 / radio"), "{words}");
    let nobody = desk.cli(&["intent", "烤一个蛋糕"]);
    assert!(
        nobody.code != 0 && nobody.stderr.contains("no peer"),
        "{nobody:?}"
    );
}

#[test]
fn a_question_waits_for_the_human_and_goes_on_with_the_answer() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, nova) = household(&mut lan);
    offer(&nova, "news_digest", NEWS);
    knows(&desk, "nova9", "news_digest");
    let waits = intent(&desk, &["/ask 要整理哪几条？", "--peer", "nova9"]);
    assert_eq!(waits["status"], "awaiting", "{waits}");
    assert!(
        waits["legs"][0]["question"]
            .as_str()
            .unwrap()
            .contains("要整理哪几条"),
        "{waits}"
    );
    let id = waits["id"].as_str().unwrap();
    let done = intent(&desk, &["前三条，翻译成中文", "--answer", id]);
    assert_eq!(done["status"], "completed", "{done}");
    assert!(
        done["legs"][0]["text"]
            .as_str()
            .unwrap()
            .contains("前三条，翻译成中文"),
        "{done}"
    );
    let text = done["legs"][0]["text"].as_str().unwrap();
    assert_eq!(
        text.matches("前三条").count(),
        1,
        "it is answered once: {text}"
    );
    let told = journal(&desk, "intent.answered");
    assert!(
        told.iter()
            .any(|line| line.to_string().contains("\"human\"")),
        "{told:?}"
    );
}

#[test]
fn what_was_said_before_answers_for_the_human_in_every_conversation() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, nova) = household(&mut lan);
    offer(&nova, "pdf", "生成PDF文件, 纸张");
    route(&desk, "main");
    knows(&desk, "nova9", "pdf");
    let mut client = desk.daemon.client();
    let opened = client.ok("session.create", json!({"agentName": "main"}));
    let id = opened["sessionId"].as_str().unwrap();
    for prompt in ["生成PDF，用A4纸张大小", "/ask 请问PDF需要什么纸张大小？"] {
        client.ok("session.prompt", json!({"sessionId": id, "text": prompt}));
    }
    eventually("it was answered for the human", || {
        let told = journal(&desk, "intent.answered");
        told.iter().any(|line| {
            let text = line.to_string();
            text.contains("\"context\"") && text.contains("A4")
        })
    });
}

#[test]
fn what_cannot_be_undone_is_confirmed_by_the_human_whatever_the_rules_say() {
    let Some(mut lan) = Lan::new() else { return };
    let rule = "[[lan.answers]]\nquestion = [\"rm\"]\nanswer = \"allow_once\"\n";
    let desk = lan.node_with("desk", OPEN, rule);
    let nova = lan.node("nova9", OPEN);
    offer(&nova, "calendar", "日历管理，支持日程的增删改查");
    route(&desk, "main");
    knows(&desk, "nova9", "calendar");
    let kept = nova.daemon.home().join("instances/calendar/日程.md");
    std::fs::write(&kept, "五条日程").unwrap();
    let waits = intent(&desk, &["/run rm -rf 日程.md", "--peer", "nova9"]);
    assert_eq!(waits["status"], "awaiting", "{waits}");
    assert!(
        kept.exists()
            && waits["legs"][0]["askedBecause"]
                .as_str()
                .unwrap()
                .contains("undone")
    );
    let id = waits["id"].as_str().unwrap();
    let refused = intent(&desk, &["reject_once", "--answer", id]);
    assert_eq!(refused["status"], "completed", "{refused}");
    assert!(kept.exists(), "the human said no");
    let mut client = desk.daemon.client();
    let (session, ask) = asks(&mut client, "main", "/run rm -rf 日程.md 日历");
    assert_eq!(
        (&ask["ask"], &ask["destructive"]),
        (&json!("permission"), &json!(true)),
        "{ask}"
    );
    let answer = json!({"sessionId": session, "ask": ask["id"], "option": "allow_once"});
    client.ok("session.answer", answer);
    eventually("the human said yes", || !kept.exists());
}

#[test]
fn roles_are_swapped_and_work_goes_on_to_a_third_node() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, nova) = household(&mut lan);
    let tablet = lan.node("tablet", OPEN);
    offer(
        &desk,
        "run_tests",
        "在桌面上跑项目的测试 runs tests of a project",
    );
    route(&nova, "helper");
    offer(&tablet, "render", "渲染PDF renders documents");
    knows(&nova, "desk", "run_tests");
    knows(&nova, "tablet", "render");
    knows(&desk, "nova9", "helper");
    let swapped = intent(&nova, &["帮我把桌面上那个项目跑一下测试"]);
    assert_eq!(swapped["legs"][0]["peerName"], "desk", "{swapped}");
    assert_eq!(swapped["status"], "completed", "{swapped}");
    let third = intent(&desk, &["renders documents 渲染PDF", "--peer", "nova9"]);
    assert_eq!(third["status"], "completed", "{third}");
    let runs = journal(&tablet, "run.created");
    let chain = runs[0].to_string();
    let ids = [&desk, &nova].map(|node| journal(node, "run.created").len());
    assert_eq!(
        (runs.len(), ids),
        (1, [1, 1]),
        "each node was caller and callee: {chain}"
    );
}

#[test]
fn one_intent_goes_to_several_nodes_and_what_comes_is_gathered() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, nova) = household(&mut lan);
    let tablet = lan.node("tablet", OPEN);
    for node in [&nova, &tablet] {
        offer(node, "radio", RADIO);
    }
    knows(&desk, "nova9", "radio");
    knows(&desk, "tablet", "radio");
    let done = intent(&desk, &["plays radio", "--fan-out", "2"]);
    let mut names: Vec<&str> = done["legs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|leg| leg["peerName"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(
        (&done["status"], names),
        (&json!("completed"), vec!["nova9", "tablet"]),
        "{done}"
    );
}

#[test]
fn at_a_terminal_questions_are_shown_and_answered_until_it_is_done() {
    let Some(mut lan) = Lan::new() else { return };
    let rules = [("纸张", "A4"), ("rm", "allow_once")].map(|(word, answer)| {
        format!("[[lan.answers]]\nquestion = [\"{word}\"]\nanswer = \"{answer}\"\n")
    });
    let desk = lan.node_with("desk", OPEN, &rules.concat());
    let nova = lan.node("nova9", OPEN);
    offer(&nova, "news_digest", NEWS);
    knows(&desk, "nova9", "news_digest");
    let open = |words: &str| Pty::open(&desk.daemon, 100, &["intent", words, "--peer", "nova9"]);

    let mut asked = open("/ask 要整理哪几条？");
    asked.see("nova9 asks: 要整理哪几条？");
    asked.see("answer");
    asked.say("前三条，翻译成中文");
    asked.see("You answered: 前三条，翻译成中文");
    assert_eq!(asked.end(), 0, "{}", asked.text());

    let mut ruled = open("/ask 请问PDF需要什么纸张大小？");
    ruled.see("answered for you: A4");
    ruled.see("You answered: A4");
    assert_eq!(ruled.end(), 0, "{}", ruled.text());
    assert!(!ruled.text().contains("asks:"), "{}", ruled.text());

    let kept = nova.daemon.home().join("instances/news_digest/日程.md");
    std::fs::write(&kept, "五条日程").unwrap();
    for (answer, is_there) in [("算了", true), ("好的", false)] {
        let mut deletes = open("/run rm -rf 日程.md");
        deletes.see("nova9 asks: ");
        deletes.see("answer");
        if is_there {
            // What the peer cannot take is asked for again, with what it could.
            deletes.say("perhaps");
            deletes.see("yes or no");
            deletes.see("nova9 asks: ");
            deletes.see("answer");
        }
        assert!(kept.exists(), "nobody has confirmed it");
        deletes.say(answer);
        assert_eq!(deletes.end(), 0, "{}", deletes.text());
        assert_eq!(kept.exists(), is_there, "{answer}: {}", deletes.text());
        assert!(
            !deletes.text().contains("answered for you"),
            "{}",
            deletes.text()
        );
    }

    let mut left = open("/ask 还在吗？");
    left.see("answer");
    left.press(b"\x04");
    left.see("waits for an answer");
    left.see("agentcraft intent --answer ");
    assert_eq!(left.end(), 1, "{}", left.text());
}

#[test]
fn a_node_that_is_killed_follows_its_intent_again() {
    let Some(mut lan) = Lan::new() else { return };
    let (mut desk, nova) = household(&mut lan);
    offer(&nova, "radio", RADIO);
    knows(&desk, "nova9", "radio");
    let runs = ["/slow 40 100", "/ask 放哪一个电台？"];
    let mut waiting = Vec::new();
    for (number, words) in runs.iter().enumerate() {
        let session = format!("main{number}");
        let arguments = ["intent", words, "--peer", "nova9", "--session", &session];
        let mut command = desk.daemon.command(&arguments);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        waiting.push(command.stderr(Stdio::null()).spawn().unwrap());
        eventually("it is taken", || {
            journal(&desk, "intent.taken").len() == number + 1
        });
    }
    desk.daemon.kill();
    for mut command in waiting {
        command.wait().unwrap();
    }
    desk.daemon.start();
    let status = |session: &str| {
        let tree = told(&desk.cli(&["session", "tree", session, "-f", "json"]));
        tree[0]["remotes"][0]["status"].clone()
    };
    eventually("what goes on is followed to its end", || {
        status("main0") == "completed"
    });
    eventually("what asks is known to wait", || {
        status("main1") == "awaiting"
    });
    let began = journal(&desk, "intent.began");
    let id = began.last().unwrap()["body"]["intent"].as_str().unwrap();
    eventually("the question is answered", || {
        desk.cli(&["intent", "轻音乐", "--answer", id]).code == 0
    });
    assert_eq!(status("main1"), "completed");
    let again = journal(&desk, "intent.followed-again");
    assert!(
        again
            .iter()
            .any(|line| line.to_string().contains("\"completed\"")),
        "{again:?}"
    );
    assert_eq!(
        journal(&nova, "run.created").len(),
        2,
        "nothing was asked for twice"
    );
}
