//! One way to say who takes a turn: an agent by its name, or whom an agent is made of.
//!
//! | written | meant |
//! |---|---|
//! | `reviewer`, `agent:reviewer` | the agent of that name |
//! | `template:code-review` | an agent made of a template |
//! | `workflow:triage` | a workflow |
//! | `peer:nova9/news_digest` | an agent of another node; without the second part the node decides |
//! | `peer:build-box?workspace=/src/app` | another node's agent, which is lent that folder; `access=ro` before or after it for reading |

use std::{fmt, str::FromStr};

use crate::{NAME_MAX, Name, NameError};

/// The longest target, in bytes: two names and a path.
pub const TARGET_MAX: usize = 8 * 1024;

/// The longest name of a node or a workflow, in bytes.
const WORD_MAX: usize = 256;

/// Who takes a turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    Agent(Name),
    Made(Maker),
}

/// Whom an agent is made of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Maker {
    Template(Name),
    Workflow(String),
    Peer {
        node: String,
        agent: Option<String>,
    },
    /// A folder of this machine, lent for each turn.
    Workspace {
        node: String,
        dir: String,
        is_read_only: bool,
    },
}

/// Why a text names nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("a target has at most {TARGET_MAX} bytes")]
    TooLong,
    #[error(
        "{kind:?} is no kind of target: NAME, template:NAME, workflow:NAME, peer:NODE/AGENT or peer:NODE?workspace=DIR"
    )]
    UnknownKind { kind: String },
    #[error("{what} has 1 to {WORD_MAX} bytes without control characters")]
    BadWord { what: &'static str },
    #[error(
        "{key:?} says nothing of a peer: workspace=DIR, with access=ro& before it if nothing may be changed"
    )]
    UnknownSetting { key: String },
    #[error("access={access} is neither access=ro nor access=rw")]
    UnknownAccess { access: String },
    #[error("a workspace that is lent is an absolute path, not {dir:?}")]
    RelativeWorkspace { dir: String },
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.len() > TARGET_MAX {
            return Err(TargetError::TooLong);
        }
        let Some((kind, rest)) = text.split_once(':') else {
            return Ok(Self::Agent(Name::parse(text)?));
        };
        match kind {
            "agent" => Ok(Self::Agent(Name::parse(rest)?)),
            "template" => Ok(Self::Made(Maker::Template(Name::parse(rest)?))),
            "workflow" => Ok(Self::Made(Maker::Workflow(word("a workflow", rest)?))),
            "peer" => Ok(Self::Made(peer(rest)?)),
            _ => Err(TargetError::UnknownKind { kind: kind.into() }),
        }
    }
}

fn peer(text: &str) -> Result<Maker, TargetError> {
    if let Some((node, settings)) = text.split_once('?') {
        return workspace(node, settings);
    }
    let (node, agent) = match text.split_once('/') {
        Some((node, agent)) => (node, Some(word("an agent of a peer", agent)?)),
        None => (text, None),
    };
    let node = word("a node", node)?;
    Ok(Maker::Peer { node, agent })
}

/// The path needs no escapes: only what says how it may be used stands beside it, before it or after.
fn workspace(node: &str, settings: &str) -> Result<Maker, TargetError> {
    let (access, settings) = access(settings);
    let Some(dir) = settings.strip_prefix("workspace=") else {
        let key = settings.split('=').next().unwrap_or_default().to_owned();
        return Err(TargetError::UnknownSetting { key });
    };
    let is_read_only = match access {
        None | Some("rw") => false,
        Some("ro") => true,
        Some(access) => {
            return Err(TargetError::UnknownAccess {
                access: access.into(),
            });
        }
    };
    if !dir.starts_with('/') {
        return Err(TargetError::RelativeWorkspace { dir: dir.into() });
    }
    Ok(Maker::Workspace {
        node: word("a node", node)?,
        dir: dir.to_owned(),
        is_read_only,
    })
}

/// What settings say of the access, if they do, and the rest of them.
fn access(settings: &str) -> (Option<&str>, &str) {
    if let Some(rest) = settings.strip_prefix("access=")
        && let Some((access, rest)) = rest.split_once('&')
    {
        return (Some(access), rest);
    }
    match settings.rsplit_once("&access=") {
        // A folder below one that is called so is still a folder.
        Some((rest, access)) if !access.contains('/') => (Some(access), rest),
        Some(_) | None => (None, settings),
    }
}

fn word(what: &'static str, text: &str) -> Result<String, TargetError> {
    if text.is_empty() || text.len() > WORD_MAX || text.chars().any(char::is_control) {
        return Err(TargetError::BadWord { what });
    }
    Ok(text.to_owned())
}

impl Target {
    /// What the agent is called, or would be if it were made.
    pub fn agent_name(&self) -> Name {
        match self {
            Self::Agent(name) => name.clone(),
            Self::Made(maker) => maker.agent_name(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(name) => name.fmt(f),
            Self::Made(maker) => maker.fmt(f),
        }
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(name) => write!(f, "template:{name}"),
            Self::Workflow(name) => write!(f, "workflow:{name}"),
            Self::Peer { node, agent: None } => write!(f, "peer:{node}"),
            Self::Peer {
                node,
                agent: Some(agent),
            } => write!(f, "peer:{node}/{agent}"),
            Self::Workspace {
                node,
                dir,
                is_read_only,
            } => {
                let access = if *is_read_only { "access=ro&" } else { "" };
                write!(f, "peer:{node}?{access}workspace={dir}")
            }
        }
    }
}

impl Maker {
    /// A name for the agent: readable where it can be, and never the same for two targets.
    pub fn agent_name(&self) -> Name {
        let written = self.to_string();
        let is_kept = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        let readable: String = written
            .chars()
            .map(|letter| if is_kept(letter) { letter } else { '-' })
            .collect();
        // The colon after the kind tells nothing apart; everything else that is lost might.
        let lost = written.chars().filter(|letter| !is_kept(*letter)).count();
        let is_plain = written.len() <= NAME_MAX && lost == 1;
        let name = if is_plain {
            readable
        } else {
            let room = NAME_MAX - 9;
            let short: String = readable.chars().take(room).collect();
            format!("{short}-{:08x}", digest(&written))
        };
        Name::parse(&name).expect("it begins with the kind and holds nothing else")
    }
}

/// FNV-1a: tells names apart that read the same.
fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, TargetError> {
        text.parse()
    }

    #[test]
    fn what_is_written_is_read_and_written_again() {
        for text in [
            "reviewer",
            "template:code-review",
            "workflow:triage",
            "workflow:pack/flow",
            "peer:nova9",
            "peer:nova9/news_digest",
            "peer:小柠檬/news",
            "peer:build-box?workspace=/src/a & b?c=d",
            "peer:build-box?access=ro&workspace=/src",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("agent:reviewer"), parse("reviewer"));
        for (one, other) in [
            (
                "peer:b?workspace=/src&access=ro",
                "peer:b?access=ro&workspace=/src",
            ),
            ("peer:b?workspace=/src&access=rw", "peer:b?workspace=/src"),
            ("peer:b?access=rw&workspace=/src", "peer:b?workspace=/src"),
        ] {
            assert_eq!(parse(one).unwrap().to_string(), other);
        }
        let below = "peer:b?workspace=/a&access=ro/b";
        assert_eq!(parse(below).unwrap().to_string(), below);
    }

    #[test]
    fn what_names_nobody_is_refused() {
        for text in [
            "",
            "a b",
            "../x",
            "template:../x",
            "workflow:",
            "workflow:a\nb",
            "peer:",
            "peer:/agent",
            "peer:node/",
            "peer:node?",
            "peer:node?dir=/x",
            "peer:node?workspace=./x",
            "peer:node?workspace=/x&access=maybe",
            "peer:node?access=ro",
            "http://node",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert_eq!(
            parse(&"a".repeat(TARGET_MAX + 1)),
            Err(TargetError::TooLong)
        );
    }

    #[test]
    fn names_of_agents_that_are_made_read_well_and_differ() {
        let name = |text: &str| match parse(text).unwrap() {
            Target::Made(maker) => maker.agent_name().to_string(),
            Target::Agent(name) => name.to_string(),
        };
        assert_eq!(name("workflow:bug-triage"), "workflow-bug-triage");
        assert_eq!(name("peer:nova9"), "peer-nova9");
        assert_ne!(name("peer:a/b-c"), name("peer:a-b/c"));
        assert_ne!(name("peer:小/news"), name("peer:大/news"));
        assert_ne!(name("workflow:a-b"), name("workflow:a/b"));
        assert!(name(&format!("workflow:{}", "w".repeat(200))).len() <= NAME_MAX);
    }
}
