//! Sessions of clients over HTTP, and when one is over that nobody uses.
//!
//! The library ends a session in which nothing was said for a while, with the call that an agent works on in silence. So it ends
//! none here: whoever comes anew ends those that were left, and a call counts as use for as long as it runs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, request::Parts},
    middleware::{self, Next},
    response::Response,
};
use rmcp::{
    RoleServer,
    service::RequestContext,
    transport::streamable_http_server::{SessionManager, session::local::LocalSessionManager},
};
use tokio::time::Instant;
use tracing::{debug, info};

/// How long a session stays in which no call runs and nothing is asked: a person may be away for a while, and a client that has
/// left without a word shall not hold one for ever.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);

/// Where a session is named, in requests and in the answer that begins it.
const SESSION_HEADER: &str = "mcp-session-id";

/// The sessions of one server.
#[derive(Debug, Clone)]
pub(crate) struct Visits {
    manager: Arc<LocalSessionManager>,
    seen: Arc<Mutex<HashMap<String, Visit>>>,
}

#[derive(Debug)]
struct Visit {
    last: Instant,
    calls: usize,
}

/// A call under way; its end is the last that was seen of its session for now.
#[derive(Debug)]
pub(crate) struct Visiting {
    visits: Visits,
    session: String,
}

impl Visits {
    pub(crate) fn new() -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = None;
        Self {
            manager: Arc::new(manager),
            seen: Arc::default(),
        }
    }

    pub(crate) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    /// Sees who comes to these routes.
    pub(crate) fn watch(&self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self.clone(), see))
    }

    /// Counts a call of somebody who came over HTTP and has a session.
    pub(crate) fn call(&self, context: &RequestContext<RoleServer>) -> Option<Visiting> {
        let parts = context.extensions.get::<Parts>()?;
        let session = named(&parts.headers)?;
        self.seen().get_mut(&session)?.calls += 1;
        Some(Visiting {
            visits: self.clone(),
            session,
        })
    }

    async fn end_idle(&self) {
        let idle = |visit: &Visit| visit.calls == 0 && visit.last.elapsed() >= IDLE_MAX;
        let mut over = Vec::new();
        self.seen().retain(|session, visit| {
            let is_over = idle(visit);
            if is_over {
                over.push(session.clone());
            }
            !is_over
        });
        for session in over {
            info!(session, "ending a session that nobody uses");
            if let Err(error) = self.manager.close_session(&session.into()).await {
                debug!(%error, "could not end a session that nobody uses");
            }
        }
    }

    fn begin(&self, session: String) {
        let last = Instant::now();
        self.seen().insert(session, Visit { last, calls: 0 });
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<String, Visit>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visiting {
    fn drop(&mut self) {
        if let Some(visit) = self.visits.seen().get_mut(&self.session) {
            visit.calls -= 1;
            visit.last = Instant::now();
        }
    }
}

async fn see(State(visits): State<Visits>, request: Request, next: Next) -> Response {
    let Some(session) = named(request.headers()) else {
        visits.end_idle().await;
        let response = next.run(request).await;
        if let Some(session) = named(response.headers()) {
            visits.begin(session);
        }
        return response;
    };
    if let Some(visit) = visits.seen().get_mut(&session) {
        visit.last = Instant::now();
    }
    next.run(request).await
}

fn named(headers: &HeaderMap) -> Option<String> {
    let named = headers.get(SESSION_HEADER)?.to_str().ok()?;
    Some(named.to_owned())
}

#[cfg(test)]
#[path = "visits_tests.rs"]
mod tests;
