//! What has expired goes: by the records, the oldest first, a page at a time.

use domain::Timestamp;
use engine::{Batch, Stored};
use platform::{crash, files};
use tracing::warn;

use super::{
    Exchange, ExchangeError, RESOURCE, Resource,
    loose::{Held, Loose},
    place::INCOMING,
};
use crate::config::Place;

/// Records read at a time.
const PAGE: u32 = 500;

impl Exchange {
    pub(crate) async fn remove(&self, id: &str) -> Result<(), ExchangeError> {
        self.remove_all(vec![id.to_owned()]).await
    }

    /// Removes several at once; those that are not there are no error. The records go first: an object without one is
    /// only space, a record without an object is a broken promise. What is only space then is written down with it.
    pub(crate) async fn remove_all(&self, ids: Vec<String>) -> Result<(), ExchangeError> {
        let failed = |source| ExchangeError::Records { source };
        let _gate = self.gate().await;
        let records = &self.inner.records;
        let stored = records.get_all::<Resource>(RESOURCE, ids).await;
        let resources: Vec<Resource> = stored.map_err(failed)?;
        if resources.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        for resource in &resources {
            batch.remove(RESOURCE, &resource.id);
        }
        let unmeant: Vec<Loose> = self
            .usage()
            .unmeant_without(&resources)
            .iter()
            .map(|hash| Loose::object(hash))
            .collect();
        for loose in &unmeant {
            loose.note(&mut batch)?;
        }
        let _held: Vec<Held> = unmeant
            .iter()
            .map(|loose| self.inner.under_way.hold(loose))
            .collect();
        records.write_all(batch).await.map_err(failed)?;
        crash::point("exchange.removed");
        for resource in &resources {
            self.usage().forget(resource);
        }
        if !unmeant.is_empty() {
            self.discard(unmeant).await;
        }
        Ok(())
    }

    /// Removes what has expired; says how many went.
    pub(crate) async fn collect(&self, now: Timestamp) -> Result<usize, ExchangeError> {
        let keep = i64::try_from(self.inner.config.keep.as_millis()).unwrap_or(i64::MAX);
        let (mut gone, mut after) = (0, None);
        loop {
            // What is younger cannot have expired.
            let page = self.page(now.0.saturating_sub(keep), after).await?;
            let Some(last) = page.last() else {
                return Ok(gone);
            };
            after = Some((last.at, last.id.clone()));
            let resources = page.into_iter().map(|stored| stored.value);
            let expired: Vec<String> = resources
                .filter(|resource| resource.expires_at <= now)
                .map(|resource| resource.id)
                .collect();
            gone += expired.len();
            self.remove_all(expired).await?;
        }
    }

    /// Removes what uploads have left that an earlier daemon did not finish.
    pub(super) async fn clear_incoming(&self) {
        if let Place::Folder(dir) = &self.inner.config.place {
            // The store itself does not list what it has not finished writing.
            let cleared = files::remove_tree(&dir.join(INCOMING));
            if let Err(error) = cleared {
                warn!(%error, "uploads that were never finished stay");
            }
        }
    }

    /// Counts what lies there.
    pub(super) async fn count_all(&self) -> Result<(), ExchangeError> {
        let mut after = None;
        loop {
            let page = self.page(i64::MAX, after).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some((last.at, last.id.clone()));
            let mut usage = self.usage();
            for Stored { value, .. } in page {
                match value.inline {
                    Some(_) => usage.add_inline(value.size),
                    None => usage.add(&value.hash, value.size),
                }
            }
        }
    }

    async fn page(
        &self,
        until: i64,
        after: Option<(i64, String)>,
    ) -> Result<Vec<Stored<Resource>>, ExchangeError> {
        let records = &self.inner.records;
        let page = records.list_unchanged_since(RESOURCE, until, after, PAGE);
        page.await
            .map_err(|source| ExchangeError::Records { source })
    }
}
