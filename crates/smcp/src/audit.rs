//! What is written down when the relay refuses somebody.

use std::sync::Arc;

/// Takes one record; it must not block.
pub type Audit = Arc<dyn Fn(Refused) + Send + Sync>;

/// Something that was asked for and refused. It holds no token and no argument of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The transport's name for the connection.
    pub connection: String,
    /// Whose token it was; nothing if it was nobody's.
    pub caller: Option<String>,
    pub event: String,
    pub office: Option<String>,
    pub code: i64,
    pub reason: String,
}
