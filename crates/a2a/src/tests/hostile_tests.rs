//! Bad input of every kind, clients that vanish, and several at once: each gets its answer, and nobody else notices.

use std::time::Instant;

use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::*;

/// What does not belong where something else is expected.
fn strange_values() -> Vec<Value> {
    let deep = (0..100).fold(json!({}), |inner, _| json!({ "x": [inner] }));
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}\u{7f}\u{202e}\r\n"),
        json!("../../etc/passwd"),
        json!("x".repeat(5000)),
        json!([]),
        json!([[], {}, null]),
        json!({}),
        deep,
    ]
}

/// Every value that differs from this one in one place.
fn mutations(value: &Value) -> Vec<Value> {
    let mut found = strange_values();
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                let mut without = object.clone();
                without.remove(key);
                found.push(without.into());
                for changed in mutations(inner) {
                    let mut with = object.clone();
                    with.insert(key.clone(), changed);
                    found.push(with.into());
                }
            }
        }
        Value::Array(list) => {
            for (index, inner) in list.iter().enumerate() {
                for changed in mutations(inner) {
                    let mut with = list.clone();
                    with[index] = changed;
                    found.push(with.into());
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}

/// Requests of both versions that name everything there is to name.
fn requests() -> Vec<(&'static str, Value)> {
    let new = json!({ "jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {
        "message": {
            "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER",
            "parts": [{ "text": "say x", "filename": "f", "mediaType": "text/plain", "metadata": {} }],
            "metadata": { "call_chain": ["a"], "agent": "tck" }, "extensions": ["e"], "referenceTaskIds": ["r"],
        },
        "configuration": {
            "acceptedOutputModes": ["text/plain"], "historyLength": 1, "returnImmediately": true,
            "taskPushNotificationConfig": { "url": "http://127.0.0.1:9/", "token": "t" },
        },
        "metadata": {},
    }});
    let old = json!({ "jsonrpc": "2.0", "id": 7, "method": "message/send", "params": {
        "message": {
            "kind": "message", "messageId": "m", "taskId": "t", "role": "user",
            "parts": [{ "kind": "file", "file": { "bytes": "aGk=", "name": "n", "mimeType": "text/plain" } }],
        },
        "configuration": { "blocking": false, "pushNotificationConfig": { "url": "http://127.0.0.1:9/" } },
    }});
    let list = json!({ "jsonrpc": "2.0", "id": 7, "method": "ListTasks", "params": {
        "contextId": "c", "status": "TASK_STATE_WORKING", "pageSize": 1, "pageToken": "MS9h",
        "historyLength": 1, "statusTimestampAfter": "2023-11-14T22:13:20Z", "includeArtifacts": true,
    }});
    let push = json!({ "jsonrpc": "2.0", "id": 7, "method": "tasks/pushNotificationConfig/set", "params": {
        "taskId": "t", "pushNotificationConfig": {
            "url": "http://127.0.0.1:9/", "authentication": { "schemes": ["Bearer"], "credentials": "c" },
        },
    }});
    vec![("1.0", new), ("0.3", old), ("1.0", list), ("0.3", push)]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_anything_strange_in_it_is_answered_and_never_breaks_the_face() {
    let scene = Scene::new().await;
    let mut refused = 0;
    for (version, request) in requests() {
        for strange in mutations(&request) {
            let post = scene.http.post(format!("{}/a2a/tck", scene.url));
            let post = post.header("a2a-version", version).json(&strange);
            let answer = post.send().await.unwrap();
            assert_eq!(answer.status(), 200, "{strange}");
            let answer: Value = answer.json().await.unwrap();
            let code = answer["error"]["code"].as_i64();
            assert_ne!(code, Some(-32603), "{strange}: {answer}");
            assert!(code.is_some() || answer.get("result").is_some(), "{answer}");
            refused += usize::from(code.is_some());
        }
    }
    assert!(refused > 500, "{refused} were refused");
    assert_eq!(text(&scene.send("say well").await), "well");
}

#[tokio::test]
async fn a_body_that_is_too_large_or_too_deep_is_refused_on_both_bindings() {
    let scene = Scene::new().await;
    let post = async |path: &str, body: String| {
        let request = scene.http.post(format!("{}/a2a/tck{path}", scene.url));
        let request = request.header("content-type", "application/json");
        request.header("a2a-version", "1.0").body(body).send().await
    };
    let large = json!({ "jsonrpc": "2.0", "id": 7, "method": "SendMessage",
        "params": send(&"x".repeat(17 * 1024 * 1024)) });
    for (path, body) in [
        ("", large.to_string()),
        ("/message:send", large["params"].to_string()),
    ] {
        // It may hang up before everything was said.
        if let Ok(answer) = post(path, body).await {
            assert_eq!(answer.status(), 413, "{path:?}");
        }
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let answer: Value = post("", deep.clone()).await.unwrap().json().await.unwrap();
    assert_eq!(answer["error"]["code"], -32600);
    let answer = post("/message:send", deep).await.unwrap();
    assert_eq!(answer.status(), 400);
}

/// Data that nests so deep.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

#[tokio::test]
async fn whatever_a_message_holds_can_be_read_again_by_the_next_daemon() {
    let scene = Scene::new().await;
    let with = |part: Value| {
        let mut params = send("say well");
        params["message"]["parts"] = json!([{ "text": "say well" }, part]);
        params
    };
    let deepest = scene
        .call("SendMessage", with(json!({ "data": nested(58) })))
        .await;
    let deepest = deepest["result"]["task"].clone();
    assert!(text(&deepest).starts_with("well"), "{deepest}");
    let mut refused = Vec::new();
    for depth in [64, 100, 121] {
        let mut params = with(json!({ "data": nested(depth) }));
        refused.push(params.clone());
        params["message"]["parts"] = json!([{ "text": "say well" }]);
        params["message"]["metadata"] = json!({ "x": nested(depth) });
        refused.push(params);
    }
    let mut many = with(json!({ "text": "" }));
    many["message"]["parts"] = vec![json!({ "text": "a" }); 100_000].into();
    refused.push(many);
    for params in refused {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": params });
        let request = scene
            .http
            .post(format!("{}/a2a/tck", scene.url))
            .json(&body);
        let answer = request.header("a2a-version", "1.0").send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        // It was not read, so nobody knows its id.
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        assert_eq!(answer["id"], Value::Null);
    }

    let scene = scene.restart().await;
    assert_eq!(text(&scene.get(&deepest).await), text(&deepest));
}

#[tokio::test]
async fn a_document_that_cannot_be_read_keeps_the_next_daemon_from_nothing_else() {
    let scene = Scene::new().await;
    let waits = scene.send("ask still there?").await;
    let records = scene.engine.records();
    for (id, keep) in [
        ("bad", engine::Keep::Live),
        ("worse", engine::Keep::Finished),
    ] {
        let nonsense = json!({ "task": { "id": 7 } });
        records
            .put("a2a-task", id, keep, &nonsense, None)
            .await
            .unwrap();
    }
    drop(records);
    let scene = scene.restart().await;
    assert_eq!(state(&scene.get(&waits).await), "TASK_STATE_INPUT_REQUIRED");
    let listed = scene.call("ListTasks", json!({})).await;
    assert_eq!(listed["result"]["totalSize"], 1);
}

#[tokio::test]
async fn of_one_conversation_so_many_tasks_wait_and_no_more() {
    let scene = Scene::new().await;
    let mut params = send("wait for ever");
    params["message"]["contextId"] = json!("one");
    params["configuration"] = json!({ "returnImmediately": true });
    // One is at work, and 32 wait.
    for number in 0..33 {
        let answer = scene.call("SendMessage", params.clone()).await;
        assert!(answer["result"]["task"].is_object(), "{number}: {answer}");
    }
    let answer = scene.call("SendMessage", params.clone()).await;
    let words = answer["error"]["message"].as_str().unwrap();
    assert!(words.contains("32 tasks"), "{words}");
}

#[tokio::test]
async fn a_list_ends_by_its_size_and_goes_on_where_it_ended() {
    let scene = Scene::new().await;
    for _ in 0..4 {
        assert_eq!(
            state(&scene.send("flood 3000").await),
            "TASK_STATE_COMPLETED"
        );
    }
    // Three are more than a page may weigh, so that it ends with the third.
    let params = json!({ "includeArtifacts": true });
    let first = scene.call("ListTasks", params).await["result"].clone();
    assert_eq!(first["tasks"].as_array().map(Vec::len), Some(3));
    let params = json!({ "pageToken": first["nextPageToken"] });
    let rest = scene.call("ListTasks", params).await["result"].clone();
    assert_eq!(rest["tasks"].as_array().map(Vec::len), Some(1));
    assert_eq!(rest["nextPageToken"], "");
}

#[tokio::test]
async fn a_webhook_is_found_by_its_id_whatever_is_in_it() {
    let scene = Scene::new().await;
    let task = scene.send("ask more?").await;
    let id = task["id"].as_str().unwrap();
    let base = format!("{}/a2a/tck/tasks/{id}/pushNotificationConfigs", scene.url);
    for (name, written) in [
        ("a/b", "a%2Fb"),
        ("50%25", "50%2525"),
        ("ein Häkchen ✓", "ein%20H%C3%A4kchen%20%E2%9C%93"),
        ("..", "%2e%2e"),
    ] {
        let body = json!({ "id": name, "url": "http://127.0.0.1:9/" });
        let made = scene.http.post(&base).header("a2a-version", "1.0");
        let made: Value = made.json(&body).send().await.unwrap().json().await.unwrap();
        assert_eq!(made["id"], name, "{made}");
        if written == "%2e%2e" {
            continue; // Clients take it for the folder above.
        }
        let there = |method| {
            let request = scene.http.request(method, format!("{base}/{written}"));
            request.header("a2a-version", "1.0").send()
        };
        let got: Value = there(reqwest::Method::GET)
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        assert_eq!(got, made);
        let gone = there(reqwest::Method::DELETE).await.unwrap();
        assert_eq!(gone.status(), 200);
        assert_eq!(there(reqwest::Method::GET).await.unwrap().status(), 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_has_sent_is_done_whole_although_it_hangs_up_at_once() {
    let scene = Scene::new().await;
    let hook = push_tests::Hook::new(&scene.tasks).await;
    let address = scene.url.strip_prefix("http://").unwrap();
    let params = |number: u32| {
        let mut params = send(&format!("say {number}"));
        params["configuration"] = json!({ "taskPushNotificationConfig": { "url": hook.url } });
        params
    };
    let clients = (0..100).map(|number| {
        let params = params(number);
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": params });
        let body = body.to_string();
        let request = format!(
            "POST /a2a/tck HTTP/1.1\r\nHost: {address}\r\nA2A-Version: 1.0\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        async move {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket.write_all(request.as_bytes()).await.unwrap();
            // Some leave at once, others a moment later, in the middle of what is done for them.
            for _ in 0..number {
                tokio::task::yield_now().await;
            }
        }
    });
    futures_util::future::join_all(clients).await;
    // Of those nobody may have been heard at all; this one stays.
    scene.call("SendMessage", params(100)).await;
    let begun = Instant::now();
    loop {
        let list = json!({ "pageSize": 100 });
        let list = scene.call("ListTasks", list).await["result"].clone();
        let tasks = list["tasks"].as_array().unwrap();
        assert!(!tasks.is_empty());
        let mut ended = 0;
        for task in tasks {
            let told = hook.was_told(task["id"].as_str().unwrap(), "TASK_STATE_COMPLETED");
            ended += usize::from(told && state(task) == "TASK_STATE_COMPLETED");
        }
        if ended == tasks.len() {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{ended} of {}", tasks.len());
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_clients_that_answer_or_cancel_at_once_one_is_heard() {
    let scene = Scene::new().await;
    for _ in 0..20 {
        let task = scene.send("ask which?").await;
        let mut params = send("this");
        params["message"]["taskId"] = task["id"].clone();
        let (one, other) = tokio::join!(
            scene.call("SendMessage", params.clone()),
            scene.call("SendMessage", params.clone())
        );
        let heard = [&one, &other].map(|answer| answer["result"].is_object());
        assert_eq!(
            heard.iter().filter(|heard| **heard).count(),
            1,
            "{one} {other}"
        );
        let refused = if heard[0] { &other } else { &one };
        assert_eq!(refused["error"]["code"], -32004, "{refused}");
        let said = text(&scene.get(&task).await);
        assert_eq!(said.matches("this").count(), 1, "{said}");

        let task = scene.send("ask which?").await;
        let id = json!({ "id": task["id"] });
        let (one, other) = tokio::join!(
            scene.call("CancelTask", id.clone()),
            scene.call("CancelTask", id.clone())
        );
        for answer in [&one, &other] {
            let cancelled = state(&answer["result"]) == "TASK_STATE_CANCELED";
            assert!(cancelled || answer["error"]["code"] == -32002, "{answer}");
        }
        assert_eq!(state(&scene.get(&task).await), "TASK_STATE_CANCELED");
    }
}

#[tokio::test]
async fn an_extension_that_is_named_a_thousand_times_is_granted_once() {
    let extension = Arc::new(face_tests::Required);
    let scene = Scene::with(config(), vec![extension], Caller::owner()).await;
    let named = vec![crate::AWCP_URI; 1000].join(", ");
    let card = format!("{}/.well-known/agent-card.json", scene.url);
    let answer = scene.http.get(card).header("a2a-extensions", named);
    let answer = answer.send().await.unwrap();
    assert_eq!(answer.headers()["a2a-extensions"], crate::AWCP_URI);
}
