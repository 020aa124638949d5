//! Who is at the page: while it is open somewhere, what sessions ask it waits for an answer.
//!
//! Everybody at a page is one client of a session. It stays attached until the last page has been away for a while, so
//! that a reload, a break of the line or a look at another part declines nothing.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use domain::session::ClientId;
use engine::{Answers, AttachAs, EngineError, Sessions};
use platform::Tasks;
use tokio::sync::Mutex;

/// How long a page may be away: a browser reconnects after seconds, a person reloads as fast.
const AWAY_MAX: Duration = Duration::from_secs(30);

/// The client that everybody at a page is.
pub(crate) fn client() -> ClientId {
    ClientId("dashboard".to_owned())
}

/// Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Watchers {
    sessions: Sessions,
    present: Arc<Mutex<Present>>,
    tasks: Tasks,
}

#[derive(Debug, Default)]
struct Present {
    /// Pages that are open, or were a moment ago.
    pages: usize,
    /// What the client is attached to.
    attached: BTreeSet<String>,
}

/// A page that is open, until it is dropped.
#[derive(Debug)]
pub(crate) struct Page {
    watchers: Watchers,
}

impl Watchers {
    pub(crate) fn new(sessions: Sessions, tasks: Tasks) -> Self {
        Self {
            sessions,
            present: Arc::default(),
            tasks,
        }
    }

    pub(crate) async fn page(&self) -> Page {
        self.present.lock().await.pages += 1;
        Page {
            watchers: self.clone(),
        }
    }

    /// Attaches to a session, as somebody who answers.
    pub(crate) async fn attach(&self, session: &str) -> Result<(), EngineError> {
        let mut present = self.present.lock().await;
        let attach = AttachAs {
            client: client(),
            answers: Answers::Everything,
        };
        self.sessions.attach(session, attach).await?;
        let live = self.sessions.list(None);
        present
            .attached
            .retain(|known| live.iter().any(|view| view.session_id == *known));
        present.attached.insert(session.to_owned());
        Ok(())
    }

    async fn leave(&self) {
        let mut present = self.present.lock().await;
        present.pages -= 1;
        if present.pages == 0 {
            for session in std::mem::take(&mut present.attached) {
                self.sessions.detach(&session, client()).await;
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let watchers = self.watchers.clone();
        drop(self.watchers.tasks.spawn(|stop| async move {
            tokio::select! { biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(AWAY_MAX) => watchers.leave().await,
            }
        }));
    }
}
