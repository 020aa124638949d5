//! Who asks through the network, and what they may do. The listener finds it out once; every face behind it trusts it.

use std::{collections::BTreeSet, fmt, sync::Arc};

/// Somebody whose token was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Under which the audit, rate limits and the journal know them.
    pub name: String,
    pub rights: Rights,
}

/// What a caller may do.
///
/// A right is a word with parts between colons, from the general to the particular: `runs`, `runs:reviewer`,
/// `office:computer:studio`. Whoever has the shorter one has the longer ones too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rights {
    All,
    Only(BTreeSet<String>),
}

impl Caller {
    /// The owner of the node.
    pub fn owner() -> Self {
        Self {
            name: "owner".to_owned(),
            rights: Rights::All,
        }
    }

    pub fn may(&self, right: &str) -> bool {
        match &self.rights {
            Rights::All => true,
            Rights::Only(granted) => granted.iter().any(|granted| covers(granted, right)),
        }
    }
}

fn covers(granted: &str, right: &str) -> bool {
    right
        .strip_prefix(granted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Finds out whose token this is; for faces whose tokens do not come in a header.
#[derive(Clone)]
pub struct Authenticator(Arc<Check>);

type Check = dyn Fn(&str) -> Option<Caller> + Send + Sync;

impl Authenticator {
    pub fn new(check: impl Fn(&str) -> Option<Caller> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }

    pub fn check(&self, token: &str) -> Option<Caller> {
        (self.0)(token)
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticator")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_covers_what_is_below_it_and_nothing_beside_it() {
        let caller = Caller {
            name: "peer".to_owned(),
            rights: Rights::Only(BTreeSet::from(["runs:news".to_owned(), "a2a".to_owned()])),
        };
        for (right, may) in [
            ("runs:news", true),
            ("runs:news:read", true),
            ("runs", false),
            ("runs:newsroom", false),
            ("a2a:any", true),
            ("dashboard", false),
        ] {
            assert_eq!(caller.may(right), may, "{right}");
        }
        assert!(Caller::owner().may("anything"));
    }
}
