//! The paths of the runs API: the standard's and the local network's, from one model.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{Path, RawQuery, State, rejection::BytesRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use domain::{
    TRACEPARENT, Trace,
    chain::{self, CHAIN_HEADER},
};
use engine::{Caller, Rights};
use serde::de::DeserializeOwned;
use serde_json::json;
use sha2::{Digest, Sha256};
use tracing::debug;
use wire::{
    hex,
    runs::{Event, Message, Mode, Resume, RunCreate},
};

use crate::{
    create::{Around, Created, check_input},
    error::RunsError,
    history,
    node::{Handle, Runs},
    record::{RunRecord, SessionRecord},
    resources,
    sessions::is_elsewhere,
    stream,
};

const RUN_ID: HeaderName = HeaderName::from_static("run-id");

const OPENAPI: &str = include_str!("openapi.json");

/// Agents on a page unless the caller says otherwise, and at most.
const PAGE: usize = 10;
const PAGE_MAX: usize = 1000;

type Answer = Result<Response, RunsError>;
type Body = Result<Bytes, BytesRejection>;
type Who = Option<Extension<Caller>>;

impl Runs {
    /// Every path of the API. A request must carry the [`Caller`] as an extension; those below `/resources` may come
    /// without one, with a signed link.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/ping", get(async || Json(json!({}))))
            .route("/openapi.json", get(openapi))
            .route("/manifest", get(manifest))
            .route("/agents", get(agents))
            .route("/agents/{name}", get(agent))
            .route("/runs", post(create))
            .route("/runs/{id}", get(read).post(resume))
            .route("/runs/{id}/resume", post(resume))
            .route("/runs/{id}/cancel", post(cancel))
            .route("/runs/{id}/events", get(events))
            // The standard has no other method there.
            .route("/session/{id}", get(session))
            .route("/sessions/{id}", get(session).delete(close_session))
            .route("/sessions/{id}/history", get(session_history))
            .merge(resources::router())
            .layer(map_response(in_json))
            .with_state(self.clone())
    }
}

/// What the framework turns away by itself is told like everything else.
async fn in_json(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let allow = response.headers().get(header::ALLOW).cloned();
    let mut told = RunsError::TurnedAway { status }.into_response();
    if let Some(allow) = allow {
        told.headers_mut().insert(header::ALLOW, allow);
    }
    told
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn manifest(State(runs): State<Runs>, who: Who, headers: HeaderMap) -> Answer {
    let manifest = runs.manifest_for(&caller(who)?, &base(&runs, &headers))?;
    Ok(Json(manifest).into_response())
}

async fn agents(State(runs): State<Runs>, who: Who, RawQuery(query): RawQuery) -> Answer {
    let caller = caller(who)?;
    let query = query.unwrap_or_default();
    let limit = number(&query, "limit", PAGE)?;
    let offset = number(&query, "offset", 0)?;
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(RunsError::Invalid {
            what: format!("limit is 1 to {PAGE_MAX}"),
        });
    }
    let manifests = runs.agent_manifests().into_iter();
    let seen = manifests.filter(|agent| runs.lacking(&caller, &agent.name).is_none());
    let page: Vec<_> = seen.skip(offset).take(limit).collect();
    Ok(Json(json!({ "agents": page })).into_response())
}

fn number(query: &str, name: &str, default: usize) -> Result<usize, RunsError> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut found = pairs.filter(|(key, _)| *key == name);
    let Some((_, value)) = found.next() else {
        return Ok(default);
    };
    value.parse().map_err(|_| RunsError::Invalid {
        what: format!("{name} is a whole number that is not negative"),
    })
}

async fn agent(State(runs): State<Runs>, who: Who, Path(name): Path<String>) -> Answer {
    let caller = caller(who)?;
    let manifest = runs.agent_manifest(&name);
    let manifest = manifest.ok_or(RunsError::AgentNotFound { name })?;
    // As where a run is asked for: what is missing is the right.
    if let Some(right) = runs.lacking(&caller, &manifest.name) {
        return Err(RunsError::Forbidden { right });
    }
    Ok(Json(manifest).into_response())
}

async fn create(State(runs): State<Runs>, who: Who, headers: HeaderMap, body: Body) -> Answer {
    let caller = caller(who)?;
    let body = body.map_err(|_| RunsError::BodyTooLarge)?;
    let asked: RunCreate = parse(&body)?;
    let mode = asked.mode.unwrap_or_else(|| default_mode(&headers));
    let around = Around {
        caller: caller.clone(),
        base: base(&runs, &headers),
        chain: chain_of(&headers)?,
        trace: trace(&headers),
        key: only(&headers, "idempotency-key")?,
        body_hash: hex(&Sha256::digest(&body)),
    };
    match runs.create(asked, around).await? {
        Created::New(handle) => {
            let id = handle.view.borrow().id.clone();
            with_run_id(answer(handle, 0, mode).await, &id)
        }
        Created::Known(record) => {
            let id = record.id.clone();
            with_run_id(answer_known(&runs, *record, mode).await, &id)
        }
    }
}

/// The same request again: the same run, however far it is.
async fn answer_known(runs: &Runs, record: RunRecord, mode: Mode) -> Answer {
    if let Some(handle) = runs.handle(&record.id) {
        return answer(handle, 0, mode).await;
    }
    match mode {
        Mode::Stream => Ok(stream::respond(runs.log(&record).await?, 0)),
        Mode::Sync => Ok(Json(record.view()).into_response()),
        Mode::Async => Ok((StatusCode::ACCEPTED, Json(record.view())).into_response()),
    }
}

/// `seen` is how many events the caller knows already.
async fn answer(handle: Handle, seen: u64, mode: Mode) -> Answer {
    match mode {
        Mode::Stream => Ok(stream::respond(handle.log, seen)),
        Mode::Async => {
            let view = handle.view.borrow().view();
            Ok((StatusCode::ACCEPTED, Json(view)).into_response())
        }
        Mode::Sync => {
            let record = handle.settled().await;
            match &record.error {
                Some(failure) if failure.code == "execution_timeout" => Err(RunsError::TimedOut {
                    id: record.id.clone(),
                    failure: Box::new(failure.clone()),
                }),
                _ => Ok(Json(record.view()).into_response()),
            }
        }
    }
}

fn with_run_id(answer: Answer, id: &str) -> Answer {
    let mut response = answer.unwrap_or_else(IntoResponse::into_response);
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(RUN_ID, id);
    }
    Ok(response)
}

async fn read(State(runs): State<Runs>, who: Who, Path(id): Path<String>) -> Answer {
    let record = runs.find(&id, &caller(who)?).await?;
    Ok(Json(record.view()).into_response())
}

async fn resume(
    State(runs): State<Runs>,
    who: Who,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    // The run is looked at first: whether it awaits comes before whether the answer fits.
    let record = runs.find(&id, &caller(who)?).await?;
    let body = body.map_err(|_| RunsError::BodyTooLarge)?;
    let asked: Resume = parse(&body)?;
    let mode = asked.mode.unwrap_or_else(|| default_mode(&headers));
    let ask = asked.ask.clone();
    let messages = said(asked);
    if record.machine.awaits().is_some() {
        check_input(&messages)?;
    }
    let (handle, seen) = runs.resume(record, messages, ask).await?;
    answer(handle, seen, mode).await
}

fn said(resume: Resume) -> Vec<Message> {
    let standard = resume.await_resume.and_then(|resume| resume.message);
    standard
        .into_iter()
        .chain(resume.input.into_iter().flatten())
        .collect()
}

async fn cancel(State(runs): State<Runs>, who: Who, Path(id): Path<String>) -> Answer {
    let record = runs.find(&id, &caller(who)?).await?;
    let cancelled = runs.cancel(record).await?;
    Ok((StatusCode::ACCEPTED, Json(cancelled.view())).into_response())
}

/// The whole log at once, or as a stream from where a broken one ended.
async fn events(
    State(runs): State<Runs>,
    who: Who,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let record = runs.find(&id, &caller(who)?).await?;
    let log = runs.log(&record).await?;
    if wants_stream(&headers) {
        let seen = match only(&headers, "last-event-id")?.as_deref() {
            None | Some("") => 0,
            Some(last) => last.parse().map_err(|_| RunsError::Invalid {
                what: "last-event-id is the number of an event".to_owned(),
            })?,
        };
        return Ok(stream::respond(log, seen));
    }
    let mut all: Vec<Arc<Event>> = Vec::new();
    loop {
        let page = log.after(all.len() as u64).await?;
        if page.is_empty() {
            break;
        }
        all.extend(page.into_iter().map(|(_, event)| event));
    }
    Ok(Json(json!({ "events": all })).into_response())
}

async fn session(
    State(runs): State<Runs>,
    who: Who,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let session = seen_session(&runs, &id, &caller(who)?).await?;
    let descriptor = runs.describe(&session, &base(&runs, &headers));
    Ok(Json(descriptor).into_response())
}

async fn session_history(State(runs): State<Runs>, who: Who, Path(id): Path<String>) -> Answer {
    let session = seen_session(&runs, &id, &caller(who)?).await?;
    let mut messages = Vec::new();
    for id in &session.history {
        let read = match is_elsewhere(id) {
            true => history::one(&runs, id).await,
            false => resources::message(&runs, id).await,
        };
        match read {
            Ok(message) => messages.push(message),
            // One that was removed, or lies where nobody answers, does not take the others with it.
            Err(error) => debug!(%error, id, "a message of a history is left out"),
        }
    }
    Ok(Json(messages).into_response())
}

async fn close_session(State(runs): State<Runs>, who: Who, Path(id): Path<String>) -> Answer {
    let caller = caller(who)?;
    let session = seen_session(&runs, &id, &caller).await?;
    if let Some(run) = &session.active_run
        && let Ok(record) = runs.find(run, &caller).await
    {
        let _ = runs.cancel(record).await; // It may have ended by itself.
    }
    runs.end_session(session, "run.session-closed").await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn seen_session(runs: &Runs, id: &str, caller: &Caller) -> Result<SessionRecord, RunsError> {
    let not_found = || RunsError::SessionNotFound { id: id.to_owned() };
    let may_see =
        |session: &SessionRecord| session.caller == caller.name || caller.rights == Rights::All;
    let session = runs.known_session(id, may_see).await?;
    session.ok_or_else(not_found)
}

pub(crate) fn caller(who: Who) -> Result<Caller, RunsError> {
    let caller = who.map(|Extension(caller)| caller);
    caller.ok_or(RunsError::NoCaller)
}

/// JSON that cannot be read is told apart from JSON that says something else than it should.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, RunsError> {
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => RunsError::Invalid {
            what: format!("the body does not fit: {error}"),
        },
        serde_json::error::Category::Io
        | serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof => RunsError::NotJson {
            why: error.to_string(),
        },
    })
}

fn default_mode(headers: &HeaderMap) -> Mode {
    if wants_stream(headers) {
        Mode::Stream
    } else {
        Mode::Sync
    }
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT);
    accept
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/event-stream"))
}

fn lines<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a [u8]> {
    headers.get_all(name).iter().map(HeaderValue::as_bytes)
}

/// What a header says that may be there once. One that cannot be read is not one that is not there: whoever sent it
/// relies on it.
fn only(headers: &HeaderMap, name: &str) -> Result<Option<String>, RunsError> {
    let invalid = |why: &str| RunsError::Invalid {
        what: format!("the header {name} {why}"),
    };
    let mut told = None;
    for line in lines(headers, name) {
        let line = std::str::from_utf8(line).map_err(|_| invalid("is not text in UTF-8"))?;
        if told
            .replace(line.to_owned())
            .is_some_and(|known| known != line)
        {
            return Err(invalid("says two things"));
        }
    }
    Ok(told)
}

/// The chain in the header, whose ids stand without quotes and brackets: a list written otherwise would be read as ids
/// that nobody has.
fn chain_of(headers: &HeaderMap) -> Result<Vec<String>, chain::Refusal> {
    let chain = chain::of_header(lines(headers, CHAIN_HEADER))?;
    let is_other_list = |id: &String| id.contains(['"', '[', ']', '{', '}']);
    match chain.iter().any(is_other_list) {
        true => Err(chain::Refusal::Malformed),
        false => Ok(chain),
    }
}

fn trace(headers: &HeaderMap) -> Option<Trace> {
    let told = headers.get(TRACEPARENT)?.to_str().ok()?;
    Trace::of_traceparent(told)
}

/// The address that this caller reached us at; the listener has checked the name.
pub(crate) fn base(runs: &Runs, headers: &HeaderMap) -> String {
    let config = runs.config();
    if let Some(url) = &config.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    format!("{}://{}", config.scheme, host.unwrap_or("localhost"))
}
