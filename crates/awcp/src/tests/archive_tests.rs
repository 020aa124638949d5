//! Lending over the archive plane, from the first look to the audit.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use domain::delegation::{Access, Code, Ending, Phase, SizeMax};

use super::scene::{PATIENCE, Scene, create, names, read};
use crate::{Create, DelegationError, PeerError, Secrets};

async fn two() -> (Scene, Scene) {
    (Scene::new(|_| {}).await, Scene::new(|_| {}).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_come_home_and_the_audit_shows_them() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[
        ("a.txt", "old\n"),
        ("gone.txt", "g"),
        ("sub/keep.sh", "#!/bin/sh\n"),
    ]);
    std::fs::set_permissions(
        dir.join("sub/keep.sh"),
        std::fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let prompt = "cat a.txt\nwrite a.txt new\nwrite sub/new.txt n\nremove gone.txt\ndone";
    let view = host.lend_on(create(&remote, &dir, prompt)).await;
    let Some(Ending::Completed(report)) = &view.ending else {
        panic!("{view:?}")
    };
    assert_eq!(report.summary, "old\ndone");
    assert_eq!(read(&dir, "a.txt"), "new");
    assert_eq!(read(&dir, "sub/new.txt"), "n");
    assert_eq!(names(&dir), ["a.txt", "sub"]);
    let mode = std::fs::metadata(dir.join("sub/keep.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    let audit = host.delegations.audit(&view.id).await.unwrap();
    let told: Vec<_> = audit
        .changes
        .iter()
        .map(|it| (it.change, it.path.as_str()))
        .collect();
    let expected = [
        ("changed", "a.txt"),
        ("removed", "gone.txt"),
        ("added", "sub/new.txt"),
    ];
    assert_eq!(told, expected);
    assert!(audit.diff.contains("-old"), "{}", audit.diff);
    host.gave_back();
    let taken = remote.left_nothing(&view.id).await;
    assert_eq!(taken.state, Phase::Completed);

    host.delegations.undo(&view.id).await.unwrap();
    assert_eq!(read(&dir, "a.txt"), "old\n");
    assert_eq!(read(&dir, "gone.txt"), "g");
    assert!(!dir.join("sub/new.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_git_ignores_stays_at_home_and_cannot_be_written() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[
        (".gitignore", ".env\n"),
        (".env", "KEY=1"),
        (".git/config", "c"),
        ("a", "1"),
    ]);
    let view = host.lend_on(create(&remote, &dir, "list\nwrite a 2")).await;
    let Some(Ending::Completed(report)) = &view.ending else {
        panic!("{view:?}")
    };
    assert_eq!(report.summary, ".gitignore a");
    let hooks = "write a 3\nwrite .git/hooks/post-checkout evil\nwrite .env KEY=2";
    let view = host.lend_on(create(&remote, &dir, hooks)).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(read(&dir, "a"), "3", "the rest is taken");
    assert_eq!(read(&dir, ".env"), "KEY=1");
    assert!(!dir.join(".git/hooks").exists());
    let audit = host.delegations.audit(&view.id).await.unwrap();
    assert_eq!(audit.ignored, [".env", ".git"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_installation_or_a_build_leaves_behind_does_not_come_home() {
    let (host, remote) = two().await;
    for keeping in [crate::Keeping::Auto, crate::Keeping::Staged] {
        let dir = host.workspace(&[(".gitignore", "target/\n*.log\n"), ("src.js", "broken")]);
        let work = "write node_modules/left-pad/index.js x\nwrite target/debug/app x\nwrite x.log x\n\
            write .gitignore nothing\nwrite src.js fixed";
        let lend = Create {
            keeping,
            ..create(&remote, &dir, work)
        };
        let view = host.lend_on(lend).await;
        assert_eq!(view.state, Phase::Completed, "{view:?}");
        if keeping == crate::Keeping::Staged {
            host.delegations.apply_snapshot(&view.id).await.unwrap();
        }
        assert_eq!(read(&dir, "src.js"), "fixed");
        assert_eq!(names(&dir), [".gitignore", "src.js"]);
        let audit = host.delegations.audit(&view.id).await.unwrap();
        assert_eq!(audit.ignored, ["node_modules", "target", "x.log"]);
        let told: Vec<&str> = audit.changes.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(told, [".gitignore", "src.js"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_came_with_a_stage_is_not_lent_and_nothing_in_it_is_believed() {
    let (host, remote) = two().await;
    let journal = r#"[{"Remove":{"path":".git/hooks/post-commit","slot":1}}]"#;
    let dir = host.workspace(&[
        ("a", "1"),
        (".agentcraft-apply/journal", journal),
        (".agentcraft-apply/old/1", "#!/bin/sh"),
        (".agentcraft-apply/new/keep", ""),
    ]);
    std::fs::create_dir_all(dir.join(".git/hooks")).unwrap();
    let view = host.lend_on(create(&remote, &dir, "write a 2")).await;
    let failure = view.ending.as_ref().and_then(Ending::failure).unwrap();
    assert!(failure.message.contains(".agentcraft-apply"), "{failure:?}");
    assert_eq!(names(&dir.join(".git/hooks")), [""; 0]);
    assert_eq!(read(&dir, "a"), "1");
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_away_when_the_work_ends_gets_it_when_it_is_back() {
    let soon: fn(&mut crate::AwcpConfig) =
        |config| config.waits.tell_again = Duration::from_millis(50);
    let (host, remote) = (Scene::new(soon).await, Scene::new(soon).await);
    let dir = host.workspace(&[("a", "1")]);
    let id = host.lend(create(&remote, &dir, "pause\nwrite a 2")).await;
    remote.saw("pausing").await;
    let away = host.leave().await;
    let mut view = remote
        .delegations
        .node
        .remote(&remote.id(&id))
        .unwrap()
        .view;
    remote.seen.send_modify(|seen| seen.push("go".to_owned()));
    let noted = |view: &crate::DelegationView| {
        view.log
            .iter()
            .any(|line| line.text == "the task has ended")
    };
    let finishing = view.wait_for(noted);
    drop(tokio::time::timeout(PATIENCE, finishing).await.unwrap());
    let host = away.come_back().await;
    let view = host.ended(&id).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(read(&dir, "a"), "2");
    remote.left_nothing(&id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_lent_for_reading_does_not_change() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        access: Access::Ro,
        ..create(&remote, &dir, "cat a\nwrite a 2\nwrite b 3")
    };
    let view = host.lend_on(lend).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(read(&dir, "a"), "1");
    assert_eq!(names(&dir), ["a"]);
    assert_eq!(host.delegations.audit(&view.id).await.unwrap().changes, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_to_a_workspace_lent_for_reading_are_refused_by_the_host() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        access: Access::Ro,
        ..create(&remote, &dir, "wait")
    };
    let id = host.lend(lend).await;
    remote.saw("waiting").await;
    let secret = {
        let handle = host.delegations.node.host(&host.id(&id)).unwrap();
        let secret = handle.gate.lock().secret.clone();
        secret.unwrap()
    };
    let http = reqwest::Client::new();
    let post = |secret: &str| {
        http.post(format!("{}/awcp/{id}/delta", host.url))
            .bearer_auth(secret)
            .body("x")
            .send()
    };
    let refused = post(&secret).await.unwrap();
    assert_eq!(refused.status(), 403);
    assert!(refused.text().await.unwrap().contains("lent for reading"));
    assert_eq!(post("guessed").await.unwrap().status(), 401);
    host.delegations.cancel(&id, "enough").await.unwrap();
    let over = post(&secret).await.unwrap().status();
    assert_eq!(over, 401, "the credential has died with the lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_at_home_meanwhile_is_a_conflict_and_nothing_is_overwritten() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1"), ("b", "1")]);
    let id = host
        .lend(create(
            &remote,
            &dir,
            "write a remote\nwrite b remote\npause",
        ))
        .await;
    remote.saw("pausing").await;
    std::fs::write(dir.join("a"), "home").unwrap();
    remote.seen.send_modify(|seen| seen.push("go".to_owned()));
    let view = host.ended(&id).await;
    let Some(Ending::Error(failure)) = &view.ending else {
        panic!("{view:?}")
    };
    assert!(
        failure.message.contains("changed at home too") && failure.message.contains("a ("),
        "{failure:?}"
    );
    assert_eq!(
        (read(&dir, "a"), read(&dir, "b")),
        ("home".into(), "1".into())
    );
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_the_quota_is_refused_with_words() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        quota_bytes: Some(1000),
        ..create(&remote, &dir, "fill big 2000")
    };
    let view = host.lend_on(lend).await;
    let Some(Ending::Error(failure)) = &view.ending else {
        panic!("{view:?}")
    };
    assert_eq!(failure.code, Code::TaskFailed);
    assert!(
        failure.message.contains("quota of 1000 bytes") && failure.message.contains("2000"),
        "{failure:?}"
    );
    assert_eq!(names(&dir), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_counts_what_is_here_and_not_what_the_remote_says_was() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        quota_bytes: Some(1000),
        ..create(&remote, &dir, "pause")
    };
    let id = host.lend(lend).await;
    remote.saw("pausing").await;
    // A list of changes that says that something huge is gone.
    let away = host.workspace(&[("big", &"x".repeat(2000))]);
    let tree = archive::Folder::open(&away).unwrap();
    let limits = archive::Limits::default();
    let (after, _) = archive::Manifest::of(&tree, &archive::everything, &limits).unwrap();
    let mut delta = archive::Delta::between(&archive::Manifest::default(), &after);
    for (name, size) in [("ghost", 1_u64 << 63), ("spirit", 1 << 63)] {
        let mut gone = after.entries.values().next().unwrap().clone();
        if let archive::Content::File { size: told, .. } = &mut gone.content {
            *told = size;
        }
        let path = serde_json::from_value(serde_json::json!(name)).unwrap();
        let change = archive::Change::Removed { before: gone };
        delta.changes.insert(path, change);
    }
    let mut body = Vec::new();
    archive::pack_delta(&tree, &delta, &limits, &mut body).unwrap();
    let handle = host.delegations.node.host(&host.id(&id)).unwrap();
    let secret = handle.gate.lock().secret.clone().unwrap();
    let sent = reqwest::Client::new()
        .post(format!("{}/awcp/{id}/delta", host.url))
        .bearer_auth(secret)
        .body(body)
        .send()
        .await;
    assert_eq!(sent.unwrap().status(), 200);
    remote.seen.send_modify(|seen| seen.push("go".to_owned()));
    let view = host.ended(&id).await;
    let failure = view.ending.as_ref().and_then(Ending::failure).unwrap();
    assert!(failure.message.contains("quota of 1000"), "{failure:?}");
    assert_eq!(names(&dir), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_must_not_be_lent_is_refused_before_anybody_is_invited() {
    let host = Scene::new(|config| {
        config.size_max = SizeMax {
            bytes: 100,
            files: 3,
            file_bytes: 50,
        };
    })
    .await;
    let remote = Scene::new(|_| {}).await;
    let large = host.workspace(&[("a", &"x".repeat(51))]);
    let error = host
        .delegations
        .create(create(&remote, &large, "x"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, DelegationError::Refused(failure) if failure.code == Code::WorkspaceTooLarge),
        "{error}"
    );
    let secret = host.workspace(&[(".env", "KEY=1")]);
    let error = host
        .delegations
        .create(create(&remote, &secret, "x"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains(".env"), "{error}");
    let missing = host.home.path().join("missing");
    let error = host
        .delegations
        .create(create(&remote, &missing, "x"))
        .await
        .unwrap_err();
    assert!(matches!(error, DelegationError::Folder { .. }), "{error}");
    assert_eq!(host.delegations.list().await.unwrap(), []);
    assert_eq!(remote.delegations.list().await.unwrap(), []);
    host.gave_back();
    let lend = Create {
        secrets: Secrets::Lend,
        ..create(&remote, &secret, "cat .env")
    };
    let view = host.lend_on(lend).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_without_the_extension_is_refused_in_words() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a", "1")]);
    let lend = Create {
        peer_url: format!("{}/bare", remote.url),
        ..create(&remote, &dir, "x")
    };
    let error = host.delegations.create(lend).await.unwrap_err();
    assert!(
        matches!(error, DelegationError::Peer(PeerError::NoExtension { .. })),
        "{error}"
    );
    assert!(
        error.to_string().contains("does not take workspaces"),
        "{error}"
    );
    assert_eq!(host.delegations.list().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_in_a_folder_stays_at_home_and_everything_else_is_lent() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a.txt", "one")]);
    let made = std::process::Command::new("mkfifo")
        .arg(dir.join("pipe"))
        .status();
    assert!(made.unwrap().success());
    let view = host
        .lend_on(create(&remote, &dir, "list\nwrite a.txt two"))
        .await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(
        (read(&dir, "a.txt"), dir.join("pipe").exists()),
        ("two".to_owned(), true)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_came_while_it_waited_for_its_folder_is_not_lent() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a.txt", "one")]);
    let first = host.lend(create(&remote, &dir, "wait")).await;
    remote.saw("waiting").await;
    let second = host.lend(create(&remote, &dir, "cat .env")).await;
    std::fs::write(dir.join(".env"), "KEY=1").unwrap();
    host.delegations.cancel(&first, "enough").await.unwrap();
    let view = host.ended(&second).await;
    let failure = view.ending.as_ref().and_then(Ending::failure).unwrap();
    assert_eq!(failure.code, Code::Declined, "{view:?}");
    assert!(failure.message.contains(".env"), "{failure:?}");
    remote.left_nothing(&second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_not_pruned_and_can_be_applied_afterwards() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a.txt", "one")]);
    let staged = Create {
        keeping: crate::Keeping::Staged,
        ..create(&remote, &dir, "write a.txt two")
    };
    let id = host.lend(staged).await;
    host.ended(&id).await;
    assert_eq!(host.delegations.prune().await.unwrap(), 0);
    host.delegations.apply_snapshot(&id).await.unwrap();
    assert_eq!(read(&dir, "a.txt"), "two");
    host.delegations.undo(&id).await.unwrap();
    assert_eq!(read(&dir, "a.txt"), "one");
    assert_eq!(host.delegations.prune().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_are_applied_and_discarded_at_once_are_one_of_both() {
    let (host, remote) = two().await;
    for _ in 0..5 {
        let dir = host.workspace(&[("a.txt", "one")]);
        let staged = Create {
            keeping: crate::Keeping::Staged,
            ..create(&remote, &dir, "write a.txt two\nwrite b/c two")
        };
        let id = host.lend_on(staged).await.id;
        let (applied, discarded) = tokio::join!(
            host.delegations.apply_snapshot(&id),
            host.delegations.discard_snapshot(&id)
        );
        assert!(
            applied.is_ok() != discarded.is_ok(),
            "{applied:?} {discarded:?}"
        );
        let expected = if applied.is_ok() { "two" } else { "one" };
        assert_eq!(read(&dir, "a.txt"), expected);
    }
    assert_eq!(
        names(&host.home.path().join("node/lending/snapshots")),
        [""; 0]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn audits_are_kept_for_their_time_and_those_of_what_waits_beyond_it() {
    let remote = Scene::new(|_| {}).await;
    for (age, left) in [(Duration::ZERO, 1), (Duration::from_secs(3600), 2)] {
        let host = match age.is_zero() {
            true => Scene::new(|config| config.audit_age = Duration::ZERO).await,
            false => Scene::new(|_| {}).await,
        };
        let dir = host.workspace(&[("a.txt", "one")]);
        for keeping in [crate::Keeping::Auto, crate::Keeping::Staged] {
            let lend = Create {
                keeping,
                ..create(&remote, &dir, "write a.txt two")
            };
            let id = host.lend_on(lend).await.id;
            let forgotten = async {
                while host.delegations.node.host(&host.id(&id)).is_some() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(PATIENCE, forgotten).await.unwrap();
            std::fs::write(dir.join("a.txt"), "one").unwrap();
        }
        host.delegations.forget_old_audits().await.unwrap();
        let audits = names(&host.home.path().join("node/lending/audits"));
        assert_eq!(audits.len(), left, "{age:?}: {audits:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_node_itself_is_lent() {
    let of_the_node = |config: &mut crate::AwcpConfig| {
        config.node_home = config.home.parent().map(Into::into);
        config.lendable = vec![config.home.with_file_name("instances")];
    };
    let (host, remote) = (Scene::new(of_the_node).await, Scene::new(|_| {}).await);
    let home = host.home.path().join("node");
    for dir in [
        home.join("lending"),
        home.clone(),
        host.home.path().into(),
        home.join("instances"),
    ] {
        let refused = host.delegations.create(create(&remote, &dir, "list")).await;
        let words = refused.unwrap_err().to_string();
        assert!(
            words.contains("belongs to this node"),
            "{}: {words}",
            dir.display()
        );
    }
    let workspace = home.join("instances/agent");
    std::fs::create_dir_all(&workspace).unwrap();
    let view = host.lend_on(create(&remote, &workspace, "list")).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
}
