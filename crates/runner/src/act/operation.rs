//! Operations that need no program: a request over HTTP, a word to whoever watches.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Map, Value, json};
use workflow::{OperationAction, StepResult, StepStatus};

use super::Act;

/// How long a request may take unless the step says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What is kept of an answer.
const BODY_MAX: usize = 1024 * 1024;

pub(super) async fn run(act: &Act, operation: OperationAction) -> StepResult {
    let work = async {
        match operation.name.as_str() {
            "http.request" => request(&operation.inputs).await,
            "notify.send" => Ok(notify(act, &operation.inputs)),
            other => Err(format!(
                "there is no operation called {other}; there are http.request and notify.send"
            )),
        }
    };
    tokio::select! { biased;
        () = act.stop.cancelled() => StepResult {
            status: StepStatus::Cancelled,
            exit_code: 130,
            ..StepResult::default()
        },
        done = work => done.unwrap_or_else(|why| StepResult::failed(1, why)),
    }
}

fn notify(act: &Act, inputs: &Map<String, Value>) -> StepResult {
    let text = |key: &str| inputs.get(key).and_then(Value::as_str).unwrap_or_default();
    let words = match (text("title"), text("message")) {
        ("", message) => message.to_owned(),
        (title, message) => format!("{title}: {message}"),
    };
    act.audience.notice(words.clone());
    StepResult::succeeded(words)
}

async fn request(inputs: &Map<String, Value>) -> Result<StepResult, String> {
    let text = |key: &str| inputs.get(key).and_then(Value::as_str);
    let url = text("url").ok_or("http.request needs a url")?;
    let method = text("method").unwrap_or("GET").to_uppercase();
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| format!("{method} is not a method of HTTP"))?;
    let timeout = inputs.get("timeout").and_then(Value::as_u64);
    let client = pinning::believing(reqwest::Client::builder);
    let mut request = client
        .map_err(|error| engine::chain(&error))?
        .request(method, url)
        .timeout(timeout.map_or(TIMEOUT, Duration::from_secs));
    let headers = inputs.get("headers").and_then(Value::as_object);
    for (name, value) in headers.into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap_or_default());
    }
    request = match inputs.get("body") {
        None | Some(Value::Null) => request,
        Some(Value::String(body)) => request.body(body.clone()),
        Some(other) => request.json(other),
    };
    let mut answer = request
        .send()
        .await
        .map_err(|error| engine::chain(&error))?;
    let status = answer.status();
    let mut body = Vec::new();
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|error| engine::chain(&error))?
    {
        body.extend_from_slice(&chunk);
        if body.len() > BODY_MAX {
            return Err(format!("the answer is longer than {BODY_MAX} bytes"));
        }
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    let data = json!({ "status_code": status.as_u16(), "body": body });
    let data = data.as_object().cloned().unwrap_or_default();
    let response = serde_json::from_str(&body).ok();
    Ok(if status.is_success() {
        StepResult {
            output: body,
            response,
            data,
            ..StepResult::default()
        }
    } else {
        StepResult {
            output: body,
            response,
            data,
            ..StepResult::failed(1, format!("{url} answered {status}"))
        }
    })
}
