//! The token every child carries in its environment, and the sweep that finds and ends those who carry it.
//!
//! It catches what left the process group: children that fork twice and start a session of their own. A process
//! that also wipes its environment and has lost its parents is beyond this; groups and descent cover the rest.

use std::{
    collections::BTreeSet,
    fmt,
    time::{Duration, Instant},
};

pub use crate::snapshot::Swept;
use crate::{
    pid::ProcessRef,
    snapshot::{Selection, Snapshot, kill_until_gone},
};

/// The variable that holds `{home}:{boot}:{name}`.
pub const OWNER_VARIABLE: &str = "AGENTCRAFT_OWNER";

/// Long enough for a uuid or a hash in hexadecimal.
const ID_BYTES_MAX: usize = 64;

/// Long enough for an agent's name (63) and what runs for it.
const NAME_BYTES_MAX: usize = 200;

/// A sweep gives up after this, so that nobody's stop hangs on a process the kernel holds.
const SWEEP_MAX: Duration = Duration::from_secs(5);

/// One life of one daemon (or proxy): the home it serves and an id made anew at each start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owner {
    home: String,
    boot: String,
}

/// The token of one named thing that runs processes. At most one live group may carry it, as its end sweeps it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnerTag {
    owner: Owner,
    name: String,
}

/// Whose processes are meant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnerScope {
    home: String,
    span: Span,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Span {
    Home,
    OtherBoots(String),
    Boot(String),
    Name(String, String),
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidOwner {
    #[error("{text:?} is not an owner's id: 1 to {ID_BYTES_MAX} letters, digits, '-' or '_'")]
    Id { text: String },
    #[error(
        "{text:?} is not an owner's name: 1 to {NAME_BYTES_MAX} bytes without control characters"
    )]
    Name { text: String },
}

impl Owner {
    pub fn new(home: &str, boot: &str) -> Result<Owner, InvalidOwner> {
        let id = |text: &str| {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            let long = text.is_empty() || text.len() > ID_BYTES_MAX;
            if long || !text.bytes().all(legal) {
                return Err(InvalidOwner::Id {
                    text: text.to_owned(),
                });
            }
            Ok(text.to_owned())
        };
        Ok(Owner {
            home: id(home)?,
            boot: id(boot)?,
        })
    }

    /// The owner for a new life of this home, with a random boot id.
    pub fn starting(home: &str) -> Result<Owner, InvalidOwner> {
        Owner::new(home, &fresh_id())
    }

    pub fn home(&self) -> &str {
        &self.home
    }

    pub fn boot(&self) -> &str {
        &self.boot
    }

    pub fn tag(&self, name: &str) -> Result<OwnerTag, InvalidOwner> {
        let long = name.is_empty() || name.len() > NAME_BYTES_MAX;
        if long || name.chars().any(char::is_control) {
            return Err(InvalidOwner::Name {
                text: name.to_owned(),
            });
        }
        Ok(OwnerTag {
            owner: self.clone(),
            name: name.to_owned(),
        })
    }
}

/// An id that nobody else has.
pub fn fresh_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// The same, written as other programs write a UUID.
pub fn fresh_uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

impl OwnerTag {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    pub fn scope(&self) -> OwnerScope {
        OwnerScope {
            home: self.owner.home.clone(),
            span: Span::Name(self.owner.boot.clone(), self.name.clone()),
        }
    }
}

/// The value of the variable.
impl fmt::Display for OwnerTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.owner.home, self.owner.boot, self.name)
    }
}

impl OwnerScope {
    /// Everything of this home, whichever life started it.
    pub fn home(owner: &Owner) -> OwnerScope {
        OwnerScope {
            home: owner.home.clone(),
            span: Span::Home,
        }
    }

    /// What earlier lives of this home left behind: for the start of a daemon that holds the home's lock.
    pub fn other_boots(owner: &Owner) -> OwnerScope {
        OwnerScope {
            home: owner.home.clone(),
            span: Span::OtherBoots(owner.boot.clone()),
        }
    }

    /// Everything this life started.
    pub fn boot(owner: &Owner) -> OwnerScope {
        OwnerScope {
            home: owner.home.clone(),
            span: Span::Boot(owner.boot.clone()),
        }
    }

    /// Whether a value of the variable is within the scope.
    pub fn holds(&self, value: &str) -> bool {
        let mut parts = value.splitn(3, ':');
        let (Some(home), Some(boot), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        home == self.home
            && match &self.span {
                Span::Home => true,
                Span::OtherBoots(own) => boot != own,
                Span::Boot(own) => boot == own,
                Span::Name(own, own_name) => boot == own && name == own_name,
            }
    }
}

/// The live processes within the scope and everybody below them, except ourselves. Blocks for some milliseconds.
pub fn find(scope: &OwnerScope) -> Vec<ProcessRef> {
    Snapshot::fresh().select(&Selection {
        scope,
        groups: &BTreeSet::new(),
        spare: &[],
    })
}

/// Kills the processes within the scope and everybody below them until none is left, except ourselves and the
/// spared (and what runs below those). Blocks, at most for five seconds.
pub fn sweep(scope: &OwnerScope, spare: &[u32]) -> Swept {
    let selection = Selection {
        scope,
        groups: &BTreeSet::new(),
        spare,
    };
    kill_until_gone(&selection, Instant::now() + SWEEP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{Sleeper, fresh_owner};

    #[test]
    fn each_scope_holds_its_own_and_no_more() {
        let owner = Owner::new("h1", "b1").unwrap();
        let scopes = [
            OwnerScope::home(&owner),
            OwnerScope::other_boots(&owner),
            OwnerScope::boot(&owner),
            owner.tag("a:b").unwrap().scope(),
        ];
        let check = |value: &str| scopes.each_ref().map(|scope| scope.holds(value));
        assert_eq!(check("h1:b1:a:b"), [true, false, true, true]);
        assert_eq!(check("h1:b1:a"), [true, false, true, false]);
        assert_eq!(check("h1:b1:a:bc"), [true, false, true, false]);
        assert_eq!(check("h1:b2:a:b"), [true, true, false, false]);
        assert_eq!(check("h10:b1:a:b"), [false; 4]);
        assert_eq!(check("h1:b1"), [false; 4]);
        assert_eq!(check(""), [false; 4]);
    }

    #[test]
    fn an_empty_or_ambiguous_owner_cannot_be_made() {
        for bad in ["", "a:b", "a b", "a\n", &"x".repeat(65)] {
            assert!(Owner::new(bad, "b").is_err(), "{bad:?}");
            assert!(Owner::new("h", bad).is_err(), "{bad:?}");
        }
        let owner = Owner::new("h", "b").unwrap();
        for bad in ["", "a\0b", "a\nb", &"x".repeat(201)] {
            assert!(owner.tag(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_sweep_ends_the_leftovers_of_other_boots_and_spares_this_one() {
        let now = fresh_owner();
        let earlier = Owner::starting(now.home()).unwrap();
        let left = Sleeper::owned(&earlier.tag("agent").unwrap());
        let spared = Sleeper::owned(&earlier.tag("spared").unwrap());
        let current = Sleeper::owned(&now.tag("agent").unwrap());
        let swept = sweep(&OwnerScope::other_boots(&now), &[spared.pid()]);
        assert_eq!(swept, Swept { killed: 1, left: 0 });
        let alive = [&left, &spared, &current].map(|sleeper| sleeper.alive());
        assert_eq!(alive, [false, true, true]);
        assert_eq!(
            sweep(&OwnerScope::home(&now), &[]),
            Swept { killed: 2, left: 0 }
        );
        assert!(find(&OwnerScope::home(&now)).is_empty());
    }
}
