//! Bodies of requests, which must come at some pace: whoever dribbles one holds its place no longer than that.

use std::{io, time::Duration};

use axum::{
    body::{Body, BodyDataStream, HttpBody},
    extract::Request,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

/// How long a body may take to begin, and to pause for at its slowest.
const PATIENCE: Duration = Duration::from_secs(15);

/// The slowest body, in bytes a second: a bad line of a phone.
const PACE_MIN: u64 = 1024;

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

    #[test]
    fn a_request_without_a_body_stays_as_it_is() {
        let request = at_some_pace(Request::new(Body::empty()));
        assert!(request.body().is_end_stream());
    }
}
