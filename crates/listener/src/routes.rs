//! What the listener itself answers: whether it is well, logging a browser in and out, and the tokens.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use engine::{Caller, Rights};
use serde::Deserialize;
use serde_json::json;

use crate::{NewToken, Refusal, TokenError, Tokens, guard, login::COOKIE_LIFE, welcome};

/// The right to make tokens and login links; only the owner has it unless a token names it.
const RIGHT: &str = "tokens";

#[derive(Debug)]
struct Own {
    tokens: Tokens,
    secure: bool,
}

pub(crate) fn router(tokens: Tokens, secure: bool) -> Router {
    Router::new()
        .route("/healthz", get(async || Json(json!({ "status": "ok" }))))
        .route("/login", get(log_in).head(async || StatusCode::NO_CONTENT))
        .route("/login/codes", post(login_code))
        .route("/logout", post(log_out))
        .route("/tokens", get(list).post(create))
        .route("/tokens/{id}", delete(revoke))
        .with_state(Arc::new(Own { tokens, secure }))
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

async fn log_in(
    State(own): State<Arc<Own>>,
    headers: HeaderMap,
    uri: Uri,
    query: Result<Query<Code>, QueryRejection>,
) -> Response {
    let cookie = match query {
        Ok(Query(Code { code })) => own.tokens.logins().redeem(&code).await,
        Err(_) => None,
    };
    let Some(cookie) = cookie else {
        if welcome::is_wanted(&Method::GET, &headers) {
            return welcome::page(StatusCode::BAD_REQUEST, welcome::LINK_OVER);
        }
        let what = "this link was used already or is too old; ask the command line for another";
        return Refusal::Invalid {
            what: what.to_owned(),
        }
        .into_response();
    };
    let mut response = match welcome::is_wanted(&Method::GET, &headers) {
        true => welcome::logged_in(),
        false => redirect_home(),
    };
    let host = guard::host(&headers, &uri).unwrap_or_default();
    let value = cookie_header(host, &cookie, COOKIE_LIFE, own.secure);
    response.headers_mut().insert(header::SET_COOKIE, value);
    response
}

async fn log_out(State(own): State<Arc<Own>>, headers: HeaderMap, uri: Uri) -> Response {
    let host = guard::host(&headers, &uri).unwrap_or_default();
    if let Some(cookie) = guard::cookie(&headers, host) {
        own.tokens.logins().log_out(&cookie).await;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    let value = cookie_header(host, "", Duration::ZERO, own.secure);
    response.headers_mut().insert(header::SET_COOKIE, value);
    response
}

/// The code leaves the address with the redirect, and the answer is kept by no cache. A program follows it; a browser that
/// came from a link on another site would not send the new cookie along, so it is given a page that goes on by itself.
fn redirect_home() -> Response {
    let headers = [
        (header::LOCATION, "/"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

fn cookie_header(host: &str, value: &str, life: Duration, secure: bool) -> HeaderValue {
    let name = guard::cookie_name(host);
    let secure = if secure { "; Secure" } else { "" };
    let text = format!(
        "{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}",
        life.as_secs()
    );
    HeaderValue::from_str(&text).expect("the value is base64")
}

async fn login_code(State(own): State<Arc<Own>>, caller: Extension<Caller>) -> Response {
    if let Err(refusal) = check(&caller) {
        return refusal.into_response();
    }
    let path = own.tokens.login_path(caller.0);
    Json(json!({ "path": path })).into_response()
}

async fn list(State(own): State<Arc<Own>>, caller: Extension<Caller>) -> Response {
    match check(&caller) {
        Ok(()) => Json(json!({ "tokens": own.tokens.list() })).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Create {
    name: String,
    /// Absent: everything.
    rights: Option<BTreeSet<String>>,
    lifetime_secs: Option<u64>,
}

async fn create(
    State(own): State<Arc<Own>>,
    caller: Extension<Caller>,
    body: Bytes,
) -> Result<Response, Refusal> {
    check(&caller)?;
    let create: Create = serde_json::from_slice(&body).map_err(|error| Refusal::Invalid {
        what: format!("the body is not a token to create: {error}"),
    })?;
    let rights = create.rights.map_or(Rights::All, Rights::Only);
    if let Some(what) = rights.mistake() {
        return Err(Refusal::Invalid { what });
    }
    if create.lifetime_secs == Some(0) {
        return Err(Refusal::Invalid {
            what: "a token that lasts 0 seconds is never valid; leave the lifetime out for one without an end".to_owned(),
        });
    }
    covers(&caller, &rights)?;
    let new = NewToken {
        name: create.name,
        rights,
        lifetime: create.lifetime_secs.map(Duration::from_secs),
    };
    let (view, token) = own.tokens.create(new).await.map_err(refusal)?;
    let body = Json(json!({ "id": view.id, "token": token, "view": view }));
    Ok((StatusCode::CREATED, body).into_response())
}

async fn revoke(
    State(own): State<Arc<Own>>,
    caller: Extension<Caller>,
    Path(id): Path<String>,
) -> Result<StatusCode, Refusal> {
    check(&caller)?;
    own.tokens.revoke(&id).await.map_err(refusal)?;
    Ok(StatusCode::NO_CONTENT)
}

fn check(caller: &Caller) -> Result<(), Refusal> {
    if caller.may(RIGHT) {
        return Ok(());
    }
    Err(Refusal::NoRight {
        right: RIGHT.to_owned(),
    })
}

/// Nobody hands out more than they have.
fn covers(caller: &Caller, rights: &Rights) -> Result<(), Refusal> {
    let missing = match rights {
        Rights::All => (caller.rights != Rights::All).then(|| "everything".to_owned()),
        Rights::Only(rights) => rights.iter().find(|right| !caller.may(right)).cloned(),
    };
    missing.map_or(Ok(()), |right| Err(Refusal::NoRight { right }))
}

fn refusal(error: TokenError) -> Refusal {
    let what = error.to_string();
    match error {
        TokenError::NotFound { .. } => Refusal::NotFound,
        TokenError::Name
        | TokenError::Reserved { .. }
        | TokenError::Taken { .. }
        | TokenError::TooMany => Refusal::Invalid { what },
        TokenError::OwnerFile { .. } | TokenError::Records { .. } => Refusal::Internal { what },
    }
}
