//! What may lie in the place while nobody means it: it is written down before it is begun, so that a daemon that is killed
//! leaves nothing that the next one does not find. It goes by records of ours alone, for a bucket may be others' too.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use engine::{Batch, Keep, Stored};
use object_store::{Error, ObjectStoreExt, multipart::MultipartStore, path::Path};
use serde::{Deserialize, Serialize};
use tracing::warn;
use uuid::Uuid;

use super::{
    Exchange, ExchangeError,
    place::{INCOMING, place},
};

/// The kind of the records.
const LOOSE: &str = "exchange-loose";

/// Records read at a time.
const PAGE: u32 = 500;

/// Something that is removed unless it comes to be meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Loose {
    /// Of the record.
    id: String,
    /// Where it lies.
    pub(super) path: String,
    /// Of an object; others may mean it by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    /// An upload to a bucket that has only parts yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) upload: Option<String>,
}

impl Loose {
    /// Bytes on their way.
    pub(super) fn incoming() -> Self {
        let id = Uuid::new_v4().to_string();
        Self {
            path: format!("{INCOMING}/{id}"),
            id,
            hash: None,
            upload: None,
        }
    }

    /// An object in its place.
    pub(super) fn object(hash: &str) -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            path: place(hash).to_string(),
            hash: Some(hash.to_owned()),
            upload: None,
        }
    }

    pub(super) fn note(&self, batch: &mut Batch) -> Result<(), ExchangeError> {
        let put = batch.put(LOOSE, &self.id, Keep::Live, self);
        put.map_err(|source| ExchangeError::Records { source })
    }

    /// It is meant now, or gone.
    pub(super) fn settle(&self, batch: &mut Batch) {
        batch.remove(LOOSE, &self.id);
    }
}

/// Those that somebody is at; nobody else looks after them until they are dropped.
#[derive(Debug, Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<HashSet<String>>>);

#[derive(Debug)]
pub(super) struct Held {
    all: UnderWay,
    id: String,
}

impl UnderWay {
    pub(super) fn hold(&self, loose: &Loose) -> Held {
        self.lock().insert(loose.id.clone());
        Held {
            all: self.clone(),
            id: loose.id.clone(),
        }
    }

    fn has(&self, loose: &Loose) -> bool {
        self.lock().contains(&loose.id)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

impl Exchange {
    /// Writes down that it may come to lie there.
    pub(super) async fn begin(&self, loose: &Loose) -> Result<Held, ExchangeError> {
        let held = self.inner.under_way.hold(loose);
        let mut batch = Batch::default();
        loose.note(&mut batch)?;
        let written = self.inner.records.write_all(batch).await;
        written.map_err(|source| ExchangeError::Records { source })?;
        Ok(held)
    }

    /// Removes what nobody means; what cannot be removed now is tried again later. Whoever calls it has the gate.
    pub(super) async fn discard(&self, loose: Vec<Loose>) {
        let mut batch = Batch::default();
        for loose in &loose {
            match self.discard_one(loose).await {
                Ok(()) => loose.settle(&mut batch),
                Err(error) => warn!(%error, path = loose.path, "what nobody means stays for now"),
            }
        }
        if let Err(error) = self.inner.records.write_all(batch).await {
            warn!(%error, "what was removed from the exchange is looked for again");
        }
    }

    async fn discard_one(&self, loose: &Loose) -> Result<(), Error> {
        if loose
            .hash
            .as_ref()
            .is_some_and(|hash| self.usage().has(hash))
        {
            return Ok(());
        }
        let path = Path::from(loose.path.as_str());
        let gone = |result| match result {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        };
        if let (Some(bucket), Some(upload)) = (&self.inner.bucket, &loose.upload) {
            gone(bucket.abort_multipart(&path, upload).await)?;
        }
        gone(self.inner.store.delete(&path).await)
    }

    /// Looks for what earlier daemons and broken connections have left.
    pub(crate) async fn sweep(&self) -> Result<(), ExchangeError> {
        let mut after = None;
        loop {
            let records = &self.inner.records;
            let page = records.list_unchanged_since::<Loose>(LOOSE, i64::MAX, after, PAGE);
            let page: Vec<Stored<Loose>> = page
                .await
                .map_err(|source| ExchangeError::Records { source })?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some((last.at, last.id.clone()));
            let left = page.into_iter().map(|stored| stored.value);
            let left = left.filter(|loose| !self.inner.under_way.has(loose));
            let left: Vec<Loose> = left.collect();
            let _gate = self.gate().await;
            self.discard(left).await;
        }
    }
}
