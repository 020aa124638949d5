//! State and journal in SQLite: state rows are the truth, journal rows the history, both written in one transaction.
//!
//! It owns the file, its schema, its one writer thread and the folder of bodies that are too large for rows. What the records mean is the callers' business: they come and
//! go as JSON text.

mod ahead;
mod blobs;
mod change;
mod checkpoint;
mod inspect;
mod journal;
mod migrations;
mod open;
mod records;
mod retention;
mod sessions;
mod worker;

pub use blobs::BlobError;
pub use change::{Change, Entry, EventBatch, SessionRow};
pub use inspect::{Schema, damage, inspect, size};
pub use journal::{JournalQuery, JournalRow};
pub use open::{Durability, OpenError, Store};
pub use records::{RecordQuery, RecordRow};
pub use worker::{StoreError, WriteError};

#[cfg(test)]
mod ahead_tests;
#[cfg(test)]
mod blob_tests;
#[cfg(test)]
mod tests;
