//! Ways out of the lent folder, each refused: by name, by link, by rename, by hard link, by handle, by race.

use std::{
    collections::BTreeMap,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    raw::{Client, Part, Reply},
    support::Folders,
};
use crate::{Access, protocol::kind};

const READ: u32 = 1;
const WRITE: u32 = 2;
const CREATE: u32 = 8;
const TRUNCATE: u32 = 16;

const DENIED: Reply = Reply::Status(3);

/// Everything that a client can ask of one path. The client owns `/workspace/file`.
const ACTS: [&str; 21] = [
    "open to read",
    "open to write",
    "create",
    "truncate",
    "stat",
    "lstat",
    "set size",
    "set mode",
    "set times",
    "set times of a link",
    "list",
    "read link",
    "remove",
    "make folder",
    "remove folder",
    "rename to",
    "rename from",
    "rename over",
    "link to",
    "link from",
    "make link",
];

fn act(client: &mut Client, act: &str, path: &str) -> Reply {
    let own = "/workspace/file";
    let text = Part::Text(path.as_bytes());
    match act {
        "open to read" => client.open(path, READ),
        "open to write" => client.open(path, WRITE),
        "create" => client.open(path, WRITE | CREATE),
        "truncate" => client.open(path, WRITE | CREATE | TRUNCATE),
        "stat" => client.path(kind::STAT, path),
        "lstat" => client.path(kind::LSTAT, path),
        "set size" => client.say(kind::SETSTAT, &[text, Part::U32(1), Part::U64(0)]),
        "set mode" => client.say(kind::SETSTAT, &[text, Part::U32(4), Part::U32(0o777)]),
        "set times" => client.say(kind::SETSTAT, &[text, Part::U32(8), Part::U64(1)]),
        "set times of a link" => {
            client.extended("lsetstat@openssh.com", &[text, Part::U32(8), Part::U64(1)])
        }
        "list" => client.path(kind::OPENDIR, path),
        "read link" => client.path(kind::READLINK, path),
        "remove" => client.path(kind::REMOVE, path),
        "make folder" => client.mkdir(path),
        "remove folder" => client.path(kind::RMDIR, path),
        "rename to" => client.paths(kind::RENAME, own, path),
        "rename from" => client.paths(kind::RENAME, path, "/workspace/stolen"),
        "rename over" => {
            let own = Part::Text(own.as_bytes());
            client.extended("posix-rename@openssh.com", &[own, text])
        }
        "link to" => {
            let own = Part::Text(own.as_bytes());
            client.extended("hardlink@openssh.com", &[own, text])
        }
        "link from" => {
            let stolen = Part::Text(b"/workspace/stolen");
            client.extended("hardlink@openssh.com", &[text, stolen])
        }
        "make link" => client.paths(kind::SYMLINK, "file", path),
        other => panic!("{other}"),
    }
}

/// Every name, content, mode and time outside.
fn outside(folders: &Folders) -> BTreeMap<PathBuf, (u32, i64, u64, Vec<u8>)> {
    fn look(path: &Path, seen: &mut BTreeMap<PathBuf, (u32, i64, u64, Vec<u8>)>) {
        let metadata = path.symlink_metadata().unwrap();
        let content = if metadata.is_file() {
            std::fs::read(path).unwrap()
        } else {
            Vec::new()
        };
        let shape = (metadata.mode(), metadata.mtime(), metadata.nlink(), content);
        seen.insert(path.to_owned(), shape);
        if metadata.is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                look(&entry.unwrap().path(), seen);
            }
        }
    }
    let mut seen = BTreeMap::new();
    look(&folders.path("outside"), &mut seen);
    seen
}

/// The links that somebody on this machine has made: the kernel would follow each of them out.
fn plant(folders: &Folders) {
    let real = folders.path("outside").display().to_string();
    folders.link(&format!("{real}/secret"), "absolute");
    folders.link("../outside/secret", "relative");
    folders.link("sub/../../outside/secret", "winding");
    folders.link(&real, "folder");
    folders.link("..", "up");
    folders.link("sub/deep/top", "chain");
    folders.link("../../..", "sub/deep/top");
    folders.link("/proc/self/root", "root");
    folders.link("/proc/self/cwd", "cwd");
    folders.link("/", "slash");
    folders.link("../outside/new", "dangling");
    folders.link("absolute", "second");
}

#[test]
fn no_path_leads_outside_whatever_is_asked_of_it() {
    let folders = Folders::new();
    plant(&folders);
    let before = outside(&folders);
    let mut client = Client::new(folders.lent(Access::ReadWrite, None));
    let real = folders.path("outside/secret").display().to_string();
    let mut far = vec![
        "/etc/passwd".to_owned(),
        "/etc/agentcraft-new".to_owned(),
        "../../../../../../etc/passwd".to_owned(),
        "/workspace/../../outside/secret".to_owned(),
        "/workspace/../outside/secret".to_owned(),
        "/workspace/./..//../outside/secret".to_owned(),
        "/meta/../../outside/secret".to_owned(),
        "/workspace\0/../outside/secret".to_owned(),
        "/workspace/\0".to_owned(),
        "/proc/self/root/etc/passwd".to_owned(),
        "/dev/null".to_owned(),
        real.clone(),
        format!("/workspace/../../../../../..{real}"),
        format!("/workspace/slash{real}"),
        format!("/workspace/root{real}"),
    ];
    for way in [
        "folder",
        "up/outside",
        "chain/outside",
        "sub/deep/top/outside",
    ] {
        far.push(format!("/workspace/{way}/secret"));
        far.push(format!("/workspace/{way}/folder/new"));
    }
    let mut attempts = 0;
    for path in &far {
        for name in ACTS {
            let reply = act(&mut client, name, path);
            assert!(
                matches!(reply, Reply::Status(2..=4)),
                "{name} of {path:?}: {reply:?}"
            );
            attempts += 1;
        }
    }
    assert!(attempts >= 60, "{attempts}");
    assert_eq!(outside(&folders), before);
    assert!(!folders.workspace("stolen").exists());
    assert_eq!(std::fs::read(folders.workspace("file")).unwrap(), b"inside");
}

#[test]
fn a_link_that_leads_outside_is_not_followed_not_told_and_not_moved() {
    let folders = Folders::new();
    plant(&folders);
    let before = outside(&folders);
    let mut client = Client::new(folders.lent(Access::ReadWrite, None));
    let links = [
        "absolute",
        "relative",
        "winding",
        "folder",
        "up",
        "chain",
        "root",
        "cwd",
        "slash",
        "dangling",
        "sub/deep/top",
    ];
    let following = [
        "open to read",
        "open to write",
        "create",
        "truncate",
        "stat",
        "set size",
        "set mode",
        "set times",
        "list",
    ];
    for link in links {
        let path = format!("/workspace/{link}");
        for name in following {
            assert_eq!(act(&mut client, name, &path), DENIED, "{name} of {path}");
        }
        if link != "chain" {
            for name in ["read link", "rename from", "link from"] {
                assert_eq!(act(&mut client, name, &path), DENIED, "{name} of {path}");
            }
        }
        // The link itself may be seen.
        let seen = act(&mut client, "lstat", &path);
        assert!(matches!(seen, Reply::Attributes(..)), "{link}: {seen:?}");
    }
    // A link to a link is told, and following it is refused one step later.
    assert_eq!(
        client.path(kind::READLINK, "/workspace/second"),
        Reply::Names(vec![b"absolute".to_vec()])
    );
    assert_eq!(client.open("/workspace/second", READ), DENIED);
    assert_eq!(outside(&folders), before);
}

#[test]
fn no_link_can_be_made_that_leads_outside() {
    let folders = Folders::new();
    let mut client = Client::new(folders.lent(Access::ReadWrite, None));
    folders.link("sub/deep", "shortcut");
    for (target, link) in [
        ("/etc/passwd", "/workspace/new"),
        ("/", "/workspace/new"),
        ("..", "/workspace/new"),
        ("../outside/secret", "/workspace/new"),
        ("./../outside/secret", "/workspace/new"),
        ("sub/../../outside/secret", "/workspace/new"),
        ("missing/../../outside", "/workspace/new"),
        ("file/..", "/workspace/new"),
        ("../..", "/workspace/sub/new"),
        ("../../../outside", "/workspace/sub/deep/new"),
        // By its text this link is four folders deep, by the kernel's reckoning two.
        ("../../../outside", "/workspace/shortcut/new"),
        ("", "/workspace/new"),
        ("a\0b", "/workspace/new"),
    ] {
        let reply = client.paths(kind::SYMLINK, target, link);
        assert_eq!(reply, DENIED, "{link} -> {target}");
    }
    for (target, link) in [
        ("file", "/workspace/one"),
        ("../file", "/workspace/sub/two"),
        ("../../sub/deep", "/workspace/sub/deep/three"),
        ("../..", "/workspace/shortcut/four"),
        ("nowhere/yet", "/workspace/five"),
    ] {
        let reply = client.paths(kind::SYMLINK, target, link);
        assert_eq!(reply, Reply::Status(0), "{link} -> {target}");
        let told = client.path(kind::READLINK, link);
        assert_eq!(told, Reply::Names(vec![target.into()]), "{link}");
    }
}

#[test]
fn a_link_cannot_be_carried_to_where_it_leads_outside() {
    let folders = Folders::new();
    let mut client = Client::new(folders.lent(Access::ReadWrite, None));
    let made = client.paths(kind::SYMLINK, "../../outside", "/workspace/sub/deep/link");
    assert_eq!(made, Reply::Status(0));
    for (from, to) in [
        ("/workspace/sub/deep/link", "/workspace/link"),
        ("/workspace/sub/deep/link", "/workspace/sub/link"),
        ("/workspace/sub/deep", "/workspace/deep"),
    ] {
        assert_eq!(
            client.paths(kind::RENAME, from, to),
            DENIED,
            "{from} to {to}"
        );
        for extension in ["posix-rename@openssh.com", "hardlink@openssh.com"] {
            let body = [Part::Text(from.as_bytes()), Part::Text(to.as_bytes())];
            assert_eq!(client.extended(extension, &body), DENIED, "{from} to {to}");
        }
    }
    // Towards the root without such a link, and away from it with one, are ordinary moves.
    assert_eq!(client.mkdir("/workspace/sub/plain"), Reply::Status(0));
    for (from, to) in [
        ("/workspace/sub/plain", "/workspace/plain"),
        ("/workspace/sub", "/workspace/plain/sub"),
    ] {
        let moved = client.paths(kind::RENAME, from, to);
        assert_eq!(moved, Reply::Status(0), "{from} to {to}");
    }
}

#[test]
fn handles_mean_what_was_opened_and_nothing_else() {
    let folders = Folders::new();
    let lent = folders.lent(Access::ReadWrite, None);
    let (mut client, mut other) = (Client::new(Arc::clone(&lent)), Client::new(lent));
    let old = client.opened("/workspace/file", READ);
    assert_eq!(client.close(&old), Reply::Status(0));
    let new = client.opened("/workspace/sub/deep/file", READ);
    assert_ne!(old, new);
    for handle in [
        &old[..],
        b"",
        b"\0",
        b"\0\0\0\0\0\0\0\0\0",
        b"../../x",
        &[0xff; 8],
        &[0; 300],
    ] {
        assert_eq!(client.read(handle), Reply::Status(4), "{handle:?}");
        assert_eq!(
            client.write(handle, 0, b"x"),
            Reply::Status(4),
            "{handle:?}"
        );
        assert_eq!(client.close(handle), Reply::Status(4), "{handle:?}");
    }
    assert_eq!(
        other.read(&new),
        Reply::Status(4),
        "another client's handle"
    );
    assert_eq!(client.write(&new, 0, b"x"), DENIED, "opened to read");
    let resized = [Part::Text(&new), Part::U32(1), Part::U64(0)];
    assert_eq!(client.say(kind::FSETSTAT, &resized), DENIED);
    assert_eq!(client.read(&new), Reply::Data(b"deep".to_vec()));
    // What is put in the file's place later is not what was opened.
    std::fs::remove_file(folders.workspace("sub/deep/file")).unwrap();
    folders.link("../../../outside/secret", "sub/deep/file");
    assert_eq!(client.read(&new), Reply::Data(b"deep".to_vec()));
}

#[test]
fn what_is_no_file_is_not_opened_and_no_dangerous_mode_is_set() {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let folders = Folders::new();
    let mut client = Client::new(folders.lent(Access::ReadWrite, None));
    let make = |name: &str, kind, device| {
        let path = folders.workspace(name);
        mknodat(CWD, &path, kind, Mode::RWXU, device).is_ok()
    };
    assert!(make("pipe", FileType::Fifo, 0));
    let _listener = std::os::unix::net::UnixListener::bind(folders.workspace("socket")).unwrap();
    let mut names = vec!["pipe", "socket"];
    // Only root makes devices.
    if make("device", FileType::CharacterDevice, makedev(1, 5)) {
        names.push("device");
    }
    for name in names {
        let path = format!("/workspace/{name}");
        for flags in [READ, WRITE, READ | WRITE, WRITE | CREATE | TRUNCATE] {
            let reply = client.open(&path, flags);
            assert!(matches!(reply, Reply::Status(3 | 4)), "{name}: {reply:?}");
        }
        assert_eq!(act(&mut client, "set mode", &path), DENIED, "{name}");
        assert_eq!(act(&mut client, "link from", &path), DENIED, "{name}");
    }
    let body = |mode| {
        [
            Part::Text(b"/workspace/file"),
            Part::U32(4),
            Part::U32(mode),
        ]
    };
    assert_eq!(client.say(kind::SETSTAT, &body(0o7755)), Reply::Status(0));
    let mode = || folders.workspace("file").metadata().unwrap().mode() & 0o7777;
    assert_eq!(mode(), 0o755);
    std::fs::set_permissions(folders.workspace("file"), PermissionsExt::from_mode(0o0)).unwrap();
    assert_eq!(client.say(kind::SETSTAT, &body(0o640)), Reply::Status(0));
    assert_eq!(mode(), 0o640);
    let owner = [
        Part::Text(b"/workspace/file"),
        Part::U32(2),
        Part::U32(4711),
        Part::U32(4711),
    ];
    assert_eq!(client.say(kind::SETSTAT, &owner), DENIED);
}

/// Everything by which the owner's git could be made to run a program, and ways around its name.
const GITS_OWN: [&str; 10] = [
    ".git",
    ".git/config",
    ".git/config.worktree",
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/hooks/update.sample",
    ".git/info/attributes",
    ".git/objects/info/alternates",
    "way/config",
    "way/hooks/new",
];

#[test]
fn what_makes_the_owners_git_run_a_program_stays_as_it_is() {
    let folders = Folders::new();
    for folder in ["hooks", "info", "objects/info", "refs"] {
        std::fs::create_dir_all(folders.workspace(".git").join(folder)).unwrap();
    }
    for (name, text) in [("config", "[core]"), ("hooks/update.sample", "#!/bin/sh")] {
        std::fs::write(folders.workspace(".git").join(name), text).unwrap();
    }
    folders.link(".git", "way");
    folders.link(".git/config", "settings");
    folders.link(".git/config.worktree", "more");
    let look = || {
        let list = std::process::Command::new("ls")
            .args(["-lAR", "--time-style=full-iso"])
            .arg(folders.workspace(".git"))
            .output();
        let config = std::fs::read(folders.workspace(".git/config")).unwrap();
        (list.unwrap().stdout, config)
    };
    let before = look();
    let mut client = Client::new(folders.lent(Access::ReadWrite, None));
    let changes = [
        "open to write",
        "create",
        "truncate",
        "set size",
        "remove",
        "make folder",
        "remove folder",
        "rename to",
        "rename from",
        "rename over",
        "link to",
        "link from",
        "make link",
    ];
    for path in GITS_OWN {
        for change in changes {
            let said = act(&mut client, change, &format!("/workspace/{path}"));
            assert!(
                matches!(said, Reply::Status(code) if code != 0),
                "{change} {path}: {said:?}"
            );
        }
    }
    for path in ["settings", "more"] {
        for change in ["open to write", "create", "truncate", "set size"] {
            let said = act(&mut client, change, &format!("/workspace/{path}"));
            assert!(
                matches!(said, Reply::Status(code) if code != 0),
                "{change} {path}: {said:?}"
            );
        }
    }
    assert_eq!(look(), before);
    // What a commit needs is there to be changed.
    let file = "/workspace/.git/index.lock";
    assert!(matches!(
        client.open(file, WRITE | CREATE),
        Reply::Handle(_)
    ));
    assert_eq!(client.mkdir("/workspace/.git/refs/heads"), Reply::Status(0));
}

/// Names by which a repository would come to be, in folders that were there and in one that is new.
#[test]
fn no_repository_is_made_and_no_kept_name_taken() {
    let folders = Folders::new();
    for part in ["sub/objects", "sub/refs", "bare/objects"] {
        std::fs::create_dir_all(folders.workspace(part)).unwrap();
    }
    folders.put("workspace/bare/HEAD", "ref: refs/heads/main");
    folders.link("sub/.git", "through");
    folders.link("sub/HEAD", "head");
    let mut client = Client::new(folders.lent(Access::ReadWrite, None));
    assert_eq!(client.mkdir("/workspace/new"), Reply::Status(0));
    let makes = [
        "create",
        "truncate",
        "make folder",
        "rename to",
        "rename over",
        "link to",
        "make link",
    ];
    let mut attempts = 0;
    for path in [
        ".git",
        ".GIT",
        "sub/.git",
        "sub/deep/.Git",
        "new/.git",
        "sub/HEAD",
        "sub/head",
        "bare/refs",
        "kept-name",
        "Kept-Name",
        "kept-name/journal",
    ] {
        for make in makes {
            let said = act(&mut client, make, &format!("/workspace/{path}"));
            assert!(
                matches!(said, Reply::Status(code) if code != 0),
                "{make} {path}: {said:?}"
            );
            attempts += 1;
        }
    }
    for path in ["through", "head"] {
        for make in ["create", "truncate"] {
            let said = act(&mut client, make, &format!("/workspace/{path}"));
            assert!(
                matches!(said, Reply::Status(code) if code != 0),
                "{make} {path}: {said:?}"
            );
            attempts += 1;
        }
    }
    assert!(attempts > 60, "{attempts}");
    let made = |path: &str| folders.workspace(path).symlink_metadata().is_ok();
    for path in [
        ".git",
        ".GIT",
        "sub/.git",
        "new/.git",
        "sub/HEAD",
        "bare/refs",
    ] {
        assert!(!made(path), "{path}");
    }
    // Below the top the name means nothing, and neither do parts of what is no repository.
    assert_eq!(client.mkdir("/workspace/sub/kept-name"), Reply::Status(0));
    assert_eq!(client.mkdir("/workspace/new/objects"), Reply::Status(0));
    assert_eq!(client.mkdir("/workspace/new/refs"), Reply::Status(0));
}

#[test]
fn the_root_shows_two_folders_and_no_real_path() {
    let folders = Folders::new();
    let mut client = Client::new(folders.lent(Access::ReadWrite, None));
    assert_eq!(client.list("/"), [".", "..", "meta", "workspace"]);
    for (path, expected) in [
        (".", "/"),
        ("", "/"),
        ("workspace/sub/..", "/workspace"),
        ("/../../x", "/x"),
    ] {
        let told = client.path(kind::REALPATH, path);
        assert_eq!(told, Reply::Names(vec![expected.into()]), "{path}");
    }
    for path in ["/", "/workspace", "/meta"] {
        for name in [
            "remove",
            "remove folder",
            "rename from",
            "rename to",
            "make link",
        ] {
            let reply = act(&mut client, name, path);
            assert!(
                matches!(reply, Reply::Status(3 | 4)),
                "{name} of {path}: {reply:?}"
            );
        }
    }
    assert_eq!(client.mkdir("/other"), Reply::Status(2));
    // `..` of the lent folder tells nothing of what is above it.
    let inside = folders.path("workspace").metadata().unwrap().mode();
    let seen = client.path(kind::STAT, "/workspace");
    assert!(matches!(seen, Reply::Attributes(_, mode) if mode == inside));
}

#[test]
fn a_folder_that_becomes_a_link_at_the_wrong_moment_leaks_nothing() {
    const ROUNDS: usize = 3000;
    let folders = Folders::new();
    let before = outside(&folders);
    let (place, real) = (folders.workspace("swap"), folders.workspace("real"));
    std::fs::create_dir(&real).unwrap();
    std::fs::write(real.join("secret"), "safe").unwrap();
    symlink(folders.path("outside"), folders.workspace("trap")).unwrap();
    symlink("real", &place).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (done, folder) = (Arc::clone(&done), folders.path("workspace"));
        std::thread::spawn(move || {
            let (next, place) = (folder.join("next"), folder.join("swap"));
            for round in 0_usize.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                match round % 3 {
                    0 => symlink(folder.join("../outside"), &next).unwrap(),
                    1 => symlink("../outside", &next).unwrap(),
                    _ => symlink("real", &next).unwrap(),
                }
                std::fs::rename(&next, &place).unwrap();
            }
        })
    };
    let mut client = Client::new(folders.lent(Access::ReadWrite, None));
    let (mut read, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        match client.open("/workspace/swap/secret", READ) {
            Reply::Handle(handle) => {
                assert_eq!(client.read(&handle), Reply::Data(b"safe".to_vec()));
                client.close(&handle);
                read += 1;
            }
            Reply::Status(_) => refused += 1,
            other => panic!("{other:?}"),
        }
        match client.path(kind::READLINK, "/workspace/swap") {
            Reply::Names(names) => assert_eq!(names, [b"real"]),
            Reply::Status(_) => {}
            other => panic!("{other:?}"),
        }
        let path = format!("/workspace/swap/new-{}", round % 8);
        for name in [
            "create",
            "set mode",
            "make folder",
            "remove",
            "remove folder",
        ] {
            if let Reply::Handle(handle) = act(&mut client, name, &path) {
                client.close(&handle);
            }
        }
        let moved = format!("/workspace/swap/moved-{}", round % 8);
        client.paths(kind::RENAME, "/workspace/sub/deep/file", &moved);
        client.paths(kind::RENAME, &moved, "/workspace/sub/deep/file");
    }
    done.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
    assert_eq!(outside(&folders), before);
}
