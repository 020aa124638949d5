//! Deliverables and the resource server.

use domain::Timestamp;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::scene::{Scene, Wish, body};

fn named_parts(run: &Value) -> Vec<Value> {
    let messages = run["output"].as_array().unwrap().iter();
    messages
        .flat_map(|message| message["parts"].as_array().unwrap())
        .filter(|part| part["name"].is_string())
        .cloned()
        .collect()
}

#[tokio::test]
async fn files_that_a_run_leaves_are_handed_over_and_dropped_under_readable_names() {
    let scene = Scene::new().await;
    let (_, run) = scene
        .run("sync", "write report.md\nsay done", json!({}))
        .await;
    let parts = named_parts(&run);
    assert_eq!(parts.len(), 1, "{run}");
    assert_eq!(parts[0]["name"], "report.md");
    assert_eq!(parts[0]["content_type"], "text/markdown");
    let file = scene
        .http
        .get(parts[0]["content_url"].as_str().unwrap())
        .send()
        .await
        .unwrap();
    assert_eq!(file.headers()["content-type"], "text/markdown");
    assert_eq!(file.text().await.unwrap(), "report.md!");
    let dropped = scene.home.path().join("dropbox/echo/report.md");
    assert_eq!(std::fs::read_to_string(dropped).unwrap(), "report.md!");
    let (_, again) = scene.run("sync", "say nothing new", json!({})).await;
    assert_eq!(named_parts(&again), Vec::<Value>::new());
}

#[tokio::test]
async fn only_callers_of_the_local_network_hear_the_word_artifact() {
    let scene = Scene::new().await;
    for (more, heard) in [(json!({}), false), (json!({ "agent_id": "echo" }), true)] {
        let name = if heard { "a.md" } else { "b.md" };
        let events = scene
            .stream("/runs", body("stream", &format!("write {name}"), more))
            .await;
        let has = |word: &str| events.iter().any(|(kind, _)| kind == word);
        assert!(has("message.part"));
        assert_eq!(has("run.artifact"), heard);
    }
}

#[tokio::test]
async fn words_that_are_too_long_are_handed_over_instead() {
    let scene = Scene::new().await;
    let (_, run) = scene.run("sync", "long 300000", json!({})).await;
    let parts = named_parts(&run);
    assert_eq!(parts.len(), 1);
    let url = parts[0]["content_url"].as_str().unwrap();
    let words = scene
        .http
        .get(url)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert_eq!(words.len(), 300_000);
}

#[tokio::test]
async fn bytes_are_handed_over_and_read_in_whole_and_in_part() {
    let scene = Scene::new().await;
    let upload = |query: &str| {
        let url = format!("{}/resources?{query}", scene.url);
        let request = scene.http.post(url).header("content-type", "image/png");
        request.body("0123456789").send()
    };
    let made = upload("name=../../etc/cat.png").await.unwrap();
    assert_eq!(made.status(), StatusCode::CREATED);
    let made: Value = made.json().await.unwrap();
    let url = made["url"].as_str().unwrap();
    let whole = scene.http.get(url).send().await.unwrap();
    assert_eq!(whole.headers()["content-type"], "image/png");
    assert_eq!(whole.headers()["content-length"], "10");
    assert_eq!(whole.text().await.unwrap(), "0123456789");
    let part = scene
        .http
        .get(url)
        .header("range", "bytes=2-4")
        .send()
        .await
        .unwrap();
    assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(part.headers()["content-range"], "bytes 2-4/10");
    assert_eq!(part.text().await.unwrap(), "234");
    let beyond = scene
        .http
        .get(url)
        .header("range", "bytes=10-")
        .send()
        .await
        .unwrap();
    assert_eq!(beyond.status(), StatusCode::RANGE_NOT_SATISFIABLE);
    let forged = url.replace("expires=", "expires=9");
    let refused = scene.http.get(forged).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let wrong = upload("sha256=00").await.unwrap();
    assert_eq!(wrong.status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn the_exchange_has_bounds_and_forgets_what_has_expired() {
    let scene = Scene::with(Wish {
        object_max: 1000,
        quota: 1500,
        ..Wish::default()
    })
    .await;
    let upload = |byte: &str, size: usize| {
        let request = scene.http.post(format!("{}/resources", scene.url));
        let body = byte.repeat(size);
        async move { request.body(body).send().await.unwrap().status() }
    };
    assert_eq!(upload("a", 1001).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(upload("a", 900).await, StatusCode::CREATED);
    assert_eq!(upload("b", 900).await, StatusCode::INSUFFICIENT_STORAGE);
    scene.runs.tidy(Timestamp(i64::MAX)).await;
    assert_eq!(upload("b", 900).await, StatusCode::CREATED);
    let objects = scene.home.path().join("exchange/objects");
    let folders = std::fs::read_dir(objects).unwrap().count();
    assert_eq!(
        folders, 1,
        "what nobody means is removed, also from the disk"
    );
    let incoming = scene.home.path().join("exchange/incoming");
    let left = std::fs::read_dir(incoming).map_or(0, Iterator::count);
    assert_eq!(left, 0, "no upload leaves anything half done");
}

#[tokio::test]
async fn links_hold_over_a_restart() {
    let scene = Scene::new().await;
    let request = scene.http.post(format!("{}/resources", scene.url));
    let made: Value = request
        .body("kept")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let link = made["url"].as_str().unwrap().replace(&scene.url, "");
    let scene = scene.restarted(Wish::default()).await;
    let read = scene
        .http
        .get(format!("{}{link}", scene.url))
        .send()
        .await
        .unwrap();
    assert_eq!(read.text().await.unwrap(), "kept");
}
