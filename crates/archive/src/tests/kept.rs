//! What is kept without git is what git would have kept, and git reads it.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::Path,
    process::Command,
};

use super::scene::Scene;
use crate::*;

/// Long past, so that files made in a test look as if they had been there for a while.
const LATER: i64 = 4_000_000_000;

fn git(folder: &Path, args: &[&str]) -> String {
    let ran = Command::new("git")
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(ran.status.success(), "git {args:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// Writes a file so that the clock of files tells it: that clock may stand still for some milliseconds.
fn rewrite(path: &Path, content: &str) {
    let when = || {
        let metadata = fs::metadata(path).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let before = when();
    while when() == before {
        fs::write(path, content).unwrap();
    }
}

/// Keeps how these paths of the tree are in a pack of that name; gives the commit.
fn keep(scene: &Scene, kept: &mut KeptTree, paths: &[&[u8]], name: &str) -> ObjectId {
    let packs = scene.path("tree/.git/objects/pack");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(packs.join(format!("{name}.pack")))
        .unwrap();
    let mut pack = ObjectPack::new(file).unwrap();
    let paths: BTreeSet<&[u8]> = paths.iter().copied().collect();
    kept.look(&scene.open("tree"), &paths, LATER, &mut pack)
        .unwrap();
    let commit = kept.commit(name, 1_700_000_000, &mut pack).unwrap();
    let index = pack.finish().unwrap();
    fs::write(packs.join(format!("{name}.idx")), index).unwrap();
    commit
}

/// What git makes of the tree by itself.
fn by_git(scene: &Scene) -> String {
    let tree = scene.path("tree");
    git(&tree, &["-c", "core.safecrlf=false", "add", "-A", "-f"]);
    git(&tree, &["write-tree"])
}

fn tree() -> (Scene, Vec<&'static [u8]>) {
    let scene = Scene::new();
    scene.folder("tree");
    let top = scene.path("tree");
    git(&top, &["init", "-q"]);
    let files: [(&[u8], &[u8]); 9] = [
        (b"a", b"one\n"),
        (b"b.c", b"before the folder\n"),
        (b"b/c", b"in the folder\n"),
        (b"b/d/e", b""),
        (b"b0", b"after the folder\n"),
        (b"same", b"one\n"),
        (b"bytes \xff\xfe", b"a name that is no text\n"),
        ("größe/日本語 😀".as_bytes(), b"x"),
        (b".gitignore", b"*\n"),
    ];
    for (path, content) in files {
        let path = top.join(std::ffi::OsStr::from_bytes(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    // Larger than what is read at once, and hard to make smaller.
    let mut state = 1_u64;
    let large: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    })
    .take(5_000_000)
    .collect();
    fs::write(top.join("large"), large).unwrap();
    fs::set_permissions(top.join("b0"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("../outside/secret", top.join("link")).unwrap();
    let paths = files.iter().map(|(path, _)| *path);
    let paths = paths.chain([&b"large"[..], b"link", b"never/there"]);
    (scene, paths.collect())
}

#[test]
fn a_tree_is_kept_as_git_would_keep_it() {
    let (scene, paths) = tree();
    let mut kept = KeptTree::default();
    let commit = keep(&scene, &mut kept, &paths, "first").to_string();
    let top = scene.path("tree");
    let ours = git(&top, &["rev-parse", &format!("{commit}^{{tree}}")]);
    git(&top, &["fsck", "--strict", "--no-dangling", &commit]);
    git(&top, &["verify-pack", ".git/objects/pack/first.idx"]);
    assert_eq!(ours, by_git(&scene));
    assert_eq!(kept.paths().count(), paths.len() - 1);
    assert_eq!(KeptTree::from_bytes(&kept.to_bytes()), Some(kept));
    assert_eq!(KeptTree::from_bytes(b"nothing"), None);
    assert_eq!(KeptTree::from_bytes(b""), None);
}

#[test]
fn changes_of_every_kind_are_kept_and_what_is_the_same_is_not_read_again() {
    let (scene, paths) = tree();
    let mut kept = KeptTree::default();
    let first = keep(&scene, &mut kept, &paths, "first").to_string();
    let top = scene.path("tree");
    rewrite(&top.join("a"), "two\n");
    fs::remove_file(top.join("b0")).unwrap();
    fs::set_permissions(top.join("same"), fs::Permissions::from_mode(0o755)).unwrap();
    // A file becomes a folder, a folder becomes a file, a link becomes a file.
    fs::remove_file(top.join("b.c")).unwrap();
    fs::create_dir(top.join("b.c")).unwrap();
    fs::write(top.join("b.c/new"), "n\n").unwrap();
    fs::remove_dir_all(top.join("b")).unwrap();
    fs::write(top.join("b"), "b\n").unwrap();
    fs::remove_file(top.join("link")).unwrap();
    fs::write(top.join("link"), "no link\n").unwrap();
    let mut kept = KeptTree::from_bytes(&kept.to_bytes()).unwrap();
    let all = [&paths[..], &[b"b.c/new", b"b"]].concat();
    let second = keep(&scene, &mut kept, &all, "second").to_string();
    let ours = git(&top, &["rev-parse", &format!("{second}^{{tree}}")]);
    assert_eq!(ours, by_git(&scene));
    git(&top, &["fsck", "--strict", "--no-dangling", &second]);
    let changed = git(&top, &["diff", "--no-renames", "--stat", &first, &second]);
    assert!(changed.contains("9 files changed"), "{changed}");
    let size = |name: &str| {
        let pack = top.join(format!(".git/objects/pack/{name}.pack"));
        fs::metadata(pack).unwrap().len()
    };
    // The large one is only in the first.
    assert!(size("first") > 1_000_000 && size("second") < 10_000);
}

#[test]
fn nothing_is_read_through_a_link() {
    let scene = Scene::new();
    scene.folder("tree");
    let top = scene.path("tree");
    git(&top, &["init", "-q"]);
    symlink(scene.path("outside"), top.join("way")).unwrap();
    let mut kept = KeptTree::default();
    keep(&scene, &mut kept, &[b"way/secret", b"way"], "first");
    assert_eq!(kept.paths().collect::<Vec<_>>(), [b"way"]);
}

#[test]
fn a_time_that_was_set_back_hides_no_change() {
    let scene = Scene::new();
    scene.folder("tree");
    let top = scene.path("tree");
    git(&top, &["init", "-q"]);
    let file = top.join("a");
    fs::write(&file, "one\n").unwrap();
    let mut kept = KeptTree::default();
    let first = keep(&scene, &mut kept, &[b"a"], "first").to_string();
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    rewrite(&file, "two\n");
    File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(before)
        .unwrap();
    let second = keep(&scene, &mut kept, &[b"a"], "second").to_string();
    assert_ne!(
        git(&top, &["rev-parse", &format!("{first}:a")]),
        git(&top, &["rev-parse", &format!("{second}:a")])
    );
}
