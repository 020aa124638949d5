//! The face and the driver over real sockets, with a scripted agent behind them.

mod callers_tests;
mod driver_tests;
mod face_tests;
mod hostile_tests;
mod load_tests;
mod push_tests;
mod restart_tests;
mod scripted;
mod sdk_tests;

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use axum::{
    Extension as Layer, Router,
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
};
use engine::{Caller, Engine, Rights};
use platform::{Drained, Tasks};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{A2aConfig, DeclineWorkspaces, Extensions, PushPolicy, router};

/// How long a test waits for what should happen soon.
const PATIENCE: Duration = Duration::from_secs(60);

const GUARDIAN_MARK: &str = "mark-of-the-guardian";

/// Does nothing in an ordinary run; a scene starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == GUARDIAN_MARK) {
        platform::guardian::run(std::io::stdin().lock());
    }
}

/// A node with the agent `tck`, reached at `url`.
struct Scene {
    home: TempDir,
    tasks: Tasks,
    engine: Engine,
    url: String,
    http: reqwest::Client,
}

fn config() -> A2aConfig {
    A2aConfig {
        push: PushPolicy::Anywhere,
        prompt: scripted::prompt_with_id,
        ..A2aConfig::new("node", "1.2.3")
    }
}

impl Scene {
    async fn new() -> Self {
        Self::with(config(), vec![Arc::new(DeclineWorkspaces)], Caller::owner()).await
    }

    async fn with(config: A2aConfig, extensions: Extensions, caller: Caller) -> Self {
        let home = tempfile::tempdir().unwrap();
        let tasks = Tasks::new();
        let engine = open(&home, &tasks).await;
        scripted::add_agent(&engine, home.path(), "tck", json!({ "url": "script:" })).await;
        Self::serve(home, tasks, engine, config, extensions, Some(caller)).await
    }

    /// Every request says by `x-who` whose it is.
    async fn of_many_callers() -> Self {
        async fn named(mut request: Request, next: Next) -> Response {
            let who = request.headers().get("x-who").map(|who| who.to_str());
            let caller = Caller {
                name: who.unwrap_or(Ok("nobody")).unwrap().to_owned(),
                rights: Rights::Only(["a2a".to_owned()].into()),
            };
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        let home = tempfile::tempdir().unwrap();
        let tasks = Tasks::new();
        let engine = open(&home, &tasks).await;
        scripted::add_agent(&engine, home.path(), "tck", json!({ "url": "script:" })).await;
        let app = router(config(), engine.clone(), tasks.clone(), Vec::new()).await;
        let app = app.unwrap().layer(from_fn(named));
        Self::at(home, tasks, engine, app).await
    }

    async fn serve(
        home: TempDir,
        tasks: Tasks,
        engine: Engine,
        config: A2aConfig,
        extensions: Extensions,
        caller: Option<Caller>,
    ) -> Self {
        let app = router(config, engine.clone(), tasks.clone(), extensions).await;
        let mut app = app.unwrap();
        if let Some(caller) = caller {
            app = app.layer(Layer(caller));
        }
        Self::at(home, tasks, engine, app).await
    }

    async fn at(home: TempDir, tasks: Tasks, engine: Engine, app: Router) -> Self {
        let url = serve(app, &tasks).await;
        let http = reqwest::Client::builder().timeout(PATIENCE).build();
        Self {
            home,
            tasks,
            engine,
            url,
            http: http.unwrap(),
        }
    }

    /// Ends this daemon's tasks and begins anew in the same home.
    async fn restart(self) -> Self {
        let Self {
            home,
            tasks,
            engine,
            ..
        } = self;
        assert_eq!(tasks.drain(Duration::from_secs(10)).await, Drained::Clean);
        drop(engine);
        let tasks = Tasks::new();
        let engine = open(&home, &tasks).await;
        Self::serve(
            home,
            tasks,
            engine,
            config(),
            Vec::new(),
            Some(Caller::owner()),
        )
        .await
    }

    /// A JSON-RPC call of 1.0.
    async fn call(&self, method: &str, params: Value) -> Value {
        self.call_with(&[("a2a-version", "1.0")], method, params)
            .await
    }

    /// A JSON-RPC call of 0.3.
    async fn call_old(&self, method: &str, params: Value) -> Value {
        self.call_with(&[], method, params).await
    }

    async fn call_with(&self, headers: &[(&str, &str)], method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let mut request = self.http.post(format!("{}/a2a/tck", self.url)).json(&body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(
            (&answer["jsonrpc"], &answer["id"]),
            (&json!("2.0"), &json!(7))
        );
        answer
    }

    /// Sends words in 1.0 and gives the task.
    async fn send(&self, words: &str) -> Value {
        let answer = self.call("SendMessage", send(words)).await;
        let task = answer["result"]["task"].clone();
        assert!(task.is_object(), "{answer}");
        task
    }

    async fn answer(&self, task: &Value, words: &str) -> Value {
        let mut params = send(words);
        params["message"]["taskId"] = task["id"].clone();
        self.call("SendMessage", params).await["result"]["task"].clone()
    }

    async fn get(&self, task: &Value) -> Value {
        let params = json!({ "id": task["id"] });
        self.call("GetTask", params).await["result"].clone()
    }

    /// The events of a stream, whole.
    async fn stream(&self, method: &str, params: Value) -> Vec<Value> {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let request = self
            .http
            .post(format!("{}/a2a/tck", self.url))
            .header("a2a-version", "1.0")
            .json(&body);
        let text = request.send().await.unwrap().text().await.unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
        lines
            .map(|line| {
                let event: Value = serde_json::from_str(line).unwrap();
                event["result"].clone()
            })
            .collect()
    }
}

async fn open(home: &TempDir, tasks: &Tasks) -> Engine {
    let args = ["--exact", "tests::role_of_the_guardian", GUARDIAN_MARK];
    scripted::engine(home.path(), tasks, &args).await
}

/// Serves on a free port until the tasks end.
async fn serve(app: Router, tasks: &Tasks) -> String {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tasks.spawn(|stop| async move {
        tokio::select! {
            () = stop.cancelled() => {}
            served = axum::serve(listener, app).into_future() => served.unwrap(),
        }
    });
    url
}

fn send(words: &str) -> Value {
    json!({ "message": {
        "messageId": uuid::Uuid::new_v4().to_string(),
        "role": "ROLE_USER",
        "parts": [{ "text": words }],
    }})
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or("no state")
}

/// Everything that a task's artifacts say.
fn text(task: &Value) -> String {
    let artifacts = task["artifacts"].as_array().into_iter().flatten();
    let parts = artifacts.flat_map(|artifact| artifact["parts"].as_array().into_iter().flatten());
    parts.filter_map(|part| part["text"].as_str()).collect()
}
