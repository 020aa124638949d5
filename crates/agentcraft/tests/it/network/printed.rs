//! The requests that the design of the local network prints, sent with curl to the letter, each answered as it says.
//!
//! Only what differs from node to node is put in: its address, its token, ids that it gave.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use testkit::{TestDaemon, eventually};

use super::with_phone;
use crate::node;

/// Section 5.3: a task for the phone, whose progress is streamed.
const CREATE: &str = r#"{
  "agent_id": "lemon-nova9",
  "input": [
    {
      "parts": [
        {
          "content_type": "text/plain",
          "content": "帮我搜一下乌克兰今天的新闻，翻译成中文，生成PDF"
        }
      ]
    }
  ],
  "metadata": {
    "source_agent_id": "lemon-desktop-9169e2e8",
    "master_session_id": "desktop-20260227-main",
    "locale": "zh-CN",
    "preferred_output": "application/pdf"
  },
  "session_id": null,
  "mode": "stream"
}"#;

/// Section 5.5: the answer to what it asks.
const RESUME: &str = r#"{
  "input": [
    {
      "parts": [
        {
          "content_type": "text/plain",
          "content": "前三条，翻译成中文，生成PDF"
        }
      ]
    }
  ]
}"#;

/// Section 9.1: a simple instruction.
const RADIO: &str = r#"{
    "input": [{"parts": [{"content_type": "text/plain", "content": "播放轻音乐电台"}]}],
    "mode": "sync"
  }"#;

/// Section 9.2: a task with a question.
const NEWS: &str = r#"{
    "input": [{"parts": [{"content_type": "text/plain", "content": "搜索今天乌克兰相关新闻"}]}],
    "mode": "stream"
  }"#;
const CHOICE: &str = r#"{
    "input": [{"parts": [{"content_type": "text/plain", "content": "前三条，翻译成中文，生成PDF"}]}]
  }"#;

/// Section 9.3: the same without a word about types and modes, and the answer that is given for the human.
const PAPER: &str =
    r#"{ "input": [{"parts": [{"content": "搜索乌克兰新闻，前三条，翻译中文，生成PDF"}]}] }"#;
const A4: &str = r#"{ "input": [{"parts": [{"content": "A4"}]}] }"#;

/// Section 10.3: who has called whom.
const CHAIN: &str = r#"{
  "metadata": {
    "source_agent_id": "lemon-desktop-9169e2e8",
    "call_chain": [
      "lemon-desktop-9169e2e8",
      "lemon-nova9-a797ca02"
    ]
  }
}"#;

const JSON: &str = "Accept: application/json";
const STREAM: &str = "Accept: text/event-stream";

/// The phone of the design, with the one agent that speaks for it.
struct Phone {
    daemon: TestDaemon,
}

/// What curl got.
#[derive(Debug)]
struct Got {
    status: u16,
    text: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The events of a stream: their words and their data.
    fn events(&self) -> Vec<(String, Value)> {
        let mut events = Vec::new();
        for event in self.text.split("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            if let (Some(word), Some(data)) = (field("event: "), field("data: ")) {
                events.push((word.to_owned(), serde_json::from_str(data).unwrap()));
            }
        }
        events
    }
}

impl Phone {
    /// Nothing, with the reason printed, where curl is not there.
    fn new() -> Option<Self> {
        if Command::new("curl").arg("--version").output().is_err() {
            println!("skipped: ./test installs curl");
            return None;
        }
        let settings = "[http]\nname = \"lemon-nova9\"\n";
        let daemon = node().listening().file("config.toml", settings).start();
        with_phone(&daemon);
        Some(Self { daemon })
    }

    fn curl(&self, method: &str, path: &str, accept: &str, body: Option<&str>) -> Got {
        let url = format!("{}{path}", self.daemon.url());
        self.curl_at(method, &url, &[accept], body)
    }

    fn curl_at(&self, method: &str, url: &str, headers: &[&str], body: Option<&str>) -> Got {
        let mut curl = Command::new("curl");
        let token = format!("Authorization: Bearer {}", self.daemon.token());
        curl.args([
            "--silent",
            "--show-error",
            "--no-buffer",
            "--max-time",
            "50",
        ])
        .args(["--write-out", "\n%{http_code}", "--request", method])
        .args(["--header", &token]);
        for header in headers {
            curl.args(["--header", header]);
        }
        if body.is_some() {
            curl.args([
                "--header",
                "Content-Type: application/json",
                "--data-binary",
                "@-",
            ]);
        }
        let mut child = curl
            .arg(url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin
            .write_all(body.unwrap_or_default().as_bytes())
            .unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (text, status) = said.rsplit_once('\n').unwrap();
        assert!(output.status.success(), "{method} {url}: {said}");
        Got {
            status: status.parse().unwrap(),
            text: text.to_owned(),
        }
    }

    fn post(&self, path: &str, body: &str) -> Got {
        self.curl("POST", path, JSON, Some(body))
    }
}

fn id_of(run: &Value) -> &str {
    run["run_id"].as_str().unwrap()
}

/// What is handed over is named, typed, and behind an address where it can be fetched.
fn has_the_pdf(phone: &Phone, run: &Value, expected: &str) {
    let messages = run["output"].as_array().unwrap().iter();
    let mut parts = messages.flat_map(|message| message["parts"].as_array().unwrap());
    let part = parts.find(|part| part["name"] == "ukraine-news-0227.pdf");
    let part = part.unwrap_or_else(|| panic!("no file was handed over: {run}"));
    assert_eq!(part["content_type"], "application/pdf", "{part}");
    let url = part["content_url"].as_str().unwrap();
    let file = phone.curl_at("GET", url, &[], None);
    assert_eq!((file.status, file.text.as_str()), (200, expected));
}

#[test]
fn the_printed_task_streams_asks_goes_on_and_hands_over_a_file() {
    let Some(phone) = Phone::new() else { return };
    let stream = phone.curl("POST", "/runs", STREAM, Some(CREATE));
    assert_eq!(stream.status, 200, "{stream:?}");
    let events = stream.events();
    let words: Vec<&str> = events.iter().map(|(word, _)| word.as_str()).collect();
    assert!(words.contains(&"run.in-progress"), "{words:?}");
    let (word, awaiting) = events.last().unwrap();
    assert_eq!(word, "run.awaiting");
    assert_eq!(awaiting["status"], "awaiting");
    let part = &awaiting["await"]["message"]["parts"][0];
    assert_eq!(part["content_type"], "text/plain", "{awaiting}");
    assert!(
        part["content"].as_str().unwrap().contains("要整理哪几条"),
        "{awaiting}"
    );
    let (id, session) = (id_of(awaiting), awaiting["session_id"].as_str().unwrap());

    let polled = phone.curl("GET", &format!("/runs/{id}"), JSON, None).json();
    assert_eq!(
        polled["await"], awaiting["await"],
        "asking for it tells the same"
    );
    let done = phone.post(&format!("/runs/{id}/resume"), RESUME);
    assert_eq!(done.status, 200, "{done:?}");
    let done = done.json();
    assert_eq!(
        (&done["status"], &done["session_id"], id_of(&done)),
        (&json!("completed"), &json!(session), id)
    );
    has_the_pdf(&phone, &done, "前三条，翻译成中文，生成PDF");
    let log = phone.curl("GET", &format!("/runs/{id}/events"), STREAM, None);
    let words: Vec<String> = log.events().into_iter().map(|(word, _)| word).collect();
    for word in [
        "run.in-progress",
        "run.awaiting",
        "run.artifact",
        "run.completed",
    ] {
        assert!(words.iter().any(|told| told == word), "{word}: {words:?}");
    }

    let descriptor = phone
        .curl("GET", &format!("/sessions/{session}"), JSON, None)
        .json();
    for field in ["session_id", "history_url", "created_at", "last_active"] {
        assert!(descriptor[field].is_string(), "{field}: {descriptor}");
    }
    assert_eq!(descriptor["ttl_seconds"], 1800, "{descriptor}");
    let history = phone.curl_at(
        "GET",
        descriptor["history_url"].as_str().unwrap(),
        &[],
        None,
    );
    assert!(
        history.text.contains("帮我搜一下乌克兰今天的新闻"),
        "{history:?}"
    );
    let mut next: Value = serde_json::from_str(CREATE).unwrap();
    next["session_id"] = json!(session);
    next["mode"] = json!("async");
    let next = phone.post("/runs", &next.to_string());
    assert_eq!(
        (next.status, &next.json()["session_id"]),
        (202, &json!(session))
    );
    let ended = phone.post(&format!("/runs/{}/cancel", id_of(&next.json())), "");
    assert_eq!(ended.status, 202, "{ended:?}");
}

#[test]
fn the_printed_instructions_are_carried_out_in_every_mode() {
    let Some(phone) = Phone::new() else { return };
    let manifest = phone.curl("GET", "/manifest", JSON, None).json();
    assert_eq!(manifest["name"], "lemon-nova9");
    for (field, address) in [
        ("inbox", "/runs"),
        ("runs", "/runs/{run_id}"),
        ("resume", "/runs/{run_id}/resume"),
    ] {
        let told = manifest["endpoints"][field].as_str().unwrap();
        assert_eq!(told, format!("{}{address}", phone.daemon.url()));
    }
    for field in [
        "input_content_types",
        "output_content_types",
        "capabilities",
    ] {
        assert!(manifest[field].is_array(), "{field}: {manifest}");
    }
    assert!(
        manifest["exchange"]["resource_server"].is_string(),
        "{manifest}"
    );

    let played = phone.post("/runs", RADIO);
    assert_eq!(played.status, 200, "{played:?}");
    let played = played.json();
    assert_eq!(played["status"], "completed");
    let part = &played["output"][0]["parts"][0];
    assert_eq!(
        (&part["content_type"], &part["content"]),
        (&json!("text/plain"), &json!("正在播放：FM96.4 轻音乐频道"))
    );
    let later = phone.post("/runs", &RADIO.replace("sync", "async"));
    assert_eq!(later.status, 202, "{later:?}");
    let path = format!("/runs/{}", id_of(&later.json()));
    eventually("it is done", || {
        phone.curl("GET", &path, JSON, None).json()["status"] == "completed"
    });
    let streamed = phone.curl(
        "POST",
        "/runs",
        STREAM,
        Some(&RADIO.replace(",\n    \"mode\": \"sync\"", "")),
    );
    let words: Vec<String> = streamed
        .events()
        .into_iter()
        .map(|(word, _)| word)
        .collect();
    assert_eq!(words.last().unwrap(), "run.completed", "{words:?}");

    let news = phone.curl("POST", "/runs", STREAM, Some(NEWS)).events();
    let (word, awaiting) = news.last().unwrap();
    assert_eq!(
        (word.as_str(), &awaiting["status"]),
        ("run.awaiting", &json!("awaiting"))
    );
    let done = phone
        .post(&format!("/runs/{}/resume", id_of(awaiting)), CHOICE)
        .json();
    assert_eq!(done["session_id"], awaiting["session_id"]);
    has_the_pdf(&phone, &done, "前三条，翻译成中文，生成PDF");

    let asked = phone.post("/runs", PAPER).json();
    let question = &asked["await"]["message"]["parts"][0]["content"];
    assert_eq!(question, "请问PDF需要什么纸张大小？", "{asked}");
    let done = phone
        .post(&format!("/runs/{}/resume", id_of(&asked)), A4)
        .json();
    assert_eq!(done["status"], "completed", "{done}");
    has_the_pdf(&phone, &done, "A4");
}

#[test]
fn the_printed_dangers_are_refused_or_asked_about() {
    let Some(phone) = Phone::new() else { return };
    let own = phone.curl("GET", "/manifest", JSON, None).json()["agent_id"].clone();
    let own = own.as_str().unwrap();
    let with_input = |metadata: &str| {
        let mut body: Value = serde_json::from_str(RADIO).unwrap();
        let metadata: Value = serde_json::from_str(metadata).unwrap();
        body["metadata"] = metadata["metadata"].clone();
        body.to_string()
    };
    // In a chain of others we are not.
    assert_eq!(phone.post("/runs", &with_input(CHAIN)).status, 200);
    let circle = CHAIN.replace("a797ca02", &own[..8]);
    let refused = phone.post("/runs", &with_input(&circle));
    assert_eq!(refused.status, 400, "{refused:?}");
    let refused = refused.json();
    assert_eq!(refused["status"], "failed");
    assert_eq!(refused["error"]["code"], "circular_call_detected");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("lemon-nova9"), "{message}");
    let short = format!("lemon-nova9-{}", &own[..8]);
    assert_eq!(
        refused["error"]["call_chain"],
        json!(["lemon-desktop-9169e2e8", short])
    );
    let looped = CREATE.replace("lemon-desktop-9169e2e8", own);
    let looped = phone.post("/runs", &looped);
    assert_eq!(looped.status, 400, "{looped:?}");
    assert_eq!(looped.json()["error"]["code"], "self_loop_rejected");

    let delete = RADIO.replace("播放轻音乐电台", "删除3月1日到3月7日的所有日程");
    let asked = phone.post("/runs", &delete).json();
    assert_eq!(asked["status"], "awaiting", "{asked}");
    let told = &asked["await"];
    assert_eq!(
        (
            &told["metadata"]["severity"],
            &told["metadata"]["reversible"]
        ),
        (&json!("destructive"), &json!(false))
    );
    let question = told["message"]["parts"][0]["content"].as_str().unwrap();
    assert!(
        question.contains("即将删除3月1日到3月7日的所有日程（共5条），确认执行？"),
        "{question}"
    );
    let refused = A4.replace("A4", "取消");
    let kept = phone
        .post(&format!("/runs/{}/resume", id_of(&asked)), &refused)
        .json();
    assert!(kept["output"].to_string().contains("reject"), "{kept}");
}

#[test]
fn a_printed_request_that_cannot_be_done_is_refused_in_words() {
    let Some(phone) = Phone::new() else { return };
    for (body, status, code) in [
        (
            CREATE.replace("lemon-nova9", "lemon-tablet"),
            404,
            "agent_not_found",
        ),
        (
            CREATE.replace("null", "\"nova9-20260227-a3f1\""),
            404,
            "session_not_found",
        ),
        (r#"{"input": []}"#.to_owned(), 422, "invalid_input"),
    ] {
        let refused = phone.post("/runs", &body);
        assert_eq!(refused.status, status, "{refused:?}");
        let refused = refused.json();
        assert_eq!(
            (&refused["status"], &refused["error"]["code"]),
            (&json!("failed"), &json!(code))
        );
        for field in ["message", "suggestion"] {
            assert!(refused["error"][field].is_string(), "{field}: {refused}");
        }
    }
}
