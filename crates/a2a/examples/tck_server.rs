//! A node with one scripted agent in a temporary home, for the official compatibility suites and for the benchmark.
//!
//! `cargo run -p a2a --example tck_server -- [PORT] [extended-card] [token] [no-webhooks] [required-extension]` serves at `http://127.0.0.1:PORT/a2a/1.0/tck` for 1.0 and at
//! `http://127.0.0.1:PORT/a2a/tck` for both versions; `/bare` answers every message as a handler does that does nothing else. It
//! ends with its standard input.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool of the tests, with the habits of tests"
)]

#[path = "../src/tests/scripted.rs"]
mod scripted;

use std::{io::Read, net::Ipv4Addr, sync::Arc};

use a2a::{
    A2aConfig, DeclineWorkspaces, Extension, ExtensionCall, ExtensionFuture, PushPolicy, router,
};
use axum::{
    Extension as Layer, Json,
    extract::Request,
    http::header::AUTHORIZATION,
    middleware::{Next, from_fn},
    response::Response,
    routing::post,
};
use engine::Caller;
use platform::Tasks;
use serde_json::{Value, json};
use wire::a2a::{AgentExtension, Message, Part};

const GUARDIAN: &str = "guardian-of-the-example";

/// Answers without a task, as the suite wants it of some messages.
#[derive(Debug)]
struct DirectAnswers;

impl Extension for DirectAnswers {
    fn uri(&self) -> &str {
        "urn:agentcraft:direct-answers"
    }

    fn card(&self) -> Option<AgentExtension> {
        None
    }

    fn handle<'a>(
        &'a self,
        message: &'a Message,
        _: &'a ExtensionCall,
    ) -> ExtensionFuture<'a, Option<Vec<Part>>> {
        let ours = message.message_id.starts_with("tck-message-response");
        let reply = ours.then(|| vec![Part::text("Direct message response")]);
        Box::pin(std::future::ready(reply))
    }
}

/// An extension without which nothing is done, and which does nothing itself.
#[derive(Debug)]
struct Required;

impl Extension for Required {
    fn uri(&self) -> &str {
        "urn:a2a:tck:required-extension"
    }

    fn card(&self) -> Option<AgentExtension> {
        Some(AgentExtension {
            uri: self.uri().to_owned(),
            required: true,
            ..AgentExtension::default()
        })
    }

    fn handle<'a>(
        &'a self,
        _: &'a Message,
        _: &'a ExtensionCall,
    ) -> ExtensionFuture<'a, Option<Vec<Part>>> {
        Box::pin(std::future::ready(None))
    }
}

/// Knows who brings the token `tck-token`.
async fn known(mut request: Request, next: Next) -> Response {
    let shown = request.headers().get(AUTHORIZATION);
    if shown.is_some_and(|shown| shown == "Bearer tck-token") {
        request.extensions_mut().insert(Caller::owner());
    }
    next.run(request).await
}

/// What a message is answered with at the least: a task that has said it back.
async fn bare(Json(request): Json<Value>) -> Json<Value> {
    let message = &request["params"]["message"];
    let task = json!({
        "id": "task", "contextId": "context", "status": { "state": "TASK_STATE_COMPLETED" },
        "artifacts": [{ "artifactId": "answer", "parts": message["parts"] }], "history": [message],
    });
    Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": { "task": task } }))
}

#[tokio::main]
async fn main() {
    let argument = std::env::args().nth(1);
    let is_told = |word: &str| std::env::args().skip(2).any(|argument| argument == word);
    if argument.as_deref() == Some(GUARDIAN) {
        platform::guardian::run(std::io::stdin().lock());
        return;
    }
    let port = argument.map_or(0, |port| port.parse().unwrap());
    let home = tempfile::tempdir().unwrap();
    let tasks = Tasks::new();
    let engine = scripted::engine(home.path(), &tasks, &[GUARDIAN]).await;
    scripted::add_agent(&engine, home.path(), "tck", json!({ "url": "script:" })).await;
    let config = A2aConfig {
        needs_token: is_told("extended-card") || is_told("token"),
        push: if is_told("no-webhooks") {
            PushPolicy::Off
        } else {
            PushPolicy::Anywhere
        },
        prompt: scripted::prompt_with_id,
        ..A2aConfig::new("tck-node", "1.0.0")
    };
    let mut extensions: a2a::Extensions =
        vec![Arc::new(DirectAnswers), Arc::new(DeclineWorkspaces)];
    if is_told("required-extension") {
        extensions.push(Arc::new(Required));
    }
    let app = router(config, engine, tasks.clone(), extensions).await;
    let app = if is_told("token") {
        app.unwrap().layer(from_fn(known))
    } else {
        app.unwrap().layer(Layer(Caller::owner()))
    };
    let app = app.route("/bare", post(bare));
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let over = tasks.spawn_blocking(|_| {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest); // It ends, one way or another.
    });
    tokio::select! {
        served = axum::serve(listener, app).into_future() => served.unwrap(),
        ended = over => ended.unwrap(),
    }
}
