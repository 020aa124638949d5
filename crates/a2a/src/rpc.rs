//! The JSON-RPC binding, in both versions.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::Request,
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use wire::a2a::{ErrorCode, Version};

use crate::{
    error::Refusal,
    face::Face,
    perform::{Operation, Outcome, perform},
    request::{self, Target, check_media_type},
    stream::{self, Wrap},
};

/// A request that is one in form.
struct RpcRequest {
    id: Value,
    method: String,
    params: Value,
}

/// Answers one request. Errors of the protocol are answers too, so their status is 200.
pub(crate) async fn serve(face: Arc<Face>, target: Target, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let request = match read(&face, &parts, body).await {
        Ok(value) => parse(value),
        Err(refusal) => Err(Box::new((Value::Null, refusal))),
    };
    let request = match request {
        Ok(request) => request,
        Err(refused) => return refuse(&refused.0, &refused.1),
    };
    let RpcRequest { id, method, params } = request;
    let version = request::version(&parts.headers);
    match dispatch(&face, target, &parts, &method, params).await {
        Ok((version, Outcome::Stream(streaming))) => streaming.respond(version, Wrap::JsonRpc(id)),
        Ok((_, Outcome::Value(result))) => {
            Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
        }
        // Clients of 0.3 read only events where they have asked for events.
        Err(refusal)
            if refusal.http.is_none()
                && version == Ok(Version::V03)
                && matches!(method.as_str(), "message/stream" | "tasks/resubscribe") =>
        {
            stream::refuse(&id, &refusal)
        }
        Err(refusal) => refuse(&id, &refusal),
    }
}

async fn dispatch(
    face: &Arc<Face>,
    target: Target,
    parts: &Parts,
    method: &str,
    params: Value,
) -> Result<(Version, Outcome), Refusal> {
    let call = face.call(parts, target)?;
    let version = call.version;
    let operation = Operation::of_method(version, method).ok_or_else(|| {
        let words = format!("version {} has no method {method}", version.as_str());
        Refusal::new(ErrorCode::MethodNotFound, words).with("method", method)
    })?;
    let outcome = perform(face, &call, operation, params, &parts.headers).await?;
    Ok((version, outcome))
}

async fn read(face: &Face, parts: &Parts, body: Body) -> Result<Value, Refusal> {
    check_media_type(&parts.headers)?;
    face.read_body(body).await?.value()
}

fn parse(value: Value) -> Result<RpcRequest, Box<(Value, Refusal)>> {
    let refused =
        |id: &Value, code, words: &str| Err(Box::new((id.clone(), Refusal::new(code, words))));
    let invalid = ErrorCode::InvalidRequest;
    let Value::Object(mut object) = value else {
        return refused(&Value::Null, invalid, "a request is an object");
    };
    let id = match object.remove("id") {
        Some(id @ (Value::String(_) | Value::Number(_) | Value::Null)) => id,
        Some(_) => return refused(&Value::Null, invalid, "`id` is text or a number"),
        // Nothing here is a notification: whoever forgets the id is told of its mistakes all the same.
        None => Value::Null,
    };
    if object.get("jsonrpc") != Some(&json!("2.0")) {
        return refused(&id, invalid, "`jsonrpc` is \"2.0\"");
    }
    let Some(Value::String(method)) = object.remove("method") else {
        return refused(&id, invalid, "`method` is text");
    };
    let params = match object.remove("params") {
        None => json!({}),
        Some(params @ Value::Object(_)) => params,
        Some(_) => return refused(&id, ErrorCode::InvalidParams, "`params` is an object"),
    };
    Ok(RpcRequest { id, method, params })
}

fn refuse(id: &Value, refusal: &Refusal) -> Response {
    let body = Json(json!({ "jsonrpc": "2.0", "id": id, "error": refusal.json_rpc() }));
    let status = refusal
        .http
        .and_then(|status| StatusCode::from_u16(status).ok());
    let mut response = (status.unwrap_or(StatusCode::OK), body).into_response();
    challenge(&mut response);
    response
}

/// Says which credentials are wanted.
pub(crate) fn challenge(response: &mut Response) {
    if response.status() == StatusCode::UNAUTHORIZED {
        let value = axum::http::HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(axum::http::header::WWW_AUTHENTICATE, value);
    }
}
