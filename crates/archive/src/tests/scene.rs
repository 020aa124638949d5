//! A temporary folder with something outside the tree that must not be touched, and small helpers to make trees.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::*;

pub(super) struct Scene {
    top: tempfile::TempDir,
    journals: tempfile::TempDir,
}

impl Scene {
    pub(super) fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("outside")).unwrap();
        fs::write(top.path().join("outside/secret"), "secret").unwrap();
        let journals = tempfile::tempdir().unwrap();
        Self { top, journals }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    /// A new empty folder.
    pub(super) fn folder(&self, name: &str) -> Folder {
        fs::create_dir(self.path(name)).unwrap();
        self.open(name)
    }

    /// Where changes of that tree are written down, which is no part of the scene.
    pub(super) fn journal(&self, name: &str) -> Journal {
        let folder = Folder::open(self.journals.path()).unwrap();
        Journal::of(folder, &self.path(name))
    }

    pub(super) fn journals(&self) -> PathBuf {
        self.journals.path().to_owned()
    }

    pub(super) fn open(&self, name: &str) -> Folder {
        Folder::open(&self.path(name)).unwrap()
    }

    pub(super) fn manifest(&self, name: &str) -> Manifest {
        manifest(&self.path(name))
    }

    /// Nothing but `names` and the untouched outside is here, and no link in `names` leads out of its tree.
    pub(super) fn assert_contained(&self, names: &[&str]) {
        self.assert_only(names);
        for name in names {
            let root = self.path(name).canonicalize().unwrap();
            assert_links_stay(&root, &root);
        }
    }

    /// The same where one tree has links out from the start.
    pub(super) fn assert_contained_except(&self, leaky: &str, names: &[&str]) {
        let all: Vec<&str> = names.iter().copied().chain([leaky]).collect();
        self.assert_only(&all);
        for name in names {
            let root = self.path(name).canonicalize().unwrap();
            assert_links_stay(&root, &root);
        }
    }

    fn assert_only(&self, names: &[&str]) {
        let mut found: Vec<String> = fs::read_dir(self.top.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        let mut expected: Vec<&str> = names.iter().copied().chain(["outside"]).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
        let outside: Vec<_> = fs::read_dir(self.path("outside")).unwrap().collect();
        assert_eq!(outside.len(), 1);
        let secret = fs::read_to_string(self.path("outside/secret")).unwrap();
        assert_eq!(secret, "secret");
    }
}

fn assert_links_stay(root: &Path, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            assert_links_stay(root, &entry.path());
        } else if kind.is_symlink()
            && let Ok(target) = entry.path().canonicalize()
        {
            assert!(target.starts_with(root), "{:?} leads out", entry.path());
        }
    }
}

pub(super) fn manifest(path: &Path) -> Manifest {
    let folder = Folder::open(path).unwrap();
    let (manifest, left_out) = Manifest::of(&folder, &everything, &Limits::default()).unwrap();
    assert_eq!(left_out, []);
    manifest
}

/// Without times, which not every carrier keeps exactly.
pub(super) fn timeless(mut manifest: Manifest) -> Manifest {
    for entry in manifest.entries.values_mut() {
        entry.mtime = Mtime::default();
    }
    manifest
}

/// With whole seconds, and no times of links, which `unzip` does not set.
pub(super) fn whole_seconds(mut manifest: Manifest) -> Manifest {
    for entry in manifest.entries.values_mut() {
        entry.mtime.nanos = 0;
        if entry.content.kind() == Kind::Link {
            entry.mtime.secs = 0;
        }
    }
    manifest
}

pub(super) fn file(root: &Path, name: impl AsRef<[u8]>, content: &[u8], mode: u32) {
    let path = root.join(OsStr::from_bytes(name.as_ref()));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    touch(&path, 1_600_000_000 + content.len() as u64, 123_456_789);
}

pub(super) fn touch(path: &Path, secs: u64, nanos: u32) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(secs, nanos);
    let file = fs::File::open(path).unwrap();
    file.set_modified(time).unwrap();
}

pub(super) fn link(root: &Path, name: &str, target: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(target, path).unwrap();
}

/// A tree with one of everything that travels.
pub(super) fn garden(root: &Path) {
    fs::create_dir_all(root.join("empty/deeper")).unwrap();
    file(root, "readme.md", b"hello\n", 0o644);
    file(root, "bin/run.sh", b"#!/bin/sh\n", 0o755);
    file(root, "secret.txt", b"s", 0o600);
    file(root, "nothing", b"", 0o644);
    file(root, "large", &vec![7; 100_000], 0o644);
    file(root, "name with spaces/ünï", b"x", 0o640);
    file(root, format!("long/{}", "n".repeat(200)), b"long", 0o644);
    let deep = "deep/".repeat(60);
    file(root, format!("{deep}leaf"), b"leaf", 0o644);
    link(root, "bin/link", "../readme.md");
    link(root, "to-dir", "bin");
    link(root, "dangling", "nowhere");
    link(root, "long-link", &format!("long/{}", "n".repeat(200)));
    fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o750)).unwrap();
    touch(&root.join("empty"), 1_500_000_000, 5);
}
