//! Whom a command is about: `reviewer`, `template:code-review`, `workflow:triage`, `peer:nova9/news`.

use std::{fmt, str::FromStr};

use domain::{
    Name,
    target::{Target, TargetError},
};

/// What stands before a folder that is lent.
const WORKSPACE: &str = "workspace=";

/// What may stand after it.
const ACCESS: &str = "&access=";

/// A target as the daemon reads it: checked, and with an absolute folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetArg(Target);

impl TargetArg {
    /// The name, where it is one; what is made for a target is called by the daemon.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.0 {
            Target::Agent(name) => Some(name.as_str()),
            Target::Made(_) => None,
        }
    }
}

impl From<Name> for TargetArg {
    fn from(name: Name) -> Self {
        Self(Target::Agent(name))
    }
}

impl FromStr for TargetArg {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        absolute(text).parse().map(Self)
    }
}

impl fmt::Display for TargetArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The daemon works elsewhere, so a relative folder is made absolute here.
fn absolute(text: &str) -> String {
    let Some((before, dir)) = text.split_once(WORKSPACE) else {
        return text.to_owned();
    };
    let (dir, after) = match dir.rfind(ACCESS) {
        Some(end) => dir.split_at(end),
        None => (dir, ""),
    };
    let path = std::path::absolute(dir);
    // What cannot be made absolute is refused as it is.
    let dir = path.map_or_else(
        |_| dir.to_owned(),
        |path| path.to_string_lossy().into_owned(),
    );
    format!("{before}{WORKSPACE}{dir}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_lent_is_named_as_seen_from_here() {
        let target: TargetArg = "peer:box?workspace=./app".parse().unwrap();
        let here = std::env::current_dir().unwrap();
        let expected = format!("peer:box?workspace={}", here.join("app").display());
        assert_eq!(target.to_string(), expected);
        assert_eq!(target.name(), None);
        let read: TargetArg = "peer:box?workspace=./app&access=ro".parse().unwrap();
        let expected = format!(
            "peer:box?access=ro&workspace={}",
            here.join("app").display()
        );
        assert_eq!(read.to_string(), expected);
        let agent: TargetArg = "reviewer".parse().unwrap();
        assert_eq!(agent.name(), Some("reviewer"));
    }
}
