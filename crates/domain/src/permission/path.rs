//! Paths of calls: where they lead, by their letters alone, seen from the workspace.

use std::fmt;

/// Where a path of a call leads, links aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPath {
    /// In the workspace, relative to it; `.` for the workspace itself.
    Inside(String),
    /// Elsewhere, absolute.
    Outside(String),
    /// Nobody can tell from the text: a home shorthand, an address, or `..` out of a workspace that is not known.
    Unknown(String),
}

impl CallPath {
    /// Resolves `path` against the workspace, an absolute path. Only text is looked at.
    pub fn resolve(path: &str, workspace: &str) -> Self {
        let path = match path.strip_prefix("file://") {
            Some(rest) if rest.starts_with('/') && !rest.contains('%') => rest,
            _ => path,
        };
        if path.starts_with('~') || path.contains("://") || path.contains('\0') {
            return Self::Unknown(path.to_owned());
        }
        let root = normal(workspace, Vec::new()).unwrap_or_default();
        let known = workspace.starts_with('/');
        let resolved = if path.starts_with('/') {
            absolute(path, Vec::new())
        } else if known {
            absolute(path, root.clone())
        } else {
            return normal(path, Vec::new()).map_or_else(
                || Self::Unknown(path.to_owned()),
                |segments| Self::Inside(relative(&segments)),
            );
        };
        match resolved.strip_prefix(root.as_slice()) {
            Some(rest) if known => Self::Inside(relative(rest)),
            _ => Self::Outside(format!("/{}", resolved.join("/"))),
        }
    }

    /// The path as written in words.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Inside(path) | Self::Outside(path) | Self::Unknown(path) => path,
        }
    }
}

impl fmt::Display for CallPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The absolute form of a path in the workspace.
pub(super) fn join(workspace: &str, inside: &str) -> String {
    let root = normal(workspace, Vec::new()).unwrap_or_default();
    format!("/{}", absolute(inside, root).join("/"))
}

fn relative(segments: &[&str]) -> String {
    if segments.is_empty() {
        ".".to_owned()
    } else {
        segments.join("/")
    }
}

/// The segments after `before`, with `..` taken back; the parent of the root is the root.
fn absolute<'a>(path: &'a str, mut before: Vec<&'a str>) -> Vec<&'a str> {
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(before.pop()),
            name => before.push(name),
        }
    }
    before
}

/// The same, or nothing if `..` leads out of where it began.
fn normal<'a>(path: &'a str, mut before: Vec<&'a str>) -> Option<Vec<&'a str>> {
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(before.pop()?),
            name => before.push(name),
        }
    }
    Some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_by_their_letters() {
        let inside = |path: &str| CallPath::Inside(path.into());
        let outside = |path: &str| CallPath::Outside(path.into());
        let unknown = |path: &str| CallPath::Unknown(path.into());
        let cases = [
            ("src/a.rs", inside("src/a.rs")),
            ("./src//a.rs", inside("src/a.rs")),
            ("src/../b", inside("b")),
            ("/job/project/src/a.rs", inside("src/a.rs")),
            ("file:///job/project/a", inside("a")),
            ("/job/project", inside(".")),
            ("", inside(".")),
            ("/job/project/", inside(".")),
            ("../project/a", inside("a")),
            ("/job/projects/a", outside("/job/projects/a")),
            ("../other/a", outside("/job/other/a")),
            ("src/../../../etc/passwd", outside("/etc/passwd")),
            ("../../../../..", outside("/")),
            ("/job/project/../x", outside("/job/x")),
            ("/etc//./passwd", outside("/etc/passwd")),
            ("~/.ssh/id", unknown("~/.ssh/id")),
            ("file:///job/%2e%2e/a", unknown("file:///job/%2e%2e/a")),
            ("s3://bucket/a", unknown("s3://bucket/a")),
        ];
        for (path, expected) in cases {
            assert_eq!(CallPath::resolve(path, "/job/project"), expected, "{path}");
        }
        assert_eq!(CallPath::resolve("a/../b", ""), inside("b"));
        assert_eq!(CallPath::resolve("../b", ""), unknown("../b"));
        assert_eq!(CallPath::resolve("/a", ""), outside("/a"));
        assert_eq!(CallPath::resolve("/a", "/"), inside("a"));
    }
}
