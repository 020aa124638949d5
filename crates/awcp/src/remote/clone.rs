//! The git plane at the remote: a clone to work in, and a branch of what came of it.
//!
//! The clone is the agent's, settings, hooks and all, so git never runs in it again once the agent has begun: commits are
//! copied out of it as files, and packed from a repository of our own.

use std::path::{Path, PathBuf};

use archive::{Checksum, Folder, Limits, Manifest};
use domain::delegation::{Code, Failure};
use platform::{
    ConfinedDir,
    confined::{Access, ConfinedError, Kind},
};

use super::plane::{failed, limits};
use crate::{
    blocking::not_done,
    git::{LeafKind, Repository, split},
    host::{LENT_NAME, WORK_NAME},
    node::Node,
    spool,
};

/// Our own repository, beside the bundle it came from.
const OURS: &str = "branch.git";

/// The branch that the agent finds checked out, without its folder.
const CHECKED_OUT: &str = "refs/heads/lent-work";

/// Longer than any name that a reference has.
const REFERENCE_MAX: u64 = 4096;

/// All packed references of a clone that had one.
const PACKED_MAX: u64 = 16 << 20;

/// What never travels though no rule of the work tree says so.
const EXCLUDED: &str = "node_modules\n";

/// A clone, and what it was made of.
#[derive(Debug)]
pub(super) struct Clone {
    node: Node,
    point: PathBuf,
    ours: Repository,
    lent: String,
}

impl Clone {
    /// Makes a clone at the mount point of the bundle that lies in the stage.
    pub(super) async fn of(
        node: &Node,
        point: &Path,
        (stage, bundle): (&Path, &str),
        checksum: Option<String>,
    ) -> Result<Self, Failure> {
        let (folder, name, limits) = (stage.to_owned(), bundle.to_owned(), limits(node));
        let checking = node.tasks().spawn_blocking(move |_| {
            let file = spool::open(&folder, &name).map_err(|error| failed(&error))?;
            let found = Checksum::of_reader(file).map_err(|error| failed(&error))?;
            match checksum.is_none_or(|text| Checksum::parse(&text) == Some(found)) {
                true => Ok(()),
                false => Err(not_cloned("the checksum is another")),
            }
        });
        checking
            .await
            .unwrap_or_else(|error| Err(not_done(&error)))?;
        let bundle = stage.join(bundle);
        let ours = Repository {
            folder: stage.join(OURS),
            work_tree: Some(point.to_owned()),
            environment: node.config().environment.clone(),
            variables: Vec::new(),
        };
        let cloning = async {
            ours.init().await?;
            ours.write("info/exclude", EXCLUDED.as_bytes())?;
            let lent = take(&ours, &bundle).await?;
            check(&ours, &lent, &limits).await?;
            make_clone(&ours, point, &bundle).await?;
            Ok(lent)
        };
        let lent = cloning.await.map_err(|why: String| not_cloned(&why))?;
        let clone = Self {
            node: node.clone(),
            point: point.to_owned(),
            ours,
            lent,
        };
        clone.check_links().await?;
        Ok(clone)
    }

    /// Links that lead outside are refused, as everywhere.
    async fn check_links(&self) -> Result<(), Failure> {
        let (point, limits) = (self.point.clone(), limits(&self.node));
        let checking = self.node.tasks().spawn_blocking(move |_| {
            let folder = Folder::open(&point).map_err(|error| failed(&error))?;
            let ours = |path: &archive::EntryPath, _| path.as_bytes() == b".git";
            let walked = Manifest::of(&folder, &ours, &limits);
            let (_, left_out) = walked.map_err(|error| failed(&error))?;
            match left_out.first() {
                None => Ok(()),
                Some(left) => Err(not_cloned(&format!("{} leads outside", left.path))),
            }
        });
        let checked = checking.await;
        checked.unwrap_or_else(|error| Err(not_done(&error)))
    }

    /// Packs what came of the work in a bundle; nothing if nothing did.
    pub(super) async fn pack(&self, bundle: &Path) -> Result<bool, Failure> {
        let packed = async {
            let tip = self.tip().await;
            let work = self.commit_rest(&tip).await?;
            if work == self.lent {
                return Ok(false);
            }
            let not = format!("^{}", self.lent);
            self.ours.run(&["update-ref", WORK_NAME, &work]).await?;
            let bundle = bundle.display().to_string();
            let args = ["bundle", "create", "-q", &bundle, WORK_NAME, &not];
            self.ours.run(&args).await?;
            Ok(true)
        };
        packed.await.map_err(|why: String| {
            Failure::new(Code::TaskFailed, format!("could not pack the work: {why}"))
        })
    }

    /// The last commit of the agent's that grew out of what was lent. Whatever cannot be read of the clone, or does not
    /// hang together, is left behind: the files themselves come home anyway.
    async fn tip(&self) -> String {
        let (point, into) = (self.point.clone(), self.ours.objects());
        let bytes = limits(&self.node).bytes;
        let reading = self.node.tasks().spawn_blocking(move |_| {
            let clone = ConfinedDir::open(&point.join(".git")).ok()?;
            copy_objects(&clone, &into, bytes).ok()?;
            head(&clone)
        });
        let Some(tip) = reading.await.ok().flatten() else {
            return self.lent.clone();
        };
        let is_grown = async {
            let args = ["merge-base", "--is-ancestor", &self.lent, &tip];
            self.ours.run(&args).await?;
            // Every object is there and is what its name says.
            let range = format!("{}..{tip}", self.lent);
            self.ours
                .run(&["rev-list", "--objects", "--quiet", &range])
                .await
        };
        match is_grown.await {
            Ok(_) => tip,
            Err(why) => {
                tracing::info!(why, "commits in a lent repository are left behind");
                self.lent.clone()
            }
        }
    }

    /// The files as they are, on top of that commit if it is not what they are.
    async fn commit_rest(&self, tip: &str) -> Result<String, String> {
        let ours = &self.ours;
        ours.run(&["read-tree", tip]).await?;
        ours.run(&["add", "-A", "."]).await?;
        let listed = ours.run(&["ls-files", "-s", "-z"]).await?;
        // Another repository in it stays behind, as it would in an archive.
        let others: Vec<PathBuf> = split(&listed)
            .filter(|line| line.starts_with(b"160000 "))
            .filter_map(|line| {
                let tab = line.iter().position(|byte| *byte == b'\t')?;
                Some(crate::git::path_of(&line[tab + 1..]))
            })
            .collect();
        ours.run_on(&["update-index", "--force-remove"], &others)
            .await?;
        let tree = ours.line(&["write-tree"]).await?;
        let name = format!("{tip}^{{tree}}");
        if ours.line(&["rev-parse", &name]).await? == tree {
            return Ok(tip.to_owned());
        }
        ours.commit("What was not committed", Some(tip)).await
    }
}

/// Takes what was lent out of the bundle.
async fn take(into: &Repository, bundle: &Path) -> Result<String, String> {
    let path = bundle.display().to_string();
    let heads = into.line(&["bundle", "list-heads", &path]).await?;
    let lent = heads.strip_suffix(LENT_NAME).map(str::trim);
    let lent = lent.filter(|it| it.len() == 40 && it.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let lent = lent.ok_or("it names something else than what is lent")?;
    // Its history stays where it came from.
    into.write("shallow", format!("{lent}\n").as_bytes())?;
    into.fetch(bundle, LENT_NAME, LENT_NAME).await?;
    Ok(lent.to_owned())
}

/// Nothing but files and links, and not too many or too large.
async fn check(ours: &Repository, lent: &str, limits: &Limits) -> Result<(), String> {
    let leaves = ours.tree(lent).await?;
    let bytes: u64 = leaves.iter().map(|leaf| leaf.bytes).sum();
    if leaves.len() as u64 > limits.entries || bytes > limits.bytes {
        return Err(format!("it has {} files of {bytes} bytes", leaves.len()));
    }
    let odd = leaves
        .iter()
        .find(|leaf| leaf.kind == LeafKind::Other || leaf.bytes > limits.file_bytes);
    match odd {
        None => Ok(()),
        Some(odd) => Err(format!("{} is not taken", odd.path.display())),
    }
}

/// A repository that is the agent's own from now on.
async fn make_clone(ours: &Repository, point: &Path, bundle: &Path) -> Result<(), String> {
    let clone = Repository {
        folder: point.join(".git"),
        ..ours.clone()
    };
    clone.run(&["init", "-q", "--template="]).await?;
    take(&clone, bundle).await?;
    clone.run(&["symbolic-ref", "HEAD", CHECKED_OUT]).await?;
    clone.run(&["update-ref", CHECKED_OUT, LENT_NAME]).await?;
    clone.run(&["reset", "-q", "--hard"]).await?;
    for (name, value) in [
        ("user.name", "agentcraft"),
        ("user.email", "agentcraft@localhost"),
        ("core.bare", "false"),
    ] {
        clone.run(&["config", name, value]).await?;
    }
    clone.run(&["update-ref", "-d", LENT_NAME]).await.map(drop)
}

/// Copies every object of the clone that is not here yet. Links are not followed, and no other store that the clone may
/// name is looked into.
fn copy_objects(clone: &ConfinedDir, into: &Path, max: u64) -> Result<(), ConfinedError> {
    let ours = ConfinedDir::open(into)?;
    let mut left = max;
    for folder in clone.list("objects")? {
        let name = folder.name.to_string_lossy().into_owned();
        let is_loose = name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if folder.kind != Kind::Dir || !(is_loose || name == "pack") {
            continue;
        }
        ours.create_dir_all(&name)?;
        let from = Path::new("objects").join(&name);
        for file in clone.list(&from)? {
            let to = Path::new(&name).join(&file.name);
            let is_object = is_loose || is_pack(&file.name.to_string_lossy());
            if file.kind == Kind::File && is_object && !ours.exists(&to)? {
                let source = clone.open_file(from.join(&file.name), Access::Read)?;
                left = left.saturating_sub(ours.copy_in(&source, &to, left)?);
            }
        }
    }
    Ok(())
}

fn is_pack(name: &str) -> bool {
    let ending = name.rsplit('.').next();
    name.starts_with("pack-") && matches!(ending, Some("pack" | "idx"))
}

/// What is checked out in a clone, read without git.
fn head(clone: &ConfinedDir) -> Option<String> {
    let text = |name: &str| {
        let bytes = clone.read(name, REFERENCE_MAX).ok()?;
        Some(String::from_utf8(bytes).ok()?.trim().to_owned())
    };
    let said = text("HEAD")?;
    let Some(reference) = said.strip_prefix("ref: ") else {
        return commit_name(&said);
    };
    if !reference.starts_with("refs/") {
        return None;
    }
    if let Some(said) = text(reference) {
        return commit_name(&said);
    }
    let packed = clone.read("packed-refs", PACKED_MAX).ok()?;
    let packed = String::from_utf8(packed).ok()?;
    let line = packed
        .lines()
        .find_map(|line| line.strip_suffix(reference)?.strip_suffix(' '));
    commit_name(line?)
}

fn commit_name(text: &str) -> Option<String> {
    let is_name = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| text.to_owned())
}

fn not_cloned(why: &str) -> Failure {
    Failure::new(
        Code::MountFailed,
        format!("could not clone what was lent: {why}"),
    )
}
