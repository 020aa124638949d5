//! The time that runs go by, and names that sort by it.

use domain::Timestamp;

pub(crate) async fn until(wake: Option<Timestamp>) {
    match wake {
        None => std::future::pending().await,
        Some(at) => {
            let millis = u64::try_from(at.0 - now().0).unwrap_or(0);
            tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        }
    }
}

pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// Later ones sort after earlier ones.
pub(crate) fn fresh_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
