//! What a server says by itself: its lists have changed, or a call has come further.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use engine::ToolProgress;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
        ResourceUpdatedNotificationParam,
    },
    service::NotificationContext,
};
use tokio::sync::{Notify, mpsc};

/// Who waits for news of which call, by the token of its progress.
type Waiting = BTreeMap<String, mpsc::Sender<ToolProgress>>;

/// Hears one server; clones are the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct Ear {
    changed: Arc<Notify>,
    doubt: Arc<Notify>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Ear {
    /// The server has said that its lists, or what it shows, are not what they were.
    pub(super) async fn lists_changed(&self) {
        self.changed.notified().await;
    }

    /// A call has found the server not to be there.
    pub(super) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    pub(super) fn doubt(&self) {
        self.doubt.notify_one();
    }

    pub(super) fn listen(&self, token: &ProgressToken, progress: mpsc::Sender<ToolProgress>) {
        self.waiting().insert(word(token), progress);
    }

    pub(super) fn stop_listening(&self, token: &ProgressToken) {
        self.waiting().remove(&word(token));
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.client_info = Implementation::new("agentcraft", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let listener = self.waiting().get(&word(&params.progress_token)).cloned();
        if let Some(listener) = listener {
            // Progress that nobody reads in time is stale.
            let _ = listener.try_send(ToolProgress {
                progress: params.progress,
                total: params.total,
                message: params.message,
            });
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_resource_updated(
        &self,
        _: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.changed.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// A token as text that tells numbers and texts apart.
fn word(token: &ProgressToken) -> String {
    format!("{:?}", token.0)
}
