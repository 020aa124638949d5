//! A machine that has nothing but the program: its libraries, a shell, and the folders that the kernel fills. What a newcomer
//! does first works there.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use testkit::{eventually, marked_processes};

/// So that what is left running is found.
const MARK: &str = "AGENTCRAFT_TEST_BARE";

/// What is typed there, each line by itself; `in_root` is the program in the root. The mounts are seen here alone and are gone with it.
const SCRIPT: &str = r#"set -eu
mount --rbind /proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
in_root="env -i HOME=/here PATH=/bin AGENTCRAFT_LISTEN=127.0.0.1:0 $MARKED $(command -v chroot) $ROOT /bin/agentcraft"
$in_root up >"$ROOT/up.log" 2>&1 &
node=$!
until $in_root agent status starter >/dev/null 2>&1; do kill -0 "$node"; sleep 0.05; done
$in_root agent run starter --prompt /pwd
$in_root agent run template:starter --prompt "hello there"
$in_root workflow new hello
$in_root workflow run hello --input who=Ada
$in_root session list
$in_root journal --agent starter
$in_root dashboard
$in_root doctor
kill "$node"
wait "$node"
"#;

/// Programs of this machine that are there, too: a workflow's commands are for a shell.
const PROGRAMS: [(&str, &str); 2] = [
    (env!("CARGO_BIN_EXE_agentcraft"), "bin/agentcraft"),
    ("/bin/sh", "bin/sh"),
];

/// A root with the programs and the libraries they name.
fn root() -> tempfile::TempDir {
    let root = tempfile::Builder::new()
        .prefix("agentcraft-bare-")
        .tempdir()
        .unwrap();
    for folder in ["bin", "proc", "dev", "tmp", "here"] {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    let mut libraries = BTreeSet::new();
    for (program, place) in PROGRAMS {
        fs::copy(program, root.path().join(place)).unwrap();
        libraries.extend(libraries_of(program));
    }
    for library in libraries {
        let place = root.path().join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(&library, place).unwrap();
    }
    root
}

fn libraries_of(program: &str) -> BTreeSet<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8(listed.stdout).unwrap();
    let words = listed.split_whitespace();
    words
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// Whether a root of one's own can be entered here: by root, or by anybody in a namespace of users.
fn unshared() -> Option<Command> {
    let ways: [&[&str]; 2] = [&["-m"], &["-m", "-r"]];
    let fits = |words: &&&[&str]| {
        let mut look = Command::new("unshare");
        look.args(**words)
            .args(["sh", "-c", "mount -t tmpfs none /mnt"]);
        look.stdout(Stdio::null()).stderr(Stdio::null());
        look.status().is_ok_and(|status| status.success())
    };
    let way = ways.iter().find(fits)?;
    let mut command = Command::new("unshare");
    command.args(*way);
    Some(command)
}

fn log(root: &Path) -> String {
    fs::read_to_string(root.join("up.log")).unwrap_or_default()
}

#[test]
fn a_newcomer_needs_the_program_its_libraries_and_a_shell_and_nothing_else() {
    let Some(mut unshared) = unshared() else {
        println!("skipped: no root of one's own can be entered here");
        return;
    };
    let root = root();
    let mark = format!("{MARK}={}", root.path().display());
    let output = unshared
        .args(["sh", "-c", SCRIPT])
        .env("ROOT", root.path())
        .env("MARKED", &mark)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let node = log(root.path());
    assert!(output.status.success(), "{said}\n{errors}\n{node}");
    for part in [
        "I work in /here/.agentcraft/instances/starter/",
        "hello there",
        "hello Ada",
        "turn.ended",
        "/login?code=",
        "install ca-certificates",
    ] {
        assert!(said.contains(part), "{part} was not said: {said}\n{errors}");
    }
    assert!(node.contains("the node has stopped"), "{node}");
    eventually("nothing is left running", || {
        marked_processes(&mark).is_empty()
    });
}
