//! The resource server: what was handed over, read in whole or in part, and handing over.

use std::ops::Range;

use axum::{
    Extension, Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, Query, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use engine::{Caller, Rights};
use futures_util::TryStreamExt;
use serde::Deserialize;
use serde_json::json;
use wire::runs::Message;

use crate::{
    error::RunsError,
    exchange::{ExchangeError, Label, Resource},
    node::Runs,
    record::text,
    router::{base, caller},
};

/// The right to hand over and to read what others have.
const RIGHT: &str = "exchange";

/// A message of a history.
const MESSAGE_MAX: usize = 16 * 1024 * 1024;

type Answer = Result<Response, RunsError>;
type Who = Option<Extension<Caller>>;

pub(crate) fn router() -> Router<Runs> {
    Router::new()
        .route(
            "/resources",
            // It has a bound of its own, counted while it comes.
            post(upload).layer(DefaultBodyLimit::disable()),
        )
        .route("/resources/{id}", get(read).delete(remove))
}

/// A signed link.
#[derive(Debug, Deserialize)]
struct Link {
    expires: Option<i64>,
    signature: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: Option<String>,
    /// The hash that the sender knows.
    sha256: Option<String>,
}

async fn read(
    State(runs): State<Runs>,
    who: Who,
    Path(id): Path<String>,
    link: Result<Query<Link>, QueryRejection>,
    headers: HeaderMap,
) -> Answer {
    let Query(link) = link.map_err(|_| ExchangeError::BadLink)?;
    check_link(&runs, &id, &link, who.as_ref())?;
    let resource = runs.exchange().get(&id).await?;
    if let Some(Extension(caller)) = &who
        && link.signature.is_none()
        && caller.rights != Rights::All
        && caller.name != resource.owner
    {
        // Whether somebody else has handed it over is nobody's business.
        return Err(ExchangeError::NotFound { id }.into());
    }
    let range = range(&headers, resource.size)?;
    let bytes = runs.exchange().read(&resource, range.clone()).await?;
    let mut response = Body::from_stream(bytes).into_response();
    describe(&mut response, &resource, range.as_ref());
    Ok(response)
}

/// With a token, or with a link that we have signed.
fn check_link(
    runs: &Runs,
    id: &str,
    link: &Link,
    who: Option<&Extension<Caller>>,
) -> Result<(), RunsError> {
    match (link.expires, &link.signature) {
        (Some(expires), Some(signature)) => {
            if runs.exchange().is_valid_link(id, expires, signature) {
                return Ok(());
            }
            Err(ExchangeError::BadLink.into())
        }
        _ => {
            let caller = who.ok_or(RunsError::NoCaller)?;
            check_right(caller)
        }
    }
}

fn check_right(caller: &Caller) -> Result<(), RunsError> {
    if caller.may(RIGHT) || caller.may("runs") {
        return Ok(());
    }
    Err(RunsError::Forbidden {
        right: RIGHT.to_owned(),
    })
}

fn describe(response: &mut Response, resource: &Resource, range: Option<&Range<u64>>) {
    let text = |value: &str| HeaderValue::from_str(value).ok();
    let length = range.map_or(resource.size, |range| range.end - range.start);
    let mut told = vec![
        (header::CONTENT_LENGTH, Some(HeaderValue::from(length))),
        (header::ACCEPT_RANGES, text("bytes")),
        (header::CONTENT_TYPE, text(&resource.content_type)),
        (header::ETAG, text(&format!("\"{}\"", resource.hash))),
        (header::CACHE_CONTROL, text("private, immutable")),
        // Somebody else's page must not run as one of ours.
        (
            header::CONTENT_SECURITY_POLICY,
            text("sandbox; default-src 'none'"),
        ),
        (header::CONTENT_DISPOSITION, text(&disposition(resource))),
    ];
    if let Some(range) = range {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let words = format!("bytes {}-{}/{}", range.start, range.end - 1, resource.size);
        told.push((header::CONTENT_RANGE, text(&words)));
    }
    for (name, value) in told {
        if let Some(value) = value {
            response.headers_mut().insert(name, value);
        }
    }
}

/// The name for a file, encoded so that it can hold anything.
fn disposition(resource: &Resource) -> String {
    let Some(name) = &resource.name else {
        return "inline".to_owned();
    };
    let encoded: String = name
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => {
                (byte as char).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect();
    format!("attachment; filename*=UTF-8''{encoded}")
}

/// One range of bytes; several at once are answered with everything, as the protocol allows.
fn range(headers: &HeaderMap, size: u64) -> Result<Option<Range<u64>>, ExchangeError> {
    let told = headers
        .get(header::RANGE)
        .and_then(|told| told.to_str().ok());
    let Some(wanted) = told.and_then(|told| told.strip_prefix("bytes=")) else {
        return Ok(None);
    };
    let Some((first, last)) = wanted.split_once('-').filter(|_| !wanted.contains(',')) else {
        return Ok(None);
    };
    let wrong = || ExchangeError::Range {
        wanted: wanted.chars().take(64).collect(),
        size,
    };
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let range = match (first.trim(), last.trim()) {
        ("", last) => size.saturating_sub(number(last)?)..size,
        (first, "") => number(first)?..size,
        (first, last) => number(first)?..number(last)?.saturating_add(1).min(size),
    };
    if range.start >= range.end {
        return Err(wrong());
    }
    Ok(Some(range))
}

async fn upload(
    State(runs): State<Runs>,
    who: Who,
    Query(named): Query<Named>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let caller = caller(who)?;
    check_right(&caller)?;
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or("application/octet-stream");
    let label = Label {
        name: named.name,
        content_type: content_type.to_owned(),
        owner: caller.name,
    };
    let said = named.sha256.map(|hash| hash.to_ascii_lowercase());
    let bytes = body.into_data_stream();
    let resource = runs.exchange().put_stream(label, said, bytes).await?;
    let path = runs.exchange().path(&resource.id, resource.expires_at);
    let url = format!("{}{path}", base(&runs, &headers));
    let told = json!({
        "id": resource.id, "url": url, "sha256": resource.hash, "size": resource.size,
        "content_type": resource.content_type, "expires_at": text(resource.expires_at),
    });
    Ok((StatusCode::CREATED, Json(told)).into_response())
}

async fn remove(State(runs): State<Runs>, who: Who, Path(id): Path<String>) -> Answer {
    let caller = caller(who)?;
    let resource = runs.exchange().get(&id).await?;
    if caller.rights != Rights::All && caller.name != resource.owner {
        return Err(ExchangeError::NotFound { id }.into());
    }
    runs.exchange().remove(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A message of a history.
pub(crate) async fn message(runs: &Runs, id: &str) -> Result<Message, RunsError> {
    let resource = runs.exchange().get(id).await?;
    let stream = runs.exchange().read(&resource, None).await?;
    let read: Result<Vec<Bytes>, _> = stream.try_collect().await;
    let chunks = read.map_err(|source| ExchangeError::Store {
        act: "read",
        source,
    })?;
    let bytes = chunks.concat();
    let message = (bytes.len() <= MESSAGE_MAX)
        .then(|| serde_json::from_slice(&bytes).ok())
        .flatten();
    message.ok_or_else(|| ExchangeError::NotFound { id: id.to_owned() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(range_header: &str) -> Result<Option<Range<u64>>, ()> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_str(range_header).unwrap());
        range(&headers, 100).map_err(|_| ())
    }

    #[test]
    fn ranges_follow_the_protocol() {
        for (told, expected) in [
            ("bytes=0-9", Ok(Some(0..10))),
            ("bytes=90-", Ok(Some(90..100))),
            ("bytes=90-200", Ok(Some(90..100))),
            ("bytes=-5", Ok(Some(95..100))),
            ("bytes=-500", Ok(Some(0..100))),
            ("bytes=100-", Err(())),
            ("bytes=9-2", Err(())),
            ("bytes=a-b", Err(())),
            ("bytes=0-1,5-6", Ok(None)),
            ("lines=1-2", Ok(None)),
        ] {
            assert_eq!(asked(told), expected, "{told}");
        }
    }
}
