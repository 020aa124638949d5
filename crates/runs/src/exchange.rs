//! The exchange: objects known by their hash, behind addresses that anybody may be given for a while.
//!
//! Names of others never become a place: an object lies under its hash, a name is only shown. Counting and collecting
//! go by the records; the bytes may lie in a folder or in anything that speaks S3.

mod dropbox;
mod link;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::StatusCode;
use bytes::Bytes;
use domain::Timestamp;
use engine::{EngineError, Keep, Records, Which};
use futures_util::{Stream, StreamExt, stream::BoxStream};
use object_store::{
    GetOptions, GetRange, ObjectStore, ObjectStoreExt, WriteMultipart, aws::AmazonS3Builder,
    local::LocalFileSystem, path::Path,
};
use platform::files::{self, FileError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::warn;
use uuid::Uuid;
use wire::hex;

pub(crate) use dropbox::readable_name;
pub(crate) use link::Links;

use crate::{
    config::{ExchangeConfig, Place},
    record,
};

/// The kind of the records.
const RESOURCE: &str = "resource";

/// Records read at a time.
const PAGE: u32 = 500;

/// Parts of an upload on their way at a time.
const PARTS_MAX: usize = 4;

/// A name that is shown.
const NAME_MAX: usize = 255;

/// Everything that was handed over. Clones are the same.
#[derive(Debug, Clone)]
pub struct Exchange {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: ExchangeConfig,
    store: Arc<dyn ObjectStore>,
    records: Records,
    links: Links,
    usage: Mutex<Usage>,
    /// One at a time: an object must not be removed while somebody hands over the same bytes again.
    gate: Semaphore,
}

/// What lies there: how often each object is meant, and how large all of them are.
#[derive(Debug, Default)]
struct Usage {
    objects: HashMap<String, Object>,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Object {
    size: u64,
    meant: usize,
}

/// One thing that was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    pub(crate) id: String,
    /// SHA-256 in hex.
    pub(crate) hash: String,
    pub(crate) size: u64,
    pub(crate) content_type: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    /// Who handed it over.
    pub(crate) owner: String,
}

/// What to keep of an object beside its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub(crate) name: Option<String>,
    pub(crate) content_type: String,
    pub(crate) owner: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("could not prepare the exchange's folder")]
    Folder { source: FileError },
    #[error("could not {act} in the exchange")]
    Store {
        act: &'static str,
        source: object_store::Error,
    },
    #[error("could not keep what lies in the exchange")]
    Records { source: EngineError },
    #[error("an object may have {max} bytes at most")]
    TooLarge { max: u64 },
    #[error("the exchange is full: {used} of {quota} bytes are taken")]
    Full { used: u64, quota: u64 },
    #[error("the upload broke off: {why}")]
    BrokenOff { why: String },
    #[error("the hash of what came is {is}, not {said}")]
    WrongHash { is: String, said: String },
    #[error("there is no resource {id}")]
    NotFound { id: String },
    #[error("this link is not valid, or no longer")]
    BadLink,
    #[error("{wanted} is not a range of {size} bytes")]
    Range { wanted: String, size: u64 },
}

impl ExchangeError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Folder { .. } | Self::Store { .. } | Self::Records { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
            Self::BrokenOff { .. } => StatusCode::BAD_REQUEST,
            Self::WrongHash { .. } => StatusCode::CONFLICT,
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::BadLink => StatusCode::FORBIDDEN,
            Self::Range { .. } => StatusCode::RANGE_NOT_SATISFIABLE,
        }
    }

    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Folder { .. } | Self::Store { .. } | Self::Records { .. } => "exchange_failed",
            Self::TooLarge { .. } => "resource_too_large",
            Self::Full { .. } => "exchange_full",
            Self::BrokenOff { .. } => "upload_broken_off",
            Self::WrongHash { .. } => "wrong_hash",
            Self::NotFound { .. } => "resource_not_found",
            Self::BadLink => "link_not_valid",
            Self::Range { .. } => "range_not_satisfiable",
        }
    }

    pub(crate) fn suggestion(&self) -> &'static str {
        match self {
            Self::Folder { .. } | Self::Store { .. } | Self::Records { .. } => {
                "look at the node's disk and log"
            }
            Self::TooLarge { .. } => "hand it over in smaller objects",
            Self::Full { .. } => "wait until older objects have gone, or raise the quota",
            Self::BrokenOff { .. } | Self::WrongHash { .. } => "send it again",
            Self::NotFound { .. } | Self::BadLink => "ask whoever gave the link for a new one",
            Self::Range { .. } => "ask for a range that the object has",
        }
    }
}

impl Exchange {
    /// Opens the place and counts what lies there.
    pub(crate) async fn open(
        config: ExchangeConfig,
        records: Records,
    ) -> Result<Self, ExchangeError> {
        let store = object_store(&config.place)?;
        let links = Links::open(&records)
            .await
            .map_err(|source| ExchangeError::Records { source })?;
        let exchange = Self {
            inner: Arc::new(Inner {
                config,
                store,
                records,
                links,
                usage: Mutex::default(),
                gate: Semaphore::new(1),
            }),
        };
        for resource in exchange.all().await? {
            exchange.usage().add(&resource.hash, resource.size);
        }
        Ok(exchange)
    }

    /// Keeps bytes that are at hand.
    pub(crate) async fn put(&self, label: Label, bytes: Bytes) -> Result<Resource, ExchangeError> {
        let size = bytes.len() as u64;
        self.check_room(size)?;
        let hash = hex(&Sha256::digest(&bytes));
        let _gate = self.gate().await;
        if !self.usage().has(&hash) {
            let put = self.inner.store.put(&place(&hash), bytes.into()).await;
            put.map_err(|source| ExchangeError::Store {
                act: "write",
                source,
            })?;
        }
        self.keep(label, hash, size).await
    }

    /// Keeps bytes as they come; `said` is the hash that the sender claims.
    pub(crate) async fn put_stream<E: std::fmt::Display>(
        &self,
        label: Label,
        said: Option<String>,
        bytes: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Resource, ExchangeError> {
        let incoming = Path::from(format!("incoming/{}", Uuid::new_v4()));
        let taken = self.take_in(&incoming, bytes).await;
        let result = match taken {
            Ok((hash, _)) if said.as_ref().is_some_and(|said| *said != hash) => {
                let said = said.unwrap_or_default();
                Err(ExchangeError::WrongHash { is: hash, said })
            }
            taken => taken,
        };
        let (hash, size) = match result {
            Ok(taken) => taken,
            Err(error) => {
                let _ = self.inner.store.delete(&incoming).await; // It may not have come to be.
                return Err(error);
            }
        };
        let _gate = self.gate().await;
        let store = &self.inner.store;
        let moved = store.rename(&incoming, &place(&hash)).await;
        moved.map_err(|source| ExchangeError::Store {
            act: "write",
            source,
        })?;
        self.keep(label, hash, size).await
    }

    async fn take_in<E: std::fmt::Display>(
        &self,
        incoming: &Path,
        mut bytes: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<(String, u64), ExchangeError> {
        let failed = |source| ExchangeError::Store {
            act: "write",
            source,
        };
        let upload = self.inner.store.put_multipart(incoming).await;
        let mut upload = WriteMultipart::new(upload.map_err(failed)?);
        let (mut hash, mut size) = (Sha256::new(), 0_u64);
        while let Some(chunk) = bytes.next().await {
            let checked = chunk
                .map_err(|error| ExchangeError::BrokenOff {
                    why: error.to_string(),
                })
                .and_then(|chunk| {
                    size += chunk.len() as u64;
                    self.check_room(size).map(|()| chunk)
                });
            let chunk = match checked {
                Ok(chunk) => chunk,
                Err(error) => {
                    let _ = upload.abort().await; // What it left is deleted by the caller.
                    return Err(error);
                }
            };
            hash.update(&chunk);
            upload.wait_for_capacity(PARTS_MAX).await.map_err(failed)?;
            upload.put(chunk);
        }
        upload.finish().await.map_err(failed)?;
        Ok((hex(&hash.finalize()), size))
    }

    async fn keep(&self, label: Label, hash: String, size: u64) -> Result<Resource, ExchangeError> {
        let now = record::now();
        let resource = Resource {
            id: Uuid::new_v4().to_string(),
            hash,
            size,
            content_type: label.content_type,
            name: label.name.map(|name| name.chars().take(NAME_MAX).collect()),
            created_at: now,
            expires_at: now + self.inner.config.keep,
            owner: label.owner,
        };
        let records = &self.inner.records;
        let put = records.put(RESOURCE, &resource.id, Keep::Live, &resource, None);
        put.await
            .map_err(|source| ExchangeError::Records { source })?;
        self.usage().add(&resource.hash, resource.size);
        Ok(resource)
    }

    fn check_room(&self, size: u64) -> Result<(), ExchangeError> {
        let (max, quota) = (self.inner.config.object_max, self.inner.config.quota);
        if size > max {
            return Err(ExchangeError::TooLarge { max });
        }
        let used = self.usage().bytes;
        if used.saturating_add(size) > quota {
            return Err(ExchangeError::Full { used, quota });
        }
        Ok(())
    }

    /// A resource that has not expired.
    pub(crate) async fn get(&self, id: &str) -> Result<Resource, ExchangeError> {
        let not_found = || ExchangeError::NotFound { id: id.to_owned() };
        let stored = self.inner.records.get::<Resource>(RESOURCE, id).await;
        let stored = stored.map_err(|source| ExchangeError::Records { source })?;
        stored
            .map(|stored| stored.value)
            .filter(|resource| record::now() < resource.expires_at)
            .ok_or_else(not_found)
    }

    /// The bytes, or a part of them, as they come.
    pub(crate) async fn read(
        &self,
        resource: &Resource,
        range: Option<std::ops::Range<u64>>,
    ) -> Result<BoxStream<'static, Result<Bytes, object_store::Error>>, ExchangeError> {
        let options = GetOptions {
            range: range.map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let got = self
            .inner
            .store
            .get_opts(&place(&resource.hash), options)
            .await;
        match got {
            Ok(got) => Ok(got.into_stream()),
            Err(object_store::Error::NotFound { .. }) => Err(ExchangeError::NotFound {
                id: resource.id.clone(),
            }),
            Err(source) => Err(ExchangeError::Store {
                act: "read",
                source,
            }),
        }
    }

    /// The path by which anybody reads a resource until it expires.
    pub(crate) fn path(&self, id: &str, until: Timestamp) -> String {
        let signature = self.inner.links.sign(id, until);
        format!("/resources/{id}?expires={}&signature={signature}", until.0)
    }

    /// Whether a link was given by us and still holds.
    pub(crate) fn is_valid_link(&self, id: &str, expires: i64, signature: &str) -> bool {
        record::now().0 < expires && self.inner.links.verify(id, Timestamp(expires), signature)
    }

    pub(crate) fn config(&self) -> &ExchangeConfig {
        &self.inner.config
    }

    pub(crate) async fn remove(&self, id: &str) -> Result<(), ExchangeError> {
        let stored = self.inner.records.get::<Resource>(RESOURCE, id).await;
        let stored = stored.map_err(|source| ExchangeError::Records { source })?;
        match stored {
            Some(stored) => self.forget(stored.value).await,
            None => Ok(()),
        }
    }

    /// Removes what has expired; says how many went.
    pub(crate) async fn collect(&self, now: Timestamp) -> Result<usize, ExchangeError> {
        let mut gone = 0;
        for resource in self.all().await? {
            if resource.expires_at <= now {
                self.forget(resource).await?;
                gone += 1;
            }
        }
        Ok(gone)
    }

    /// The record goes first: an object without one is only space, a record without an object is a broken promise.
    async fn forget(&self, resource: Resource) -> Result<(), ExchangeError> {
        let _gate = self.gate().await;
        let removed = self
            .inner
            .records
            .remove(RESOURCE, &resource.id, None)
            .await;
        removed.map_err(|source| ExchangeError::Records { source })?;
        if self.usage().remove(&resource.hash) {
            let deleted = self.inner.store.delete(&place(&resource.hash)).await;
            if let Err(error) = deleted {
                warn!(%error, hash = resource.hash, "an object could not be removed");
            }
        }
        Ok(())
    }

    async fn all(&self) -> Result<Vec<Resource>, ExchangeError> {
        let (mut all, mut before) = (Vec::new(), None);
        loop {
            let records = &self.inner.records;
            let page = records.list::<Resource>(RESOURCE, Which::All, before, PAGE);
            let page = page
                .await
                .map_err(|source| ExchangeError::Records { source })?;
            let Some(last) = page.last() else {
                return Ok(all);
            };
            before = Some((last.at, last.id.clone()));
            all.extend(page.into_iter().map(|stored| stored.value));
        }
    }

    async fn gate(&self) -> SemaphorePermit<'_> {
        let permit = self.inner.gate.acquire().await;
        permit.expect("the gate is never closed")
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.inner
            .usage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Usage {
    fn has(&self, hash: &str) -> bool {
        self.objects.contains_key(hash)
    }

    fn add(&mut self, hash: &str, size: u64) {
        let object = self
            .objects
            .entry(hash.to_owned())
            .or_insert(Object { size, meant: 0 });
        if object.meant == 0 {
            self.bytes += size;
        }
        object.meant += 1;
    }

    /// Says whether nobody means the object any more.
    fn remove(&mut self, hash: &str) -> bool {
        let Some(object) = self.objects.get_mut(hash) else {
            return false;
        };
        object.meant -= 1;
        let is_last = object.meant == 0;
        if is_last {
            self.bytes -= object.size;
            self.objects.remove(hash);
        }
        is_last
    }
}

fn object_store(place: &Place) -> Result<Arc<dyn ObjectStore>, ExchangeError> {
    let failed = |source| ExchangeError::Store {
        act: "begin",
        source,
    };
    match place {
        Place::Folder(dir) => {
            files::create_private_dir(dir).map_err(|source| ExchangeError::Folder { source })?;
            let store = LocalFileSystem::new_with_prefix(dir).map_err(failed)?;
            Ok(Arc::new(store.with_automatic_cleanup(true)))
        }
        Place::S3(s3) => {
            let mut builder = AmazonS3Builder::new()
                .with_bucket_name(&s3.bucket)
                .with_region(&s3.region)
                .with_access_key_id(&s3.access_key)
                .with_secret_access_key(&s3.secret_key);
            if let Some(endpoint) = &s3.endpoint {
                builder = builder
                    .with_endpoint(endpoint)
                    .with_allow_http(endpoint.starts_with("http://"));
            }
            Ok(Arc::new(builder.build().map_err(failed)?))
        }
    }
}

fn place(hash: &str) -> Path {
    let (first, rest) = hash.split_at(2.min(hash.len()));
    Path::from(format!("objects/{first}/{rest}"))
}
