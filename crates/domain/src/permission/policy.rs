//! The policy: rules in the order they are looked at, and what holds where none fits.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};

use super::{CommandPattern, PathPattern, Pattern};
use crate::turn::ToolKind;

/// The most rules of one policy: every ask looks at them one by one.
pub const RULES_MAX: usize = 1024;

/// What a policy says about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    Allow,
    Ask,
    Deny,
}

impl Decision {
    /// Every decision, as written.
    pub const ALL: [(&'static str, Self); 3] = [
        ("allow", Self::Allow),
        ("ask", Self::Ask),
        ("deny", Self::Deny),
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Rules and what holds where none of them fits. The first rule that fits decides.
///
/// It reads both written forms and is written as `{"default": …, "rules": […]}`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    pub rules: Vec<Rule>,
    /// As written; see [`Policy::fallback`].
    pub default: Option<Decision>,
}

/// What it takes to fit, all of it, and what follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Any of these kinds; every kind if there is none.
    pub kinds: Vec<ToolKind>,
    pub tool: Option<Pattern>,
    pub path: Option<PathPattern>,
    pub command: Option<CommandPattern>,
    pub decision: Decision,
    /// Why somebody wrote it, shown with the decision.
    pub reason: Option<String>,
    /// Whether an allow holds for what cannot be undone, too.
    pub destructive: bool,
    /// Where it is written, for words.
    pub place: Place,
}

/// Where a rule is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    pub origin: Origin,
    /// The list of the short form that it is an entry of.
    pub list: Option<Decision>,
    /// Counted from one; zero for a rule that nobody wrote.
    pub number: usize,
}

/// Whose policy a rule is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// A policy on its own.
    #[default]
    Policy,
    Node,
    Template,
}

impl Policy {
    /// The node's rules before the template's. The node's written default holds before the template's.
    #[must_use]
    pub fn layered(node: &Self, template: &Self) -> Self {
        let of = |policy: &Self, origin| {
            policy.rules.clone().into_iter().map(move |mut rule| {
                rule.place.origin = origin;
                rule
            })
        };
        Self {
            rules: of(node, Origin::Node)
                .chain(of(template, Origin::Template))
                .collect(),
            default: node.default.or(template.default),
        }
    }

    /// The same policy with `~/` in its paths replaced by the home folder.
    #[must_use]
    pub fn at_home(&self, home: &str) -> Self {
        let mut policy = self.clone();
        for rule in &mut policy.rules {
            rule.path = rule.path.take().map(|path| path.at_home(home));
        }
        policy
    }

    /// What holds where no rule fits: the written default, or asking.
    pub fn fallback(&self) -> Decision {
        self.default.unwrap_or(Decision::Ask)
    }
}

impl Rule {
    /// A rule that fits everything.
    pub fn any(decision: Decision) -> Self {
        Self {
            kinds: Vec::new(),
            tool: None,
            path: None,
            command: None,
            decision,
            reason: None,
            destructive: false,
            place: Place::default(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match self.origin {
            Origin::Policy => "the policy",
            Origin::Node => "the node",
            Origin::Template => "the template",
        };
        match (self.list, self.number) {
            (_, 0) => write!(formatter, "a rule of {origin}"),
            (None, number) => write!(formatter, "rule {number} of {origin}"),
            (Some(list), number) => {
                let list = list.as_str();
                write!(formatter, "entry {number} of {origin}'s {list} list")
            }
        }
    }
}

/// What the rule is about: `edit or delete of src/**`.
impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.as_str()).collect();
        let mut words = Vec::new();
        if !kinds.is_empty() {
            words.push(kinds.join(" or "));
        }
        if let Some(tool) = &self.tool {
            words.push(format!("the tool {}", tool.as_str()));
        }
        if let Some(command) = &self.command {
            words.push(format!("`{}`", command.as_str()));
        }
        if let Some(path) = &self.path {
            words.push(path.as_str().to_owned());
        }
        match words.as_slice() {
            [] => formatter.write_str("everything"),
            words => formatter.write_str(&words.join(" of ")),
        }
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(default) = self.default {
            map.serialize_entry("default", &default)?;
        }
        map.serialize_entry("rules", &self.rules)?;
        map.end()
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.kinds.is_empty() {
            map.serialize_entry("kind", &self.kinds)?;
        }
        if let Some(tool) = &self.tool {
            map.serialize_entry("tool", tool.as_str())?;
        }
        if let Some(path) = &self.path {
            map.serialize_entry("path", path.as_str())?;
        }
        if let Some(command) = &self.command {
            map.serialize_entry("command", command.as_str())?;
        }
        map.serialize_entry("decision", &self.decision)?;
        if let Some(reason) = &self.reason {
            map.serialize_entry("reason", reason)?;
        }
        if self.destructive {
            map.serialize_entry("destructive", &true)?;
        }
        map.end()
    }
}
