//! An upload to a bucket whose id is known, so that another daemon can end it.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use object_store::{
    MultipartId, MultipartUpload, PutPayload, PutResult, Result, UploadPart,
    aws::AmazonS3,
    multipart::{MultipartStore, PartId},
    path::Path,
};

#[derive(Debug)]
pub(super) struct KnownUpload {
    bucket: Arc<AmazonS3>,
    path: Path,
    pub(super) id: MultipartId,
    /// Those that are there, by their number; they may come in any order.
    parts: Arc<Mutex<BTreeMap<usize, PartId>>>,
    count: usize,
}

impl KnownUpload {
    pub(super) async fn begin(bucket: &Arc<AmazonS3>, path: &Path) -> Result<Self> {
        Ok(Self {
            bucket: bucket.clone(),
            path: path.clone(),
            id: bucket.create_multipart(path).await?,
            parts: Arc::default(),
            count: 0,
        })
    }
}

/// The trait is written for a macro that boxes futures; this is what the macro would write.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl MultipartUpload for KnownUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let number = self.count;
        self.count += 1;
        let (bucket, path, id) = (self.bucket.clone(), self.path.clone(), self.id.clone());
        let parts = self.parts.clone();
        Box::pin(async move {
            let part = bucket.put_part(&path, &id, number, data).await?;
            let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.insert(number, part);
            Ok(())
        })
    }

    fn complete<'a, 'b>(&'a mut self) -> Boxed<'b, PutResult>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let parts = {
                let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *parts).into_values().collect()
            };
            let (path, id) = (&self.path, &self.id);
            self.bucket.complete_multipart(path, id, parts).await
        })
    }

    fn abort<'a, 'b>(&'a mut self) -> Boxed<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.bucket.abort_multipart(&self.path, &self.id).await })
    }
}
