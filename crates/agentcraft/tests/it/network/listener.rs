//! The one port: who is let in, by which name, from which page, and for how long.

use std::{fs, net::TcpListener};

use serde_json::{Value, json};

use super::{http::Http, listening};
use crate::node;

/// The main paths of every face. Fewer than a stranger may ask for at once.
const GUARDED: &str = "
GET /tokens
POST /tokens
DELETE /tokens/t
POST /login/codes
GET /ping
GET /openapi.json
GET /manifest
GET /agents
GET /agents/echo
POST /runs
GET /runs/r
POST /runs/r
POST /runs/r/resume
POST /runs/r/cancel
GET /runs/r/events
GET /sessions/s
DELETE /sessions/s
GET /sessions/s/history
POST /a2a
POST /a2a/echo
POST /a2a/echo/message:send
GET /a2a/echo/tasks
POST /.well-known/agent-card.json
GET /runs/.well-known/agent-card.json
POST /mcp
GET /mcp
GET /
GET /assets/app.js
GET /api/overview
GET /api/agents
POST /api/sessions
GET /api/journal
GET /api/stream
GET /no/such/path
";

fn guarded() -> impl Iterator<Item = (&'static str, &'static str)> {
    GUARDED.lines().filter_map(|line| line.split_once(' '))
}

/// Refused in words, for people and for programs.
fn assert_refused(answer: &super::http::Answer, status: u16, code: &str, what: &str) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    let body = answer.json();
    assert_eq!(body["error"]["code"], code, "{what}: {body}");
    for words in ["/message", "/error/message", "/error/suggestion"] {
        let words = body.pointer(words).and_then(Value::as_str);
        assert!(
            words.is_some_and(|words| words.len() > 10),
            "{what}: {body}"
        );
    }
}

#[test]
fn every_path_refuses_a_request_without_a_token_in_words() {
    let daemon = listening();
    let stranger = Http::stranger(&daemon);
    assert_eq!(stranger.get("/healthz").status, 200);
    for (method, path) in guarded() {
        let answer = stranger.call(method, path, &[], Some(&json!({})));
        assert_refused(&answer, 401, "unauthorized", path);
        assert!(
            answer.header("www-authenticate").starts_with("Bearer"),
            "{path}: {answer:?}"
        );
    }
    // These two ask for what they need themselves.
    let resource = stranger.get("/resources/r");
    assert!((400..500).contains(&resource.status), "{resource:?}");
    let kept = stranger.post("/resources", &json!({}));
    assert!((400..500).contains(&kept.status), "{kept:?}");
}

/// Sends everything before it looks for an answer, as simple clients do.
const SENDER: &str = r#"
import http.client, json, sys
connection = http.client.HTTPConnection(sys.argv[1], timeout=50)
def refused(size, token):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    connection.request("POST", "/runs", b"x" * size, headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())["error"]["code"]
for _ in range(3):
    told = refused(5_000_000, "nobody-gave-this-out")
    assert told == (401, "unauthorized"), told
for _ in range(1000):
    told = refused(100_000, "nobody-gave-this-out")
    if told != (401, "unauthorized"):
        break
assert told == (429, "too_many_requests"), told
"#;

#[test]
fn who_sends_much_and_is_refused_reads_why() {
    let daemon = listening();
    let address = daemon.url();
    let output = std::process::Command::new("python3")
        .args(["-c", SENDER, address.trim_start_matches("http://")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let large = json!("x".repeat(17 << 20));
    // It may hang up before everything was said.
    if let Ok(answer) = Http::owner(&daemon).try_call("POST", "/runs", &[], Some(&large)) {
        let ends = answer.header("connection");
        assert_eq!((answer.status, ends.as_str()), (413, "close"), "{answer:?}");
    }
}

#[test]
fn every_path_refuses_a_wrong_token_in_words() {
    let daemon = listening();
    let wrong = Http::with_token(&daemon.url(), Some("nobody-gave-this-out"));
    for (method, path) in guarded() {
        let answer = wrong.call(method, path, &[], Some(&json!({})));
        assert_refused(&answer, 401, "unauthorized", path);
    }
}

#[test]
fn a_foreign_name_and_a_foreign_page_are_refused_even_with_a_token() {
    let daemon = listening();
    let owner = Http::owner(&daemon);
    for path in ["/healthz", "/agents", "/", "/mcp", "/api/overview"] {
        let answer = owner.call("GET", path, &[("host", "evil.example")], None);
        assert_refused(&answer, 421, "unknown_host", path);
        let answer = owner.call("GET", path, &[("origin", "http://evil.example")], None);
        assert_refused(&answer, 403, "foreign_origin", path);
    }
    let port = daemon.url().rsplit(':').next().unwrap().to_owned();
    let local = format!("localhost:{port}");
    assert_eq!(
        owner
            .call("GET", "/agents", &[("host", &local)], None)
            .status,
        200
    );
}

#[test]
fn commands_reach_a_node_that_listens_on_every_address_of_both_families() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        println!("skipped: this machine has no IPv6");
        return;
    }
    let daemon = crate::node()
        .env("AGENTCRAFT_LISTEN", "[::]:0")
        .file("config.toml", "[lan]\ndiscovery = false\n")
        .start();
    for command in [&["token", "list"][..], &["peer", "list"]] {
        let output = daemon.cli(command);
        assert_eq!(output.code, 0, "{output:?}");
    }
    assert!(daemon.url().starts_with("https://["), "{}", daemon.url());
}

#[test]
fn a_token_that_would_open_nothing_is_refused_in_words() {
    let daemon = listening();
    for (option, value, words) in [
        ("--right", "nonsense", "is no right"),
        ("--right", "runs:", "is no right"),
        ("--lifetime", "0", "0 seconds"),
    ] {
        let refused = daemon.cli(&["token", "create", "bot", option, value]);
        assert_ne!(refused.code, 0, "{option} {value}: {refused:?}");
        assert!(
            refused.stderr.contains(words),
            "{option} {value}: {refused:?}"
        );
    }
    let listed = daemon.cli(&["token", "list", "-f", "quiet"]);
    assert_eq!((listed.code, listed.stdout.trim()), (0, ""), "{listed:?}");
}

#[test]
fn a_token_works_for_its_rights_until_it_is_revoked() {
    let daemon = listening();
    let made = daemon.cli(&[
        "token",
        "create",
        "bot",
        "--right",
        "runs:echo",
        "-f",
        "json",
    ]);
    assert_eq!(made.code, 0, "{made:?}");
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    let (id, token) = (
        made["id"].as_str().unwrap(),
        made["token"].as_str().unwrap(),
    );
    let bot = Http::with_token(&daemon.url(), Some(token));
    let body =
        json!({"agent_name": "echo", "mode": "sync", "input": [{"parts": [{"content": "hello"}]}]});
    assert_eq!(bot.post("/runs", &body).ok()["status"], "completed");
    for path in ["/tokens", "/api/overview"] {
        let answer = bot.get(path);
        assert_eq!(answer.status, 403, "{path}: {answer:?}");
        assert!(answer.json().is_object(), "{path}");
    }
    let listed = daemon.cli(&["token", "list", "-f", "json"]);
    let tokens: Value = serde_json::from_str(&listed.stdout).unwrap();
    let listed: Vec<&Value> = tokens.as_array().unwrap().iter().collect();
    assert!(
        listed
            .iter()
            .any(|it| it["id"] == id && it["name"] == "bot"),
        "{tokens}"
    );
    assert!(!tokens.to_string().contains(token), "a token is shown once");

    let revoked = daemon.cli(&["token", "revoke", id]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    assert_refused(&bot.post("/runs", &body), 401, "unauthorized", "revoked");
    let listed = daemon.cli(&["token", "list", "-f", "json"]);
    assert!(!listed.stdout.contains(id), "{listed:?}");
    assert_ne!(daemon.cli(&["token", "revoke", "t-nothing"]).code, 0);
}

#[test]
fn a_revoked_token_stays_revoked_and_others_keep_working_over_a_restart() {
    let mut daemon = listening();
    let create = |name| daemon.cli(&["token", "create", name, "-f", "json"]).stdout;
    let [kept, gone]: [Value; 2] =
        ["kept", "gone"].map(|name| serde_json::from_str(&create(name)).unwrap());
    daemon.cli(&["token", "revoke", gone["id"].as_str().unwrap()]);
    daemon.kill();
    daemon.start();
    let with = |made: &Value| Http::with_token(&daemon.url(), made["token"].as_str());
    assert_eq!(with(&kept).get("/agents").status, 200);
    assert_eq!(with(&gone).get("/agents").status, 401);
}

#[test]
fn the_link_of_the_dashboard_logs_in_once_and_only_once() {
    let daemon = listening();
    let printed = daemon.cli(&["dashboard"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let url = printed.stdout.trim().to_owned();
    let path = url.strip_prefix(&daemon.url()).unwrap();
    let browser = Http::stranger(&daemon);
    let opened = browser.get(path);
    assert_eq!(
        (opened.status, opened.header("location").as_str()),
        (303, "/")
    );
    let cookie = opened.header("set-cookie");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap();

    let page = browser.call("GET", "/", &[("cookie", cookie)], None);
    assert!(
        page.status == 200 && page.header("content-type").starts_with("text/html"),
        "{page:?}"
    );
    let overview = browser.call("GET", "/api/overview", &[("cookie", cookie)], None);
    assert_eq!(overview.status, 200, "{overview:?}");
    // A page elsewhere could send the cookie along, but cannot say that it is ours.
    let blind = browser.call(
        "POST",
        "/api/sessions",
        &[("cookie", cookie)],
        Some(&json!({})),
    );
    assert_eq!(blind.status, 403, "{blind:?}");

    let again = browser.get(path);
    assert_eq!(again.status, 400, "{again:?}");
    assert!(again.header("set-cookie").is_empty());
    assert!(
        again.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("used already")
    );
}

#[test]
fn a_link_that_was_followed_from_another_site_goes_on_by_itself() {
    let daemon = listening();
    let printed = daemon.cli(&["dashboard"]);
    let url = printed.stdout.trim().to_owned();
    let path = url.strip_prefix(&daemon.url()).unwrap();
    let browser = Http::stranger(&daemon);
    // A redirect would be the other site's, and the cookie would stay at home.
    let person = [
        ("accept", "text/html,application/xhtml+xml,*/*;q=0.8"),
        ("sec-fetch-site", "cross-site"),
    ];
    let opened = browser.call("GET", path, &person, None);
    assert_eq!(opened.status, 200, "{opened:?}");
    assert!(opened.header("set-cookie").contains("SameSite=Strict"));
    assert!(
        opened
            .text
            .contains("http-equiv=\"refresh\" content=\"0; url=/\"")
    );
    assert_eq!(opened.header("cache-control"), "no-store");
}

#[test]
fn a_person_who_is_not_logged_in_is_told_how_and_a_program_as_before() {
    let daemon = listening();
    let browser = Http::stranger(&daemon);
    let person = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    for (path, status, why) in [
        ("/", 401, "not logged in"),
        ("/login?code=old", 400, "used already or is too old"),
    ] {
        let page = browser.call("GET", path, &person, None);
        assert_eq!(page.status, status, "{page:?}");
        assert!(page.header("content-type").starts_with("text/html"));
        let policy = page.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"));
        for words in [why, "agentcraft dashboard"] {
            assert!(page.text.contains(words), "{page:?}");
        }
        let program = browser.get(path);
        assert_eq!(program.status, status);
        assert!(program.json()["error"]["message"].is_string());
    }
    let api = browser.call("GET", "/api/overview", &person, None);
    assert!(api.json()["error"]["message"].is_string(), "{api:?}");
}

#[test]
fn the_address_is_written_down_while_somebody_listens_there() {
    let mut daemon = listening();
    let address = daemon.home().join("listener.json");
    assert!(address.exists());
    daemon.stop();
    assert!(!address.exists(), "nobody listens any more");
    let said = daemon.cli(&["dashboard"]);
    assert!(
        said.code == 3 && said.stderr.contains("is not running"),
        "{said:?}"
    );

    daemon.start();
    daemon.kill();
    assert!(address.exists(), "a daemon that was killed writes nothing");
    daemon.set_env("AGENTCRAFT_LISTEN", Some("off"));
    daemon.start();
    assert!(!address.exists(), "the next one clears up");
    let said = daemon.cli(&["dashboard"]);
    assert!(
        said.code == 1 && said.stderr.contains("does not listen"),
        "{said:?}"
    );
}

#[test]
fn a_port_that_is_taken_stops_a_start_only_where_somebody_chose_it() {
    // The default port may be taken by somebody else on this machine, which is as good.
    let _held = TcpListener::bind("127.0.0.1:7420");
    let mut daemon = node().stopped();
    daemon.set_env("AGENTCRAFT_LISTEN", None);
    daemon.start();
    assert!(!daemon.home().join("listener.json").exists());
    assert_eq!(daemon.cli(&["agent", "list"]).code, 0);
    for command in [&["daemon", "status"][..], &["doctor"]] {
        let said = daemon.cli(command).stdout;
        assert!(said.contains("does not listen"), "{said}");
    }

    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let mut chosen = node().stopped();
    chosen.set_env("AGENTCRAFT_LISTEN", Some(&address));
    let said = chosen.try_start().unwrap_err();
    assert!(said.contains(&address), "{said}");
    assert!(!chosen.home().join("listener.json").exists());
}

#[test]
fn who_asks_for_what_is_in_the_audit_without_the_token() {
    let daemon = listening();
    Http::owner(&daemon).get("/agents");
    Http::with_token(&daemon.url(), Some("guessed-by-somebody")).get("/agents");
    let lines = daemon.cli(&["journal", "--kind", "audit.", "-f", "json"]);
    assert!(lines.stdout.contains("refused"), "{lines:?}");
    assert!(!lines.stdout.contains("guessed-by-somebody"), "{lines:?}");
    let token = daemon.token();
    assert!(!lines.stdout.contains(&token));
    let mode = fs::metadata(daemon.home().join("listener.token")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&mode.permissions());
    assert_eq!(mode & 0o077, 0, "only the owner reads the token");
}
