//! Ways out of a confined folder, each refused; and the ordinary uses.

use std::{
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;

/// A folder `inside` that is confined, and a secret beside it.
struct Scene {
    folder: tempfile::TempDir,
    confined: ConfinedDir,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("inside/sub")).unwrap();
        std::fs::create_dir(folder.path().join("outside")).unwrap();
        std::fs::write(folder.path().join("outside/secret"), "secret").unwrap();
        std::fs::write(folder.path().join("inside/sub/file"), "file").unwrap();
        let confined = ConfinedDir::open(&folder.path().join("inside")).unwrap();
        Scene { folder, confined }
    }

    fn inside(&self, path: &str) -> PathBuf {
        self.folder.path().join("inside").join(path)
    }

    fn outside(&self, path: &str) -> PathBuf {
        self.folder.path().join("outside").join(path)
    }

    fn outside_names(&self) -> Vec<OsString> {
        let entries = std::fs::read_dir(self.outside("")).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }
}

#[test]
fn paths_that_lead_outside_are_refused_by_every_method() {
    let scene = Scene::new();
    symlink(scene.outside(""), scene.inside("absolute")).unwrap();
    symlink("../outside", scene.inside("relative")).unwrap();
    symlink("/", scene.inside("root")).unwrap();
    let below_root = scene.outside("secret");
    let through_root = Path::new("root").join(below_root.strip_prefix("/").unwrap());
    let paths = [
        Path::new("absolute/secret"),
        Path::new("relative/secret"),
        Path::new("../outside/secret"),
        Path::new("sub/../../outside/secret"),
        &through_root,
    ];
    let source = File::open(scene.outside("secret")).unwrap();
    for path in paths {
        let dir = &scene.confined;
        let refusals = [
            dir.read(path, 100).map(drop),
            dir.rename(path, "sub/mine"),
            dir.rename("sub/file", path),
            dir.write_atomic(path, b"x"),
            dir.copy_in(&source, path, 100).map(drop),
            dir.remove_file(path),
            dir.metadata(path).map(drop),
            dir.exists(path).map(drop),
            dir.open_file(path, Access::ReadWrite).map(drop),
            dir.open_file(path.with_file_name("new"), Access::CreateNew)
                .map(drop),
            dir.list(path.parent().unwrap()).map(drop),
        ];
        for (index, refusal) in refusals.into_iter().enumerate() {
            let refused = matches!(refusal, Err(ConfinedError::Outside { .. }));
            assert!(refused, "method {index} on {path:?}: {refusal:?}");
        }
    }
    for path in ["absolute/new", "relative/new/er", "root/new"] {
        let refusal = scene.confined.create_dir_all(path);
        assert!(
            matches!(refusal, Err(ConfinedError::Outside { .. })),
            "{path}: {refusal:?}"
        );
    }
    assert_eq!(scene.outside_names(), ["secret"]);
    assert_eq!(std::fs::read(scene.outside("secret")).unwrap(), b"secret");
}

#[test]
fn paths_that_are_none_are_refused_in_words() {
    let scene = Scene::new();
    for path in ["", "/etc/passwd", "a\0b"] {
        let refusal = scene.confined.read(path, 1);
        assert!(
            matches!(refusal, Err(ConfinedError::BadPath { .. })),
            "{path:?}"
        );
    }
    for path in [".", "..", "sub/..", "sub/.", "sub/"] {
        let refusal = scene.confined.write_atomic(path, b"x");
        assert!(
            matches!(refusal, Err(ConfinedError::NoName { .. })),
            "{path:?}: {refusal:?}"
        );
    }
    assert!(scene.confined.create_dir_all("sub/../other").is_err());
    let error = scene.confined.read("sub/none", 1).unwrap_err();
    assert_eq!(error.to_string(), "could not open sub/none");
}

#[test]
fn links_and_dots_that_stay_inside_work() {
    let scene = Scene::new();
    symlink("sub", scene.inside("link")).unwrap();
    symlink("file", scene.inside("sub/again")).unwrap();
    for path in ["link/file", "sub/../sub/file", "./sub/file", "link/again"] {
        assert_eq!(scene.confined.read(path, 4).unwrap(), b"file", "{path}");
    }
    scene.confined.create_dir_all("link/deep/er").unwrap();
    assert!(scene.inside("sub/deep/er").is_dir());
}

#[test]
fn magic_links_are_refused() {
    let scene = Scene::new();
    let proc = ConfinedDir::open(Path::new("/proc")).unwrap();
    assert!(proc.list("self/root").is_err());
    assert!(proc.list("self/cwd").is_err());
    drop(scene);
}

#[test]
fn a_link_swapped_during_use_never_shows_the_outside() {
    let scene = Scene::new();
    let done = AtomicBool::new(false);
    std::fs::create_dir(scene.inside("door")).unwrap();
    std::fs::write(scene.inside("door/secret"), "harmless").unwrap();
    symlink(scene.outside(""), scene.inside("trap")).unwrap();
    let (door, trap) = (scene.inside("door"), scene.inside("trap"));
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &door, rustix::fs::CWD, &trap, flags)
                    .unwrap();
            }
        });
        let (mut read, mut refused) = (0, 0);
        for _ in 0..3000 {
            match scene.confined.read("door/secret", 100) {
                Ok(bytes) => {
                    assert_eq!(bytes, b"harmless");
                    read += 1;
                }
                Err(ConfinedError::Outside { .. }) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
            // Either it is written inside, or it is refused.
            let _ = scene.confined.write_atomic("door/planted", b"x");
            let _ = scene.confined.create_dir_all("door/planted-dir");
        }
        done.store(true, Ordering::Relaxed);
        swapper.join().unwrap();
        assert!(
            read > 0 && refused > 0,
            "the swap was not seen: {read} {refused}"
        );
    });
    assert_eq!(scene.outside_names(), ["secret"]);
}

#[test]
fn a_write_keeps_permissions_replaces_links_and_leaves_no_temporary_file() {
    let scene = Scene::new();
    let mode = |path: &str| scene.inside(path).metadata().unwrap().permissions().mode() & 0o777;
    let script = std::fs::Permissions::from_mode(0o750);
    std::fs::set_permissions(scene.inside("sub/file"), script).unwrap();
    symlink(scene.outside("secret"), scene.inside("sub/link")).unwrap();
    scene.confined.write_atomic("sub/file", b"new").unwrap();
    scene.confined.write_atomic("sub/link", b"new").unwrap();
    scene.confined.write_atomic("sub/fresh", b"new").unwrap();
    assert!(scene.confined.write_atomic("sub", b"new").is_err());
    assert!(
        scene
            .confined
            .write_atomic("none/file", b"new")
            .unwrap_err()
            .is_not_found()
    );
    assert_eq!(
        [mode("sub/file"), mode("sub/link"), mode("sub/fresh")],
        [0o750, 0o644, 0o644]
    );
    let entry = |name: &str, kind| Entry {
        name: name.into(),
        kind,
    };
    let expected = ["file", "fresh", "link"].map(|name| entry(name, Kind::File));
    assert_eq!(scene.confined.list("sub").unwrap(), expected);
    assert_eq!(scene.confined.list(".").unwrap(), [entry("sub", Kind::Dir)]);
    assert_eq!(std::fs::read(scene.outside("secret")).unwrap(), b"secret");
}

#[test]
fn a_file_gets_the_name_of_another_and_takes_its_place() {
    let scene = Scene::new();
    std::fs::write(scene.inside("new"), "new").unwrap();
    scene.confined.rename("new", "sub/file").unwrap();
    let text = std::fs::read_to_string(scene.inside("sub/file")).unwrap();
    assert_eq!(
        (text.as_str(), scene.inside("new").exists()),
        ("new", false)
    );
    let missing = scene.confined.rename("new", "sub/file").unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
}

#[test]
fn a_copy_is_bounded_and_brings_its_permissions() {
    let scene = Scene::new();
    let source = File::open(scene.outside("secret")).unwrap();
    let refusal = scene.confined.copy_in(&source, "copy", 5);
    assert!(matches!(
        refusal,
        Err(ConfinedError::TooLarge { max: 5, .. })
    ));
    assert!(!scene.confined.exists("copy").unwrap());
    assert_eq!(scene.confined.copy_in(&source, "copy", 6).unwrap(), 6);
    assert_eq!(scene.confined.read("copy", 6).unwrap(), b"secret");
    assert!(matches!(
        scene.confined.read("copy", 5),
        Err(ConfinedError::TooLarge { .. })
    ));
    scene.confined.remove_file("copy").unwrap();
    assert!(
        scene
            .confined
            .remove_file("copy")
            .unwrap_err()
            .is_not_found()
    );
}

#[test]
fn what_is_not_a_regular_file_is_not_opened() {
    let scene = Scene::new();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, scene.inside("fifo"), fifo, Mode::RWXU, 0).unwrap();
    for path in ["fifo", "sub", "."] {
        let refusal = scene.confined.open_file(path, Access::Read);
        assert!(
            matches!(refusal, Err(ConfinedError::NotAFile { .. })),
            "{path}: {refusal:?}"
        );
    }
    let file = scene.confined.open_file("new", Access::CreateNew).unwrap();
    assert!(file.metadata().unwrap().is_file());
    assert!(scene.confined.open_file("new", Access::CreateNew).is_err());
}

#[test]
fn an_open_with_own_flags_stays_below_the_folder() {
    use rustix::fs::{Mode, OFlags};
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("inside"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("outside")).unwrap();
    let confined = ConfinedDir::open(folder.path()).unwrap();
    let open = |path: &str| confined.open_with(path, OFlags::RDONLY, Mode::empty());
    open("inside").unwrap();
    for path in ["outside", "../x", "a/../../x"] {
        assert!(
            matches!(
                open(path),
                Err(ConfinedError::Outside { .. } | ConfinedError::Failed { .. })
            ),
            "{path}"
        );
    }
    assert!(matches!(
        open("/etc/passwd"),
        Err(ConfinedError::BadPath { .. })
    ));
}
