//! What an agent can do with what it was lent, over each plane.

use std::{fs, process::Command};

use serde_json::json;

use super::{ARCHIVE, GIT, Pair, SSHFS, can_mount, planes, read};

/// Everything that git, an editor, a database and a build do to files, as a script that fails where one of them would.
const EVERYDAY: &str = r#"
set -e
if test -d .git; then
  git status --short | grep -q . && exit 3
  echo more >> a.txt
  git -c user.name=w -c user.email=w@x commit -qam second
  test "$(git log --oneline | wc -l)" = 2
fi
echo one > first; echo two > second; mv second first; grep -q two first
ln first linked; cmp first linked; rm first; mv linked first
ln -s a.txt soft; test "$(cat soft)" = "$(cat a.txt)"; rm soft
name=$(printf 'n%.0s' $(seq 200)); echo long > "$name"; rm "$name"
mkdir -p 'größe/日本語 folder'; echo u > 'größe/日本語 folder/naïve—file 😀.txt'
chmod 755 a.txt; test -x a.txt
head -c 3000000 /dev/zero > big; test "$(stat -c %s big)" = 3000000; : > big; rm big
mkdir deep; cd deep; mkdir -p 1/2/3/4/5; touch 1/2/3/4/5/leaf; cd ..; rm -r deep
echo everything worked
"#;

#[test]
fn a_folder_is_lent_by_one_command_and_its_changes_come_home() {
    for plane in planes() {
        let pair = Pair::new();
        let folder = pair.folder(&[("a.txt", "one\n"), ("sub/b.txt", "b\n")]);
        let task = "/run cat a.txt && echo two > a.txt && rm sub/b.txt && echo c > c.txt";
        let lent = pair.delegate(&folder, task, &["--transport", plane]);
        assert_eq!(lent.code, 0, "{plane}: {lent:?}");
        assert!(lent.stdout.contains("one"), "{plane}: {lent:?}");
        for told in ["accepted", "running", "added   c.txt", "removed sub/b.txt"] {
            assert!(lent.stderr.contains(told), "{plane}: {lent:?}");
        }
        assert_eq!(read(folder.join("a.txt")), "two\n");
        assert!(!folder.join("sub/b.txt").exists());
        let listed = pair.host.cli(&["delegation", "list", "-f", "quiet"]);
        let id = listed.stdout.trim();
        let diff = pair.host.cli(&["delegation", "diff", id]);
        assert!(diff.stdout.contains("-one\n+two"), "{plane}: {diff:?}");
        let undone = pair.host.cli(&["delegation", "undo", id]);
        assert_eq!(undone.code, 0, "{plane}: {undone:?}");
        assert_eq!(read(folder.join("a.txt")), "one\n");
        assert_eq!(read(folder.join("sub/b.txt")), "b\n");
        assert!(!folder.join("c.txt").exists());
        pair.left_nothing();
    }
}

#[test]
fn what_is_lent_for_reading_is_not_changed_whatever_the_agent_does() {
    for plane in planes() {
        let pair = Pair::new();
        let folder = pair.folder(&[("a.txt", "one\n")]);
        let task = "/run echo two > a.txt; rm -f a.txt; echo x > new; mkdir d; cat a.txt; true";
        let lent = pair.delegate(&folder, task, &["--transport", plane, "--read-only"]);
        assert_eq!(lent.code, 0, "{plane}: {lent:?}");
        assert_eq!(read(folder.join("a.txt")), "one\n", "{plane}");
        let names: Vec<_> = super::entries(&folder);
        assert_eq!(names, [folder.join("a.txt")], "{plane}");
        pair.left_nothing();
    }
}

#[test]
fn git_and_everyday_tools_work_in_what_was_lent() {
    for plane in planes() {
        let pair = Pair::new();
        let folder = pair.folder(&[("a.txt", "one\n"), ("everyday.sh", EVERYDAY)]);
        let git = |arguments: &[&str]| {
            let fixed = ["-c", "user.name=h", "-c", "user.email=h@x"];
            let done = Command::new("git")
                .args(fixed)
                .args(arguments)
                .current_dir(&folder)
                .status();
            assert!(done.unwrap().success(), "git {arguments:?}");
        };
        git(&["init", "-q"]);
        git(&["add", "-A"]);
        git(&["commit", "-qm", "first"]);
        let lent = pair.delegate(&folder, "/run sh -x everyday.sh", &["--transport", plane]);
        assert_eq!(lent.code, 0, "{plane}: {lent:?}");
        assert!(
            lent.stdout.contains("everything worked"),
            "{plane}: {lent:?}"
        );
        // History is behind a mount, and stays at home when an archive travels.
        let log = Command::new("git")
            .args(["log", "--oneline"])
            .current_dir(&folder)
            .output();
        let commits = String::from_utf8(log.unwrap().stdout).unwrap();
        let expected = if plane == SSHFS { 2 } else { 1 };
        assert_eq!(commits.lines().count(), expected, "{plane}: {commits}");
        let name = folder.join("größe/日本語 folder/naïve—file 😀.txt");
        assert_eq!(read(name), "u\n", "{plane}");
        pair.left_nothing();
    }
}

/// Settings that a person may have, each of which would break a program that trusts git's defaults.
const GIT_SETTINGS: &str = "[init]\n\tdefaultBranch = trunk\n[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = /bin/false\n\
    [core]\n\tautocrlf = true\n\thooksPath = /nonexistent\n\tpager = false\n[diff]\n\tnoprefix = true\n\texternal = /bin/false\n";

#[test]
fn no_setting_of_git_changes_what_is_lent_or_told() {
    for plane in planes() {
        let pair = Pair::new();
        for daemon in [&pair.host, &pair.remote] {
            let settings = daemon.home().parent().unwrap().join(".gitconfig");
            fs::write(settings, GIT_SETTINGS).unwrap();
        }
        let folder = pair.folder(&[("a.txt", "one\r\n"), ("b.txt", "b\n")]);
        let task = "/run printf 'two\\r\\n' > a.txt";
        let id = pair.begin(&folder, task, &["--transport", plane]);
        let end = pair.ended(&id);
        assert_eq!(end["state"], "completed", "{plane}: {end}");
        assert_eq!(read(folder.join("a.txt")), "two\r\n", "{plane}");
        let diff = pair.host.cli(&["delegation", "diff", &id]).stdout;
        assert!(
            diff.contains("--- a/a.txt") && diff.contains("+two"),
            "{plane}: {diff}"
        );
        assert!(!diff.contains("b.txt"), "{plane}: {diff}");
        assert_eq!(
            pair.host.cli(&["delegation", "undo", &id]).code,
            0,
            "{plane}"
        );
        assert_eq!(read(folder.join("a.txt")), "one\r\n", "{plane}");
        pair.left_nothing();
    }
}

/// Writes, changes and removes rows with a journal on disk, in two processes, and has the file checked.
const DATABASE: &str = r#"
import sqlite3, subprocess, sys
file = sqlite3.connect("data.db")
file.execute("create table t(x)")
file.executemany("insert into t values (?)", [(number,) for number in range(1000)])
file.commit()
file.execute("update t set x = x + 1")
file.rollback()
file.execute("delete from t where x >= 3")
file.commit()
file.close()
look = """
import sqlite3
file = sqlite3.connect("data.db")
print(file.execute("select sum(x) from t").fetchone()[0], file.execute("pragma integrity_check").fetchone()[0])
"""
subprocess.check_call([sys.executable, "-c", look])
"#;

#[test]
fn a_database_is_written_on_the_mount() {
    if !can_mount() {
        return;
    }
    let pair = Pair::new();
    let folder = pair.folder(&[("write.py", DATABASE)]);
    let lent = pair.delegate(&folder, "/run python3 write.py", &["--transport", SSHFS]);
    assert_eq!(lent.code, 0, "{lent:?}");
    assert!(lent.stdout.contains("3 ok"), "{lent:?}");
    let count = "import sqlite3; print(sqlite3.connect('data.db').execute('select count(*) from t').fetchone()[0])";
    let found = Command::new("python3")
        .args(["-c", count])
        .current_dir(&folder)
        .output();
    assert_eq!(found.unwrap().stdout, b"3\n");
    pair.left_nothing();
}

#[test]
fn a_crate_is_built_on_the_mount() {
    if !can_mount() {
        return;
    }
    // The one that runs the tests, or whichever is found.
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    if Command::new(&cargo).arg("--version").output().is_err() {
        println!("skipped: cargo is not installed");
        return;
    }
    let pair = Pair::new();
    let manifest =
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    let folder = pair.folder(&[
        ("Cargo.toml", manifest),
        ("src/lib.rs", "pub fn answer() -> u32 { 42 }\n"),
        (
            "src/main.rs",
            "fn main() { println!(\"it is {}\", small::answer()); }\n",
        ),
    ]);
    // The programs and settings of who builds are where they are on this machine; its output belongs to the workspace.
    let home = std::env::var("HOME").unwrap();
    let place = |variable: &str, folder: &str| {
        std::env::var(variable).unwrap_or_else(|_| format!("{home}/{folder}"))
    };
    let task = format!(
        "/run export CARGO_HOME={} RUSTUP_HOME={} CARGO_TARGET_DIR=target; \
         {cargo} build --offline -q && {cargo} build --offline -q && ./target/debug/small",
        place("CARGO_HOME", ".cargo"),
        place("RUSTUP_HOME", ".rustup"),
    );
    let lent = pair.delegate(&folder, &task, &["--transport", SSHFS]);
    assert_eq!(lent.code, 0, "{lent:?}");
    assert!(lent.stdout.contains("it is 42"), "{lent:?}");
    let made = Command::new(folder.join("target/debug/small")).output();
    assert_eq!(made.unwrap().stdout, b"it is 42\n");
    pair.left_nothing();
}

#[test]
fn the_mount_shows_what_the_task_is_beside_the_workspace_and_nothing_real() {
    if !can_mount() {
        return;
    }
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let task = "/run ls ..; cat ../meta/task.md ../meta/log.txt; echo x > ../meta/task.md; \
                echo x > ../x; rm ../meta/log.txt; pwd; ls -la ..";
    let lent = pair.delegate(&folder, task, &["--transport", SSHFS]);
    assert_eq!(lent.code, 0, "{lent:?}");
    for shown in ["meta", "workspace", "cat ../meta/task.md", "accepted"] {
        assert!(lent.stdout.contains(shown), "{shown}: {lent:?}");
    }
    let real = folder.to_str().unwrap();
    assert!(!lent.stdout.contains(real), "{lent:?}");
    assert_eq!(super::entries(&folder), [folder.join("a.txt")]);
    pair.left_nothing();
}

#[test]
fn changes_wait_until_they_are_applied_or_discarded() {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let id = pair.begin(&folder, "/run echo two > a.txt", &["--keep", "staged"]);
    let end = pair.ended(&id);
    assert_eq!(end["snapshot"]["status"], "pending", "{end}");
    assert_eq!(read(folder.join("a.txt")), "one\n");
    let diff = pair.host.cli(&["delegation", "diff", &id]);
    assert!(diff.stdout.contains("+two"), "{diff:?}");
    fs::write(folder.join("a.txt"), "mine\n").unwrap();
    let refused = pair.host.cli(&["delegation", "apply", &id]);
    assert!(
        refused.code != 0 && refused.stderr.contains("a.txt"),
        "{refused:?}"
    );
    assert_eq!(read(folder.join("a.txt")), "mine\n");
    fs::write(folder.join("a.txt"), "one\n").unwrap();
    let applied = pair.host.cli(&["delegation", "apply", &id]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(read(folder.join("a.txt")), "two\n");
    assert_ne!(pair.host.cli(&["delegation", "apply", &id]).code, 0);
    let other = pair.begin(&folder, "/run echo three > a.txt", &["--keep", "staged"]);
    pair.ended(&other);
    assert_eq!(pair.host.cli(&["delegation", "discard", &other]).code, 0);
    assert_eq!(read(folder.join("a.txt")), "two\n");
    pair.left_nothing();
}

/// Git as the owner of the folder runs it.
fn git(folder: &std::path::Path, script: &str) -> String {
    let settings = "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=u GIT_AUTHOR_EMAIL=u@x \
                    GIT_COMMITTER_NAME=u GIT_COMMITTER_EMAIL=u@x;";
    let ran = Command::new("sh")
        .args(["-ec", &format!("{settings} {script}")])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{script}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_repository_is_lent_as_one_and_its_commits_come_back_as_a_branch() {
    // Without mounts the two sides agree on it by themselves.
    let host = super::listening().start();
    let settings = "[lending]\nexecutor = \"worker\"\n";
    let remote = super::listening().file("config.toml", settings).start();
    let pair = Pair::of(host, remote);
    let folder = pair.folder(&[("a.txt", "one\n"), ("everyday.sh", EVERYDAY)]);
    git(
        &folder,
        "git init -qb main; git add -A; git commit -qm first",
    );
    fs::write(folder.join("draft.txt"), "not committed\n").unwrap();
    let lent = pair.delegate(&folder, "/run sh everyday.sh", &[]);
    assert_eq!(lent.code, 0, "{lent:?}");
    assert!(lent.stdout.contains("everything worked"), "{lent:?}");
    assert_eq!(read(folder.join("a.txt")), "one\nmore\n");
    assert!(
        folder
            .join("größe/日本語 folder/naïve—file 😀.txt")
            .exists()
    );
    let branch = git(
        &folder,
        "git for-each-ref --format='%(refname:short)' refs/heads/agentcraft",
    );
    let log = git(&folder, &format!("git log --format=%s {branch}"));
    assert_eq!(log, "What was not committed\nsecond\nWhat was lent\nfirst");
    assert_eq!(git(&folder, "git rev-parse --abbrev-ref HEAD"), "main");
    let id = branch.strip_prefix("agentcraft/").unwrap();
    let shown = pair.show(id);
    assert_eq!(shown["agreement"]["transport"], "git", "{shown}");
    let undone = pair.host.cli(&["delegation", "undo", id]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(git(&folder, "git status --short"), "?? draft.txt");
    pair.left_nothing();
}

fn ten_thousand_files(plane: &str) {
    let pair = Pair::new();
    let folder = pair.folder(&[("a.txt", "one\n")]);
    if plane == "git" {
        git(&folder, "git init -q");
    }
    for number in 0..10_000 {
        let path = folder.join(format!("d{}/f{number}", number % 100));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{number}\n")).unwrap();
    }
    let task = "/run find . -name .git -prune -o -type f -print | wc -l && for n in $(seq 0 99); do echo x > d$n/new; done";
    let lent = pair.delegate(&folder, task, &["--transport", plane]);
    assert_eq!(lent.code, 0, "{plane}: {lent:?}");
    assert!(lent.stdout.contains("10001"), "{plane}: {lent:?}");
    assert!(folder.join("d99/new").exists(), "{plane}");
    pair.left_nothing();
}

#[test]
#[ignore = "slow: ten thousand files there and back"]
fn slow_ten_thousand_files_travel_in_an_archive() {
    ten_thousand_files(ARCHIVE);
}

#[test]
#[ignore = "slow: ten thousand files there, and a branch back"]
fn slow_ten_thousand_files_are_cloned_and_merged() {
    ten_thousand_files("git");
}

#[test]
#[ignore = "slow: ten thousand files over a mount"]
fn slow_ten_thousand_files_are_there_on_a_mount() {
    if can_mount() {
        ten_thousand_files(SSHFS);
    }
}

#[test]
fn what_is_changed_on_a_mount_among_what_git_ignores_is_named() {
    if !can_mount() {
        return;
    }
    let pair = Pair::new();
    let files = [
        ("a.txt", "one\n"),
        (".gitignore", "built/\n"),
        ("built/x", "1\n"),
    ];
    let folder = pair.folder_for(GIT, &files);
    let task = "/run echo two > a.txt; echo 2 > built/x; echo 3 > built/new; \
                git -c user.name=w -c user.email=w@x commit -qam second";
    let lent = pair.delegate(&folder, task, &["--transport", SSHFS]);
    assert_eq!(lent.code, 0, "{lent:?}");
    for told in [
        "changed a.txt",
        "ignored built/x",
        "ignored built/new",
        "ignored .git\n",
    ] {
        assert!(lent.stderr.contains(told), "{told}: {lent:?}");
    }
    let listed = pair.host.cli(&["delegation", "list", "-f", "quiet"]);
    let mut client = pair.host.client();
    let audit = client.ok(
        "delegation.audit",
        json!({ "delegationId": listed.stdout.trim() }),
    );
    let ignored = audit["ignored"].as_array().unwrap();
    assert_eq!(ignored.len(), 3, "{audit}");
    assert!(
        !audit["diff"].as_str().unwrap().contains("built"),
        "{audit}"
    );
    pair.left_nothing();
}
