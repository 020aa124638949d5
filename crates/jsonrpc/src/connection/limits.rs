//! The bounds of one connection, and why they are what they are.

use crate::LINE_MAX;

/// Default of [`Limits::outbox_max`]: three lines of the largest size, so that a stream of large
/// messages keeps the socket busy, and still little beside the memory of a machine.
pub const OUTBOX_MAX: usize = 32 * 1024 * 1024;

/// Default of [`Limits::calls_max`]: far more than a person or an agent has in flight; a caller
/// that reaches it has lost control of its loop.
pub const CALLS_MAX: usize = 4096;

/// The bounds of one connection. Any values are legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Ceiling of a line in bytes, in both directions.
    pub line_max: usize,
    /// Bytes that may wait to be written. One message always fits when nothing else waits, so
    /// the true bound is the larger of this and `line_max`.
    pub outbox_max: usize,
    /// Calls that may wait for their answers.
    pub calls_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            line_max: LINE_MAX,
            outbox_max: OUTBOX_MAX,
            calls_max: CALLS_MAX,
        }
    }
}
