//! What has expired goes: by the records, the oldest first, a page at a time.

use domain::Timestamp;
use engine::{Batch, Stored};
use object_store::ObjectStoreExt;
use platform::files;
use tracing::warn;

use super::{
    Exchange, ExchangeError, RESOURCE, Resource,
    place::{INCOMING, place},
};
use crate::config::Place;

/// Records read at a time.
const PAGE: u32 = 500;

impl Exchange {
    pub(crate) async fn remove(&self, id: &str) -> Result<(), ExchangeError> {
        self.remove_all(vec![id.to_owned()]).await
    }

    /// Removes several at once; those that are not there are no error. The records go first: an object without one is
    /// only space, a record without an object is a broken promise.
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
        records.write_all(batch).await.map_err(failed)?;
        for resource in resources {
            self.forget(resource).await;
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

    async fn forget(&self, resource: Resource) {
        if resource.inline.is_some() {
            self.usage().remove_inline(resource.size);
            return;
        }
        let is_last = self.usage().remove(&resource.hash);
        if !is_last {
            return;
        }
        let deleted = self.inner.store.delete(&place(&resource.hash)).await;
        if let Err(error) = deleted {
            warn!(%error, hash = resource.hash, "an object could not be removed");
        }
    }
}
