//! What a restart of either side makes of a delegation.

use domain::delegation::{Ending, Phase};

use super::scene::{Scene, create, names, read};

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_restarts_still_gets_its_result() {
    let (host, remote) = (Scene::new(|_| {}).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1")]);
    let id = host.lend(create(&remote, &dir, "write a 2\npause")).await;
    remote.saw("pausing").await;
    let host = host.restart().await;
    assert!(
        !host.delegations.node.locks().is_idle(),
        "the folder is held again"
    );
    remote.seen.send_modify(|seen| seen.push("go".to_owned()));
    let view = host.ended(&id).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(read(&dir, "a"), "2");
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_that_restarts_cleans_up_and_says_so() {
    let (host, remote) = (Scene::new(|_| {}).await, Scene::new(|_| {}).await);
    let dir = host.workspace(&[("a", "1")]);
    let id = host.lend(create(&remote, &dir, "write a 2\nwait")).await;
    remote.saw("waiting").await;
    let remote = remote.restart().await;
    let view = host.ended(&id).await;
    let Some(Ending::Error(failure)) = &view.ending else {
        panic!("{view:?}")
    };
    assert!(failure.message.contains("restarted"), "{failure:?}");
    assert_eq!(read(&dir, "a"), "1");
    remote.left_nothing(&id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_of_a_change_is_taken_back_when_the_host_starts() {
    use std::os::unix::{ffi::OsStrExt, fs::MetadataExt};
    let host = Scene::new(|_| {}).await;
    let dir = host.workspace(&[("b", "2"), (".agentcraft-apply/old/1", "1")]);
    let stage = dir.join(".agentcraft-apply");
    std::fs::create_dir(stage.join("new")).unwrap();
    let journals = host.home.path().join("node/lending/journals");
    let tree = dir.as_os_str().as_bytes();
    let inode = std::fs::metadata(&stage).unwrap().ino();
    let steps = serde_json::json!([{ "Remove": { "path": "a", "slot": 1 } }]);
    let noted = serde_json::json!({ "Begun": { "inode": inode, "steps": steps } });
    let written = serde_json::json!({ "tree": tree, "noted": noted });
    let name = format!("apply-{}", archive::Checksum::of(tree));
    std::fs::write(journals.join(name), written.to_string()).unwrap();
    let _host = host.restart().await;
    assert_eq!((read(&dir, "a"), read(&dir, "b")), ("1".into(), "2".into()));
    assert_eq!(names(&dir), ["a", "b"]);
    assert_eq!(names(&journals), [""; 0]);
}
