//! Who asks through the network, and what they may do. The listener finds it out once; every face behind it trusts it.

use std::{collections::BTreeSet, fmt, sync::Arc};

use catalog::BackendType;

/// Somebody whose token was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Under which the audit, rate limits and the journal know them.
    pub name: String,
    pub rights: Rights,
}

/// Which token a caller has shown: beside the [`Caller`] on a request, for whoever gave that token. The owner's own has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenId(pub String);

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
        self.rights.cover(right)
    }
}

/// The right that an agent made of a target needs, by its backend, beside that of the face through which it is spoken to: what
/// leads to other nodes, or lends them folders, is no more allowed because an agent stands in between. A template that the owner
/// wrote for it says itself that it may be used.
pub fn further_right(backend: BackendType) -> Option<&'static str> {
    match backend {
        BackendType::Peer => Some("peers"),
        BackendType::Delegation => Some("delegations"),
        BackendType::Cursor
        | BackendType::ClaudeCode
        | BackendType::Custom
        | BackendType::Builtin
        | BackendType::Codex
        | BackendType::Gemini
        | BackendType::Qwen
        | BackendType::OpenCode
        | BackendType::Copilot
        | BackendType::CursorAgent
        | BackendType::Command
        | BackendType::OpenAiCompatible
        | BackendType::Workflow
        | BackendType::A2a => None,
    }
}

/// What every right begins with. A token for another word would open nothing, and whoever mistyped it would not be told.
const WORDS: [&str; 10] = [
    "a2a",
    "dashboard",
    "delegations",
    "exchange",
    "mcp",
    "metrics",
    "office",
    "peers",
    "runs",
    "tokens",
];

/// Those of them that may name something after a colon; all others stand alone.
const PARTED: [&str; 4] = ["a2a", "delegations", "office", "runs"];

impl Rights {
    /// Whether this right is among them, or a shorter one that it belongs to.
    pub fn cover(&self, right: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(granted) => granted.iter().any(|granted| covers(granted, right)),
        }
    }

    /// Why one of these cannot be granted, in words; nothing if all of them open something.
    pub fn mistake(&self) -> Option<String> {
        let Self::Only(rights) = self else {
            return None;
        };
        if rights.is_empty() {
            return Some("a token without any right opens nothing".to_owned());
        }
        let wrong = rights.iter().find(|right| {
            let (word, part) = match right.split_once(':') {
                Some((word, part)) => (word, Some(part)),
                None => (right.as_str(), None),
            };
            let is_whole = part
                .is_none_or(|part| PARTED.contains(&word) && !part.split(':').any(str::is_empty));
            !WORDS.contains(&word) || !is_whole
        })?;
        let (known, parted) = (WORDS.join(", "), PARTED.join(", "));
        Some(format!(
            "{wrong:?} is no right: they are {known}; {parted} may name something after a colon"
        ))
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

    #[test]
    fn a_right_that_would_open_nothing_is_a_mistake() {
        let only = |right: &str| Rights::Only(BTreeSet::from([right.to_owned()]));
        for good in ["runs", "runs:news", "office:computer:studio", "peers"] {
            assert_eq!(only(good).mistake(), None, "{good}");
        }
        for bad in [
            "nonsense", "run", "Runs", "", "runs:", ":runs", "runs::x", "mcp:five", "tokens:x",
        ] {
            let words = only(bad).mistake().unwrap();
            assert!(words.contains("they are a2a"), "{words}");
        }
        assert!(Rights::Only(BTreeSet::new()).mistake().is_some());
        assert_eq!(Rights::All.mistake(), None);
    }
}
