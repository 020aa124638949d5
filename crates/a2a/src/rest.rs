//! The HTTP+JSON binding: paths and queries become the parameters that JSON-RPC has, results are bare.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use wire::a2a::{ErrorCode, MEDIA_TYPE, VERSION_HEADER, Version};

use crate::{
    error::Refusal,
    face::Face,
    perform::{Operation, Outcome, perform},
    request::{Target, check_media_type, version},
    rpc::challenge,
    stream::Wrap,
};

/// What a path asks for, with the ids that are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    operation: Operation,
    task: Option<String>,
    config: Option<String>,
}

/// Answers one request; `path` begins after the agent, without a slash.
pub(crate) async fn serve(
    face: Arc<Face>,
    target: Target,
    path: &str,
    request: Request,
) -> Response {
    let media = answer_media(request.headers());
    match answer(face, target, path, request).await {
        Ok((version, Outcome::Stream(streaming))) => streaming.respond(version, Wrap::Plain),
        Ok((_, Outcome::Value(value))) => with_media(value.to_string().into_response(), media),
        Err(refusal) => {
            let status = StatusCode::from_u16(refusal.status()).unwrap_or_default();
            let body = refusal.http_body().to_string();
            let mut response = with_media((status, body).into_response(), media);
            challenge(&mut response);
            response
        }
    }
}

async fn answer(
    face: Arc<Face>,
    target: Target,
    path: &str,
    request: Request,
) -> Result<(Version, Outcome), Refusal> {
    let (parts, body) = request.into_parts();
    // 0.3 has `v1` before every path.
    let path = path.strip_prefix("v1/").unwrap_or(path);
    let asked = route(&parts.method, path)?;
    if parts.method == Method::POST && asked.operation != Operation::Subscribe {
        check_body(&parts.headers)?;
    }
    let call = face.call(&parts, target)?;
    let mut params = {
        let body = face.read_body(body).await?;
        if body.is_empty() {
            query(parts.uri.query().unwrap_or_default())
        } else {
            match body.value()? {
                Value::Object(params) => params,
                _ => return Err(Refusal::invalid("body", "it is an object")),
            }
        }
    };
    put_ids(&mut params, &asked, call.version);
    let outcome = perform(&face, &call, asked.operation, params.into(), &parts.headers).await?;
    Ok((call.version, outcome))
}

fn check_body(headers: &HeaderMap) -> Result<(), Refusal> {
    let empty = headers.get("content-length").is_some_and(|it| it == "0");
    if empty && !headers.contains_key(CONTENT_TYPE) {
        return Ok(()); // Nothing is said, in no media type.
    }
    check_media_type(headers)
}

fn route(method: &Method, path: &str) -> Result<Asked, Refusal> {
    let asked = |operation, task: Option<&str>, config: Option<&str>| Asked {
        operation,
        task: task.map(str::to_owned),
        config: config.map(str::to_owned),
    };
    let segments: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let (get, post) = (method == Method::GET, method == Method::POST);
    let found = match segments.as_slice() {
        ["message:send"] if post => asked(Operation::Send, None, None),
        ["message:stream"] if post => asked(Operation::Stream, None, None),
        ["extendedAgentCard" | "card"] if get => asked(Operation::ExtendedCard, None, None),
        ["tasks"] if get => asked(Operation::List, None, None),
        ["tasks", task] => match task.rsplit_once(':') {
            Some((task, "cancel")) if post => asked(Operation::Cancel, Some(task), None),
            Some((task, "subscribe")) if get || post => {
                asked(Operation::Subscribe, Some(task), None)
            }
            _ if get => asked(Operation::Get, Some(task), None),
            _ => return Err(no_route(method, path)),
        },
        ["tasks", task, "pushNotificationConfigs"] if post => {
            asked(Operation::PushCreate, Some(task), None)
        }
        ["tasks", task, "pushNotificationConfigs"] if get => {
            asked(Operation::PushList, Some(task), None)
        }
        ["tasks", task, "pushNotificationConfigs", id] if get => {
            asked(Operation::PushGet, Some(task), Some(id))
        }
        ["tasks", task, "pushNotificationConfigs", id] if method == Method::DELETE => {
            asked(Operation::PushDelete, Some(task), Some(id))
        }
        _ => return Err(no_route(method, path)),
    };
    Ok(found)
}

fn no_route(method: &Method, path: &str) -> Refusal {
    let words = format!("there is nothing to {method} at {path}");
    Refusal::new(ErrorCode::MethodNotFound, words)
}

/// The ids of the path count for more than those of the body.
fn put_ids(params: &mut Map<String, Value>, asked: &Asked, version: Version) {
    let is_push = matches!(
        asked.operation,
        Operation::PushCreate | Operation::PushGet | Operation::PushList | Operation::PushDelete
    );
    let (task_key, config_key) = match (is_push, version) {
        (false, _) => ("id", ""),
        (true, Version::V1) => ("taskId", "id"),
        (true, Version::V03) if asked.operation == Operation::PushCreate => ("taskId", ""),
        (true, Version::V03) => ("id", "pushNotificationConfigId"),
    };
    if let Some(task) = &asked.task {
        params.insert(task_key.to_owned(), json!(decode(task)));
    }
    if let Some(config) = &asked.config {
        params.insert(config_key.to_owned(), json!(decode(config)));
    }
}

/// A query as parameters: numbers, yes and no are what they look like where the names say that they are meant.
fn query(query: &str) -> Map<String, Value> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (decode(key), decode(&value.replace('+', " ")));
            let typed = match key.as_str() {
                "pageSize" | "historyLength" => value.parse::<i64>().ok().map(Value::from),
                "includeArtifacts" => value.parse::<bool>().ok().map(Value::from),
                _ => None,
            };
            (key, typed.unwrap_or_else(|| json!(value)))
        })
        .filter(|(_, value)| value != "")
        .collect()
}

/// The version, for clients that put it there instead of into a header. One that no header can hold is none.
pub(crate) fn version_in_query(query: &str) -> Option<HeaderValue> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, version) = pairs.find(|(key, _)| key.eq_ignore_ascii_case(VERSION_HEADER))?;
    let version = HeaderValue::from_str(&decode(version));
    Some(version.unwrap_or(HeaderValue::from_static("?")))
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(escaped) => {
                decoded.push(escaped);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Whoever speaks the protocol's own media type is answered in it.
fn answer_media(headers: &HeaderMap) -> &'static str {
    let speaks = headers
        .get(CONTENT_TYPE)
        .and_then(|media| media.to_str().ok())
        .is_some_and(|media| media.starts_with(MEDIA_TYPE));
    if speaks && version(headers) == Ok(Version::V1) {
        MEDIA_TYPE
    } else {
        "application/json"
    }
}

fn with_media(mut response: Response, media: &'static str) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_operations_and_ids() {
        let route = |method: Method, path: &str| {
            let asked = route(&method, path).ok()?;
            Some((asked.operation, asked.task, asked.config))
        };
        let id = |text: &str| Some(text.to_owned());
        for (method, path, asked) in [
            (
                Method::POST,
                "message:send",
                Some((Operation::Send, None, None)),
            ),
            (Method::GET, "message:send", None),
            (Method::GET, "tasks", Some((Operation::List, None, None))),
            (
                Method::GET,
                "tasks/t",
                Some((Operation::Get, id("t"), None)),
            ),
            (
                Method::POST,
                "tasks/t:cancel",
                Some((Operation::Cancel, id("t"), None)),
            ),
            (
                Method::GET,
                "tasks/t:subscribe",
                Some((Operation::Subscribe, id("t"), None)),
            ),
            (Method::POST, "tasks/t", None),
            (
                Method::DELETE,
                "tasks/t/pushNotificationConfigs/c",
                Some((Operation::PushDelete, id("t"), id("c"))),
            ),
            (Method::GET, "nowhere", None),
        ] {
            assert_eq!(route(method.clone(), path), asked, "{method} {path}");
        }
    }

    #[test]
    fn a_query_is_read_by_the_names_in_it() {
        assert_eq!(
            Value::from(query(
                "contextId=a%2Fb+c&pageSize=5&includeArtifacts=true&pageToken="
            )),
            json!({ "contextId": "a/b c", "pageSize": 5, "includeArtifacts": true })
        );
        assert_eq!(Value::from(query("pageSize=x")), json!({ "pageSize": "x" }));
        assert_eq!(decode("100%"), "100%");
        for (query, version) in [
            ("a=b&A2A-Version=1.0", Some("1.0")),
            ("a2a-version=0%2E3", Some("0.3")),
            ("a2a-version=%0A", Some("?")),
            ("version=1.0", None),
        ] {
            let found = version_in_query(query);
            let found = found.as_ref().map(|found| found.to_str().unwrap());
            assert_eq!(found, version, "{query}");
        }
    }
}
