//! Real children: started, refused with reasons, and ended with everything they have started.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use super::*;
use crate::{
    owner::{Owner, OwnerScope, find},
    pid::ProcessRef,
    test_support::{DOUBLE_FORK, PATIENCE, eventually, fresh_owner, guardian, python},
};

const SHORT: Duration = Duration::from_millis(100);

struct Scene {
    owner: Owner,
    guardian: Guardian,
}

impl Scene {
    fn new() -> Scene {
        let owner = fresh_owner();
        let guardian = guardian(&owner);
        Scene { owner, guardian }
    }

    fn child(&self, name: &str, program: impl Into<PathBuf>, args: &[&str]) -> Spawn {
        let mut spawn = Spawn::new(program, "/", self.owner.tag(name).unwrap());
        spawn.args = args.iter().map(OsString::from).collect();
        spawn.env = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
        spawn.stdout = Stream::Piped;
        spawn
    }

    /// Starts it and returns when it has printed its first line.
    async fn ready(&self, spawn: Spawn) -> Group {
        let (group, pipes) = spawn.spawn(&self.guardian).unwrap();
        let mut lines = BufReader::new(pipes.stdout.unwrap()).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        assert_eq!(line.unwrap().unwrap().unwrap(), "ready");
        group
    }

    fn left(&self) -> Vec<ProcessRef> {
        find(&OwnerScope::home(&self.owner))
    }
}

async fn patiently<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

#[tokio::test]
async fn a_child_sees_exactly_its_environment_and_folder_and_leads_its_session() {
    let scene = Scene::new();
    let code = "import os; print(sorted(k for k in os.environ if k != 'LC_CTYPE'), os.getcwd(), \
                os.getsid(0) == os.getpgrp() == os.getpid(), os.environ['AGENTCRAFT_OWNER'])";
    let spawn = scene.child("seen", python(), &["-c", code]);
    let (group, pipes) = spawn.spawn(&scene.guardian).unwrap();
    let mut text = String::new();
    patiently(pipes.stdout.unwrap().read_to_string(&mut text))
        .await
        .unwrap();
    let token = scene.owner.tag("seen").unwrap();
    assert_eq!(
        text,
        format!("['AGENTCRAFT_OWNER', 'PATH'] / True {token}\n")
    );
    assert_eq!(patiently(group.wait()).await, Exit::Code(0));
    assert_eq!(patiently(group.reap_leftovers()).await, Exit::Code(0));
}

#[tokio::test]
async fn a_pipe_carries_input_and_the_exit_code_is_kept() {
    let scene = Scene::new();
    let mut spawn = scene.child("cat", "sh", &["-c", "cat; exit 7"]);
    spawn.stdin = Stream::Piped;
    let (group, mut pipes) = spawn.spawn(&scene.guardian).unwrap();
    let mut stdin = pipes.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"text")
        .await
        .unwrap();
    drop(stdin);
    let mut text = String::new();
    patiently(pipes.stdout.unwrap().read_to_string(&mut text))
        .await
        .unwrap();
    assert_eq!(text, "text");
    for _ in 0..2 {
        assert_eq!(patiently(group.wait()).await, Exit::Code(7));
        assert_eq!(patiently(group.end(PATIENCE)).await, Exit::Code(7));
    }
}

#[tokio::test]
async fn ending_takes_the_whole_group_at_once_when_it_obeys() {
    let scene = Scene::new();
    let script = "sleep 600 & sleep 600 & echo ready; wait";
    let group = scene
        .ready(scene.child("obeys", "sh", &["-c", script]))
        .await;
    eventually("all are there", PATIENCE, || scene.left().len() == 3);
    // Whoever waited for this grace would not be there in time.
    let grace = PATIENCE * 10;
    assert_eq!(patiently(group.end(grace)).await, Exit::Signal(15));
    assert_eq!(scene.left(), []);
    assert_eq!(group.end(PATIENCE).await, Exit::Signal(15));
    assert_eq!(group.wait().await, Exit::Signal(15));
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed_after_the_grace() {
    let scene = Scene::new();
    let script = "trap '' TERM; echo ready; while :; do sleep 600; done";
    let group = scene
        .ready(scene.child("deaf", "sh", &["-c", script]))
        .await;
    assert_eq!(patiently(group.end(SHORT)).await, Exit::Signal(9));
    assert_eq!(scene.left(), []);
}

#[tokio::test]
async fn a_grandchild_that_left_the_session_is_ended_too() {
    let scene = Scene::new();
    let group = scene
        .ready(scene.child("forks", python(), &["-c", DOUBLE_FORK]))
        .await;
    eventually("both are there", PATIENCE, || scene.left().len() == 2);
    assert_eq!(patiently(group.end(PATIENCE)).await, Exit::Signal(15));
    assert_eq!(scene.left(), []);
}

#[tokio::test]
async fn what_a_leader_leaves_behind_is_ended_after_its_own_exit() {
    let scene = Scene::new();
    let script = "sleep 600 >/dev/null & setsid sleep 600 >/dev/null & echo ready; exit 3";
    let group = scene
        .ready(scene.child("leaves", "sh", &["-c", script]))
        .await;
    assert_eq!(patiently(group.wait()).await, Exit::Code(3));
    eventually("both are there", PATIENCE, || scene.left().len() == 2);
    assert_eq!(patiently(group.reap_leftovers()).await, Exit::Code(3));
    assert_eq!(scene.left(), []);
}

#[tokio::test]
async fn dropping_a_group_ends_it_and_spares_its_neighbours() {
    let scene = Scene::new();
    let group = scene
        .ready(scene.child("dropped", python(), &["-c", DOUBLE_FORK]))
        .await;
    let other = scene
        .ready(scene.child("kept", "sh", &["-c", "echo ready; exec sleep 600"]))
        .await;
    let process = group.process();
    drop(group);
    patiently(process.exited()).await;
    eventually("only the neighbour is left", PATIENCE, || {
        scene.left() == [other.process()]
    });
    eventually("the leader is reaped", PATIENCE, || {
        ProcessRef::of(process.pid) != Some(process)
    });
    assert_eq!(other.end(PATIENCE).await, Exit::Signal(15));
}

#[tokio::test]
async fn the_leaders_number_stays_taken_until_its_group_is_gone() {
    let scene = Scene::new();
    let group = scene
        .ready(scene.child("zombie", "sh", &["-c", "echo ready"]))
        .await;
    patiently(group.wait()).await;
    assert!(!group.process().alive());
    assert_eq!(ProcessRef::of(group.pid()), Some(group.process()));
    patiently(group.reap_leftovers()).await;
    assert_ne!(ProcessRef::of(group.pid()), Some(group.process()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_end_in_parallel() {
    let scene = Scene::new();
    let groups: Vec<_> = (0..40)
        .map(|index| {
            let spawn = scene.child(&format!("agent-{index}"), "sleep", &["600"]);
            spawn.spawn(&scene.guardian).unwrap().0
        })
        .collect();
    let ends: Vec<_> = groups
        .into_iter()
        .map(|group| tokio::spawn(async move { group.end(PATIENCE).await }))
        .collect();
    for end in ends {
        assert_eq!(patiently(end).await.unwrap(), Exit::Signal(15));
    }
    assert_eq!(scene.left(), []);
}

#[tokio::test]
async fn a_refused_start_says_what_where_and_why() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    };
    let text = write("text", "#!/bin/sh\n", 0o644);
    let orphan = write("orphan", "#!/no/such/interpreter\n", 0o755);
    let refusal = |spawn: Spawn| spawn.spawn(&scene.guardian).unwrap_err();
    let missing = refusal(scene.child("a", "no-such-program", &[]));
    assert!(
        matches!(missing, SpawnError::NotFound { .. }),
        "{missing:?}"
    );
    let message = "could not start no-such-program in /: there is no such program";
    assert_eq!(missing.to_string(), message);
    assert!(std::error::Error::source(&missing).is_some());
    let text = refusal(scene.child("a", text, &[]));
    assert!(matches!(text, SpawnError::NotExecutable { .. }), "{text:?}");
    let orphan = refusal(scene.child("a", orphan, &[]));
    assert!(
        matches!(orphan, SpawnError::InterpreterNotFound { .. }),
        "{orphan:?}"
    );
    let mut nowhere = scene.child("a", "sh", &[]);
    nowhere.cwd = folder.path().join("none");
    let nowhere = refusal(nowhere);
    assert!(matches!(nowhere, SpawnError::Folder { .. }), "{nowhere:?}");
}

#[tokio::test]
async fn a_program_is_found_in_the_childs_own_path_and_a_bare_script_is_run_by_the_shell() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("bare");
    std::fs::write(&script, "echo \"$0 $1\"; exit 4\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let mut spawn = scene.child("bare", "bare", &["word"]);
    let path = format!("/nonexistent::{}:/usr/bin:/bin", folder.path().display());
    spawn.env.insert("PATH".into(), path.into());
    let (group, pipes) = spawn.spawn(&scene.guardian).unwrap();
    let mut text = String::new();
    patiently(pipes.stdout.unwrap().read_to_string(&mut text))
        .await
        .unwrap();
    assert_eq!(text, format!("{} word\n", script.display()));
    assert_eq!(patiently(group.reap_leftovers()).await, Exit::Code(4));
}

#[tokio::test]
async fn a_child_begins_with_the_signals_and_files_that_the_standard_library_would_give_it() {
    let scene = Scene::new();
    // We handle one more, and the child must not know of it.
    let _handled = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1());
    let script = "grep -E '^Sig(Blk|Cgt|Ign)' /proc/self/status; ls /proc/self/fd";
    let (group, pipes) = scene
        .child("plain", "/bin/sh", &["-c", script])
        .spawn(&scene.guardian)
        .unwrap();
    let mut text = String::new();
    patiently(pipes.stdout.unwrap().read_to_string(&mut text))
        .await
        .unwrap();
    assert_eq!(patiently(group.reap_leftovers()).await, Exit::Code(0));
    let expected = std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let expected = String::from_utf8(expected.stdout).unwrap();
    // Signals 32 and 33 belong to the C library.
    let usual = |text: &str| -> Vec<String> {
        let low = |line: &str| match line.split_once(":\t") {
            Some((name, set)) => {
                let set = u64::from_str_radix(set, 16).unwrap() & 0x7fff_ffff;
                format!("{name} {set:x}")
            }
            None => line.to_owned(),
        };
        text.lines().map(low).collect()
    };
    assert!(text.contains("SigBlk"), "{text}");
    assert_eq!(usual(&text), usual(&expected));
}

#[tokio::test]
async fn a_short_command_that_forks_twice_and_leaves_its_session_leaves_nobody() {
    let scene = Scene::new();
    // The same, but the first process ends at once, within the time in which only recent numbers are looked at.
    let brief = DOUBLE_FORK.replace("print('ready', flush=True)\ntime.sleep(600)", "");
    for round in 0..5 {
        let name = format!("brief-{round}");
        let spawn = scene.child(&name, python(), &["-c", &brief]);
        let (group, _pipes) = spawn.spawn(&scene.guardian).unwrap();
        assert_eq!(patiently(group.reap_leftovers()).await, Exit::Code(0));
        assert_eq!(scene.left(), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_short_commands_at_once_tell_their_own_ends() {
    let scene = Scene::new();
    let groups: Vec<_> = (0..60)
        .map(|index| {
            let script = format!("exit {index}");
            let spawn = scene.child(&format!("short-{index}"), "sh", &["-c", &script]);
            spawn.spawn(&scene.guardian).unwrap().0
        })
        .collect();
    let ends: Vec<_> = groups
        .into_iter()
        .map(|group| tokio::spawn(async move { group.reap_leftovers().await }))
        .collect();
    for (index, end) in (0..).zip(ends) {
        assert_eq!(patiently(end).await.unwrap(), Exit::Code(index));
    }
    assert_eq!(scene.left(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_that_start_children_at_once_each_learn_of_their_own() {
    let scene = std::sync::Arc::new(Scene::new());
    let runtime = tokio::runtime::Handle::current();
    let starters: Vec<_> = (0..4)
        .map(|thread| {
            let (scene, runtime) = (std::sync::Arc::clone(&scene), runtime.clone());
            std::thread::spawn(move || {
                let _entered = runtime.enter();
                let (mut groups, mut refusals) = (Vec::new(), 0);
                for round in 0..20 {
                    let name = format!("thread-{thread}-{round}");
                    let script = format!("exit {round}");
                    match (round + thread) % 3 {
                        0 => {
                            let missing = scene.child(&name, "/no/such/program", &[]);
                            let refused = missing.spawn(&scene.guardian).unwrap_err();
                            assert!(
                                matches!(refused, SpawnError::NotFound { .. }),
                                "{refused:?}"
                            );
                            refusals += 1;
                        }
                        _ => {
                            let started = scene.child(&name, "sh", &["-c", &script]);
                            groups.push((round, started.spawn(&scene.guardian).unwrap().0));
                        }
                    }
                }
                assert!(refusals > 0);
                groups
            })
        })
        .collect();
    for starter in starters {
        for (round, group) in starter.join().unwrap() {
            assert_eq!(patiently(group.reap_leftovers()).await, Exit::Code(round));
        }
    }
    assert_eq!(scene.left(), []);
}
