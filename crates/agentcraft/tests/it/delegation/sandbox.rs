//! The sandbox that a remote declares is the one its agent is in.

use std::fs;

use super::{Pair, SSHFS, can_mount, read};

#[test]
fn an_agent_in_a_sandbox_works_in_what_it_was_lent_and_nowhere_else() {
    if !platform_has_landlock() {
        println!("skipped: this kernel has no landlock of Linux 6.2");
        return;
    }
    let pair = Pair::with("[lending.sandbox]\nnetwork = false\n");
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let outside = pair.remote.scratch("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret"), "hidden\n").unwrap();
    let shown = outside.display();
    let socket = pair.remote.socket();
    let task = format!(
        "/run cat {shown}/secret; echo x > {shown}/new; cat {}; \
         /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")' && echo reached; \
         /usr/bin/python3 -c 'import socket; socket.socket(); print(\"made a socket\")'; \
         echo two > a.txt; cat a.txt; git --version",
        pair.remote.home().join("listener.token").display(),
        socket.display(),
    );
    let mut planes = vec!["archive"];
    if can_mount() {
        planes.push(SSHFS);
    }
    for plane in planes {
        let lent = pair.delegate(&folder, &task, &["--transport", plane]);
        assert_eq!(lent.code, 0, "{plane}: {lent:?}");
        for refused in ["hidden", "act_", "reached", "made a socket"] {
            let said = lent.stdout.replace(&task, "");
            assert!(!said.contains(refused), "{plane}: {refused}: {lent:?}");
        }
        assert!(lent.stdout.contains("git version"), "{plane}: {lent:?}");
        assert_eq!(read(folder.join("a.txt")), "two\n", "{plane}");
        assert!(!outside.join("new").exists(), "{plane}");
    }
    let listed = pair.host.cli(&["delegation", "list", "-f", "quiet"]);
    let id = listed.stdout.lines().next().unwrap().to_owned();
    let declared = &pair.show(&id)["agreement"]["sandbox"];
    assert_eq!(declared["cwd_only"], true, "{declared}");
    assert_eq!(declared["allow_network"], false, "{declared}");
    pair.left_nothing();
}

#[test]
fn an_agent_that_may_run_no_programs_works_without_them_and_says_so() {
    if !platform_has_landlock() {
        println!("skipped: this kernel has no landlock of Linux 6.2");
        return;
    }
    let pair = Pair::with("[lending.sandbox]\nexec = false\n");
    let folder = pair.folder(&[("a.txt", "one\n")]);
    let lent = pair.delegate(&folder, "/write b.txt by hand", &["--transport", "archive"]);
    assert_eq!(lent.code, 0, "{lent:?}");
    assert!(read(folder.join("b.txt")).starts_with("by hand"));
    let task = "/run touch by-program";
    pair.delegate(&folder, task, &["--transport", "archive"]);
    assert!(!folder.join("by-program").exists());
    let listed = pair.host.cli(&["delegation", "list", "-f", "quiet"]);
    let id = listed.stdout.lines().next().unwrap().to_owned();
    let declared = &pair.show(&id)["agreement"]["sandbox"];
    assert_eq!(declared["allow_exec"], false, "{declared}");
    pair.left_nothing();
}

fn platform_has_landlock() -> bool {
    let modules = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 2) && (modules.is_empty() || modules.contains("landlock"))
}
