//! Other programs read what we write, and we read what they write.

use std::{fs, io::Cursor, process::Command};

use super::scene::*;
use crate::*;

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {words}");
    output.stdout
}

#[test]
fn tar_reads_ours() {
    let scene = Scene::new();
    scene.folder("from");
    garden(&scene.path("from"));
    let mut archive = Vec::new();
    pack(
        &scene.open("from"),
        &everything,
        &Limits::default(),
        &mut archive,
    )
    .unwrap();
    fs::write(scene.path("a.tar.zst"), archive).unwrap();
    scene.folder("to");
    run(Command::new("tar")
        .args(["--zstd", "-xpf", "a.tar.zst", "-C", "to"])
        .current_dir(scene.path(".")));
    assert_eq!(scene.manifest("to"), scene.manifest("from"));
}

#[test]
fn we_read_tars() {
    for format in ["gnu", "pax"] {
        let scene = Scene::new();
        scene.folder("from");
        garden(&scene.path("from"));
        let archive = run(Command::new("tar")
            .args(["--zstd", "--format", format, "-cf", "-", "."])
            .current_dir(scene.path("from")));
        let limits = Limits::default();
        let unpacked = unpack(archive.as_slice(), None, &scene.folder("to"), &limits).unwrap();
        let mut before = scene.manifest("from");
        let mut after = unpacked.manifest;
        if format == "gnu" {
            // That format has whole seconds.
            (before, after) = (seconds(before), seconds(after));
        }
        assert_eq!(after, before, "{format}");
    }
}

fn seconds(mut manifest: Manifest) -> Manifest {
    for entry in manifest.entries.values_mut() {
        entry.mtime.nanos = 0;
    }
    manifest
}

#[test]
fn unzip_reads_ours() {
    let scene = Scene::new();
    scene.folder("from");
    garden(&scene.path("from"));
    let mut archive = Cursor::new(Vec::new());
    let from = scene.open("from");
    let limits = Limits::default();
    let (_, left_out) =
        pack_zip(&[("workspace", &from)], &everything, &limits, &mut archive).unwrap();
    assert_eq!(left_out, []);
    fs::write(scene.path("a.zip"), archive.into_inner()).unwrap();
    scene.folder("to");
    run(Command::new("unzip")
        .args(["-q", "a.zip", "-d", "to"])
        .current_dir(scene.path(".")));
    let after = manifest(&scene.path("to/workspace"));
    assert_eq!(whole_seconds(after), whole_seconds(scene.manifest("from")));
}

#[test]
fn we_read_zips() {
    let scene = Scene::new();
    scene.folder("from");
    garden(&scene.path("from"));
    run(Command::new("zip")
        .args(["-qry", "../a.zip", "."])
        .current_dir(scene.path("from")));
    let archive = fs::read(scene.path("a.zip")).unwrap();
    let limits = Limits::default();
    let after = unpack_zip(Cursor::new(archive), &scene.folder("to"), &limits).unwrap();
    assert_eq!(after, scene.manifest("to"));
    assert_eq!(whole_seconds(after), whole_seconds(scene.manifest("from")));
}

#[test]
fn our_own_zip_comes_out_as_it_went_in() {
    let scene = Scene::new();
    scene.folder("from");
    garden(&scene.path("from"));
    let mut archive = Cursor::new(Vec::new());
    let from = scene.open("from");
    let limits = Limits::default();
    let resources = [("workspace", &from), ("docs", &from)];
    let (packed, _) = pack_zip(&resources, &everything, &limits, &mut archive).unwrap();
    archive.set_position(0);
    let mut unpacked = unpack_zip(archive, &scene.folder("to"), &limits).unwrap();
    let tops = unpacked
        .entries
        .keys()
        .filter(|path| !path.to_string().contains('/'));
    let tops: Vec<EntryPath> = tops.cloned().collect();
    assert_eq!(
        tops.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["docs", "workspace"]
    );
    unpacked.entries.retain(|path, _| !tops.contains(path));
    assert_eq!(whole_seconds(unpacked), whole_seconds(packed));
}

#[test]
fn a_carrier_that_drops_modes_and_links_changes_nothing() {
    let scene = Scene::new();
    scene.folder("from");
    garden(&scene.path("from"));
    let before = scene.manifest("from");
    // Without -y zip follows links, as the released implementation does.
    fs::remove_file(scene.path("from/dangling")).unwrap();
    fs::remove_file(scene.path("from/to-dir")).unwrap();
    run(Command::new("zip")
        .args(["-qr", "../a.zip", "."])
        .current_dir(scene.path("from")));
    let archive = fs::read(scene.path("a.zip")).unwrap();
    let limits = Limits::default();
    let mut after = unpack_zip(Cursor::new(archive), &scene.folder("to"), &limits).unwrap();
    for entry in after.entries.values_mut() {
        entry.mode = if entry.content == Content::Dir {
            0o755
        } else {
            0o644
        };
    }
    let mut before = before;
    before
        .entries
        .retain(|path, _| !["dangling", "to-dir"].contains(&path.to_string().as_str()));
    let delta = Delta::between(&before, &after.as_carried_from(&before));
    assert_eq!(delta, Delta::default());
}

#[test]
fn a_link_comes_back_as_the_link_it_was_whatever_a_carrier_made_of_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "old").unwrap();
    std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
    let manifest = |folder: &std::path::Path| {
        let folder = Folder::open(folder).unwrap();
        let limits = Limits::default();
        Manifest::of(&folder, &everything, &limits).unwrap().0
    };
    let before = manifest(folder.path());
    std::fs::write(folder.path().join("a"), "new").unwrap();
    std::fs::remove_file(folder.path().join("link")).unwrap();
    // What it leads to, what it led to, and where it leads.
    for carried in ["new", "old", "a"] {
        std::fs::write(folder.path().join("link"), carried).unwrap();
        let after = manifest(folder.path()).as_carried_from(&before);
        let delta = Delta::between(&before, &after);
        assert_eq!(delta.changes.len(), 1, "{carried}: {delta:?}");
    }
    std::fs::write(folder.path().join("link"), "something else").unwrap();
    let after = manifest(folder.path()).as_carried_from(&before);
    assert_eq!(Delta::between(&before, &after).changes.len(), 2);
}
