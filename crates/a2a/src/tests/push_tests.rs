//! Webhooks: told in order, again after a failure, with the client's credentials, and never inside this network.

use std::sync::Mutex;

use axum::{body::Bytes, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use tokio::sync::watch;

use super::*;

/// Somebody who wants to be told.
pub(super) struct Hook {
    pub(super) url: String,
    heard: Arc<Heard>,
}

#[derive(Default)]
struct Heard {
    calls: Mutex<Vec<(HeaderMap, Value)>>,
    count: watch::Sender<usize>,
    /// So many calls are answered with an error first.
    failures: Mutex<usize>,
}

impl Hook {
    pub(super) async fn new(tasks: &Tasks) -> Self {
        let heard = Arc::new(Heard::default());
        let app = Router::new()
            .route("/", post(hear))
            .with_state(heard.clone());
        let url = serve(app, tasks).await;
        Self { url, heard }
    }

    /// Whether it has heard of this task in this state.
    pub(super) fn was_told(&self, task: &str, state: &str) -> bool {
        let calls = self.heard.calls.lock().unwrap();
        let mut bodies = calls.iter().map(|(_, body)| body.to_string());
        bodies.any(|body| body.contains(task) && body.contains(state))
    }

    /// Waits until a state has been told.
    pub(super) async fn wait_for(&self, wanted: &str) -> Vec<(HeaderMap, Value)> {
        let told = |calls: &[(HeaderMap, Value)]| {
            calls
                .iter()
                .any(|(_, body)| body.to_string().contains(wanted))
        };
        let mut count = self.heard.count.subscribe();
        let is_told = || told(&self.heard.calls.lock().unwrap());
        let waiting = async { while !is_told() && count.changed().await.is_ok() {} };
        let told = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(
            told.is_ok(),
            "{wanted} was not told: {:?}",
            self.heard.calls.lock().unwrap()
        );
        self.heard.calls.lock().unwrap().clone()
    }
}

async fn hear(State(heard): State<Arc<Heard>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    {
        let mut failures = heard.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return StatusCode::SERVICE_UNAVAILABLE;
        }
    }
    let body = serde_json::from_slice(&body).unwrap();
    heard.calls.lock().unwrap().push((headers, body));
    heard.count.send_modify(|count| *count += 1);
    StatusCode::NO_CONTENT
}

#[tokio::test]
async fn a_webhook_is_told_everything_in_order_and_again_after_a_failure() {
    let scene = Scene::new().await;
    let hook = Hook::new(&scene.tasks).await;
    *hook.heard.failures.lock().unwrap() = 1;
    let mut params = send("say a b c d");
    params["configuration"] = json!({ "taskPushNotificationConfig": {
        "url": hook.url, "token": "tok",
        "authentication": { "scheme": "Bearer", "credentials": "secret" },
    }});
    let task = scene.call("SendMessage", params).await["result"]["task"].clone();
    let calls = hook.wait_for("TASK_STATE_COMPLETED").await;
    let (headers, first) = &calls[0];
    assert_eq!(headers["authorization"], "Bearer secret");
    assert_eq!(headers["x-a2a-notification-token"], "tok");
    assert_eq!(headers["content-type"], "application/a2a+json");
    assert!(
        headers["x-agentcraft-signature"]
            .to_str()
            .unwrap()
            .starts_with("sha256=")
    );
    assert_eq!(first["task"]["id"], task["id"]);
    let last = &calls.last().unwrap().1;
    let last = if last["task"].is_object() {
        &last["task"]
    } else {
        &last["statusUpdate"]
    };
    assert_eq!(state(last), "TASK_STATE_COMPLETED");
}

/// Takes every connection and never says a word; tells how many there are.
async fn silent(tasks: &Tasks) -> (String, watch::Receiver<usize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (open, count) = watch::channel(0);
    tasks.spawn(|stop| {
        stop.run_until_cancelled_owned(async move {
            let mut held = Vec::new();
            while let Ok((socket, _)) = listener.accept().await {
                held.push(socket);
                open.send_replace(held.len());
            }
        })
    });
    (url, count)
}

#[tokio::test]
async fn webhooks_that_never_answer_hold_up_nobody_elses() {
    let scene = Scene::of_many_callers().await;
    let (silent, mut count) = silent(&scene.tasks).await;
    let by = async |who: &str, method: &str, params: Value| {
        let headers = [("a2a-version", "1.0"), ("x-who", who)];
        scene.call_with(&headers, method, params).await["result"].clone()
    };
    for _ in 0..5 {
        let task = by("mallory", "SendMessage", send("ask more?")).await["task"].clone();
        for number in 0..16 {
            let config = json!({ "taskId": task["id"], "id": number.to_string(), "url": silent });
            let made = by("mallory", "CreateTaskPushNotificationConfig", config).await;
            assert!(made.is_object());
        }
    }
    count.wait_for(|count| *count >= 8).await.unwrap();
    let hook = Hook::new(&scene.tasks).await;
    let mut params = send("say heard");
    params["configuration"] = json!({ "taskPushNotificationConfig": { "url": hook.url } });
    by("alice", "SendMessage", params).await;
    hook.wait_for("TASK_STATE_COMPLETED").await;
    // Eighty are waiting; those that are under way time out later than this, if the machine is not asleep.
    assert!(
        *count.borrow() < 64,
        "{} are called at once",
        *count.borrow()
    );
}

#[tokio::test]
async fn a_client_of_the_older_version_is_told_the_whole_task() {
    let scene = Scene::new().await;
    let hook = Hook::new(&scene.tasks).await;
    scene
        .call_old(
            "message/send",
            json!({
                "message": {
                    "kind": "message", "messageId": "m", "role": "user",
                    "parts": [{ "kind": "text", "text": "say old" }],
                },
                "configuration": { "pushNotificationConfig": { "url": hook.url, "token": "tok" } },
            }),
        )
        .await;
    let calls = hook.wait_for("completed").await;
    let (_, last) = calls.last().unwrap();
    assert_eq!(
        (last["kind"].as_str(), text(last).as_str()),
        (Some("task"), "old")
    );
}

#[tokio::test]
async fn webhooks_are_created_read_listed_and_deleted() {
    let scene = Scene::new().await;
    let task = scene.send("ask more?").await;
    let of = |id: &str| json!({ "taskId": task["id"], "id": id });
    let config = json!({ "taskId": task["id"], "id": "one", "url": "http://127.0.0.1:9/" });
    let made = scene.call("CreateTaskPushNotificationConfig", config).await;
    assert_eq!(made["result"]["id"], "one", "{made}");
    let got = scene.call("GetTaskPushNotificationConfig", of("one")).await;
    assert_eq!(got["result"], made["result"]);
    let listed = scene
        .call(
            "ListTaskPushNotificationConfigs",
            json!({ "taskId": task["id"] }),
        )
        .await;
    assert_eq!(listed["result"]["configs"], json!([made["result"]]));
    for _ in 0..2 {
        let gone = scene
            .call("DeleteTaskPushNotificationConfig", of("one"))
            .await;
        assert_eq!(gone["result"], json!({}));
    }
    let missing = scene.call("GetTaskPushNotificationConfig", of("one")).await;
    assert_eq!(missing["error"]["code"], -32001);
    // Clients of 0.3 need not know what their only webhook is called.
    let set =
        json!({ "taskId": task["id"], "pushNotificationConfig": { "url": "http://127.0.0.1:9/" } });
    let set = scene
        .call_old("tasks/pushNotificationConfig/set", set)
        .await;
    for id in [Value::Null, json!("default"), task["id"].clone()] {
        let params = json!({ "id": task["id"], "pushNotificationConfigId": id });
        let got = scene
            .call_old("tasks/pushNotificationConfig/get", params)
            .await;
        assert_eq!(got["result"], set["result"], "{id}");
    }
}

#[tokio::test]
async fn a_webhook_inside_this_network_or_on_a_node_without_webhooks_is_refused() {
    for (policy, code) in [(PushPolicy::Public, -32602), (PushPolicy::Off, -32003)] {
        let config = A2aConfig {
            push: policy,
            ..config()
        };
        let scene = Scene::with(config, Vec::new(), Caller::owner()).await;
        let mut params = send("say x");
        params["configuration"] =
            json!({ "taskPushNotificationConfig": { "url": "http://127.0.0.1:9/" } });
        let refused = scene.call("SendMessage", params).await;
        assert_eq!(refused["error"]["code"], code, "{refused}");
        let listed = scene.call("ListTasks", json!({})).await;
        assert_eq!(listed["result"]["totalSize"], 0, "nothing was begun");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_webhooks_that_are_made_at_once_a_task_takes_no_more_than_it_may_have() {
    let scene = Scene::new().await;
    let hook = Hook::new(&scene.tasks).await;
    let task = scene.send("ask more?").await;
    let made = (0..40).map(|number| {
        let config = json!({ "taskId": task["id"], "id": format!("w{number}"), "url": hook.url });
        scene.call("CreateTaskPushNotificationConfig", config)
    });
    let made = futures_util::future::join_all(made).await;
    let taken = made.iter().filter(|answer| answer["result"].is_object());
    assert_eq!(taken.count(), 16);
}
