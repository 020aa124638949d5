//! Who a token belongs to, and which offices it opens.

use std::{fmt, sync::Arc};

use domain::{Name, office::Role};

/// Whether a role may be taken in an office.
type Coverage = Arc<dyn Fn(Role, &Name) -> bool + Send + Sync>;

/// Whether a token still is one. It is asked with every event, so it must be quick.
type Validity = Arc<dyn Fn() -> bool + Send + Sync>;

/// Finds the caller of a token; nothing if nobody has it. An empty token means that none was given.
pub type Authenticator = Arc<dyn Fn(&str) -> Option<Caller> + Send + Sync>;

/// The owner of a token.
#[derive(Clone)]
pub struct Caller {
    /// Two connections of the same name are the same party: one may take the other's place when it falls silent.
    pub name: String,
    covers: Coverage,
    is_valid: Option<Validity>,
}

impl Caller {
    pub fn new(
        name: impl Into<String>,
        covers: impl Fn(Role, &Name) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            covers: Arc::new(covers),
            is_valid: None,
        }
    }

    /// The same caller for as long as this says so: with the token ends whatever it opened.
    #[must_use]
    pub fn while_valid(mut self, is_valid: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.is_valid = Some(Arc::new(is_valid));
        self
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.is_valid.as_ref().is_none_or(|is_valid| is_valid())
    }

    /// A caller who may join any office in any role.
    pub fn everywhere(name: impl Into<String>) -> Self {
        Self::new(name, |_, _| true)
    }

    pub fn may_join(&self, role: Role, office: &Name) -> bool {
        (self.covers)(role, office)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
