//! What an agent can do with what it was lent, over each plane.

use std::{fs, process::Command};

use super::{Pair, SSHFS, can_mount, planes, read};

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

#[test]
fn a_database_is_written_on_the_mount() {
    if !can_mount() {
        return;
    }
    if Command::new("sqlite3").arg("--version").output().is_err() {
        println!("skipped: sqlite3 is not installed");
        return;
    }
    let pair = Pair::new();
    let folder = pair.folder(&[("readme", "r")]);
    let task = "/run sqlite3 data.db 'create table t(x); insert into t values (1), (2), (3);' && \
                sqlite3 data.db 'update t set x = x + 1; delete from t where x = 4; select sum(x) from t' && \
                sqlite3 data.db 'pragma integrity_check'";
    let lent = pair.delegate(&folder, task, &["--transport", SSHFS]);
    assert_eq!(lent.code, 0, "{lent:?}");
    assert!(lent.stdout.contains("5\nok"), "{lent:?}");
    let found = Command::new("sqlite3")
        .args([
            folder.join("data.db").to_str().unwrap(),
            "select count(*) from t",
        ])
        .output();
    assert_eq!(found.unwrap().stdout, b"2\n");
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

#[test]
#[ignore = "slow: ten thousand files over each plane"]
fn ten_thousand_files_travel() {
    for plane in planes() {
        let pair = Pair::new();
        let folder = pair.folder(&[("a.txt", "one\n")]);
        for number in 0..10_000 {
            let path = folder.join(format!("d{}/f{number}", number % 100));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{number}\n")).unwrap();
        }
        let task = "/run find . -type f | wc -l && for n in $(seq 0 99); do echo x > d$n/new; done";
        let lent = pair.delegate(&folder, task, &["--transport", plane]);
        assert_eq!(lent.code, 0, "{plane}: {lent:?}");
        assert!(lent.stdout.contains("10001"), "{plane}: {lent:?}");
        assert!(folder.join("d99/new").exists(), "{plane}");
        pair.left_nothing();
    }
}
