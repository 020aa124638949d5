//! What time it is, for the machine.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))
}
