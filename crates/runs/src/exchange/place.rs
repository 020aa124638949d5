//! Where the bytes lie: a folder, or anything that speaks S3.

use std::sync::Arc;

use object_store::{
    ObjectStore,
    aws::{AmazonS3, AmazonS3Builder},
    local::LocalFileSystem,
    path::Path,
};
use platform::files;

use super::ExchangeError;
use crate::config::Place;

/// A place, and the bucket that it is if it is one.
type Opened = (Arc<dyn ObjectStore>, Option<Arc<AmazonS3>>);

pub(super) fn object_store(place: &Place) -> Result<Opened, ExchangeError> {
    let failed = |source| ExchangeError::Store {
        act: "begin",
        source,
    };
    match place {
        Place::Folder(dir) => {
            files::create_private_dir(dir).map_err(|source| ExchangeError::Folder { source })?;
            let store = LocalFileSystem::new_with_prefix(dir).map_err(failed)?;
            Ok((Arc::new(store.with_automatic_cleanup(true)), None))
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
            let bucket = Arc::new(builder.build().map_err(failed)?);
            Ok((bucket.clone(), Some(bucket)))
        }
    }
}

/// Uploads on their way. Nothing in it is worth anything to a daemon that begins.
pub(super) const INCOMING: &str = "incoming";

/// An object lies under its hash.
pub(super) fn place(hash: &str) -> Path {
    let (first, rest) = hash.split_at(2.min(hash.len()));
    Path::from(format!("objects/{first}/{rest}"))
}
