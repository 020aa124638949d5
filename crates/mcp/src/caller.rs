//! Whoever called a tool: when they have left, and how they are told what happens meanwhile.

use engine::ToolProgress;
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::{Peer, RequestContext},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use crate::sight::Sight;

/// The right to lend folders of this machine, which the right to MCP does not bring along.
const LEND_RIGHT: &str = "delegations";

/// The right to ask other nodes.
const PEERS_RIGHT: &str = "peers";

/// The client's side of one tool call.
#[derive(Debug)]
pub(crate) struct Caller {
    /// What is done for it, also after it was answered.
    calls: TaskTracker,
    /// The call was cancelled.
    request: CancellationToken,
    /// The client is gone, or we are told to end.
    gone: CancellationToken,
    peer: Peer<RoleServer>,
    /// Present if the client wants to be told of progress.
    token: Option<ProgressToken>,
    /// Whether it may lend folders: everybody on the owner's own stdio, and who has the right on the network.
    may_lend: bool,
    /// Whether it may ask other nodes, in the same way.
    may_ask_peers: bool,
    /// Which agents it is told of.
    sight: Sight,
    /// How often it was told; progress has no other measure, and must grow.
    told: u32,
}

impl Caller {
    pub(crate) fn new(
        context: &RequestContext<RoleServer>,
        gone: CancellationToken,
        calls: TaskTracker,
    ) -> Self {
        let parts = context.extensions.get::<axum::http::request::Parts>();
        let caller = parts.map(|parts| parts.extensions.get::<engine::Caller>());
        let may = |right: &str| match caller {
            None => true,
            Some(caller) => caller.is_some_and(|caller| caller.may(right)),
        };
        Self {
            may_lend: may(LEND_RIGHT),
            may_ask_peers: may(PEERS_RIGHT),
            sight: Sight::of(context),
            calls,
            request: context.ct.child_token(),
            gone,
            peer: context.peer.clone(),
            token: context.meta.get_progress_token(),
            told: 0,
        }
    }

    /// What makes it leave before it does by itself, and where work for it goes on to its end.
    pub(crate) fn dismissal(&self) -> (CancellationToken, TaskTracker) {
        (self.request.clone(), self.calls.clone())
    }

    pub(crate) fn may_lend(&self) -> bool {
        self.may_lend
    }

    pub(crate) fn may_ask_peers(&self) -> bool {
        self.may_ask_peers
    }

    pub(crate) fn sight(&self) -> Sight {
        self.sight
    }

    /// Resolves when nobody waits for the result any more.
    pub(crate) async fn left(&self) {
        left(&self.request, &self.gone).await;
    }

    /// Passes on what a server says of its progress, in its own measure.
    pub(crate) async fn tell_progress(&mut self, told: ToolProgress) {
        let Some(token) = self.token.clone() else {
            return;
        };
        let mut progress = ProgressNotificationParam::new(token, told.progress);
        progress.total = told.total;
        progress.message = told.message;
        self.send(progress).await;
    }

    /// Tells the client how far it is, if it wants to know and does not leave before it reads that.
    pub(crate) async fn tell(&mut self, message: String) {
        let Some(token) = self.token.clone() else {
            return;
        };
        self.told += 1;
        let progress =
            ProgressNotificationParam::new(token, f64::from(self.told)).with_message(message);
        self.send(progress).await;
    }

    async fn send(&self, progress: ProgressNotificationParam) {
        tokio::select! { biased;
            () = left(&self.request, &self.gone) => {}
            sent = self.peer.notify_progress(progress) => {
                if let Err(error) = sent {
                    debug!(%error, "could not tell the client of progress");
                }
            }
        }
    }
}

async fn left(request: &CancellationToken, gone: &CancellationToken) {
    tokio::select! {
        () = request.cancelled() => {}
        () = gone.cancelled() => {}
    }
}
