//! Pairing, and what is refused: in words, in the audit, with nothing run.

use serde_json::json;
use testkit::eventually;

use super::{Lan, Node, intent, journal, knows, offer, peers, told};

const RADIO: &str = "电台搜索与播放控制 plays radio stations";

/// Pairs `asking` with `asked` as two people would: one shows the code, the other types it.
fn pair(asking: &Node, asked: &Node, grant: &[&str]) {
    let name = peers(asking)[0]["alias"].as_str().unwrap().to_owned();
    let mut waiting = asking
        .daemon
        .command(&["peer", "pair", &name])
        .spawn()
        .unwrap();
    let mut code = String::new();
    eventually("the other side shows the code", || {
        code = asked
            .cli(&["peer", "pair", "-f", "quiet"])
            .stdout
            .trim()
            .to_owned();
        !code.is_empty()
    });
    let mut accept = vec!["peer", "pair", "--accept", &code];
    accept.extend(grant);
    let accepted = asked.cli(&accept);
    assert_eq!(accepted.code, 0, "{accepted:?}");
    assert!(waiting.wait().unwrap().success());
}

/// Two nodes that encrypt and trust nobody, and have found each other.
fn strangers(lan: &mut Lan) -> (Node, Node) {
    let desk = lan.node("desk", "");
    let nova = lan.node("nova9", "");
    offer(&nova, "radio", RADIO);
    offer(&nova, "news", "搜索新闻");
    eventually("they have found each other", || {
        !peers(&desk).is_empty() && !peers(&nova).is_empty()
    });
    (desk, nova)
}

fn runs(node: &Node) -> usize {
    journal(node, "run.created").len()
}

#[test]
fn nodes_pair_by_a_code_on_both_sides_and_use_each_other_until_it_is_revoked() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, nova) = strangers(&mut lan);
    let early = desk.cli(&["intent", "放电台", "--peer", "nova9"]);
    assert!(early.code != 0 && runs(&nova) == 0, "{early:?}");
    pair(&desk, &nova, &[]);
    knows(&desk, "nova9", "radio");
    let done = intent(&desk, &["放一个轻音乐电台"]);
    assert_eq!(
        (&done["status"], runs(&nova)),
        (&json!("completed"), 1),
        "{done}"
    );
    let shown = told(&desk.cli(&["peer", "show", "nova9", "-f", "json"]));
    assert!(
        shown["paired"] == true
            && shown["url"]
                .as_str()
                .unwrap()
                .starts_with("https://10.77.0."),
        "{shown}"
    );
    eventually("the other side reaches back", || {
        peers(&nova)[0]["status"] == "online"
    });
    let calls = journal(&nova, "audit.call");
    assert!(
        calls
            .iter()
            .any(|line| line.to_string().contains("peer:desk")),
        "{calls:?}"
    );
    assert_eq!(nova.cli(&["peer", "unpair", "desk"]).code, 0);
    let refused = intent(&desk, &["放一个轻音乐电台", "--peer", "nova9"]);
    assert!(
        refused["tried"][0]["why"]
            .as_str()
            .unwrap()
            .contains("token"),
        "{refused}"
    );
    assert_eq!(runs(&nova), 1, "nothing was run");
    assert!(!journal(&nova, "audit.refused").is_empty());
}

#[test]
fn a_grant_names_the_agents_and_the_rate_of_a_peer() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, nova) = strangers(&mut lan);
    pair(
        &desk,
        &nova,
        &["--right", "runs:radio", "--per-minute", "1"],
    );
    knows(&desk, "nova9", "radio");
    let done = intent(&desk, &["放一个轻音乐电台"]);
    assert_eq!(done["status"], "completed", "{done}");
    let faster = intent(&desk, &["放一个轻音乐电台"]);
    assert!(
        faster["tried"][0]["why"]
            .as_str()
            .unwrap()
            .contains("in a minute"),
        "{faster}"
    );
    assert_eq!(runs(&nova), 1);
    let granted = told(&nova.cli(&["peer", "show", "desk", "-f", "json"]));
    assert_eq!(
        (&granted["rights"], &granted["perMinute"]),
        (&json!(["runs:radio"]), &json!(1)),
        "{granted}"
    );
}

#[test]
fn an_agent_that_was_not_granted_is_refused_in_words() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, nova) = strangers(&mut lan);
    pair(&desk, &nova, &["--right", "runs:radio"]);
    knows(&desk, "nova9", "radio");
    let known = super::peers(&desk);
    assert!(!known[0].to_string().contains("news"), "{known:?}");
    let refused = desk.cli(&["agent", "run", "peer:nova9/news", "-p", "搜索新闻"]);
    assert!(refused.code != 0 && runs(&nova) == 0, "{refused:?}");
    assert!(refused.stderr.contains("runs:news"), "{refused:?}");
    assert!(!journal(&nova, "audit.refused").is_empty());
}

#[test]
fn a_pairing_that_has_expired_is_refused() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, nova) = strangers(&mut lan);
    pair(&desk, &nova, &["--lifetime", "1"]);
    eventually("it has expired", || {
        let tried = intent(&desk, &["放一个轻音乐电台", "--peer", "nova9"]);
        tried["tried"][0]["why"]
            .as_str()
            .is_some_and(|why| why.contains("token"))
    });
    let before = runs(&nova);
    intent(&desk, &["放一个轻音乐电台", "--peer", "nova9"]);
    assert_eq!(runs(&nova), before, "nothing was run");
    assert!(!journal(&nova, "audit.refused").is_empty());
}

#[test]
fn another_certificate_than_the_paired_one_is_not_believed() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, mut nova) = strangers(&mut lan);
    pair(&desk, &nova, &[]);
    knows(&desk, "nova9", "radio");
    nova.daemon.stop();
    std::fs::remove_file(nova.daemon.home().join("listener.pem")).unwrap();
    nova.daemon.start();
    let refused = intent(&desk, &["放一个轻音乐电台", "--peer", "nova9"]);
    assert!(refused["status"] == "failed", "{refused}");
    assert!(refused.to_string().contains("certificate"), "{refused}");
    assert_eq!(runs(&nova), 0, "nothing was run");
}

#[test]
fn a_wrong_token_is_refused_in_words_and_in_the_audit() {
    let Some(mut lan) = Lan::new() else { return };
    let (desk, nova) = strangers(&mut lan);
    let token = desk.daemon.home().join("wrong.token");
    std::fs::write(&token, "agentcraft_wrong").unwrap();
    let shown = peers(&desk)[0].clone();
    let (url, fingerprint) = (
        shown["url"].as_str().unwrap(),
        shown["fingerprint"].as_str().unwrap(),
    );
    let token = token.to_str().unwrap();
    let arguments = [
        "run",
        url,
        "hello",
        "--agent",
        "radio",
        "--token-file",
        token,
        "--fingerprint",
        fingerprint,
    ];
    let refused = desk.cli(&arguments);
    assert!(
        refused.code != 0 && refused.stderr.contains("token"),
        "{refused:?}"
    );
    assert_eq!(runs(&nova), 0);
    assert!(!journal(&nova, "audit.refused").is_empty());
}

#[test]
fn paired_nodes_lend_by_certificates_of_their_own_making() {
    let Some(mut lan) = Lan::new() else { return };
    let here = |number: usize| format!("url = \"https://10.77.0.{number}:7420\"");
    let desk = lan.node("desk", &here(1));
    let lending = "[lending]\nexecutor = \"worker\"\n";
    let nova = lan.node_with("nova9", &here(2), lending);
    let kinds = ["read", "edit", "search", "execute", "other"];
    let rule = json!({"kind": kinds, "decision": "allow", "destructive": true});
    let worker = json!({"backend": {"type": "builtin"}, "permissions": {"rules": [rule]}});
    nova.daemon.template("worker", worker);
    eventually("they have found each other", || {
        !peers(&desk).is_empty() && !peers(&nova).is_empty()
    });
    let folder = desk.daemon.scratch("app");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), "one\n").unwrap();
    let lend = |task: &str| {
        let dir = folder.to_str().unwrap();
        desk.cli(&["delegate", "https://10.77.0.2:7420", task, "--dir", dir])
    };
    let early = lend("/run echo early > a.txt");
    assert!(early.code != 0, "{early:?}");
    assert!(early.stderr.contains("certificate"), "{early:?}");
    pair(&desk, &nova, &["--right", "delegations:invite"]);
    let lent = lend("/run echo two > a.txt");
    assert_eq!(lent.code, 0, "{lent:?}");
    let now = std::fs::read_to_string(folder.join("a.txt")).unwrap();
    assert_eq!(now, "two\n");
    let trace = |node: &Node| {
        let lines = journal(node, "delegation.completed");
        lines[0]["body"]["trace"].as_str().unwrap().to_owned()
    };
    eventually("the other side has it in its journal", || {
        !journal(&nova, "delegation.completed").is_empty()
    });
    assert_eq!(trace(&desk), trace(&nova));
    let turns = journal(&nova, "turn.started");
    assert_eq!(turns[0]["body"]["trace"], trace(&desk), "{turns:?}");
}
