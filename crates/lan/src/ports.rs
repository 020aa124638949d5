//! What this crate needs of others: tokens for peers that pair, a human to ask, and agents that decide for them.

use std::{collections::BTreeSet, pin::Pin, time::Duration};

use crate::answers::Question;

/// An answer that comes later.
pub type PortFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Makes and ends tokens of this node.
pub trait Grants: Send + Sync {
    /// A token for somebody of that name, for ever unless a lifetime is given; the error is in words.
    fn issue(
        &self,
        name: String,
        rights: BTreeSet<String>,
        lifetime: Option<Duration>,
    ) -> PortFuture<Result<Issued, String>>;

    /// Ends a token; one that is not there is no error.
    fn revoke(&self, token_id: String) -> PortFuture<Result<(), String>>;
}

/// A token that was made.
pub struct Issued {
    pub token_id: String,
    pub token: String,
}

/// An agent of this node that is asked for its opinion.
pub trait Adviser: Send + Sync {
    /// What it is called, for whoever wants to know who decided.
    fn name(&self) -> &str;

    /// What it says to these words; the error is in words.
    fn ask(&self, words: String) -> PortFuture<Result<String, String>>;
}

/// Somebody who may be there.
pub trait Human: Send + Sync {
    /// What they answer; nothing if nobody is there, and then the run goes on waiting.
    fn ask(&self, question: Question) -> PortFuture<Option<String>>;

    /// Something they should know, and need not answer.
    fn tell(&self, words: String);
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued")
            .field("token_id", &self.token_id)
            .finish_non_exhaustive()
    }
}
