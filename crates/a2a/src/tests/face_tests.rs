//! What clients of either version and binding can do with an agent.

use super::*;
use crate::AWCP_URI;

#[tokio::test]
async fn both_versions_and_bindings_send_a_message_and_get_a_task() {
    let scene = Scene::new().await;
    let task = scene.send("say hello there").await;
    assert_eq!(
        (state(&task), text(&task).as_str()),
        ("TASK_STATE_COMPLETED", "hello there")
    );
    assert_eq!(task["history"][0]["taskId"], task["id"]);
    let old = scene
        .call_old(
            "message/send",
            json!({ "message": {
                "kind": "message", "messageId": "m", "role": "user",
                "parts": [{ "kind": "text", "text": "say hello there" }],
            }}),
        )
        .await["result"]
        .clone();
    assert_eq!(
        (old["kind"].as_str(), state(&old)),
        (Some("task"), "completed")
    );
    assert_eq!(old["artifacts"][0]["parts"][0]["kind"], "text");
    let rest = scene
        .http
        .post(format!("{}/a2a/1.0/tck/message:send", scene.url))
        .header("a2a-version", "1.0")
        .json(&send("say hello there"));
    let rest: Value = rest.send().await.unwrap().json().await.unwrap();
    assert_eq!(text(&rest["task"]), "hello there");
    let url = format!(
        "{}/a2a/tck/tasks/{}",
        scene.url,
        task["id"].as_str().unwrap()
    );
    let got = scene
        .http
        .get(url)
        .header("a2a-version", "1.0")
        .send()
        .await;
    let got: Value = got.unwrap().json().await.unwrap();
    assert_eq!(got, scene.get(&task).await);
}

#[tokio::test]
async fn a_stream_begins_with_the_task_and_ends_with_its_end() {
    let scene = Scene::new().await;
    let events = scene
        .stream("SendStreamingMessage", send("say a b c"))
        .await;
    assert!(events[0]["task"].is_object(), "{events:?}");
    let chunks: String = events
        .iter()
        .filter_map(|event| event["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str())
        .collect();
    // What was said before the task was read is in the task.
    assert!(format!("{}{chunks}", text(&events[0]["task"])).ends_with("a b c"));
    let last = events.last().unwrap();
    assert_eq!(state(&last["statusUpdate"]), "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn a_question_waits_for_its_answer_and_a_permission_for_a_choice() {
    let scene = Scene::new().await;
    let task = scene.send("ask which colour?").await;
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(
        task["status"]["message"]["parts"][0]["text"],
        "which colour?"
    );
    let done = scene.answer(&task, "blue").await;
    assert_eq!(state(&done), "TASK_STATE_COMPLETED");
    assert!(text(&done).contains("blue"), "{done}");
    let roles: Vec<_> = done["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["role"])
        .collect();
    assert_eq!(roles, ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]);

    let task = scene.send("permission make tea").await;
    assert_eq!(state(&task), "TASK_STATE_AUTH_REQUIRED");
    let mut perhaps = send("perhaps");
    perhaps["message"]["taskId"] = task["id"].clone();
    let refused = scene.call("SendMessage", perhaps).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let done = scene.answer(&task, "yes").await;
    assert_eq!(text(&done), "chosen: allow");
}

#[tokio::test]
async fn a_task_is_cancelled_once_and_its_followers_hear_of_it() {
    let scene = Scene::new().await;
    let mut params = send("wait for ever");
    params["configuration"] = json!({ "returnImmediately": true });
    let task = scene.call("SendMessage", params).await["result"]["task"].clone();
    let id = json!({ "id": task["id"] });
    let (events, cancelled) = tokio::join!(
        scene.stream("SubscribeToTask", id.clone()),
        scene.call("CancelTask", id.clone())
    );
    assert_eq!(state(&cancelled["result"]), "TASK_STATE_CANCELED");
    let last = events.last().expect("the task at least");
    let last = if last["task"].is_object() {
        &last["task"]
    } else {
        &last["statusUpdate"]
    };
    assert_eq!(state(last), "TASK_STATE_CANCELED");
    let again = scene.call("CancelTask", id.clone()).await;
    assert_eq!(again["error"]["code"], -32002);
    let follow = scene.call("SubscribeToTask", id).await;
    assert_eq!(follow["error"]["code"], -32004);
}

#[tokio::test]
async fn tasks_of_one_context_take_turns_and_share_a_session() {
    let scene = Scene::new().await;
    let mut first = send("ask go on?");
    first["message"]["contextId"] = json!("mine");
    let first = scene.call("SendMessage", first).await["result"]["task"].clone();
    let mut second = send("say second");
    second["message"]["contextId"] = json!("mine");
    second["configuration"] = json!({ "returnImmediately": true });
    let second = scene.call("SendMessage", second).await["result"]["task"].clone();
    assert_eq!(state(&scene.get(&second).await), "TASK_STATE_SUBMITTED");
    scene.answer(&first, "yes").await;
    assert_eq!(text(&settled(&scene, &second).await), "second");
    assert_eq!(scene.engine.sessions().list(None).len(), 1);
}

async fn settled(scene: &Scene, task: &Value) -> Value {
    loop {
        let now = scene.get(task).await;
        if now["status"]["state"] == "TASK_STATE_COMPLETED" {
            return now;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn tasks_are_listed_by_pages_the_latest_first() {
    let scene = Scene::new().await;
    for number in 0..5 {
        scene.send(&format!("say {number}")).await;
    }
    scene.send("ask why?").await;
    let page = scene.call("ListTasks", json!({ "pageSize": 4 })).await["result"].clone();
    assert_eq!(
        (&page["totalSize"], &page["pageSize"]),
        (&json!(6), &json!(4))
    );
    assert_eq!(state(&page["tasks"][0]), "TASK_STATE_INPUT_REQUIRED");
    assert!(page["tasks"][1].get("artifacts").is_none());
    let next =
        json!({ "pageSize": 4, "pageToken": page["nextPageToken"], "includeArtifacts": true });
    let rest = scene.call("ListTasks", next).await["result"].clone();
    assert_eq!(rest["nextPageToken"], "");
    let texts: Vec<String> = rest["tasks"].as_array().unwrap().iter().map(text).collect();
    assert_eq!(texts, ["1", "0"]);
    let asking = json!({ "status": "TASK_STATE_INPUT_REQUIRED", "historyLength": 0 });
    let asking = scene.call("ListTasks", asking).await["result"].clone();
    assert_eq!(asking["totalSize"], 1);
    assert!(asking["tasks"][0].get("history").is_none());
    let wrong = scene.call("ListTasks", json!({ "pageSize": 0 })).await;
    assert_eq!(wrong["error"]["code"], -32602);
}

#[tokio::test]
async fn every_mistake_has_its_code() {
    let scene = Scene::new().await;
    let unknown = json!({ "id": "nobody" });
    for (method, params, code) in [
        ("GetTask", unknown.clone(), -32001),
        ("CancelTask", unknown.clone(), -32001),
        ("SubscribeToTask", unknown, -32001),
        ("NoSuchMethod", json!({}), -32601),
        ("message/send", json!({}), -32601),
        ("SendMessage", json!({}), -32602),
        ("GetTask", json!({ "id": "x", "historyLength": -1 }), -32602),
        (
            "SendMessage",
            json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [] } }),
            -32602,
        ),
        (
            "SendMessage",
            json!({ "message": { "messageId": "m", "role": "ROLE_USER", "taskId": "nobody", "parts": [{ "text": "x" }] } }),
            -32001,
        ),
        (
            "SendMessage",
            json!({ "message": { "messageId": "m", "role": "ROLE_USER",
                "parts": [{ "raw": "iVBORw0KGgo=", "mediaType": "image/png" }] } }),
            -32005,
        ),
    ] {
        let answer = scene.call(method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
        let info = &answer["error"]["data"][0];
        assert_eq!(info["domain"], "a2a-protocol.org");
    }
    let answer = scene
        .call_with(&[("a2a-version", "9.9")], "GetTask", json!({}))
        .await;
    assert_eq!(answer["error"]["code"], -32009);
    let done = scene.send("say x").await;
    let mut more = send("more");
    more["message"]["taskId"] = done["id"].clone();
    assert_eq!(
        scene.call("SendMessage", more.clone()).await["error"]["code"],
        -32004
    );
    more["message"]["contextId"] = json!("another");
    assert_eq!(
        scene.call("SendMessage", more).await["error"]["code"],
        -32602
    );
}

#[tokio::test]
async fn the_version_may_stand_in_the_query_and_the_header_counts_for_more() {
    let scene = Scene::new().await;
    let task = scene.send("say x").await;
    let url = format!(
        "{}/a2a/tck/tasks/{}",
        scene.url,
        task["id"].as_str().unwrap()
    );
    let get = async |query: &str, header: Option<&str>| {
        let mut request = scene.http.get(format!("{url}?{query}"));
        if let Some(header) = header {
            request = request.header("a2a-version", header);
        }
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    assert_eq!(
        state(&get("A2A-Version=1.0", None).await),
        "TASK_STATE_COMPLETED"
    );
    assert_eq!(state(&get("", None).await), "completed");
    assert_eq!(
        state(&get("A2A-Version=1.0", Some("0.3")).await),
        "completed"
    );
    let refused = get("A2A-Version=7", None).await;
    let reason = &refused["error"]["details"][0]["reason"];
    assert_eq!(reason, "VERSION_NOT_SUPPORTED", "{refused}");
}

#[tokio::test]
async fn a_body_that_is_no_request_is_answered_with_what_is_wrong() {
    let scene = Scene::new().await;
    let post = |media: &str, body: &str| {
        let request = scene.http.post(format!("{}/a2a/tck", scene.url));
        request
            .header("content-type", media.to_owned())
            .body(body.to_owned())
            .send()
    };
    for (media, body, code) in [
        ("text/plain", "{}", -32005),
        ("application/json", "{", -32700),
        ("application/json", "[]", -32600),
        (
            "application/json",
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            -32600,
        ),
        (
            "application/json",
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":3}"#,
            -32602,
        ),
    ] {
        let answer: Value = post(media, body).await.unwrap().json().await.unwrap();
        assert_eq!(answer["error"]["code"], code, "{media} {body}");
    }
}

#[tokio::test]
async fn cards_are_strict_or_for_both_versions_by_their_address_and_may_be_cached() {
    let scene = Scene::new().await;
    let get = async |path: &str, header: (&'static str, String)| {
        let request = scene.http.get(format!("{}{path}", scene.url));
        request.header(header.0, header.1).send().await.unwrap()
    };
    let none = || ("x-nothing", String::new());
    for (path, strict, url) in [
        ("/.well-known/agent-card.json", false, "/a2a/-"),
        ("/.well-known/agent.json", false, "/a2a/-"),
        ("/a2a/tck/.well-known/agent-card.json", false, "/a2a/tck"),
        (
            "/a2a/1.0/tck/.well-known/agent-card.json",
            true,
            "/a2a/1.0/tck",
        ),
        ("/a2a/1.0/-/.well-known/agent-card.json", true, "/a2a/1.0/-"),
        ("/a2a", false, "/a2a/-"),
        ("/a2a/tck", false, "/a2a/tck"),
        ("/a2a/1.0", true, "/a2a/1.0/-"),
        ("/a2a/1.0/tck/", true, "/a2a/1.0/tck"),
    ] {
        let answer = get(path, none()).await;
        for name in ["cache-control", "etag", "last-modified"] {
            assert!(answer.headers().contains_key(name), "{path}: {name}");
        }
        let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
        let card: Value = answer.json().await.unwrap();
        assert_eq!(card.get("protocolVersion").is_none(), strict, "{path}");
        assert_eq!(
            card["supportedInterfaces"][0]["url"],
            format!("{}{url}", scene.url)
        );
        assert_eq!(get(path, ("if-none-match", tag)).await.status(), 304);
    }
    let named = get(
        "/a2a/tck/.well-known/agent-card.json",
        ("a2a-version", "1.0".to_owned()),
    );
    let named: Value = named.await.json().await.unwrap();
    assert!(named.get("url").is_none());
    let missing = get("/a2a/nobody/.well-known/agent-card.json", none()).await;
    assert_eq!(missing.status(), 404);
    let extended = scene.call("GetExtendedAgentCard", json!({})).await;
    let tags = extended["result"]["skills"][0]["tags"].to_string();
    assert!(tags.contains("backend:a2a"), "{extended}");
}

#[tokio::test]
async fn lending_a_workspace_is_declined_in_words_in_both_versions() {
    let scene = Scene::new().await;
    let awcp = json!({ "awcp": { "version": "1", "type": "INVITE", "delegation_id": "d1" } });
    let new = scene
        .call(
            "SendMessage",
            json!({ "message": {
                "messageId": "m", "role": "ROLE_USER", "parts": [{ "data": awcp }],
            }}),
        )
        .await;
    let reply = &new["result"]["message"]["parts"][0]["data"]["awcp"];
    assert_eq!(
        (&reply["code"], &reply["delegation_id"]),
        (&json!("DECLINED"), &json!("d1"))
    );
    let old = scene
        .call_old(
            "message/send",
            json!({ "message": {
                "kind": "message", "messageId": "m", "role": "user",
                "parts": [{ "kind": "data", "data": awcp }],
            }}),
        )
        .await;
    assert_eq!(old["result"]["kind"], "message");
    assert_eq!(
        old["result"]["parts"][0]["data"]["awcp"]["code"],
        "DECLINED"
    );
    let client_side = crate::client::send_data(&format!("{}/a2a/tck", scene.url), awcp).await;
    assert_eq!(client_side.unwrap()["awcp"]["type"], "ERROR");
}

#[derive(Debug)]
pub(super) struct Required;

impl crate::Extension for Required {
    fn uri(&self) -> &str {
        AWCP_URI
    }

    fn card(&self) -> Option<wire::a2a::AgentExtension> {
        Some(wire::a2a::AgentExtension {
            uri: AWCP_URI.to_owned(),
            required: true,
            ..Default::default()
        })
    }

    fn handle<'a>(
        &'a self,
        _: &'a wire::a2a::Message,
        call: &'a crate::ExtensionCall,
    ) -> crate::ExtensionFuture<'a, Option<Vec<wire::a2a::Part>>> {
        let named = json!({ "declared": call.declared, "agent": call.agent });
        Box::pin(std::future::ready(Some(vec![wire::a2a::Part::data(named)])))
    }
}

#[tokio::test]
async fn an_extension_takes_its_messages_and_is_negotiated_by_header() {
    let scene = Scene::with(config(), vec![Arc::new(Required)], Caller::owner()).await;
    let refused = scene.call("SendMessage", send("x")).await;
    assert_eq!(refused["error"]["code"], -32008);
    for header in ["a2a-extensions", "x-a2a-extensions"] {
        let headers = [("a2a-version", "1.0"), (header, AWCP_URI)];
        let answer = scene.call_with(&headers, "SendMessage", send("x")).await;
        let message = &answer["result"]["message"];
        assert_eq!(message["parts"][0]["data"]["declared"], json!([AWCP_URI]));
        assert_eq!(message["extensions"], json!([AWCP_URI]));
    }
    let card = format!("{}/a2a/tck/.well-known/agent-card.json", scene.url);
    let card: Value = scene
        .http
        .get(card)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(card["capabilities"]["extensions"][0]["uri"], AWCP_URI);
    let request = scene
        .http
        .post(format!("{}/a2a/tck/message:send", scene.url));
    let request = request
        .header("a2a-version", "1.0")
        .header("a2a-extensions", AWCP_URI);
    let answer = request.json(&send("x")).send().await.unwrap();
    assert_eq!(answer.headers()["a2a-extensions"], AWCP_URI);
}
