//! What has changed since a client was last told: the tools, what can be read, and what was read.

use std::collections::{BTreeMap, BTreeSet};

use engine::{ServerStatus, ToolSource};
use tokio::sync::watch;

use super::resources;

/// Resources that one client may follow: more than any desktop shows.
pub(super) const FOLLOWED_MAX: usize = 256;

/// What a client is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct News {
    pub(super) tools: bool,
    /// Whose resources may be others, or may read otherwise.
    pub(super) servers: BTreeSet<String>,
}

impl News {
    /// Those of these addresses that must be read again.
    pub(super) fn stale<'a>(&self, followed: impl IntoIterator<Item = &'a String>) -> Vec<String> {
        let is_stale = |uri: &&String| {
            resources::server_of(uri).is_some_and(|server| self.servers.contains(&server))
        };
        followed.into_iter().filter(is_stale).cloned().collect()
    }
}

/// What was last seen, to tell what has changed from what has only moved.
pub(super) struct Watching {
    changes: watch::Receiver<u64>,
    tools: Vec<engine::Tool>,
    resources: BTreeMap<String, u64>,
}

impl Watching {
    pub(super) fn new(source: &dyn ToolSource) -> Self {
        Self {
            changes: source.changes(),
            tools: source.tools(),
            resources: readable(source),
        }
    }

    /// Waits until something is news; nothing when there will never be any.
    pub(super) async fn news(&mut self, source: &dyn ToolSource) -> Option<News> {
        loop {
            self.changes.changed().await.ok()?;
            let news = self.compare(source);
            if news != News::default() {
                return Some(news);
            }
        }
    }

    fn compare(&mut self, source: &dyn ToolSource) -> News {
        let (tools, now) = (source.tools(), readable(source));
        let mut news = News {
            tools: tools != self.tools,
            servers: BTreeSet::new(),
        };
        for server in now.keys().chain(self.resources.keys()) {
            if now.get(server) != self.resources.get(server) {
                news.servers.insert(server.clone());
            }
        }
        (self.tools, self.resources) = (tools, now);
        news
    }
}

/// How much each server that is there has said of its resources.
fn readable(source: &dyn ToolSource) -> BTreeMap<String, u64> {
    let servers = source.servers().into_iter();
    servers
        .filter(|server| server.status == ServerStatus::Ready)
        .map(|server| (server.name.clone(), source.resource_news(&server.name)))
        .collect()
}
