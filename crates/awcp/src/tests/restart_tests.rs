//! What a restart of either side makes of a delegation.

use domain::delegation::{Ending, Phase};

use super::scene::{Scene, create, read};

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
