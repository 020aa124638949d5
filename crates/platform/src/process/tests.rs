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
    assert_eq!(scene.left().len(), 3);
    let begun = std::time::Instant::now();
    assert_eq!(group.end(PATIENCE).await, Exit::Signal(15));
    assert!(
        begun.elapsed() < PATIENCE / 4,
        "it did not wait for the grace"
    );
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
    assert_eq!(scene.left().len(), 2);
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
