//! Who a token belongs to, and which offices it opens.

use std::{fmt, sync::Arc};

use domain::{Name, office::Role};

/// Whether a role may be taken in an office.
type Coverage = Arc<dyn Fn(Role, &Name) -> bool + Send + Sync>;

/// Finds the caller of a token; nothing if nobody has it. An empty token means that none was given.
pub type Authenticator = Arc<dyn Fn(&str) -> Option<Caller> + Send + Sync>;

/// The owner of a token.
#[derive(Clone)]
pub struct Caller {
    /// Two connections of the same name are the same party: one may take the other's place when it falls silent.
    pub name: String,
    covers: Coverage,
}

impl Caller {
    pub fn new(
        name: impl Into<String>,
        covers: impl Fn(Role, &Name) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            covers: Arc::new(covers),
        }
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
