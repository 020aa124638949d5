//! Pack, then unpack: the tree is the same, whatever is in it; and what is left out is said.

use std::{
    ffi::OsStr, fs, os::unix::ffi::OsStrExt, os::unix::fs::PermissionsExt,
    os::unix::net::UnixListener, path::Path,
};

use proptest::prelude::*;

use super::scene::*;
use crate::*;

fn round(scene: &Scene) -> (Packed, Unpacked) {
    let limits = Limits::default();
    let mut archive = Vec::new();
    let packed = pack(&scene.open("from"), &everything, &limits, &mut archive).unwrap();
    assert_eq!(packed.checksum, Checksum::of(&archive));
    assert_eq!(packed.bytes, archive.len() as u64);
    let into = scene.folder("to");
    let unpacked = unpack(archive.as_slice(), Some(packed.checksum), &into, &limits).unwrap();
    assert_eq!(unpacked.checksum, packed.checksum);
    (packed, unpacked)
}

#[test]
fn a_tree_comes_out_as_it_went_in() {
    let scene = Scene::new();
    scene.folder("from");
    garden(&scene.path("from"));
    let before = scene.manifest("from");
    let (packed, unpacked) = round(&scene);
    assert_eq!(packed.left_out, []);
    assert_eq!(packed.manifest, before);
    assert_eq!(unpacked.manifest, before);
    assert_eq!(scene.manifest("to"), before);
    let run = fs::metadata(scene.path("to/bin/run.sh")).unwrap();
    assert_eq!(run.permissions().mode() & 0o777, 0o755);
    let target = fs::read_link(scene.path("to/bin/link")).unwrap();
    assert_eq!(target, Path::new("../readme.md"));
    assert!(scene.path("to/empty/deeper").is_dir());
}

#[test]
fn the_same_tree_gives_the_same_archive() {
    let scene = Scene::new();
    scene.folder("from");
    garden(&scene.path("from"));
    let limits = Limits::default();
    let archives = [(); 2].map(|()| {
        let mut archive = Vec::new();
        pack(&scene.open("from"), &everything, &limits, &mut archive).unwrap();
        archive
    });
    assert_eq!(archives[0], archives[1]);
}

#[test]
fn links_out_and_special_files_stay_at_home_and_are_named() {
    let scene = Scene::new();
    scene.folder("from");
    let root = scene.path("from");
    file(&root, "kept", b"k", 0o644);
    link(&root, "absolute", "/etc/passwd");
    link(&root, "a/up", "../../outside/secret");
    link(&root, "odd", "a/../kept");
    let _listener = UnixListener::bind(root.join("socket")).unwrap();
    file(&root, ".fuse_hidden0001", b"gone", 0o644);
    fs::create_dir(root.join(STAGE_NAME)).unwrap();
    let (packed, unpacked) = round(&scene);
    let left: Vec<(String, Why)> = packed
        .left_out
        .iter()
        .map(|left| (left.path.to_string(), left.why))
        .collect();
    let expected = [
        ("a/up", Why::LinkOut),
        ("absolute", Why::LinkOut),
        ("odd", Why::LinkOut),
        ("socket", Why::NoFile),
    ];
    assert_eq!(left, expected.map(|(path, why)| (path.to_owned(), why)));
    let names: Vec<String> = unpacked
        .manifest
        .entries
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(names, ["a", "kept"]);
    scene.assert_contained_except("from", &["to"]);
}

#[test]
fn what_is_ignored_is_not_packed_with_everything_below_it() {
    let scene = Scene::new();
    scene.folder("from");
    let root = scene.path("from");
    file(&root, "node_modules/x/y", b"y", 0o644);
    file(&root, "src/node_modules", b"a file", 0o644);
    file(&root, "src/a", b"a", 0o644);
    let ignore = |path: &EntryPath, kind: Kind| {
        kind == Kind::Dir && path.as_bytes().ends_with(b"node_modules")
    };
    let mut archive = Vec::new();
    let packed = pack(
        &scene.open("from"),
        &ignore,
        &Limits::default(),
        &mut archive,
    )
    .unwrap();
    let names: Vec<String> = packed
        .manifest
        .entries
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(names, ["src", "src/a", "src/node_modules"]);
}

#[test]
fn limits_hold_when_packing_too() {
    let scene = Scene::new();
    scene.folder("from");
    let root = scene.path("from");
    file(&root, "a/b/c", &[1; 100], 0o644);
    file(&root, "d", &[1; 100], 0o644);
    let check = |limits: Limits| {
        let error = pack(&scene.open("from"), &everything, &limits, std::io::sink()).unwrap_err();
        let ArchiveError::Refused(problem) = error else {
            panic!("{error}");
        };
        problem.to_string()
    };
    let limits = Limits::default();
    let cases = [
        (
            Limits {
                bytes: 150,
                ..limits
            },
            "it holds more than 150 bytes",
        ),
        (
            Limits {
                entries: 3,
                ..limits
            },
            "it holds more than 3 entries",
        ),
        (
            Limits {
                file_bytes: 99,
                ..limits
            },
            "a/b/c has 100 bytes, at most 99 are taken",
        ),
        (
            Limits { depth: 2, ..limits },
            "\"a/b/c\" is not a path below the folder: it is too deep",
        ),
        (
            Limits {
                path_bytes: 4,
                ..limits
            },
            "\"a/b/c\" is not a path below the folder: it is too long",
        ),
    ];
    for (limits, words) in cases {
        assert_eq!(check(limits), words);
    }
}

#[test]
fn only_an_empty_folder_is_unpacked_into() {
    let scene = Scene::new();
    let into = scene.folder("to");
    fs::write(scene.path("to/mine"), "mine").unwrap();
    let unpacked = unpack(&[][..], None, &into, &Limits::default());
    assert!(matches!(unpacked, Err(ArchiveError::NotEmpty)));
    assert_eq!(fs::read_to_string(scene.path("to/mine")).unwrap(), "mine");
}

#[derive(Debug, Clone)]
enum Plant {
    File(Vec<u8>, u32),
    Dir(u32),
    Link(Vec<u8>),
}

fn plant() -> impl Strategy<Value = Plant> {
    let mode = prop::sample::select(vec![0o644, 0o755, 0o600, 0o400, 0o777, 0o444]);
    let content = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..600),
        1 => (0usize..200_000).prop_map(|size| vec![0x41; size]),
    ];
    let target = prop::sample::select(vec![&b"x"[..], b"./a/b", b"\xff\xfe", b".", b"a//c"]);
    prop_oneof![
        5 => (content, mode).prop_map(|(content, mode)| Plant::File(content, mode)),
        2 => prop::sample::select(vec![0o755, 0o700, 0o750, 0o777]).prop_map(Plant::Dir),
        1 => target.prop_map(|target| Plant::Link(target.to_vec())),
    ]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let names: Vec<Vec<u8>> = vec![
        b"a".to_vec(),
        b"A".to_vec(),
        b"b.txt".to_vec(),
        b"with space".to_vec(),
        b"-rf".to_vec(),
        b"\xff\xfe".to_vec(),
        b"back\\slash".to_vec(),
        b"new\nline".to_vec(),
        "\u{1F980}".as_bytes().to_vec(),
        vec![b'n'; 255],
    ];
    prop::sample::select(names)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_comes_out_as_it_went_in(
        plants in prop::collection::vec((prop::collection::vec(name(), 1..6), plant(), 0u64..4_000_000_000, 0u32..1_000_000_000), 0..25)
    ) {
        let scene = Scene::new();
        scene.folder("from");
        let root = scene.path("from");
        for (names, plant, secs, nanos) in plants {
            let mut path = root.clone();
            for name in &names {
                path.push(OsStr::from_bytes(name));
            }
            if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
                continue;
            }
            let (mode, dated) = match plant {
                Plant::File(content, mode) => { fs::write(&path, content).unwrap(); (Some(mode), true) }
                Plant::Dir(mode) => { fs::create_dir(&path).unwrap(); (Some(mode), true) }
                Plant::Link(target) => {
                    std::os::unix::fs::symlink(OsStr::from_bytes(&target), &path).unwrap();
                    (None, false)
                }
            };
            if dated { touch(&path, secs, nanos); }
            if let Some(mode) = mode { fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap(); }
        }
        let before = scene.manifest("from");
        let (packed, unpacked) = round(&scene);
        prop_assert_eq!(&packed.manifest, &before);
        prop_assert_eq!(&unpacked.manifest, &before);
        prop_assert_eq!(&scene.manifest("to"), &before);
        let text = serde_json::to_string(&before).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Manifest>(&text).unwrap(), &before);
    }

    #[test]
    fn rubbish_never_panics_and_never_escapes(bytes in prop::collection::vec(any::<u8>(), 0..2_000), compressed in any::<bool>()) {
        let scene = Scene::new();
        let archive = if compressed { zstd::encode_all(bytes.as_slice(), 1).unwrap() } else { bytes.clone() };
        let _ = unpack(archive.as_slice(), None, &scene.folder("to"), &Limits::default());
        let _ = unpack_zip(std::io::Cursor::new(bytes), &scene.folder("zip"), &Limits::default());
        scene.assert_contained(&["to", "zip"]);
    }
}
