//! Whoever called a tool: when they have left, and how they are told what happens meanwhile.

use std::collections::BTreeSet;

use domain::Trace;
use engine::{Rights, ToolProgress};
use rmcp::{
    RoleServer,
    model::{
        CancelledNotificationParam, ProgressNotificationParam, ProgressToken, RequestId,
        ServerRequest,
    },
    service::{
        ElicitationMode, Peer, PeerRequestOptions, RequestContext, RequestHandle, ServiceError,
    },
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use crate::{failure::Failure, sight::Sight};

/// The right to lend folders of this machine, which the right to MCP does not bring along.
pub(crate) const LEND_RIGHT: &str = "delegations";

/// The right to ask other nodes, which it does not bring along either.
pub(crate) const PEERS_RIGHT: &str = "peers";

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
    is_on_stdio: bool,
    /// What it may do: everything on the owner's own stdio, and on the network what the listener has found out.
    rights: Rights,
    /// Which agents it is told of.
    sight: Sight,
    /// What the call belongs to, where the client says so.
    trace: Option<Trace>,
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
        let rights = match parts {
            None => Rights::All,
            Some(parts) => {
                let caller = parts.extensions.get::<engine::Caller>();
                caller.map_or_else(|| Rights::Only(BTreeSet::new()), |it| it.rights.clone())
            }
        };
        Self {
            is_on_stdio: parts.is_none(),
            rights,
            sight: Sight::of(context),
            calls,
            request: context.ct.child_token(),
            gone,
            peer: context.peer.clone(),
            token: context.meta.get_progress_token(),
            trace: (context.meta.get_traceparent()).and_then(Trace::of_traceparent),
            told: 0,
        }
    }

    /// What makes it leave before it does by itself, and where work for it goes on to its end.
    pub(crate) fn dismissal(&self) -> (CancellationToken, TaskTracker) {
        (self.request.clone(), self.calls.clone())
    }

    /// The trace of the turns that the call brings about.
    pub(crate) fn trace(&self) -> Option<String> {
        self.trace.map(|trace| trace.to_string())
    }

    /// Whether no agent leads where it may not go.
    pub(crate) fn may_go_everywhere(&self) -> bool {
        self.rights.cover(LEND_RIGHT) && self.rights.cover(PEERS_RIGHT)
    }

    /// Refuses what needs a right that it does not have.
    pub(crate) fn require(&self, right: &str) -> Result<(), Failure> {
        if self.rights.cover(right) {
            return Ok(());
        }
        let act = match right {
            LEND_RIGHT => "lend folders",
            _ => "ask other nodes",
        };
        let words = format!("this token may not {act}: it needs the right {right}");
        Err(Failure::new("FORBIDDEN", words))
    }

    /// Whether somebody at the client can be asked during a call that is answered in this task. Where what is asked must come
    /// back with the answer of the call instead, as in versions from 2026 on, nobody is.
    pub(crate) fn can_be_asked(&self) -> bool {
        let has_forms = self
            .peer
            .supported_elicitation_modes()
            .contains(&ElicitationMode::Form);
        let client = self.peer.peer_info();
        has_forms && client.is_some_and(|client| client.protocol_version.has_initialize())
    }

    /// The same for a call that a task of its own carries out: over HTTP what is asked there would find no way to the client.
    pub(crate) fn can_be_asked_by_a_task(&self) -> bool {
        self.is_on_stdio && self.can_be_asked()
    }

    /// Asks the client something.
    pub(crate) async fn ask(
        &self,
        request: ServerRequest,
    ) -> Result<RequestHandle<RoleServer>, ServiceError> {
        let options = PeerRequestOptions::no_options();
        self.peer.send_cancellable_request(request, options).await
    }

    /// Tells the client that a request of ours needs no answer any more.
    pub(crate) async fn take_back(&self, request: RequestId) {
        let reason = "it is settled".to_owned();
        let taken_back = CancelledNotificationParam::new(Some(request), Some(reason));
        if let Err(error) = self.peer.notify_cancelled(taken_back).await {
            debug!(%error, "could not take a question back");
        }
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
