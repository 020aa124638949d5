//! What stays at home when a workspace is lent, decided before the remote may change the rules.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use archive::{EntryPath, Kind};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use platform::files;

/// What is never packed: a repository's own folder holds programs that git runs, dependencies can be had again.
pub(crate) const LEFT_AT_HOME: [&str; 2] = [".git", "node_modules"];

/// Files with rules, those that win first.
const RULES: [&str; 2] = [".ignore", ".gitignore"];

/// A file with rules is shorter; a longer one is not obeyed for what is new.
const RULES_BYTES_MAX: u64 = 1 << 20;

/// Files with rules that are kept; those of further folders are not obeyed for what is new.
const RULES_MAX: usize = 1000;

/// Paths that were there and are not lent, folders with everything below them, and the rules for what was not there yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ignored {
    paths: BTreeSet<PathBuf>,
    rules: Vec<Rules>,
}

/// The rules of one file, as they were.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rules {
    /// The folder they are for, from the workspace.
    folder: PathBuf,
    text: Vec<u8>,
}

impl Ignored {
    /// `folders` are those that are lent, the workspace at `dir` included. Blocks.
    pub(crate) fn new(paths: BTreeSet<PathBuf>, dir: &Path, folders: &[PathBuf]) -> Self {
        let mut rules = Vec::new();
        // The deepest come first: their rules win.
        let mut folders: Vec<&PathBuf> = folders.iter().collect();
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        for folder in folders {
            let Ok(short) = folder.strip_prefix(dir) else {
                continue;
            };
            for name in RULES {
                // Most folders have none.
                let Ok(text) = files::read_bounded(&folder.join(name), RULES_BYTES_MAX) else {
                    continue;
                };
                if rules.len() < RULES_MAX {
                    let folder = short.to_owned();
                    rules.push(Rules { folder, text });
                }
            }
        }
        let own = dir.join(".git/info/exclude");
        if let Ok(text) = files::read_bounded(&own, RULES_BYTES_MAX) {
            let folder = PathBuf::new();
            rules.push(Rules { folder, text });
        }
        Self { paths, rules }
    }

    /// As bytes for a file: names need not be text, and hold no NUL. An empty name is between paths and rules.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let paths = self.paths.iter().map(|path| path.as_os_str().as_bytes());
        let mut bytes: Vec<u8> = paths.flat_map(|path| [path, b"\0"].concat()).collect();
        bytes.push(0);
        for rules in &self.rules {
            bytes.extend(rules.folder.as_os_str().as_bytes());
            bytes.push(0);
            bytes.extend(rules.text.iter().filter(|byte| **byte != 0));
            bytes.push(0);
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let mut words = bytes.split(|byte| *byte == 0);
        let paths = words.by_ref().take_while(|path| !path.is_empty());
        let paths = paths.map(path).collect();
        let mut rules = Vec::new();
        while let (Some(folder), Some(text)) = (words.next(), words.next()) {
            rules.push(Rules {
                folder: path(folder),
                text: text.to_vec(),
            });
        }
        Self { paths, rules }
    }

    pub(crate) fn paths(&self) -> &BTreeSet<PathBuf> {
        &self.paths
    }

    /// Every folder of git's, and every file in the place of one.
    pub(crate) fn repositories(&self) -> Vec<PathBuf> {
        let paths = self.paths.iter().filter(|path| path.ends_with(".git"));
        paths.cloned().collect()
    }

    /// A repository below the top one, if there is any: git would take it for a part of its own kind.
    pub(crate) fn nested_repository(&self) -> Option<&Path> {
        let mut paths = self.paths.iter().filter(|path| path.ends_with(".git"));
        paths.find_map(|path| path.parent().filter(|above| !above.as_os_str().is_empty()))
    }

    /// Whether an entry of an archive stays at home.
    pub(crate) fn covers(&self, path: &EntryPath, _: Kind) -> bool {
        self.covers_path(Path::new(OsStr::from_bytes(path.as_bytes())))
    }

    /// How a change of this path is told that no comparison shows; nothing if one does. Git's own files are told as one.
    pub(crate) fn unseen(&self, path: &Path) -> Option<PathBuf> {
        if !self.covers_path(path) {
            return None;
        }
        let git = path.ancestors().filter(|above| above.ends_with(".git"));
        Some(git.last().unwrap_or(path).to_owned())
    }

    pub(crate) fn covers_path(&self, path: &Path) -> bool {
        // A repository that the remote makes itself must not come home either.
        path.iter().any(is_left) || path.ancestors().any(|above| self.paths.contains(above))
    }

    /// For asking what stays at home of what a remote brings, the rules included.
    pub(crate) fn at_home(&self) -> AtHome<'_> {
        let built = self.rules.iter().map(|rules| {
            let mut builder = GitignoreBuilder::new(&rules.folder);
            for line in String::from_utf8_lossy(&rules.text).lines() {
                // What is no rule is none.
                let _ = builder.add_line(None, line);
            }
            (rules.folder.as_path(), builder.build())
        });
        let rules = built.filter_map(|(folder, rules)| Some((folder, rules.ok()?)));
        AtHome {
            ignored: self,
            rules: rules.collect(),
        }
    }
}

/// What stays at home, ready to be asked.
pub(crate) struct AtHome<'a> {
    ignored: &'a Ignored,
    rules: Vec<(&'a Path, Gitignore)>,
}

impl AtHome<'_> {
    /// What this is part of that stays at home, the uppermost of it; nothing if it may come.
    pub(crate) fn keeps(&self, path: &Path, is_dir: bool) -> Option<PathBuf> {
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.retain(|above| !above.as_os_str().is_empty());
        let top = above.into_iter().rev().find(|above| {
            let is_dir = is_dir || *above != path;
            self.ignored.covers_path(above) || self.is_ruled_out(above, is_dir)
        });
        top.map(Path::to_owned)
    }

    fn is_ruled_out(&self, path: &Path, is_dir: bool) -> bool {
        let rules = self.rules.iter();
        let mut rules = rules.filter(|(folder, _)| path.starts_with(folder));
        let found = rules.find_map(|(_, rules)| match rules.matched(path, is_dir) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        });
        found.unwrap_or(false)
    }
}

fn is_left(name: &OsStr) -> bool {
    let mut left = LEFT_AT_HOME.iter();
    left.any(|left| name.eq_ignore_ascii_case(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_stays_at_home_by_the_rules_of_before() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        for (name, text) in [
            (".gitignore", "target/\n*.log\n!keep.log\n"),
            ("sub/.gitignore", "/own\n!wanted.log\n"),
            (".git/info/exclude", "private\n"),
        ] {
            std::fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            std::fs::write(dir.join(name), text).unwrap();
        }
        let folders = [dir.to_owned(), dir.join("sub")];
        let paths = BTreeSet::from([PathBuf::from(".git")]);
        let ignored = Ignored::new(paths, dir, &folders);
        let ignored = Ignored::from_bytes(&ignored.to_bytes());
        let at_home = ignored.at_home();
        for (path, expected) in [
            ("target/debug/x", Some("target")),
            ("sub/target/keep.log", Some("sub/target")),
            ("x.log", Some("x.log")),
            ("keep.log", None),
            ("sub/wanted.log", None),
            ("sub/own/x", Some("sub/own")),
            ("own", None),
            ("private/x", Some("private")),
            ("sub/.GIT/config", Some("sub/.GIT")),
            ("node_modules/a/b", Some("node_modules")),
            ("src/main.rs", None),
        ] {
            let kept = at_home.keeps(Path::new(path), false);
            assert_eq!(kept.as_deref(), expected.map(Path::new), "{path}");
        }
        assert_eq!(Ignored::from_bytes(&[]), Ignored::default());
    }
}
