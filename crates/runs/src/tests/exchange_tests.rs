//! Deliverables and the resource server.

use bytes::Bytes;
use domain::Timestamp;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::scene::{Scene, Wish, body};
use crate::exchange::{ExchangeError, Label};

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

/// Everything below the exchange that is a file.
fn files_of(scene: &Scene) -> Vec<std::path::PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![scene.home.path().join("exchange")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}

#[tokio::test]
async fn an_upload_that_is_cut_in_the_middle_leaves_nothing() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    const LENGTH: usize = 16 * 1024 * 1024;
    let scene = Scene::new().await;
    let address = scene.url.trim_start_matches("http://").to_owned();
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST /resources?name=a HTTP/1.1\r\nhost: {address}\r\ncontent-length: {LENGTH}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![7; LENGTH * 3 / 4]).await.unwrap();
    let until = async |is_done: &dyn Fn(&[std::path::PathBuf]) -> bool| {
        let wait = async {
            while !is_done(&files_of(&scene)) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(super::scene::PATIENCE, wait)
            .await
            .unwrap();
    };
    until(&|files| !files.is_empty()).await;
    drop(stream);
    until(&|files| files.is_empty()).await;
    let (status, _) = scene.get("/ping").await;
    assert_eq!(status, StatusCode::OK);

    // A daemon that is killed can remove nothing; the next one does.
    let left = scene.home.path().join("exchange/incoming/0b5e#1");
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::write(&left, "half of it").unwrap();
    let scene = scene.restarted(Wish::default()).await;
    assert_eq!(files_of(&scene), Vec::<std::path::PathBuf>::new());
    // It can be handed over afterwards.
    let mut stream = tokio::net::TcpStream::connect(scene.url.trim_start_matches("http://"))
        .await
        .unwrap();
    let head = "POST /resources HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

/// The most memory that this process has had, in bytes.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn a_large_artifact_passes_through_little_memory() {
    const CHUNK: usize = 1024 * 1024;
    const CHUNKS: usize = 192;
    let scene = Scene::with(Wish {
        quota: 1 << 40,
        object_max: 1 << 40,
        ..Wish::default()
    })
    .await;
    let before = memory_peak();
    let chunk = bytes::Bytes::from(vec![5; CHUNK]);
    let chunks = (0..CHUNKS).map(move |_| Ok::<_, std::io::Error>(chunk.clone()));
    let bytes = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
    let url = format!("{}/resources?name=large.bin", scene.url);
    let http = reqwest::Client::new();
    let sent = http.post(url).body(bytes).send().await.unwrap();
    assert_eq!(sent.status(), StatusCode::CREATED);
    let told: Value = sent.json().await.unwrap();
    assert_eq!(told["size"], CHUNK * CHUNKS);
    let mut read = http
        .get(told["url"].as_str().unwrap())
        .send()
        .await
        .unwrap();
    let mut length = 0;
    while let Some(chunk) = read.chunk().await.unwrap() {
        length += chunk.len();
    }
    assert_eq!(length, CHUNK * CHUNKS);
    let grown = memory_peak() - before;
    assert!(grown < (CHUNK * CHUNKS / 2) as u64, "{grown} bytes more");
}

#[tokio::test]
async fn a_file_that_is_too_large_is_left_out_in_words() {
    let scene = Scene::with(Wish {
        object_max: 4,
        ..Wish::default()
    })
    .await;
    let (_, run) = scene.run("sync", "write report.md", json!({})).await;
    assert_eq!(named_parts(&run), Vec::<Value>::new());
    let words = super::scene::output(&run);
    assert!(words.contains("not handed over: report.md ("), "{run}");
}

#[tokio::test]
async fn bytes_that_are_on_their_way_count_against_the_quota() {
    let scene = Scene::with(Wish {
        object_max: 1000,
        quota: 1500,
        ..Wish::default()
    })
    .await;
    let label = || Label {
        name: None,
        content_type: "text/plain".to_owned(),
        owner: "somebody".to_owned(),
    };
    let (send, receive) = tokio::sync::mpsc::channel::<Result<Bytes, String>>(1);
    let exchange = scene.runs.exchange().clone();
    let slow = tokio::spawn(async move {
        let stream = futures_util::stream::unfold(receive, |mut receive| async move {
            receive.recv().await.map(|chunk| (chunk, receive))
        });
        exchange.put_stream(label(), None, Box::pin(stream)).await
    });
    send.send(Ok(Bytes::from(vec![b'a'; 900]))).await.unwrap();
    // Each is taken once the one before it has been counted.
    for _ in 0..2 {
        send.send(Ok(Bytes::new())).await.unwrap();
    }
    let exchange = scene.runs.exchange();
    let other = || exchange.put(label(), Bytes::from(vec![b'b'; 900]));
    assert!(matches!(other().await, Err(ExchangeError::Full { .. })));
    send.send(Err("cut".to_owned())).await.unwrap();
    slow.await.unwrap().unwrap_err();
    other().await.unwrap();
}

#[tokio::test]
async fn a_run_that_is_refused_leaves_nothing_in_the_exchange() {
    let scene = Scene::new().await;
    let part = json!({ "name": "a.bin", "content_type": "application/octet-stream",
        "content_encoding": "base64", "content": "aGVsbG8=" });
    let refused = json!({ "agent_name": "echo", "session_id": "no-such-session",
        "input": [{ "parts": [part] }] });
    let (status, _) = scene.post("/runs", refused).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let objects = scene.home.path().join("exchange/objects");
    assert_eq!(std::fs::read_dir(objects).map_or(0, Iterator::count), 0);
}

#[tokio::test]
async fn a_run_hands_over_no_file_of_another_callers_run() {
    let scene = Scene::new().await;
    let bob = scene.as_caller("bob").await;
    let alice = scene.as_caller("alice").await;
    let (_, waiting) = bob
        .run("sync", "write bobs-own.txt\nask which?", json!({}))
        .await;
    // Hers begins and ends while his goes on.
    let (_, hers) = alice
        .run("sync", "touch hers.txt\nask more?", json!({}))
        .await;
    let answer = json!({ "input": [{ "parts": [{ "content": "ok" }] }] });
    let resume = |run: &Value| format!("/runs/{}/resume", run["run_id"].as_str().unwrap());
    let (_, his) = bob.post(&resume(&waiting), answer.clone()).await;
    assert!(!his.to_string().contains("hers.txt"), "{his}");
    assert!(his.to_string().contains("may be theirs"), "{his}");
    let (_, hers) = alice.post(&resume(&hers), answer).await;
    assert!(!hers.to_string().contains("bobs"), "{hers}");
    assert!(hers["output"].to_string().contains("hers.txt"), "{hers}");
}
