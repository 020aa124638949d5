//! How the port was used: requests by the face that answered, their status and how long the answer took to begin, and whom
//! the port turned away.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{extract::Request, http::StatusCode, middleware::Next, response::Response};
use engine::Durations;
use tokio::time::Instant;

/// What answers where no face does: logins, tokens, refusals.
const PORT: &str = "port";

/// The face that gave an answer, told along with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Face(pub(crate) &'static str);

/// Why the port itself turned a request away, told along with the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnedAway(pub(crate) &'static str);

/// Counts since the start. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Traffic(Arc<Mutex<Answered>>);

/// What was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answered {
    /// How often each face answered with each status.
    pub requests: BTreeMap<(&'static str, u16), u64>,
    /// How long it took until an answer began.
    pub durations: BTreeMap<&'static str, Durations>,
    /// Requests that no face saw, by the reason.
    pub refusals: BTreeMap<&'static str, u64>,
}

impl Traffic {
    /// Passes a request on and counts its answer.
    pub(crate) async fn pass(self, request: Request, next: Next) -> Response {
        let began = Instant::now();
        let response = next.run(request).await;
        let told = response.extensions();
        let face = told.get::<Face>().map_or(PORT, |face| face.0);
        let refused = told.get::<TurnedAway>().map(|refused| refused.0);
        self.count(face, response.status(), began.elapsed(), refused);
        response
    }

    fn count(
        &self,
        face: &'static str,
        status: StatusCode,
        took: Duration,
        refused: Option<&'static str>,
    ) {
        let mut counts = self.counts();
        *counts.requests.entry((face, status.as_u16())).or_default() += 1;
        counts.durations.entry(face).or_default().take(took);
        if let Some(why) = refused {
            *counts.refusals.entry(why).or_default() += 1;
        }
    }

    pub fn answered(&self) -> Answered {
        self.counts().clone()
    }

    fn counts(&self) -> MutexGuard<'_, Answered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_face_and_status_and_refusals_by_reason() {
        let traffic = Traffic::default();
        let took = Duration::from_millis(3);
        traffic.count("runs", StatusCode::OK, took, None);
        traffic.count("runs", StatusCode::OK, took, None);
        traffic.count(PORT, StatusCode::UNAUTHORIZED, took, Some("unauthorized"));
        let answered = traffic.answered();
        let requests = BTreeMap::from([((PORT, 401), 1), (("runs", 200), 2)]);
        assert_eq!(answered.requests, requests);
        assert_eq!(answered.durations["runs"].count(), 2);
        assert_eq!(answered.refusals, BTreeMap::from([("unauthorized", 1)]));
    }
}
