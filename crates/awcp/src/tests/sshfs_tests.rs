//! Lending over a mount, where the machine has what it takes.

use domain::delegation::{Access, Code, Ending, Phase, Transport};

use super::scene::{Scene, create, names, read, with_sftp};
use crate::Create;

fn can_mount() -> bool {
    let path = std::env::var_os("PATH").unwrap();
    let found = platform::system::find_program("sshfs", &path).is_some();
    found && std::path::Path::new("/dev/fuse").exists()
}

fn mounted(to: &Scene, dir: &std::path::Path, prompt: &str) -> Create {
    Create {
        transports: vec![Transport::Sshfs],
        ..create(to, dir, prompt)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_workspace_is_the_workspace_itself() {
    if !can_mount() {
        return;
    }
    let (host, remote) = (Scene::new(with_sftp).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1"), ("sub/b", "1")]);
    let id = host
        .lend(mounted(
            &remote,
            &dir,
            "cat a\nwrite a 2\nwrite sub/c 3\nremove sub/b\npause",
        ))
        .await;
    remote.saw("pausing").await;
    assert_eq!(read(&dir, "a"), "2", "what is written is there at once");
    remote.seen.send_modify(|seen| seen.push("go".to_owned()));
    let view = host.ended(&id).await;
    let Some(Ending::Completed(report)) = &view.ending else {
        panic!("{view:?}")
    };
    assert_eq!(report.summary, "1");
    let audit = host.delegations.audit(&id).await.unwrap();
    let told: Vec<_> = audit
        .changes
        .iter()
        .map(|it| (it.change, it.path.as_str()))
        .collect();
    assert_eq!(
        told,
        [("changed", "a"), ("removed", "sub/b"), ("added", "sub/c")]
    );
    host.gave_back();
    remote.left_nothing(&id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_for_reading_cannot_be_written_and_cancelling_takes_it_away() {
    if !can_mount() {
        return;
    }
    let (host, remote) = (Scene::new(with_sftp).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        access: Access::Ro,
        ..mounted(&remote, &dir, "write a 2\ncat a\nwait")
    };
    let id = host.lend(lend).await;
    remote.saw("waiting").await;
    assert_eq!(
        (read(&dir, "a"), names(&dir)),
        ("1".to_owned(), vec!["a".to_owned()])
    );
    let view = host.delegations.cancel(&id, "enough").await.unwrap();
    assert_eq!(view.state, Phase::Cancelled);
    host.gave_back();
    remote.left_nothing(&id).await;
    assert_eq!(
        read(&dir, "a"),
        "1",
        "cleaning up removes nothing of the host's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_grows_beyond_its_quota_fails_with_words() {
    if !can_mount() {
        return;
    }
    let (host, remote) = (Scene::new(with_sftp).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        quota_bytes: Some(1000),
        ..mounted(&remote, &dir, "fill big 200000")
    };
    let view = host.lend_on(lend).await;
    let Some(Ending::Error(failure)) = &view.ending else {
        panic!("{view:?}")
    };
    assert_eq!(failure.code, Code::TaskFailed);
    assert!(
        failure.message.contains("quota of 1000 bytes"),
        "{failure:?}"
    );
    remote.left_nothing(&view.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_mount_changed_before_it_was_cancelled_is_told_and_can_be_taken_back() {
    if !can_mount() {
        return;
    }
    let (host, remote) = (Scene::new(with_sftp).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1"), ("b", "1")]);
    let task = "write a 2\nremove b\nwrite new x\nwait";
    let id = host.lend(mounted(&remote, &dir, task)).await;
    remote.saw("waiting").await;
    let view = host.delegations.cancel(&id, "enough").await.unwrap();
    assert_eq!(view.state, Phase::Cancelled);
    let report = host.delegations.audit(&id).await.unwrap();
    let told: Vec<_> = report
        .changes
        .iter()
        .map(|it| (it.change, it.path.as_str()))
        .collect();
    assert_eq!(told, [("changed", "a"), ("removed", "b"), ("added", "new")]);
    host.delegations.undo(&id).await.unwrap();
    assert_eq!(
        (read(&dir, "a"), read(&dir, "b")),
        ("1".to_owned(), "1".to_owned())
    );
    assert_eq!(names(&dir), ["a", "b"]);
    remote.left_nothing(&id).await;
}
