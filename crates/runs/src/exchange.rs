//! The exchange: objects known by their hash, behind addresses that anybody may be given for a while.
//!
//! Names of others never become a place: an object lies under its hash, a name is only shown. Counting and collecting
//! go by the records; the bytes may lie in a folder or in anything that speaks S3.

mod collecting;
mod dropbox;
mod error;
mod link;
mod loose;
mod place;
mod upload;
mod usage;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use domain::Timestamp;
use engine::{Batch, Keep, Records};
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use object_store::{
    GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt, WriteMultipart,
    aws::AmazonS3, path::Path,
};
use platform::crash;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;
use wire::hex;

pub(crate) use dropbox::readable_name;
pub use error::ExchangeError;
pub(crate) use link::Links;

use crate::{config::ExchangeConfig, record};
use loose::{Held, Loose, UnderWay};
use place::{object_store, place};
use upload::KnownUpload;
use usage::Usage;

/// The kind of the records.
const RESOURCE: &str = "resource";

/// Parts of an upload on their way at a time.
const PARTS_MAX: usize = 4;

/// A text that is kept in its record: a message is rarely longer, and a file for each would cost more than what it holds.
const INLINE_MAX: usize = 64 * 1024;

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
    /// The same, where it is one.
    bucket: Option<Arc<AmazonS3>>,
    records: Records,
    links: Links,
    usage: Mutex<Usage>,
    under_way: UnderWay,
    /// One at a time: an object must not be removed while somebody hands over the same bytes again.
    gate: Semaphore,
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
    /// All of it, where it is a short text; otherwise it is an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inline: Option<String>,
}

/// What to keep of an object beside its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub(crate) name: Option<String>,
    pub(crate) content_type: String,
    pub(crate) owner: String,
}

impl Exchange {
    /// Opens the place and counts what lies there.
    pub(crate) async fn open(
        config: ExchangeConfig,
        records: Records,
    ) -> Result<Self, ExchangeError> {
        let (store, bucket) = object_store(&config.place)?;
        let links = Links::open(&records)
            .await
            .map_err(|source| ExchangeError::Records { source })?;
        let exchange = Self {
            inner: Arc::new(Inner {
                config,
                store,
                bucket,
                records,
                links,
                usage: Mutex::default(),
                under_way: UnderWay::default(),
                gate: Semaphore::new(1),
            }),
        };
        exchange.count_all().await?;
        exchange.clear_incoming().await;
        Ok(exchange)
    }

    /// Keeps bytes that are at hand.
    pub(crate) async fn put(&self, label: Label, bytes: Bytes) -> Result<Resource, ExchangeError> {
        let size = bytes.len() as u64;
        let mut room = Room::new(self);
        room.grow(size)?;
        let hash = hex(&Sha256::digest(&bytes));
        let _gate = self.gate().await;
        let Some((loose, _held)) = self.begin_object(&hash).await? else {
            return self.keep(label, hash, size, &[]).await;
        };
        let put = self.inner.store.put(&place(&hash), bytes.into()).await;
        if let Err(source) = put {
            self.discard(vec![loose]).await;
            return Err(failed_to_write(source));
        }
        self.keep(label, hash, size, &[loose]).await
    }

    /// Before an object is written; nothing where it is there already. Whoever calls it has the gate.
    async fn begin_object(&self, hash: &str) -> Result<Option<(Loose, Held)>, ExchangeError> {
        if self.usage().has(hash) {
            return Ok(None);
        }
        let loose = Loose::object(hash);
        let held = self.begin(&loose).await?;
        Ok(Some((loose, held)))
    }

    /// Adds a text to a batch where it is short enough to be kept in its record; [`Exchange::kept`] counts it once the
    /// batch is written.
    pub(crate) async fn add(
        &self,
        label: Label,
        text: String,
        batch: &mut Batch,
    ) -> Result<Resource, ExchangeError> {
        if text.len() > INLINE_MAX {
            return self.put(label, text.into()).await;
        }
        let size = text.len() as u64;
        self.check_room(size)?;
        let hash = hex(&Sha256::digest(&text));
        let mut resource = self.resource(label, hash, size);
        resource.inline = Some(text);
        batch
            .put(RESOURCE, &resource.id, Keep::Live, &resource)
            .map_err(|source| ExchangeError::Records { source })?;
        Ok(resource)
    }

    /// What was added to a batch has been written.
    pub(crate) fn kept(&self, resources: &[Resource]) {
        let mut usage = self.usage();
        for resource in resources
            .iter()
            .filter(|resource| resource.inline.is_some())
        {
            usage.add_inline(resource.size);
        }
    }

    /// Keeps bytes as they come; `said` is the hash that the sender claims.
    pub(crate) async fn put_stream<E: std::fmt::Display>(
        &self,
        label: Label,
        said: Option<String>,
        bytes: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Resource, ExchangeError> {
        let mut incoming = Loose::incoming();
        let (upload, _held) = self.begin_upload(&mut incoming).await?;
        let mut room = Room::new(self);
        let taken = self.take_in(upload, bytes, &mut room).await;
        let result = match taken {
            Ok((hash, _)) if said.as_ref().is_some_and(|said| *said != hash) => {
                let said = said.unwrap_or_default();
                Err(ExchangeError::WrongHash { is: hash, said })
            }
            taken => taken,
        };
        let _gate = self.gate().await;
        let (hash, size) = match result {
            Ok(taken) => taken,
            Err(error) => {
                self.discard(vec![incoming]).await;
                return Err(error);
            }
        };
        let object = self.begin_object(&hash).await?;
        let from = Path::from(incoming.path.as_str());
        let moved = self.inner.store.rename(&from, &place(&hash)).await;
        let mut loose = vec![incoming];
        loose.extend(object.as_ref().map(|(object, _)| object.clone()));
        if let Err(source) = moved {
            self.discard(loose).await;
            return Err(failed_to_write(source));
        }
        self.keep(label, hash, size, &loose).await
    }

    /// Where the bytes go that come. A folder forgets by itself what has not come whole; an upload to a bucket has an id that
    /// somebody must know to end it.
    async fn begin_upload(
        &self,
        incoming: &mut Loose,
    ) -> Result<(Box<dyn MultipartUpload>, Option<Held>), ExchangeError> {
        let path = Path::from(incoming.path.as_str());
        let Some(bucket) = &self.inner.bucket else {
            let upload = self.inner.store.put_multipart(&path).await;
            return Ok((upload.map_err(failed_to_write)?, None));
        };
        let upload = KnownUpload::begin(bucket, &path).await;
        let mut upload = upload.map_err(failed_to_write)?;
        incoming.upload = Some(upload.id.clone());
        match self.begin(incoming).await {
            Ok(held) => Ok((Box::new(upload), Some(held))),
            Err(error) => {
                let _ = upload.abort().await; // Nobody else could.
                Err(error)
            }
        }
    }

    async fn take_in<E: std::fmt::Display>(
        &self,
        upload: Box<dyn MultipartUpload>,
        mut bytes: impl Stream<Item = Result<Bytes, E>> + Unpin,
        room: &mut Room<'_>,
    ) -> Result<(String, u64), ExchangeError> {
        let mut upload = WriteMultipart::new(upload);
        let mut hash = Sha256::new();
        while let Some(chunk) = bytes.next().await {
            let checked = chunk
                .map_err(|error| ExchangeError::BrokenOff {
                    why: error.to_string(),
                })
                .and_then(|chunk| room.grow(chunk.len() as u64).map(|()| chunk));
            let chunk = match checked {
                Ok(chunk) => chunk,
                Err(error) => {
                    let _ = upload.abort().await; // What it left is removed by the caller.
                    return Err(error);
                }
            };
            hash.update(&chunk);
            let room = upload.wait_for_capacity(PARTS_MAX).await;
            room.map_err(failed_to_write)?;
            upload.put(chunk);
        }
        upload.finish().await.map_err(failed_to_write)?;
        Ok((hex(&hash.finalize()), room.size))
    }

    /// From here on it is meant; `loose` is what was only on its way here until now.
    async fn keep(
        &self,
        label: Label,
        hash: String,
        size: u64,
        loose: &[Loose],
    ) -> Result<Resource, ExchangeError> {
        crash::point("exchange.written");
        let failed = |source| ExchangeError::Records { source };
        let resource = self.resource(label, hash, size);
        let mut batch = Batch::default();
        for loose in loose {
            loose.settle(&mut batch);
        }
        batch
            .put(RESOURCE, &resource.id, Keep::Live, &resource)
            .map_err(failed)?;
        let written = self.inner.records.write_all(batch).await;
        written.map_err(failed)?;
        self.usage().add(&resource.hash, resource.size);
        Ok(resource)
    }

    fn resource(&self, label: Label, hash: String, size: u64) -> Resource {
        let now = record::now();
        Resource {
            // Ids in the order of time lie close together in the store.
            id: Uuid::now_v7().to_string(),
            hash,
            size,
            content_type: label.content_type,
            name: label.name.map(|name| name.chars().take(NAME_MAX).collect()),
            created_at: now,
            expires_at: now + self.inner.config.keep,
            owner: label.owner,
            inline: None,
        }
    }

    fn check_room(&self, size: u64) -> Result<(), ExchangeError> {
        Room::new(self).grow(size)
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
        if let Some(text) = &resource.inline {
            let part = match range {
                Some(range) => text.as_bytes().get(bounds(&range)).unwrap_or_default(),
                None => text.as_bytes(),
            };
            let bytes = Bytes::copy_from_slice(part);
            return Ok(stream::iter([Ok(bytes)]).boxed());
        }
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

fn failed_to_write(source: object_store::Error) -> ExchangeError {
    ExchangeError::Store {
        act: "write",
        source,
    }
}

/// A range in memory; what does not fit there is no range of a short text.
fn bounds(range: &std::ops::Range<u64>) -> std::ops::Range<usize> {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    place(range.start)..place(range.end)
}

/// Room for bytes that come, until this is dropped; by then they are kept, or given up.
#[derive(Debug)]
struct Room<'a> {
    exchange: &'a Exchange,
    size: u64,
}

impl<'a> Room<'a> {
    fn new(exchange: &'a Exchange) -> Self {
        Self { exchange, size: 0 }
    }

    /// Room for more, if there is any; whatever others bring counts too.
    fn grow(&mut self, more: u64) -> Result<(), ExchangeError> {
        let config = &self.exchange.inner.config;
        let (max, quota) = (config.object_max, config.quota);
        if self.size.saturating_add(more) > max {
            return Err(ExchangeError::TooLarge { max });
        }
        let mut usage = self.exchange.usage();
        let used = usage.bytes();
        if used.saturating_add(more) > quota {
            return Err(ExchangeError::Full { used, quota });
        }
        usage.comes(more);
        self.size += more;
        Ok(())
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.exchange.usage().has_come(self.size);
    }
}
