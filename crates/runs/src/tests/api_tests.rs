//! Runs in every mode, their errors, and what the node says of itself.

use std::sync::atomic::Ordering;

use domain::run::Limits;
use engine::{Caller, Rights};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::scene::{NODE, PATIENCE, Scene, Wish, body, output};

#[tokio::test]
async fn a_sync_run_answers_with_its_output() {
    let scene = Scene::new().await;
    let (status, run) = scene.run("sync", "say Howdy", json!({})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(run["status"], "completed");
    assert_eq!(output(&run), "Howdy");
    assert_eq!(run["output"][0]["role"], "agent/echo");
    assert!(run["finished_at"].as_str().unwrap().ends_with('Z'));
    uuid::Uuid::parse_str(run["session_id"].as_str().unwrap()).unwrap();
    let (status, read) = scene
        .get(&format!("/runs/{}", run["run_id"].as_str().unwrap()))
        .await;
    assert_eq!((status, read), (StatusCode::OK, run));
}

#[tokio::test]
async fn a_failed_run_is_a_success_of_the_protocol() {
    let scene = Scene::new().await;
    let (status, run) = scene.run("sync", "fail wrong question", json!({})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(run["status"], "failed");
    assert_eq!(run["error"]["message"], "wrong question");
    assert_eq!(
        run["error"]["code"], "server_error",
        "a word that standard clients know"
    );
    assert_eq!(run["error"]["data"]["code"], "agent_failed");
    let network = json!({ "agent_id": "echo" });
    let (_, run) = scene.run("sync", "fail wrong question", network).await;
    assert_eq!(run["error"]["code"], "agent_failed");
    assert!(run["error"]["suggestion"].is_string());
}

#[tokio::test]
async fn an_async_run_is_accepted_at_once_and_told_on_demand() {
    let scene = Scene::new().await;
    let (status, run) = scene.run("async", "say done", json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let id = run["run_id"].as_str().unwrap();
    let run = scene.until(id, "completed").await;
    assert_eq!(output(&run), "done");
}

#[tokio::test]
async fn a_stream_tells_the_standards_events_in_order_and_the_log_is_the_same() {
    let scene = Scene::new().await;
    let events = scene
        .stream(
            "/runs",
            body("stream", "say How\nthink hm\nsay dy", json!({})),
        )
        .await;
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    let expected = [
        "run.created",
        "run.in-progress",
        "message.created",
        "message.part",
        "generic",
        "message.part",
        "message.completed",
        "run.completed",
    ];
    assert_eq!(kinds, expected);
    for (kind, data) in &events {
        assert_eq!(data["type"], **kind);
    }
    let (_, last) = &events[7];
    assert_eq!(last["run"]["status"], "completed");
    assert_eq!(last["run_id"], last["run"]["run_id"], "for both dialects");
    let id = last["run_id"].as_str().unwrap();
    let (_, log) = scene.get(&format!("/runs/{id}/events")).await;
    let told: Vec<Value> = events.into_iter().map(|(_, data)| data).collect();
    assert_eq!(log["events"], Value::Array(told));
}

#[tokio::test]
async fn a_broken_stream_goes_on_after_the_last_event_that_was_seen() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("sync", "say a\nsay b", json!({})).await;
    let id = run["run_id"].as_str().unwrap();
    let response = scene
        .http
        .get(format!("{}/runs/{id}/events", scene.url))
        .header("accept", "text/event-stream")
        .header("last-event-id", "4")
        .send()
        .await
        .unwrap();
    let text = response.text().await.unwrap();
    assert!(
        text.starts_with("id: 5\n") || text.contains("\nid: 5\n"),
        "{text}"
    );
    assert!(!text.contains("id: 4\n"), "{text}");
    assert!(text.contains("event: run.completed"), "{text}");
}

#[tokio::test]
async fn the_accept_header_asks_for_a_stream_where_no_mode_is_given() {
    let scene = Scene::new().await;
    let mut asked = body("x", "say hi", json!({}));
    asked.as_object_mut().unwrap().remove("mode");
    let response = scene
        .http
        .post(format!("{}/runs", scene.url))
        .header("accept", "text/event-stream")
        .json(&asked)
        .send()
        .await
        .unwrap();
    let kind = response.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    assert!(response.headers().contains_key("run-id"));
    let (status, run) = scene.post("/runs", asked).await;
    assert_eq!(
        (status, &run["status"]),
        (StatusCode::OK, &json!("completed"))
    );
}

#[tokio::test]
async fn a_run_is_cancelled_and_only_once() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("async", "wait", json!({})).await;
    let id = run["run_id"].as_str().unwrap();
    let (status, run) = scene.post(&format!("/runs/{id}/cancel"), json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(run["status"], "cancelling");
    scene.until(id, "cancelled").await;
    let (status, error) = scene.post(&format!("/runs/{id}/cancel"), json!({})).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(error["error"]["code"], "run_is_over");
    let (_, log) = scene.get(&format!("/runs/{id}/events")).await;
    let last = log["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["type"], "run.cancelled");
}

#[tokio::test]
async fn work_that_takes_too_long_is_ended_and_told_as_a_timeout() {
    let scene = Scene::with(Wish {
        limits: Limits {
            work: std::time::Duration::from_millis(50),
            answer: PATIENCE,
        },
        ..Wish::default()
    })
    .await;
    let (status, error) = scene
        .run("sync", "wait", json!({ "agent_id": "echo" }))
        .await;
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
    assert_eq!(error["status"], "failed");
    assert_eq!(error["error"]["code"], "execution_timeout");
    assert_eq!(error["error"]["details"]["timeout_seconds"], 0.05);
    let id = error["run_id"].as_str().unwrap();
    let (status, run) = scene.get(&format!("/runs/{id}")).await;
    assert_eq!((status, &run["status"]), (StatusCode::OK, &json!("failed")));
}

#[tokio::test]
async fn a_caller_may_ask_for_less_time() {
    let scene = Scene::new().await;
    for none in [-1.0, 0.0] {
        let metadata = json!({ "metadata": { "timeout_seconds": none } });
        let (status, error) = scene.run("sync", "say x", metadata).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{error}");
        assert_eq!(error["error"]["code"], "invalid_input");
    }
    let metadata = json!({ "metadata": { "timeout_seconds": 0.05 } });
    let (status, _) = scene.run("sync", "wait", metadata).await;
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
}

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

async fn refused(scene: &Scene, method: Method, path: &str, asked: Value, status: u16, code: &str) {
    let (got, error) = scene.ask(method, path, Some(asked.clone())).await;
    assert_eq!(got.as_u16(), status, "{path} {asked}");
    assert_eq!(error["error"]["code"], code, "{path} {asked}");
    assert_eq!(error["status"], "failed", "{path}");
    for word in ["message", "suggestion"] {
        assert!(error["error"][word].is_string(), "{path} {word}");
    }
    let class = error["code"].as_str().unwrap();
    let known = ["server_error", "invalid_input", "not_found"];
    assert!(known.contains(&class), "{class}");
}

#[tokio::test]
async fn every_refused_run_is_told_in_json_with_a_way_on() {
    let scene = Scene::new().await;
    let input = json!([{ "parts": [{ "content": "x" }] }]);
    let nobody = json!({ "agent_name": "nobody", "input": input });
    let system = json!({ "input": [{ "role": "system", "parts": [{ "content": "x" }] }] });
    let two = json!({ "session_id": UNKNOWN, "session": { "id": "other" } });
    for (asked, status, code) in [
        (nobody, 404, "agent_not_found"),
        (
            json!({ "agent_name": "echo", "input": [] }),
            422,
            "invalid_input",
        ),
        (
            json!({ "agent_name": "echo", "input": "hi" }),
            422,
            "invalid_input",
        ),
        (body("sync", "x", system), 422, "invalid_input"),
        (body("later", "x", json!({})), 422, "invalid_input"),
        (body("sync", "x", two), 409, "session_mismatch"),
        (
            body("sync", "x", json!({ "session_id": "nova9-1" })),
            404,
            "session_not_found",
        ),
    ] {
        refused(&scene, Method::POST, "/runs", asked, status, code).await;
    }
    let broken = scene.http.post(format!("{}/runs", scene.url)).body("{");
    let response = broken.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    response.json::<Value>().await.unwrap();
}

#[tokio::test]
async fn what_is_not_there_is_told_in_json_with_a_way_on() {
    let scene = Scene::new().await;
    for (path, status, code) in [
        (format!("/runs/{UNKNOWN}"), 404, "run_not_found"),
        (format!("/sessions/{UNKNOWN}"), 404, "session_not_found"),
        ("/agents/nobody".to_owned(), 404, "agent_not_found"),
        ("/agents?limit=0".to_owned(), 422, "invalid_input"),
        ("/agents?offset=-1".to_owned(), 422, "invalid_input"),
        (format!("/resources/{UNKNOWN}"), 404, "resource_not_found"),
        ("/agents/%ff".to_owned(), 400, "invalid_input"),
        (
            "/resources/x?expires=soon".to_owned(),
            403,
            "link_not_valid",
        ),
    ] {
        refused(&scene, Method::GET, &path, json!(null), status, code).await;
    }
    let resume = json!({ "await_resume": {} });
    let path = format!("/runs/{UNKNOWN}");
    refused(&scene, Method::POST, &path, resume, 404, "run_not_found").await;
    refused(
        &scene,
        Method::DELETE,
        "/runs",
        json!(null),
        405,
        "invalid_input",
    )
    .await;
}

#[tokio::test]
async fn loops_are_refused_in_body_and_header() {
    let scene = Scene::new().await;
    let with = |metadata: Value| json!({ "agent_id": "nova9", "metadata": metadata });
    let itself = with(json!({ "source_agent_id": NODE }));
    let (status, error) = scene.run("sync", "say x", itself).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(error["error"]["code"], "self_loop_rejected");
    let chain = json!(["desk-1", "nova9-a797ca02"]);
    let circle = with(json!({ "source_agent_id": "tablet-1", "call_chain": chain }));
    let (status, error) = scene.run("sync", "say x", circle).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(error["error"]["code"], "circular_call_detected");
    assert_eq!(error["error"]["call_chain"], chain);
    let response = scene
        .http
        .post(format!("{}/runs", scene.url))
        .header("x-agentcraft-call-chain", format!("desk-1, {NODE}"))
        .json(&body("sync", "say x", json!({})))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(scene.script.0.turns.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_same_key_begins_the_same_run_and_never_a_second() {
    let scene = Scene::new().await;
    let send = |prompt: &str| {
        let request = scene.http.post(format!("{}/runs", scene.url));
        request
            .header("idempotency-key", "once")
            .json(&body("sync", prompt, json!({})))
            .send()
    };
    let (one, two) = tokio::join!(send("say a"), send("say a"));
    let one: Value = one.unwrap().json().await.unwrap();
    let two: Value = two.unwrap().json().await.unwrap();
    assert_eq!(one["run_id"], two["run_id"]);
    assert_eq!(scene.script.0.turns.load(Ordering::SeqCst), 1);
    let other = send("say b").await.unwrap();
    assert_eq!(other.status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn the_node_and_its_agents_say_what_they_are() {
    let scene = Scene::new().await;
    let (_, manifest) = scene.get("/manifest").await;
    assert_eq!(manifest["agent_id"], NODE);
    assert_eq!(manifest["name"], "nova9");
    assert_eq!(manifest["capabilities"][0]["id"], "echo");
    assert_eq!(manifest["metadata"]["capabilities"][0]["name"], "echo");
    assert_eq!(
        manifest["endpoints"]["inbox"],
        format!("{}/runs", scene.url)
    );
    assert_eq!(
        manifest["exchange"]["dropbox"],
        "smb://nas.local/agent-exchange/"
    );
    let version = manifest["version"].clone();
    scene.agent("writer", "http://script.example").await;
    let (_, changed) = scene.get("/manifest").await;
    assert_ne!(changed["version"], version);
    let (_, page) = scene.get("/agents?limit=1&offset=1").await;
    assert_eq!(page["agents"].as_array().unwrap().len(), 1);
    assert_eq!(page["agents"][0]["name"], "writer");
    let (status, agent) = scene.get("/agents/echo").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(agent["description"], "the agent echo");
    let (_, ping) = scene.get("/ping").await;
    assert_eq!(ping, json!({}));
    let (_, openapi) = scene.get("/openapi.json").await;
    assert_eq!(openapi["openapi"], "3.1.0");
}

#[tokio::test]
async fn the_wishes_of_the_caller_reach_the_agent() {
    let scene = Scene::new().await;
    let metadata =
        json!({ "metadata": { "locale": "zh-CN", "preferred_output": "application/pdf" } });
    let (_, run) = scene.run("sync", "say x", metadata).await;
    let words = output(&run);
    assert!(
        words.contains("zh-CN") && words.contains("application/pdf"),
        "{words}"
    );
}

#[tokio::test]
async fn a_header_that_guards_something_is_read_in_every_script_and_on_every_line() {
    let scene = Scene::new().await;
    let send = async |lines: &[(&'static str, &[u8])]| {
        let url = format!("{}/runs", scene.url);
        let mut request = scene.http.post(url).json(&body("sync", "say x", json!({})));
        for (name, value) in lines {
            let value = reqwest::header::HeaderValue::from_bytes(value).unwrap();
            request = request.header(*name, value);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status();
        (status, answer.json::<Value>().await.unwrap())
    };
    const CHAIN: &str = "x-agentcraft-call-chain";
    let simple = NODE.replace('-', "");
    for id in [NODE, &simple, "nova9-a797ca02"] {
        let line = format!("柠檬桌面-9169e2e8,{id}");
        let (status, error) = send(&[(CHAIN, line.as_bytes())]).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!("circular_call_detected")),
            "{line}"
        );
        let (status, _) = send(&[(CHAIN, b"desk"), (CHAIN, id.as_bytes())]).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{id} on a second line");
    }
    for line in [&b"caf\xe9"[..], b"[\"a\",\"b\"", b"[\"a\"]", b"{a}"] {
        let (status, error) = send(&[(CHAIN, line)]).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_call_chain"))
        );
    }
    const KEY: &str = "idempotency-key";
    let (_, one) = send(&[(KEY, "键-1".as_bytes())]).await;
    let (_, two) = send(&[(KEY, "键-1".as_bytes())]).await;
    assert_eq!(one["run_id"], two["run_id"]);
    for lines in [&[(KEY, &b"\xff"[..])][..], &[(KEY, b"a"), (KEY, b"b")]] {
        let (status, _) = send(lines).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    }
    assert_eq!(scene.script.0.turns.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_manifest_shows_what_its_reader_may_ask_for() {
    let home = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let with = |rights: &[&str]| Caller {
        name: "somebody".to_owned(),
        rights: Rights::Only(rights.iter().map(|right| (*right).to_owned()).collect()),
    };
    let scene = Scene::at(home.clone(), Wish::default(), Caller::owner()).await;
    scene.agent("radio", "http://script.example").await;
    let (_, whole) = scene.get("/manifest").await;
    assert_eq!(whole["capabilities"].as_array().unwrap().len(), 2);
    for (rights, seen) in [
        (&["metrics"][..], None),
        (&["exchange"], None),
        (&["runs:radio"], Some(json!(["radio"]))),
        (&["runs"], Some(json!(["echo", "radio"]))),
    ] {
        let router = scene.runs.router().layer(axum::Extension(with(rights)));
        let request = axum::http::Request::get("/manifest");
        let request = request.body(axum::body::Body::empty()).unwrap();
        let answer = tower::ServiceExt::oneshot(router, request).await.unwrap();
        let status = answer.status();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await;
        let told: Value = serde_json::from_slice(&bytes.unwrap()).unwrap();
        match seen {
            None => {
                assert_eq!(status.as_u16(), 403, "{rights:?}");
                assert!(!told.to_string().contains("radio"), "{told}");
            }
            Some(seen) => {
                let ids = told["capabilities"].as_array().unwrap().iter();
                let ids: Vec<&Value> = ids.map(|capability| &capability["id"]).collect();
                assert_eq!(json!(ids), seen, "{rights:?}");
                assert_eq!(told["version"], whole["version"]);
            }
        }
    }
}

#[tokio::test]
async fn a_run_that_is_given_less_time_says_how_much_it_was() {
    let scene = Scene::new().await;
    let (status, error) = scene
        .run(
            "sync",
            "wait",
            json!({ "metadata": { "timeout_seconds": 0.05 } }),
        )
        .await;
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
    assert_eq!(error["error"]["details"]["timeout_seconds"], 0.05);
    let suggestion = error["error"]["suggestion"].as_str().unwrap();
    assert!(suggestion.contains("the caller has set"), "{suggestion}");
}

/// Makes the store refuse what is kept of runs, as a full disk does, or no longer.
fn store_of_runs(scene: &Scene, statement: &str) {
    let python = std::env::var("AGENTCRAFT_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let program = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1], timeout=30); c.execute(sys.argv[2]); c.commit()";
    let done = std::process::Command::new(python)
        .args(["-c", program])
        .arg(scene.home.path().join("state.db"))
        .arg(statement)
        .status();
    assert!(done.unwrap().success(), "{statement}");
}

#[tokio::test]
async fn a_run_that_ends_while_the_disk_is_full_is_over_once_there_is_room() {
    let scene = Scene::new().await;
    let id = uuid::Uuid::new_v4().to_string();
    let (_, run) = scene
        .run("sync", "ask which?", json!({ "session_id": id }))
        .await;
    let run = run["run_id"].as_str().unwrap().to_owned();
    store_of_runs(
        &scene,
        "CREATE TRIGGER full BEFORE INSERT ON records WHEN NEW.kind = 'run' \
         BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END",
    );
    let resume = json!({ "mode": "async", "input": [{ "parts": [{ "content": "x" }] }] });
    let (status, _) = scene.post(&format!("/runs/{run}/resume"), resume).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    // The turn is over; what became of it cannot be kept.
    let ended = async {
        loop {
            let (_, log) = scene.get(&format!("/runs/{run}/events")).await;
            let events = log["events"].as_array().unwrap();
            if events
                .iter()
                .any(|event| event["type"] == "message.completed")
            {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    store_of_runs(&scene, "SELECT 1");
    let (_, seen) = scene.get(&format!("/runs/{run}")).await;
    assert_eq!(
        seen["status"], "in-progress",
        "nobody is told what is not kept"
    );
    store_of_runs(&scene, "DROP TRIGGER full");
    let seen = scene.until(&run, "completed").await;
    assert_eq!(output(&seen), "heard x");
    let (status, next) = scene
        .run("sync", "say next", json!({ "session_id": id }))
        .await;
    assert_eq!((status, output(&next)), (StatusCode::OK, "next".to_owned()));
    let (_, session) = scene.get(&format!("/sessions/{id}")).await;
    assert_eq!(session["history"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_stream_that_is_picked_up_after_a_crash_always_tells_how_the_run_stands() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("async", "say told\nwait", json!({})).await;
    let run = run["run_id"].as_str().unwrap().to_owned();
    let (_, asking) = scene.run("sync", "ask which?", json!({})).await;
    let asking = asking["run_id"].as_str().unwrap().to_owned();
    // What was told is in the store soon, although the run goes on.
    let stored = async {
        loop {
            let log = crate::log::RunLog::open(&run, scene.engine.records()).await;
            if log.unwrap().count() >= 4 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, stored).await.unwrap();
    let scene = scene.restarted(Wish::default()).await;
    let pick_up = async |run: &str, last: u64| {
        let request = scene
            .http
            .get(format!("{}/runs/{run}/events", scene.url))
            .header("accept", "text/event-stream")
            .header("last-event-id", last.to_string());
        let text = request.send().await.unwrap().text().await.unwrap();
        let events = super::scene::sse(&text);
        let kinds = events.into_iter().map(|(kind, _)| kind);
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(pick_up(&run, 23).await, ["run.failed"]);
    let all = pick_up(&run, 0).await;
    assert!(all.contains(&"message.part".to_owned()), "{all:?}");
    let count = all.len() as u64;
    assert_eq!(pick_up(&run, count - 1).await, ["run.failed"]);
    assert_eq!(pick_up(&run, count).await, ["run.failed"]);
    assert_eq!(pick_up(&asking, 99).await, ["run.awaiting"]);
}
