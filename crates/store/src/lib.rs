//! State and journal in SQLite: state rows are the truth, journal rows the history, both written in one transaction.
//!
//! It owns the file, its schema and its one writer thread. What the records mean is the callers' business: they come and
//! go as JSON text.

mod change;
mod journal;
mod migrations;
mod open;
mod records;
mod retention;
mod sessions;
mod worker;

pub use change::{Change, Entry, EventBatch, SessionRow};
pub use journal::{JournalQuery, JournalRow};
pub use open::{Durability, OpenError, Store};
pub use records::{RecordQuery, RecordRow};
pub use worker::StoreError;

#[cfg(test)]
mod tests;
