//! Runs that ask: answered, unanswered, cancelled, and over the end of the daemon.

use std::{sync::atomic::Ordering, time::Duration};

use domain::{Timestamp, chain::Ourselves, run::Limits};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::scene::{PATIENCE, Scene, Wish, body, output};

/// Another node than the one that it asks.
fn desk() -> Wish {
    Wish {
        node: Ourselves {
            id: "0b0f5c2e-0000-4000-8000-000000000001".to_owned(),
            name: "desk".to_owned(),
        },
        ..Wish::default()
    }
}

fn answer(text: &str) -> Value {
    json!({ "await_resume": { "type": "message", "message": { "role": "user", "parts": [{ "content": text }] } } })
}

#[tokio::test]
async fn a_question_is_awaited_and_the_answer_goes_on_in_the_same_turn() {
    let scene = Scene::new().await;
    let (status, run) = scene.run("sync", "say first\nask which?", json!({})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(run["status"], "awaiting");
    assert_eq!(run["await_request"]["type"], "message");
    let asked = &run["await_request"]["message"]["parts"][0]["content"];
    assert_eq!(asked, "which?");
    assert_eq!(run["await"]["message"], run["await_request"]["message"]);
    let id = run["run_id"].as_str().unwrap();
    let (status, run) = scene
        .post(&format!("/runs/{id}"), answer("the first"))
        .await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(run["status"], "completed");
    assert_eq!(run.get("await_request"), None, "it awaits nothing any more");
    assert_eq!(output(&run), "first|heard the first");
    assert_eq!(scene.script.0.turns.load(Ordering::SeqCst), 1);
    let (status, error) = scene.post(&format!("/runs/{id}"), answer("again")).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(error["error"]["code"], "not_awaiting");
}

#[tokio::test]
async fn the_local_networks_resume_streams_from_where_it_waited() {
    let scene = Scene::new().await;
    let begun = scene
        .stream(
            "/runs",
            body(
                "stream",
                "ask which?\nsay ok",
                json!({ "agent_id": "nova9" }),
            ),
        )
        .await;
    let (kind, last) = begun.last().unwrap();
    assert_eq!(kind, "run.awaiting");
    assert_eq!(last["await"]["message"]["parts"][0]["content"], "which?");
    let id = last["run_id"].as_str().unwrap();
    let resume = json!({ "input": [{ "parts": [{ "content": "A4" }] }], "mode": "stream" });
    let events = scene.stream(&format!("/runs/{id}/resume"), resume).await;
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds.first(), Some(&"run.in-progress"));
    assert_eq!(kinds.last(), Some(&"run.completed"));
}

#[tokio::test]
async fn an_act_that_cannot_be_undone_is_awaited_as_such() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("sync", "delete everything", json!({})).await;
    assert_eq!(run["status"], "awaiting");
    assert_eq!(run["await"]["metadata"]["severity"], "destructive");
    assert_eq!(run["await"]["metadata"]["reversible"], false);
    let part = &run["await_request"]["message"]["parts"][0];
    assert_eq!(
        part["severity"], "destructive",
        "where standard clients keep it"
    );
    let id = run["run_id"].as_str().unwrap();
    let (status, error) = scene.post(&format!("/runs/{id}"), answer("perhaps")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(error["error"]["code"], "wrong_answer");
    let (_, run) = scene.post(&format!("/runs/{id}"), answer("no")).await;
    assert_eq!(output(&run), "chose reject");
}

#[tokio::test]
async fn a_run_that_awaits_is_cancelled() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("sync", "ask which?", json!({})).await;
    let id = run["run_id"].as_str().unwrap();
    let (status, _) = scene.post(&format!("/runs/{id}/cancel"), json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    scene.until(id, "cancelled").await;
}

#[tokio::test]
async fn a_run_that_nobody_answers_fails_in_words() {
    let limits = Limits {
        work: PATIENCE,
        answer: Duration::from_millis(50),
    };
    let scene = Scene::with(Wish {
        limits,
        ..Wish::default()
    })
    .await;
    let (_, run) = scene
        .run("async", "ask which?", json!({ "agent_id": "echo" }))
        .await;
    let run = scene.until(run["run_id"].as_str().unwrap(), "failed").await;
    assert_eq!(run["error"]["code"], "await_timeout");
}

#[tokio::test]
async fn a_run_that_does_not_await_cannot_be_resumed() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("async", "wait", json!({})).await;
    let id = run["run_id"].as_str().unwrap();
    let (status, error) = scene.post(&format!("/runs/{id}"), answer("x")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(error["error"]["code"], "not_awaiting");
}

#[tokio::test]
async fn an_await_outlives_the_daemon_and_its_answer_goes_on_in_a_new_turn() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("sync", "say before\nask which?", json!({})).await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    let scene = scene.restarted(Wish::default()).await;
    let (_, run) = scene.get(&format!("/runs/{id}")).await;
    assert_eq!(run["status"], "awaiting");
    assert_eq!(run["await"]["message"]["parts"][0]["content"], "which?");
    let (status, run) = scene.post(&format!("/runs/{id}"), answer("this one")).await;
    assert_eq!(
        (status, &run["status"]),
        (StatusCode::OK, &json!("completed")),
        "{run}"
    );
    let words = output(&run);
    assert!(words.starts_with("before|"), "{words}");
    assert!(
        words.contains("<this one>"),
        "the agent heard the answer: {words}"
    );
    assert_eq!(
        scene.script.0.turns.load(Ordering::SeqCst),
        1,
        "one turn, of the answer"
    );
    let (_, log) = scene.get(&format!("/runs/{id}/events")).await;
    let events = log["events"].as_array().unwrap();
    let statuses: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str()?.strip_prefix("run."))
        .collect();
    let expected = [
        "created",
        "in-progress",
        "awaiting",
        "in-progress",
        "completed",
    ];
    assert_eq!(statuses, expected);
}

#[tokio::test]
async fn a_permission_given_after_a_restart_holds_for_the_same_act_once() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("sync", "delete a", json!({})).await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    let scene = scene.restarted(Wish::default()).await;
    let (_, run) = scene.post(&format!("/runs/{id}"), answer("yes")).await;
    let words = output(&run);
    assert!(words.contains("This is allowed."), "{words}");
}

#[tokio::test]
async fn work_that_the_end_of_the_daemon_broke_off_has_failed_and_is_not_begun_again() {
    let scene = Scene::new().await;
    let (_, run) = scene
        .run("async", "wait", json!({ "agent_id": "echo" }))
        .await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    let begun = async {
        while scene.script.0.turns.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.unwrap();
    let scene = scene.restarted(Wish::default()).await;
    let (_, run) = scene.get(&format!("/runs/{id}")).await;
    assert_eq!(run["status"], "failed");
    assert_eq!(run["error"]["code"], "interrupted");
    let (_, log) = scene.get(&format!("/runs/{id}/events")).await;
    let last = log["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["type"], "run.failed");
    assert_eq!(scene.script.0.turns.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_await_that_outlived_the_daemon_still_runs_out() {
    let scene = Scene::new().await;
    let (_, run) = scene
        .run("sync", "ask which?", json!({ "agent_id": "echo" }))
        .await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    let scene = scene.restarted(Wish::default()).await;
    scene.runs.tidy(Timestamp(i64::MAX)).await;
    let (_, run) = scene.get(&format!("/runs/{id}")).await;
    assert_eq!(run["error"]["code"], "await_timeout");
}

#[tokio::test]
async fn of_hundreds_that_await_only_some_hold_their_turn_and_all_are_answered() {
    const COUNT: usize = 300;
    // However slow the machine is, nothing runs out meanwhile.
    let limits = Limits {
        work: Duration::from_secs(3600),
        answer: Duration::from_secs(3600),
    };
    let scene = Scene::with(Wish {
        limits,
        ..Wish::default()
    })
    .await;
    let mut ids = Vec::new();
    for _ in 0..COUNT {
        let (_, run) = scene.run("sync", "say before\nask which?", json!({})).await;
        assert_eq!(run["status"], "awaiting", "{run}");
        ids.push(run["run_id"].as_str().unwrap().to_owned());
    }
    let holding = || {
        ids.iter()
            .filter(|id| scene.runs.handle(id).is_some())
            .count()
    };
    let put_down = async {
        while holding() > 64 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, put_down).await.unwrap();
    let (first, last) = (ids[0].as_str(), ids[COUNT - 1].as_str());
    assert!(scene.runs.handle(first).is_none(), "the oldest is put down");
    assert!(scene.runs.handle(last).is_some(), "the newest is not");
    for (id, heard) in [(first, "before|"), (last, "before|heard this one")] {
        let (_, run) = scene.get(&format!("/runs/{id}")).await;
        assert_eq!(run["await"]["message"]["parts"][0]["content"], "which?");
        let (status, run) = scene.post(&format!("/runs/{id}"), answer("this one")).await;
        assert_eq!(
            (status, &run["status"]),
            (StatusCode::OK, &json!("completed"))
        );
        let words = output(&run);
        assert!(words.starts_with(heard), "{words}");
        assert!(words.contains("this one"), "{words}");
    }
    let (status, _) = scene
        .post(&format!("/runs/{}/cancel", ids[1]), json!({}))
        .await;
    assert_eq!(status, StatusCode::ACCEPTED);
    scene.until(&ids[1], "cancelled").await;
}

#[tokio::test]
async fn an_answer_that_means_another_question_is_refused() {
    let scene = Scene::new().await;
    let (_, run) = scene
        .run("sync", "ask list?\ndelete everything", json!({}))
        .await;
    let (id, first) = (&run["run_id"], &run["await"]["metadata"]["ask"]);
    let path = format!("/runs/{}", id.as_str().unwrap());
    let meant = |ask: &Value| {
        let mut body = answer("yes");
        body["ask"] = ask.clone();
        body
    };
    let (_, run) = scene.post(&path, meant(first)).await;
    let second = &run["await"]["metadata"]["ask"];
    assert_eq!(run["status"], "awaiting", "{run}");
    // Who has the first question before them says yes to it, once more.
    let (status, error) = scene.post(&path, meant(first)).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(error["error"]["code"], "other_question");
    let (_, run) = scene.post(&path, meant(second)).await;
    assert_eq!(output(&run), "heard yes|chose allow");
}

#[tokio::test]
async fn a_wrong_answer_to_a_run_without_a_turn_holds_no_place() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("sync", "delete a", json!({})).await;
    let id = run["run_id"].as_str().unwrap().to_owned();
    let scene = scene.restarted(Wish::default()).await;
    let (status, _) = scene.post(&format!("/runs/{id}"), answer("maybe")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let at_rest = async {
        while scene.runs.handle(&id).is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, at_rest).await.unwrap();
    let (_, run) = scene.post(&format!("/runs/{id}"), answer("yes")).await;
    assert_eq!(run["status"], "completed", "{run}");
}

#[tokio::test]
async fn the_run_of_a_peer_is_answered_there_after_a_restart_here() {
    let (there, here) = (Scene::new().await, Scene::with(desk()).await);
    here.agent("far", &there.url).await;
    let far = json!({ "agent_name": "far" });
    let (_, run) = here.run("sync", "ask which?\ndelete a", far).await;
    assert_eq!(run["status"], "awaiting", "{run}");
    let id = run["run_id"].as_str().unwrap().to_owned();
    let here = here.killed(desk()).await;
    let path = format!("/runs/{id}");
    let (_, run) = here.post(&path, answer("this one")).await;
    assert_eq!(run["status"], "awaiting", "the next question: {run}");
    let here = here.killed(desk()).await;
    let (_, run) = here.post(&path, answer("no")).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert!(output(&run).contains("chose reject"), "{run}");
    assert_eq!(
        there.script.0.turns.load(Ordering::SeqCst),
        1,
        "one run there"
    );
}

#[tokio::test]
async fn what_outlives_its_turn_is_not_put_down() {
    let (there, here) = (Scene::new().await, Scene::new().await);
    here.agent("far", &there.url).await;
    for (agent, may) in [("far", false), ("echo", true)] {
        let agent = domain::Name::parse(agent).unwrap();
        assert_eq!(here.runs.may_put_down(&agent), may, "{agent}");
    }
}

#[tokio::test]
async fn work_that_ran_out_of_time_before_it_began_does_not_go_on() {
    let scene = Scene::new().await;
    for millis in 1..25 {
        let metadata = json!({ "timeout_seconds": f64::from(millis) / 1000.0 });
        let more = json!({ "metadata": metadata });
        let (status, run) = scene.run("sync", "wait", more).await;
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT, "{run}");
    }
    let sessions = scene.engine.sessions();
    let ended = async {
        loop {
            let all = sessions.list(Default::default());
            if all.iter().all(|session| !session.busy) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
}
