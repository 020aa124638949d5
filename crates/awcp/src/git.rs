//! Git on repositories of our own, and nothing that anybody else wrote is run by it: no hook, filter, monitor or helper.
//!
//! What comes from a peer comes as a bundle, which holds objects and names alone, and is checked object by object. A
//! repository that an agent has worked in, or somebody's own, is only read as files or given a name: its settings could
//! name programs.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use platform::{
    Exit,
    command::CommandLine,
    files::{self, Durability, Mode},
    system::find_program,
};

/// How long one act of git may take: a hundred thousand files on a slow disk.
const GIT_MAX: Duration = Duration::from_secs(5 * 60);

/// What is read of git: the paths of the largest workspace. A tree that lists itself over and over ends here.
const OUTPUT_MAX: usize = 32 * 1024 * 1024;

/// Bytes of paths in one command; the kernel takes two million with the environment.
const ARGUMENTS_MAX: usize = 500_000;

/// The largest piece of memory that git may ask for, well above what it needs with the settings below: a few bytes in a
/// bundle can stand for very many.
const ALLOCATION_MAX: &str = "256m";

/// The oldest version that merges without a work tree.
const OLDEST: (u32, u32) = (2, 38);

/// Content stays as it is, nothing of the workspace is run, and warnings do not mix with what is read.
const SETTINGS: [&str; 17] = [
    "core.bare=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.alternateRefsCommand=",
    // Larger files are neither compared nor held in memory.
    "core.bigFileThreshold=64m",
    "advice.addEmbeddedRepo=false",
    "commit.gpgSign=false",
    "fetch.fsckObjects=true",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
];

/// Before every rule in the work tree, so that none changes what is kept.
pub(crate) const ATTRIBUTES: &str = "* -text !eol !ident !filter !working-tree-encoding\n";

/// A repository that is used with our settings alone.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    pub(crate) folder: PathBuf,
    /// Paths are relative to it.
    pub(crate) work_tree: Option<PathBuf>,
    /// Its PATH tells where git is.
    pub(crate) environment: BTreeMap<OsString, OsString>,
    /// What one act needs beside that.
    pub(crate) variables: Vec<(&'static str, OsString)>,
}

impl Repository {
    /// Makes it anew, without any file of a template.
    pub(crate) async fn init(&self) -> Result<(), String> {
        files::remove_tree(&self.folder).map_err(|error| error.to_string())?;
        files::create_private_dir(&self.folder).map_err(|error| error.to_string())?;
        let bare = Self {
            work_tree: None,
            ..self.clone()
        };
        bare.run(&["init", "-q", "--bare", "--template=", "."])
            .await?;
        let info = self.folder.join("info");
        files::create_private_dir(&info).map_err(|error| error.to_string())?;
        self.write("info/attributes", ATTRIBUTES.as_bytes())
    }

    /// Writes a file of the repository.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let written = self.write_file(name, bytes);
        written.map_err(|error| error.to_string())
    }

    pub(crate) fn write_file(&self, name: &str, bytes: &[u8]) -> Result<(), files::FileError> {
        let file = self.folder.join(name);
        files::write_atomic(&file, bytes, Mode::PRIVATE, Durability::ProcessDeath)
    }

    /// The same repository, with one more variable.
    pub(crate) fn with(&self, name: &'static str, value: impl Into<OsString>) -> Self {
        let mut other = self.clone();
        other.variables.push((name, value.into()));
        other
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// Runs git and gives what it printed; its words if it failed.
    pub(crate) async fn run(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        match self.ask(&args).await? {
            (0, output) => Ok(output),
            (code, output) => Err(complaint(&args, &format!("code {code}"), &output)),
        }
    }

    /// The same, for one line of text.
    pub(crate) async fn line(&self, args: &[&str]) -> Result<String, String> {
        let output = self.run(args).await?;
        Ok(String::from_utf8_lossy(&output).trim().to_owned())
    }

    /// The same act on many paths, so many at a time as fit.
    pub(crate) async fn run_on(&self, args: &[&str], paths: &[PathBuf]) -> Result<(), String> {
        let mut rest = paths;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|path| {
                bytes += path.as_os_str().len() + 1;
                bytes <= ARGUMENTS_MAX
            });
            let (now, later) = rest.split_at(fits.count().max(1));
            let mut all: Vec<OsString> = args.iter().map(OsString::from).collect();
            all.push("--".into());
            all.extend(now.iter().map(|path| path.clone().into_os_string()));
            match self.ask(&all).await? {
                (0, _) => rest = later,
                (code, output) => return Err(complaint(&all, &format!("code {code}"), &output)),
            }
        }
        Ok(())
    }

    /// The first bytes of what git prints, and whether that is all.
    pub(crate) async fn beginning(
        &self,
        args: &[&str],
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let (mut output, end) = self.talk(&args, max).await?;
        match end {
            Some(Exit::Code(0)) => Ok((output, true)),
            Some(exit) => Err(complaint(&args, &exit.to_string(), &output)),
            None => {
                output.truncate(max);
                Ok((output, false))
            }
        }
    }

    /// Runs git and gives its code with what it printed.
    pub(crate) async fn ask(&self, args: &[OsString]) -> Result<(i32, Vec<u8>), String> {
        let (output, end) = self.talk(args, OUTPUT_MAX).await?;
        match end {
            Some(Exit::Code(code)) => Ok((code, output)),
            Some(exit) => Err(complaint(args, &exit.to_string(), &output)),
            None => Err(format!("git {} said too much", verb(args))),
        }
    }

    /// What git printed, and how it ended if it came to its end.
    async fn talk(&self, args: &[OsString], max: usize) -> Result<(Vec<u8>, Option<Exit>), String> {
        let path = self.environment.get(OsStr::new("PATH"));
        let path = path.cloned().unwrap_or_default();
        let program = find_program("git", &path)
            .ok_or("git is missing: install it, lending needs it".to_owned())?;
        let mut all: Vec<OsString> = Vec::new();
        for setting in SETTINGS {
            all.push("-c".into());
            all.push(setting.into());
        }
        all.extend(args.iter().cloned());
        let line = CommandLine {
            program,
            args: all,
            env: self.variables(path),
            cwd: self.work_tree.clone().unwrap_or(self.folder.clone()),
        };
        let command = line.start().map_err(|error| error.to_string())?;
        let mut output = Vec::new();
        let reading = async {
            let mut buffer = vec![0; 64 * 1024];
            loop {
                match command.read(&mut buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(length) => output.extend_from_slice(&buffer[..length]),
                }
                if output.len() > max {
                    return false;
                }
            }
            command.exited().await;
            true
        };
        let is_whole = tokio::time::timeout(GIT_MAX, reading).await;
        let is_whole = is_whole.map_err(|_| format!("git {} took too long", verb(args)))?;
        let exit = command.end().await;
        Ok((output, is_whole.then_some(exit)))
    }

    fn variables(&self, path: OsString) -> BTreeMap<OsString, OsString> {
        let mut variables = BTreeMap::from([
            ("PATH".into(), path),
            ("GIT_DIR".into(), self.folder.clone().into_os_string()),
        ]);
        if let Some(work_tree) = &self.work_tree {
            let work_tree = work_tree.clone().into_os_string();
            variables.insert("GIT_WORK_TREE".into(), work_tree);
        }
        let fixed = [
            ("HOME", "/nonexistent"),
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            // A bundle is a file; nothing else is ever asked for objects, whatever a repository says.
            ("GIT_ALLOW_PROTOCOL", "file"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_ALLOC_LIMIT", ALLOCATION_MAX),
            ("GIT_AUTHOR_NAME", "agentcraft"),
            ("GIT_AUTHOR_EMAIL", "agentcraft@localhost"),
            ("GIT_COMMITTER_NAME", "agentcraft"),
            ("GIT_COMMITTER_EMAIL", "agentcraft@localhost"),
        ];
        variables.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        let more = self.variables.iter();
        variables.extend(more.map(|(name, value)| ((*name).into(), value.clone())));
        variables
    }

    /// Makes the index as these paths are in the work tree; those that are gone leave it. Rules of the work tree are not
    /// asked, so none that a remote writes hides anything.
    pub(crate) async fn stage(&self, paths: &[PathBuf]) -> Result<(), String> {
        let args = ["update-index", "--add", "--remove", "--replace"];
        self.run_on(&args, paths).await
    }

    /// A commit of what is in the index.
    pub(crate) async fn commit(
        &self,
        message: &str,
        parent: Option<&str>,
    ) -> Result<String, String> {
        let tree = self.line(&["write-tree"]).await?;
        self.commit_tree(message, parent, &tree).await
    }

    pub(crate) async fn commit_tree(
        &self,
        message: &str,
        parent: Option<&str>,
        tree: &str,
    ) -> Result<String, String> {
        let mut args = vec!["commit-tree", "-m", message];
        if let Some(parent) = parent {
            args.extend(["-p", parent]);
        }
        args.push(tree);
        self.line(&args).await
    }

    /// Takes one name out of a bundle, with every object checked.
    pub(crate) async fn fetch(&self, bundle: &Path, from: &str, to: &str) -> Result<(), String> {
        let bundle = bundle.display().to_string();
        let names = format!("+{from}:{to}");
        let args = [
            "fetch",
            "-q",
            "--no-tags",
            "--no-auto-maintenance",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            &bundle,
            &names,
        ];
        self.run(&args).await.map(drop)
    }

    /// The files of a tree, with their sizes.
    pub(crate) async fn tree(&self, tree: &str) -> Result<Vec<Leaf>, String> {
        let listed = self.run(&["ls-tree", "-r", "-l", "-z", tree]).await?;
        split(&listed)
            .map(|line| Leaf::parse(line).ok_or_else(|| format!("git lists {tree} oddly")))
            .collect()
    }
}

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) kind: LeafKind,
    pub(crate) bytes: u64,
    pub(crate) path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeafKind {
    File,
    Link,
    /// Another repository, or something that no git makes.
    Other,
}

impl Leaf {
    /// `MODE TYPE OBJECT SIZE<tab>PATH`
    fn parse(line: &[u8]) -> Option<Self> {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let (head, path) = (str::from_utf8(&line[..tab]).ok()?, &line[tab + 1..]);
        let mut words = head.split_ascii_whitespace();
        let kind = match words.next()? {
            "100644" | "100755" => LeafKind::File,
            "120000" => LeafKind::Link,
            _ => LeafKind::Other,
        };
        Some(Self {
            kind,
            // Another repository has none.
            bytes: words.nth(2)?.parse().unwrap_or(0),
            path: path_of(path),
        })
    }
}

/// Whether there is a git here that can do all of this.
pub(crate) async fn is_here(folder: &Path, environment: &BTreeMap<OsString, OsString>) -> bool {
    let nowhere = Repository {
        folder: folder.to_owned(),
        work_tree: None,
        environment: environment.clone(),
        variables: Vec::new(),
    };
    let said = nowhere.line(&["version"]).await.unwrap_or_default();
    version(&said).is_some_and(|version| version >= OLDEST)
}

fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.strip_prefix("git version ")?.split(['.', ' ']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn verb(args: &[OsString]) -> String {
    let verb = args.iter().find(|arg| !arg.as_bytes().starts_with(b"-"));
    verb.map_or_else(String::new, |verb| verb.display().to_string())
}

fn complaint(args: &[OsString], how: &str, output: &[u8]) -> String {
    let words = String::from_utf8_lossy(output).trim().to_owned();
    format!("git {} ended with {how}: {words}", verb(args))
}

pub(crate) fn split(listed: &[u8]) -> impl Iterator<Item = &[u8]> {
    listed
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
}

pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(bytes)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_old_ones_are_not_enough() {
        for (said, enough) in [
            ("git version 2.47.3", true),
            ("git version 2.38", true),
            ("git version 2.39.5 (Apple Git-154)", true),
            ("git version 2.30.2", false),
            ("git version 1.99", false),
            ("no git", false),
        ] {
            let version = version(said);
            assert_eq!(version.is_some_and(|it| it >= OLDEST), enough, "{said}");
        }
    }

    #[test]
    fn a_listed_tree_tells_files_from_links_and_other_repositories() {
        let leaf = |kind, bytes, path: &str| Leaf {
            kind,
            bytes,
            path: path.into(),
        };
        for (line, expected) in [
            (
                "100755 blob 12ab      17\ta b",
                leaf(LeafKind::File, 17, "a b"),
            ),
            ("120000 blob 12ab       3\tl", leaf(LeafKind::Link, 3, "l")),
            (
                "160000 commit 12ab       -\tsub",
                leaf(LeafKind::Other, 0, "sub"),
            ),
        ] {
            assert_eq!(Leaf::parse(line.as_bytes()), Some(expected), "{line}");
        }
        assert_eq!(Leaf::parse(b"nothing"), None);
    }
}
