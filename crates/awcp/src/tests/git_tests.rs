//! Lending over the git plane: a clone goes, a branch comes back, and several at once are merged.

use std::{path::Path, process::Command};

use domain::delegation::{Access, Code, Ending, Failure, Phase, Transport};
use serde_json::json;

use super::scene::{HERE, PATIENCE, Scene, create, names, read};
use crate::{Create, DelegationError, DelegationView, Keeping};

async fn two() -> (Scene, Scene) {
    (Scene::new(|_| {}).await, Scene::new(|_| {}).await)
}

/// Git as a user runs it, without the settings of this machine.
fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=u", "-c", "user.email=u@localhost"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {said} {complaint}");
    said
}

/// A repository with these files in its only commit.
fn repository(scene: &Scene, files: &[(&str, &str)]) -> std::path::PathBuf {
    let dir = scene.workspace(files);
    git(&dir, &["init", "-q", "-b", "main"]);
    git(&dir, &["add", "-A"]);
    git(&dir, &["commit", "-q", "-m", "first"]);
    dir
}

fn by_git(to: &Scene, dir: &Path, prompt: &str) -> Create {
    Create {
        transports: vec![Transport::Git],
        ..create(to, dir, prompt)
    }
}

fn branch(view: &DelegationView) -> String {
    format!("agentcraft/{}", view.id)
}

fn failure(view: &DelegationView) -> Failure {
    let failure = view.ending.as_ref().and_then(Ending::failure);
    failure.unwrap_or_else(|| panic!("{view:?}")).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_comes_back_and_is_merged_with_what_was_not_committed() {
    let (host, remote) = two().await;
    let files = [
        ("a.txt", "1\n2\n3\n4\n5\n"),
        ("gone/only.txt", "g"),
        (".gitignore", "build\n"),
    ];
    let dir = repository(&host, &files);
    let first = git(&dir, &["rev-parse", "HEAD"]);
    std::fs::write(dir.join("draft.txt"), "not committed\n").unwrap();
    std::fs::create_dir(dir.join("build")).unwrap();
    std::fs::write(dir.join("build/out"), "stays").unwrap();
    let prompt = "list\ncat draft.txt\nwrite a.txt 1\nremove gone/only.txt\nwrite new/x.txt n\n\
                  git add -A\ngit commit -q -m mine\nwrite later.txt l\nwrite build other\nlink to a.txt\ndone";
    let view = host.lend_on(by_git(&remote, &dir, prompt)).await;
    let Some(Ending::Completed(report)) = &view.ending else {
        panic!("{view:?}")
    };
    let list = ".git .gitignore a.txt draft.txt gone";
    assert_eq!(report.summary, format!("{list}not committed\ndone"));
    assert_eq!(view.agreement.as_ref().unwrap().transport, Transport::Git);
    assert_eq!(read(&dir, "a.txt"), "1");
    assert_eq!(read(&dir, "new/x.txt"), "n");
    assert_eq!(read(&dir, "later.txt"), "l");
    assert_eq!(read(&dir, "build/out"), "stays");
    assert_eq!(
        std::fs::read_link(dir.join("to")).unwrap(),
        Path::new("a.txt")
    );
    assert!(!dir.join("gone").exists());

    // The branch follows what was there, and what was there is as it was.
    let log = git(&dir, &["log", "--format=%s", &branch(&view)]);
    assert_eq!(log, "What was not committed\nmine\nWhat was lent\nfirst");
    assert_eq!(git(&dir, &["rev-parse", "HEAD"]), first);
    assert_eq!(git(&dir, &["symbolic-ref", "HEAD"]), "refs/heads/main");
    git(&dir, &["fsck", "--strict"]);

    let audit = host.delegations.audit(&view.id).await.unwrap();
    let told: Vec<_> = audit.changes.iter().map(|it| it.path.as_str()).collect();
    let expected = ["a.txt", "gone/only.txt", "later.txt", "new/x.txt", "to"];
    assert_eq!(told, expected);
    host.gave_back();
    remote.left_nothing(&view.id).await;
    host.delegations.undo(&view.id).await.unwrap();
    assert_eq!(read(&dir, "a.txt"), files[0].1);
    assert_eq!(read(&dir, "gone/only.txt"), "g");
    assert_eq!(read(&dir, "draft.txt"), "not committed\n");
    assert!(!dir.join("new").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_is_lent_as_one_if_both_sides_can_and_anything_else_is_not() {
    let (host, remote) = two().await;
    let any = |dir: &Path| Create {
        transports: Vec::new(),
        ..create(&remote, dir, "write b.txt b")
    };
    let transport = |view: &DelegationView| view.agreement.as_ref().unwrap().transport;
    let dir = repository(&host, &[("a.txt", "a")]);
    let view = host.lend_on(any(&dir)).await;
    assert_eq!(
        (view.state, transport(&view)),
        (Phase::Completed, Transport::Git)
    );

    // A repository in a repository, or none at all, travels packed.
    let nested = repository(&host, &[("a.txt", "a"), ("sub/b.txt", "b")]);
    git(&nested.join("sub"), &["init", "-q"]);
    let plain = host.workspace(&[("a.txt", "a")]);
    for dir in [nested, plain] {
        let view = host.lend_on(any(&dir)).await;
        assert_eq!(
            (view.state, transport(&view)),
            (Phase::Completed, Transport::Archive)
        );
        let refused = host.delegations.create(by_git(&remote, &dir, "list")).await;
        let Err(DelegationError::Refused(failure)) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(failure.code, Code::DepMissing);
        assert!(failure.message.contains("repository"), "{failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_without_commits_and_a_linked_work_tree_are_lent_too() {
    let (host, remote) = two().await;
    let unborn = host.workspace(&[("a.txt", "a\n")]);
    git(&unborn, &["init", "-q"]);
    let main = repository(&host, &[("a.txt", "a\n")]);
    let linked = main.with_extension("linked");
    git(&main, &["worktree", "add", "-q", linked.to_str().unwrap()]);
    for dir in [unborn, linked] {
        let view = host
            .lend_on(by_git(&remote, &dir, "write a.txt changed"))
            .await;
        assert_eq!(view.state, Phase::Completed, "{view:?}");
        assert_eq!(read(&dir, "a.txt"), "changed");
        let name = format!("{}:a.txt", branch(&view));
        assert_eq!(git(&dir, &["show", &name]), "changed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lent_for_reading_brings_nothing_back() {
    let (host, remote) = two().await;
    let dir = repository(&host, &[("a.txt", "a")]);
    let lend = Create {
        access: Access::Ro,
        ..by_git(&remote, &dir, "write a.txt changed")
    };
    let view = host.lend_on(lend).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(read(&dir, "a.txt"), "a");
    assert_eq!(git(&dir, &["branch", "--format=%(refname:short)"]), "main");
}

/// Lends the same repository twice, and lets both work at once.
async fn at_once(
    host: &Scene,
    remote: &Scene,
    dir: &Path,
    prompts: [&str; 2],
) -> [DelegationView; 2] {
    let mut ids = Vec::new();
    for prompt in prompts {
        let prompt = format!("pause\n{prompt}");
        ids.push(host.lend(by_git(remote, dir, &prompt)).await);
    }
    let mut seen = remote.seen.subscribe();
    let both = seen.wait_for(|seen| seen.iter().filter(|it| *it == "pausing").count() == 2);
    tokio::time::timeout(PATIENCE, both).await.unwrap().unwrap();
    remote.seen.send_modify(|seen| seen.push("go".to_owned()));
    [host.ended(&ids[0]).await, host.ended(&ids[1]).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_work_on_one_repository_at_once_and_both_are_merged() {
    let (host, remote) = two().await;
    let lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let dir = repository(&host, &[("a.txt", lines), ("b.txt", "b")]);
    let top = "git mv a.txt z.txt\ngit mv z.txt a.txt\nwrite one.txt 1";
    let views = at_once(
        &host,
        &remote,
        &dir,
        [top, "write two.txt 2\nwrite b.txt two"],
    )
    .await;
    for view in &views {
        assert_eq!(view.state, Phase::Completed, "{view:?}");
    }
    assert_eq!(
        names(&dir),
        [".git", "a.txt", "b.txt", "one.txt", "two.txt"]
    );
    assert_eq!(read(&dir, "b.txt"), "two");
    // Each audit tells of its own, and each is taken back alone.
    let first = host.delegations.audit(&views[0].id).await.unwrap();
    let told: Vec<_> = first.changes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(told, ["one.txt"]);
    host.delegations.undo(&views[1].id).await.unwrap();
    assert_eq!(names(&dir), [".git", "a.txt", "b.txt", "one.txt"]);
    assert_eq!(read(&dir, "b.txt"), "b");
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_go_together_is_named_and_stays_on_its_branch() {
    let (host, remote) = two().await;
    let dir = repository(&host, &[("a.txt", "a\n"), ("b.txt", "b\n")]);
    let prompts = ["write a.txt one", "write a.txt two\nwrite b.txt two"];
    let views = at_once(&host, &remote, &dir, prompts).await;
    let (merged, left) = match views[0].state {
        Phase::Completed => (&views[0], &views[1]),
        _ => (&views[1], &views[0]),
    };
    assert_eq!(merged.state, Phase::Completed, "{merged:?}");
    let failure = failure(left);
    assert_eq!(failure.code, Code::TaskFailed);
    let branch = branch(left);
    assert!(failure.message.contains("a.txt"), "{failure:?}");
    assert!(!failure.message.contains("b.txt"), "{failure:?}");
    assert!(failure.message.contains(&branch), "{failure:?}");
    assert!(
        failure.hint.contains(&format!("git merge {branch}")),
        "{failure:?}"
    );
    // All or nothing, and nothing of the work is lost.
    let winner = git(&dir, &["show", &format!("{}:a.txt", self::branch(merged))]);
    assert_eq!(read(&dir, "a.txt"), winner);
    let names = git(&dir, &["diff", "--name-only", "main", &branch]);
    assert!(names.starts_with("a.txt"), "{names}");
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_at_home_meanwhile_is_merged() {
    let (host, remote) = two().await;
    let lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let dir = repository(&host, &[("a.txt", lines), ("b.txt", "b")]);
    let id = host
        .lend(by_git(
            &remote,
            &dir,
            "pause\nwrite b.txt remote\nrun a.txt",
        ))
        .await;
    remote.saw("pausing").await;
    std::fs::write(dir.join("a.txt"), lines.replace('5', "five")).unwrap();
    std::fs::write(dir.join("own.txt"), "own").unwrap();
    remote.seen.send_modify(|seen| seen.push("go".to_owned()));
    let view = host.ended(&id).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(read(&dir, "a.txt"), lines.replace('5', "five"));
    assert_eq!(read(&dir, "b.txt"), "remote");
    assert_eq!(read(&dir, "own.txt"), "own");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(dir.join("a.txt")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o111, 0o111);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_waits_until_it_is_applied_or_discarded() {
    let (host, remote) = two().await;
    let dir = repository(&host, &[("a.txt", "a\n")]);
    let staged = |prompt: &str| Create {
        keeping: Keeping::Staged,
        ..by_git(&remote, &dir, prompt)
    };
    let view = host.lend_on(staged("write a.txt new")).await;
    assert_eq!(view.snapshot.as_ref().unwrap().changes, 1, "{view:?}");
    assert_eq!(read(&dir, "a.txt"), "a\n");
    assert_eq!(
        git(&dir, &["show", &format!("{}:a.txt", branch(&view))]),
        "new"
    );
    let audit = host.delegations.audit(&view.id).await.unwrap();
    assert!(audit.diff.contains("+new"), "{}", audit.diff);
    host.delegations.apply_snapshot(&view.id).await.unwrap();
    assert_eq!(read(&dir, "a.txt"), "new");
    host.delegations.undo(&view.id).await.unwrap();
    assert_eq!(read(&dir, "a.txt"), "a\n");

    let view = host.lend_on(staged("write a.txt other")).await;
    host.delegations.discard_snapshot(&view.id).await.unwrap();
    assert_eq!(read(&dir, "a.txt"), "a\n");
    let left = git(&dir, &["branch", "--list", &branch(&view)]);
    assert_eq!(left, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_the_other_side_put_into_a_repository_is_run() {
    let (host, remote) = two().await;
    let dir = repository(&host, &[("a.txt", "a\n")]);
    let trap = host.home.path().join("trap");
    let spring = format!("#!/bin/sh\ntouch {}\n", trap.display());
    let hook = dir.join(".git/hooks/reference-transaction");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, &spring).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Settings that name programs, at home and in the clone.
    let touch = format!("touch {}", trap.display());
    let settings = [
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.smudge",
        "core.alternateRefsCommand",
        "core.sshCommand",
        "diff.external",
        "gpg.program",
        "core.pager",
        "merge.evil.driver",
        "uploadpack.packObjectsHook",
    ];
    let config: String = settings
        .map(|name| {
            let (section, key) = name.rsplit_once('.').unwrap();
            let section = match section.split_once('.') {
                Some((section, sub)) => format!("{section} \"{sub}\""),
                None => section.to_owned(),
            };
            format!("[{section}]\n{key} = {touch}\n")
        })
        .concat();
    let path = dir.join(".git/config");
    let before = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{before}{config}[commit]\ngpgSign = true\n")).unwrap();
    let planted = config.replace('\n', "\nplant .git/config ");
    let prompt = format!(
        "write a.txt b\nwrite .gitattributes * filter=evil merge=evil diff=evil\n\
         plant .git/config {planted}\nhook .git/hooks/pre-commit {touch}\nhook .git/hooks/post-index-change {touch}"
    );
    let view = host.lend_on(by_git(&remote, &dir, &prompt)).await;
    assert_eq!(view.state, Phase::Completed, "{view:?}");
    assert_eq!(read(&dir, "a.txt"), "b");
    host.delegations.audit(&view.id).await.unwrap();
    host.delegations.undo(&view.id).await.unwrap();
    assert_eq!(read(&dir, "a.txt"), "a\n");
    assert!(!trap.exists(), "something was run");
}

/// Makes a commit in the repository in a folder.
type Forge = fn(&Path) -> String;

/// A bundle of what `work` makes of what was lent.
fn bundle_of(clone: &Path, forged: &Path, work: impl Fn(&Path) -> String) -> Vec<u8> {
    std::fs::create_dir(forged).unwrap();
    git(forged, &["init", "-q"]);
    let lent = git(clone, &["rev-parse", "HEAD"]);
    std::fs::write(forged.join(".git/shallow"), format!("{lent}\n")).unwrap();
    let from = clone.to_str().unwrap();
    let fetch = [
        "fetch",
        "-q",
        "--update-shallow",
        from,
        "HEAD:refs/heads/lent",
    ];
    git(forged, &fetch);
    let commit = work(forged);
    git(forged, &["update-ref", "refs/heads/work", &commit]);
    let pack = ["bundle", "create", "-q", "b", "refs/heads/work", "^lent"];
    git(forged, &pack);
    std::fs::read(forged.join("b")).unwrap()
}

/// Lends, and sends this bundle home in the remote's place.
async fn forge(
    host: &Scene,
    remote: &Scene,
    dir: &Path,
    work: impl Fn(&Path) -> String,
) -> Failure {
    let create = Create {
        quota_bytes: Some(1000),
        ..by_git(remote, dir, "wait")
    };
    let id = host.lend(create).await;
    remote.saw("waiting").await;
    let known = host.id(&id);
    let clone = remote.home.path().join("mounts").join(&id);
    let bundle = bundle_of(&clone, &host.home.path().join(format!("forged-{id}")), work);
    let handle = host.delegations.node.host(&known).unwrap();
    let secret = handle.gate.lock().secret.clone().unwrap();
    let url = format!("{}/awcp/{id}/delta", host.url);
    let request = reqwest::Client::new().post(url).bearer_auth(&secret);
    let sent = request.body(bundle).send().await;
    assert!(sent.unwrap().status().is_success());
    let report = domain::delegation::Report {
        summary: "forged".to_owned(),
        highlights: Vec::new(),
        notes: None,
    };
    let mut data = crate::convert::done(&known, &report).to_data();
    data["awcp_secret"] = json!(secret);
    let caller = engine::Caller::owner();
    let said = host.delegations.handle_message(&data, &caller, HERE).await;
    assert_eq!(said.unwrap()["ok"], true);
    let view = host.ended(&id).await;
    let over = remote.delegations.cancel(&id, "the test is over").await;
    over.unwrap();
    remote.seen.send_modify(Vec::clear);
    assert_eq!(read(dir, "a.txt"), "a\n");
    assert_eq!(names(dir), [".git", "a.txt"]);
    failure(&view)
}

/// A commit on top of what was lent, with one more entry in its tree.
fn with_entry(forged: &Path, entry: &str) -> String {
    let tree = git(forged, &["ls-tree", "lent"]);
    let tree = tree_of(forged, &format!("{tree}\n{entry}\n"));
    git(
        forged,
        &["commit-tree", "-m", "forged", "-p", "lent", &tree],
    )
}

fn tree_of(forged: &Path, entries: &str) -> String {
    std::fs::write(forged.join("list"), entries).unwrap();
    let mut shell = Command::new("sh");
    let output = shell
        .args(["-c", "git mktree --missing < list"])
        .current_dir(forged)
        .output();
    let tree = String::from_utf8(output.unwrap().stdout).unwrap();
    tree.trim().to_owned()
}

fn blob(forged: &Path, text: &str) -> String {
    std::fs::write(forged.join("blob"), text).unwrap();
    git(forged, &["hash-object", "-w", "blob"])
}

fn another_root(forged: &Path) -> String {
    let tree = git(forged, &["rev-parse", "lent^{tree}"]);
    git(forged, &["commit-tree", "-m", "root", &tree])
}

fn a_repository_in_it(forged: &Path) -> String {
    let commit = git(forged, &["rev-parse", "lent"]);
    with_entry(forged, &format!("160000 commit {commit}\tsub"))
}

fn a_link_that_leads_outside(forged: &Path) -> String {
    let target = blob(forged, "../../etc/passwd");
    with_entry(forged, &format!("120000 blob {target}\tl"))
}

fn a_folder_of_gits_own(forged: &Path) -> String {
    let hook = blob(forged, "#!/bin/sh\n");
    let tree = tree_of(forged, &format!("100755 blob {hook}\tpost-checkout\n"));
    with_entry(forged, &format!("040000 tree {tree}\t.git"))
}

fn a_way_up(forged: &Path) -> String {
    let text = blob(forged, "x");
    with_entry(forged, &format!("100644 blob {text}\t.."))
}

fn more_than_the_quota(forged: &Path) -> String {
    let text = blob(forged, &"x".repeat(2000));
    with_entry(forged, &format!("100644 blob {text}\tlarge"))
}

fn modules_whose_names_are_paths(forged: &Path) -> String {
    let text = "[submodule \"../../evil\"]\npath = sub\nurl = --upload-pack=touch\n";
    let text = blob(forged, text);
    with_entry(forged, &format!("100644 blob {text}\t.gitmodules"))
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_branches_are_refused_in_words_and_change_nothing() {
    let (host, remote) = two().await;
    let dir = repository(&host, &[("a.txt", "a\n")]);
    let cases: [(Forge, &str); 7] = [
        (another_root, "did not grow out of"),
        (a_repository_in_it, "another repository"),
        (a_link_that_leads_outside, "leads outside"),
        (a_folder_of_gits_own, "not taken"),
        (a_way_up, "not taken"),
        (more_than_the_quota, "quota"),
        (modules_whose_names_are_paths, "not taken"),
    ];
    for (work, words) in cases {
        let failure = forge(&host, &remote, &dir, work).await;
        assert_eq!(failure.code, Code::TaskFailed, "{words}: {failure:?}");
        assert!(failure.message.contains(words), "{words}: {failure:?}");
    }
    host.gave_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_do_not_hang_together_stay_behind_and_the_files_come_home() {
    let (host, remote) = two().await;
    let dir = repository(&host, &[("a.txt", "a\n")]);
    // A history of its own, another store of objects, and a name that is none.
    for spoil in [
        "git checkout -q --orphan other\ngit commit -q -m other",
        "write .git/objects/info/alternates /nonexistent",
        "write .git/HEAD ref: ../../outside",
        "write .git/HEAD nothing",
    ] {
        let committed = "write a.txt b\ngit add -A\ngit commit -q -m one";
        let prompt = format!("{committed}\n{spoil}\nwrite b.txt x");
        let view = host.lend_on(by_git(&remote, &dir, &prompt)).await;
        assert_eq!(view.state, Phase::Completed, "{spoil}: {view:?}");
        assert_eq!(read(&dir, "a.txt"), "b", "{spoil}");
        assert!(dir.join("b.txt").exists(), "{spoil}");
        host.delegations.undo(&view.id).await.unwrap();
        assert_eq!(names(&dir), [".git", "a.txt"], "{spoil}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_is_in_the_journals_of_both_sides() {
    let (host, remote) = two().await;
    let dir = host.workspace(&[("a.txt", "a")]);
    let trace = domain::Trace::new(0x4bf9_2f35);
    let lend = Create {
        trace: Some(trace),
        ..create(&remote, &dir, "write a.txt b")
    };
    let view = host.lend_on(lend).await;
    remote.left_nothing(&view.id).await;
    let id = host.id(&view.id);
    let lent = host.delegations.host_record(&view.id).await.unwrap();
    let taken = remote.delegations.taken_record(&id).await.unwrap();
    assert_eq!((lent.trace, taken.trace), (Some(trace), Some(trace)));
}
