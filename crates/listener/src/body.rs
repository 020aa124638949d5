//! Bodies of requests, which must come at some pace: whoever dribbles one holds its place no longer than that. Those of
//! requests that are turned away are read and forgotten, so that their senders get to read why.

use std::{io, time::Duration};

use axum::{
    body::{Body, BodyDataStream, HttpBody},
    extract::Request,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout, timeout_at};

/// How long a body may take to begin, and to pause for at its slowest.
const PATIENCE: Duration = Duration::from_secs(15);

/// The slowest body, in bytes a second: a bad line of a phone.
const PACE_MIN: u64 = 1024;

/// What is read and forgotten of a body that nobody wants: what most senders have on its way before they look for an answer.
const FORGOTTEN_MAX: u64 = 16 * 1024 * 1024;

/// How long that may take.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(5);

/// What has come of a body.
struct Coming {
    body: BodyDataStream,
    /// When the next part must be there; every part that comes moves it on.
    until: Instant,
}

/// The same request, with a body that breaks off when it comes too slowly.
pub(crate) fn at_some_pace(request: Request) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    request.map(|body| {
        let coming = Coming {
            body: body.into_data_stream(),
            until: Instant::now() + PATIENCE,
        };
        Body::from_stream(stream::unfold(Some(coming), next))
    })
}

async fn next(coming: Option<Coming>) -> Option<(io::Result<Bytes>, Option<Coming>)> {
    let mut coming = coming?;
    match timeout_at(coming.until, coming.body.next()).await {
        Ok(Some(Ok(bytes))) => {
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            coming.until += Duration::from_millis(length.saturating_mul(1000) / PACE_MIN);
            Some((Ok(bytes), Some(coming)))
        }
        Ok(Some(Err(error))) => Some((Err(io::Error::other(error)), None)),
        Ok(None) => None,
        Err(_) => Some((Err(io::ErrorKind::TimedOut.into()), None)),
    }
}

/// The answer to a request whose body nobody has read. A connection that is closed on somebody who still sends breaks before
/// they have read anything, so the rest is read and forgotten; where it is too much, the connection ends in words.
pub(crate) async fn unread(request: Request, mut response: Response) -> Response {
    // Whoever waits to be asked for the body does not send it.
    let is_waiting = request.headers().contains_key(header::EXPECT);
    if request.body().is_end_stream() {
        return response;
    }
    let all = async {
        let (mut body, mut read) = (request.into_body().into_data_stream(), 0);
        while let Some(Ok(bytes)) = body.next().await {
            read += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            if read > FORGOTTEN_MAX {
                return false;
            }
        }
        true
    };
    if is_waiting || !timeout(FORGOTTEN_WITHIN, all).await.unwrap_or(false) {
        ends(&mut response);
    }
    response
}

/// Nothing else can come over the connection, and whoever is there is told so.
pub(crate) fn ends(response: &mut Response) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    fn request(parts: Vec<(u64, &'static str)>) -> Request {
        let parts = stream::iter(parts).then(|(pause, text)| async move {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            Ok::<_, io::Error>(text)
        });
        at_some_pace(Request::new(Body::from_stream(parts)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_dribbles_breaks_off_and_a_slow_one_comes_whole() {
        let whole = request(vec![(10, "ab"), (4, "cd")]);
        assert_eq!(to_bytes(whole.into_body(), 9).await.unwrap(), "abcd");
        let dribbled = request((0..20).map(|_| (1, "x")).collect());
        to_bytes(dribbled.into_body(), 99).await.unwrap_err();
        let silent = request(vec![(16, "late")]);
        to_bytes(silent.into_body(), 9).await.unwrap_err();
        let long: &str = Box::leak("y".repeat(20 * 1024).into_boxed_str());
        let slow = request(vec![(1, long), (20, "end")]);
        let read = to_bytes(slow.into_body(), 1 << 20).await.unwrap();
        assert!(read.ends_with(b"end"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_wants_is_read_unless_it_is_too_much_or_waits_to_be_asked_for() {
        let closes = async |request: Request| {
            let answer = unread(request, Response::new(Body::empty())).await;
            answer.headers().get(header::CONNECTION).cloned()
        };
        let close = Some(HeaderValue::from_static("close"));
        assert_eq!(closes(Request::new(Body::empty())).await, None);
        assert_eq!(closes(Request::new(Body::from("little"))).await, None);
        let block = || Ok::<_, io::Error>(Bytes::from(vec![0; 1024 * 1024]));
        let much = stream::repeat_with(block).take(17);
        assert_eq!(closes(Request::new(Body::from_stream(much))).await, close);
        let never = stream::pending::<io::Result<Bytes>>();
        assert_eq!(closes(Request::new(Body::from_stream(never))).await, close);
        let mut waits = Request::new(Body::from("asked for"));
        let told = HeaderValue::from_static("100-continue");
        waits.headers_mut().insert(header::EXPECT, told);
        assert_eq!(closes(waits).await, close);
    }

    #[test]
    fn a_request_without_a_body_stays_as_it_is() {
        let request = at_some_pace(Request::new(Body::empty()));
        assert!(request.body().is_end_stream());
    }
}
