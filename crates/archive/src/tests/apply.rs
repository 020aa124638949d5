//! Changes come home whole or not at all, and nothing that was changed at home is overwritten.

use std::{cell::Cell, fs, path::Path};

use proptest::prelude::*;

use super::scene::*;
use crate::{
    apply::{Go, run},
    *,
};

const LIMITS: fn() -> Limits = Limits::default;

/// A home, and a copy of it somewhere else.
fn lend(scene: &Scene) -> Manifest {
    let mut archive = Vec::new();
    pack(&scene.open("home"), &everything, &LIMITS(), &mut archive).unwrap();
    let away = scene.folder("away");
    unpack(archive.as_slice(), None, &away, &LIMITS())
        .unwrap()
        .manifest
}

/// Carries what changed away from home, as an archive, to a folder beside home.
fn carry(scene: &Scene, before: &Manifest) -> (Delta, Folder) {
    let delta = Delta::between(before, &scene.manifest("away"));
    let mut archive = Vec::new();
    let away = scene.open("away");
    let (checksum, _) = pack_delta(&away, &delta, &LIMITS(), &mut archive).unwrap();
    let stage = scene.folder("stage");
    let (carried, content) =
        unpack_delta(archive.as_slice(), Some(checksum), &stage, &LIMITS()).unwrap();
    assert_eq!(carried, delta);
    (carried, content)
}

fn scene_with_home() -> Scene {
    let scene = Scene::new();
    scene.folder("home");
    garden(&scene.path("home"));
    scene
}

/// Enough for that work, and no more: it is done again for every step.
fn small_garden(root: &Path) {
    for name in [
        "readme.md",
        "secret.txt",
        "nothing",
        "large",
        "long/a",
        "deep/b/c",
    ] {
        file(root, name, name.as_bytes(), 0o644);
    }
    file(root, "bin/run.sh", b"#!/bin/sh\n", 0o755);
    link(root, "to-dir", "bin");
    fs::create_dir(root.join("empty")).unwrap();
}

/// Work of every kind.
fn work(root: &Path) {
    file(root, "readme.md", b"changed\n", 0o644);
    file(root, "added/deep/file", b"new", 0o600);
    fs::create_dir(root.join("empty/another")).unwrap();
    fs::remove_file(root.join("secret.txt")).unwrap();
    fs::remove_dir_all(root.join("deep")).unwrap();
    fs::remove_file(root.join("to-dir")).unwrap();
    link(root, "to-dir", "empty");
    // A file becomes a folder, a folder a file, a file a link.
    fs::remove_file(root.join("nothing")).unwrap();
    file(root, "nothing/something", b"s", 0o644);
    fs::remove_dir_all(root.join("long")).unwrap();
    file(root, "long", b"short", 0o644);
    fs::remove_file(root.join("large")).unwrap();
    link(root, "large", "readme.md");
    file(root, "bin/run.sh", b"#!/bin/sh\n", 0o644);
}

#[test]
fn work_of_every_kind_comes_home() {
    let scene = scene_with_home();
    let before = lend(&scene);
    work(&scene.path("away"));
    let (delta, content) = carry(&scene, &before);
    let home = scene.open("home");
    let applied = apply(
        &home,
        &scene.journal("home"),
        &delta,
        &content,
        &everything,
        &LIMITS(),
    )
    .unwrap();
    assert_eq!(
        timeless(scene.manifest("home")),
        timeless(scene.manifest("away"))
    );
    assert!(!scene.path("home").join(STAGE_NAME).exists());
    let names = |paths: &[EntryPath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(names(&applied.written).contains(&"added/deep/file".to_owned()));
    assert!(names(&applied.removed).contains(&"secret.txt".to_owned()));
    // A second time there is nothing to do.
    let again = apply(
        &home,
        &scene.journal("home"),
        &delta,
        &content,
        &everything,
        &LIMITS(),
    )
    .unwrap();
    assert_eq!(again, Applied::default());
    scene.assert_contained(&["home", "away", "stage"]);
}

#[test]
fn what_was_changed_at_home_is_reported_and_nothing_is_touched() {
    let scene = scene_with_home();
    let before = lend(&scene);
    work(&scene.path("away"));
    let (delta, content) = carry(&scene, &before);
    let root = scene.path("home");
    file(&root, "readme.md", b"mine\n", 0o644);
    fs::remove_file(root.join("bin/run.sh")).unwrap();
    file(&root, "secret.txt", b"changed", 0o600);
    file(&root, "added/deep/file", b"mine", 0o644);
    file(&root, "long/new at home", b"n", 0o644);
    file(&root, "elsewhere", b"not in the way", 0o644);
    let mine = scene.manifest("home");
    let error = apply(
        &scene.open("home"),
        &scene.journal("home"),
        &delta,
        &content,
        &everything,
        &LIMITS(),
    )
    .unwrap_err();
    let ApplyError::Conflicts(conflicts) = error else {
        panic!("{error}");
    };
    let found: Vec<(String, &str)> = conflicts
        .iter()
        .map(|conflict| (conflict.path.to_string(), conflict.why))
        .collect();
    let expected = [
        ("added/deep/file", "it was made at home too"),
        ("bin/run.sh", "it was removed at home"),
        ("long", "something new is in it at home"),
        ("readme.md", "it was changed at home"),
        ("secret.txt", "it was changed at home"),
    ];
    assert_eq!(found, expected.map(|(path, why)| (path.to_owned(), why)));
    assert_eq!(scene.manifest("home"), mine);
    assert!(!root.join(STAGE_NAME).exists());
}

#[test]
fn changes_that_do_not_meet_are_merged() {
    let scene = scene_with_home();
    let before = lend(&scene);
    file(&scene.path("away"), "readme.md", b"theirs\n", 0o644);
    let (delta, content) = carry(&scene, &before);
    file(&scene.path("home"), "secret.txt", b"mine", 0o600);
    file(&scene.path("home"), "new", b"mine", 0o600);
    apply(
        &scene.open("home"),
        &scene.journal("home"),
        &delta,
        &content,
        &everything,
        &LIMITS(),
    )
    .unwrap();
    let read = |name: &str| fs::read_to_string(scene.path("home").join(name)).unwrap();
    assert_eq!(
        [read("readme.md"), read("secret.txt"), read("new")],
        ["theirs\n", "mine", "mine"]
    );
}

#[test]
fn a_crash_at_any_step_is_taken_back() {
    let mut died_at = 0;
    loop {
        let scene = Scene::new();
        scene.folder("home");
        small_garden(&scene.path("home"));
        let before = lend(&scene);
        work(&scene.path("away"));
        let (delta, content) = carry(&scene, &before);
        let home = scene.open("home");
        let untouched = scene.manifest("home");
        let died = Cell::new(false);
        let die = |step: usize| {
            if step == died_at {
                died.set(true);
                Go::Die
            } else {
                Go::On
            }
        };
        run(
            &home,
            &scene.journal("home"),
            &delta,
            &content,
            &everything,
            &LIMITS(),
            &die,
        )
        .unwrap();
        if !died.get() {
            break;
        }
        assert!(recover(&home, &scene.journal("home")).unwrap());
        assert_eq!(
            timeless(scene.manifest("home")),
            timeless(untouched),
            "step {died_at}"
        );
        assert!(!recover(&home, &scene.journal("home")).unwrap());
        apply(
            &home,
            &scene.journal("home"),
            &delta,
            &content,
            &everything,
            &LIMITS(),
        )
        .unwrap();
        assert_eq!(
            timeless(scene.manifest("home")),
            timeless(scene.manifest("away"))
        );
        died_at += 1;
    }
    assert!(died_at > 15, "{died_at}");
}

#[test]
fn a_stage_that_came_with_the_tree_is_neither_believed_nor_removed() {
    let scene = scene_with_home();
    let before = lend(&scene);
    work(&scene.path("away"));
    let (delta, content) = carry(&scene, &before);
    let home = scene.path("home");
    let text = r#"[{"Remove":{"path":".git/hooks/post-commit","slot":1}}]"#;
    for name in [STAGE_NAME.to_owned(), STAGE_NAME.to_uppercase()] {
        file(&home, format!("{name}/journal"), text.as_bytes(), 0o644);
        file(&home, format!("{name}/old/1"), b"#!/bin/sh\n", 0o755);
        file(&home, format!("{name}/new/keep"), b"", 0o644);
        fs::create_dir_all(home.join(".git/hooks")).unwrap();
        let opened = scene.open("home");
        let journal = scene.journal("home");
        for refused in [
            recover(&opened, &journal).unwrap_err().to_string(),
            apply(&opened, &journal, &delta, &content, &everything, &LIMITS())
                .unwrap_err()
                .to_string(),
        ] {
            assert!(refused.contains("did not make"), "{refused}");
        }
        assert!(!home.join(".git/hooks/post-commit").exists());
        assert!(home.join(&name).join("old/1").exists(), "{name}");
        fs::remove_dir_all(home.join(&name)).unwrap();
    }
}

#[test]
fn a_stage_in_the_place_of_ours_is_not_believed() {
    let scene = scene_with_home();
    let before = lend(&scene);
    work(&scene.path("away"));
    let (delta, content) = carry(&scene, &before);
    let (home, journal) = (scene.open("home"), scene.journal("home"));
    let die = |step: usize| match step {
        3 => Go::Die,
        _ => Go::On,
    };
    run(
        &home,
        &journal,
        &delta,
        &content,
        &everything,
        &LIMITS(),
        &die,
    )
    .unwrap();
    let stage = scene.path("home").join(STAGE_NAME);
    fs::rename(&stage, scene.path("home/moved")).unwrap();
    file(&stage, "old/1", b"planted", 0o755);
    let error = recover(&home, &journal).unwrap_err();
    assert!(error.to_string().contains("did not make"), "{error}");
    fs::remove_dir_all(&stage).unwrap();
    fs::rename(scene.path("home/moved"), &stage).unwrap();
    let folder = Folder::open(&scene.journals()).unwrap();
    assert_eq!(Journal::interrupted(&folder).unwrap(), [scene.path("home")]);
    assert!(recover(&home, &journal).unwrap());
    assert_eq!(
        Journal::interrupted(&folder).unwrap(),
        [] as [std::path::PathBuf; 0]
    );
}

#[test]
fn a_change_at_home_in_the_last_moment_wins_and_all_is_taken_back() {
    // Just before a step somebody writes to what the step is about, or puts something in its way.
    for (name, at_home) in [
        ("readme.md", "readme.md"),
        ("secret.txt", "secret.txt"),
        ("added", "added"),
        ("long", "long/late"),
    ] {
        let scene = scene_with_home();
        let before = lend(&scene);
        work(&scene.path("away"));
        let (delta, content) = carry(&scene, &before);
        let root = scene.path("home");
        let untouched = scene.manifest("home");
        let late = |step: usize| {
            if step == 0 {
                file(&root, at_home, b"late and longer than before", 0o644);
            }
            Go::On
        };
        let home = scene.open("home");
        let result = run(
            &home,
            &scene.journal("home"),
            &delta,
            &content,
            &everything,
            &LIMITS(),
            &late,
        );
        let Err(ApplyError::Conflicts(conflicts)) = result else {
            panic!("{name}: {result:?}");
        };
        assert_eq!(conflicts.len(), 1, "{name}");
        assert_eq!(conflicts[0].why, "it was changed at home just now");
        let late = fs::read_to_string(root.join(at_home)).unwrap();
        assert_eq!(late, "late and longer than before", "{name}");
        fs::remove_file(root.join(at_home)).unwrap();
        let mut left = timeless(scene.manifest("home"));
        let mut right = timeless(untouched);
        for manifest in [&mut left, &mut right] {
            manifest
                .entries
                .retain(|path, _| path.to_string() != at_home);
        }
        assert_eq!(left, right, "{name}");
    }
}

#[test]
fn what_was_not_lent_cannot_be_changed() {
    let scene = scene_with_home();
    let before = lend(&scene);
    file(
        &scene.path("away"),
        ".git/hooks/post-checkout",
        b"#!/bin/sh\n",
        0o755,
    );
    let (delta, content) = carry(&scene, &before);
    let ignore = |path: &EntryPath, _: Kind| path.as_bytes().eq_ignore_ascii_case(b".git");
    let error = apply(
        &scene.open("home"),
        &scene.journal("home"),
        &delta,
        &content,
        &ignore,
        &LIMITS(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the archive is refused: .git is not part of what was lent"
    );
    assert!(!scene.path("home/.git").exists());
}

#[test]
fn a_delta_that_lies_or_leads_out_is_refused() {
    let scene = scene_with_home();
    let before = lend(&scene);
    work(&scene.path("away"));
    let (delta, content) = carry(&scene, &before);
    let mine = scene.manifest("home");
    let home = scene.open("home");
    // Content that is not what the list says.
    fs::write(scene.path("stage/workspace/readme.md"), "swapped").unwrap();
    let error = apply(
        &home,
        &scene.journal("home"),
        &delta,
        &content,
        &everything,
        &LIMITS(),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("not what the list of changes says"),
        "{error}"
    );
    assert_eq!(timeless(scene.manifest("home")), timeless(mine));
    // A link out, in the list alone.
    let text = r#"{"evil":{"change":"added","after":{"mode":511,"mtime":{"secs":0,"nanos":0},"kind":"link","target":"../outside"}}}"#;
    let evil: Delta = serde_json::from_str(text).unwrap();
    let error = apply(
        &home,
        &scene.journal("home"),
        &evil,
        &content,
        &everything,
        &LIMITS(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("evil links to"), "{error}");
    // A path out does not even parse.
    assert!(serde_json::from_str::<Delta>(&text.replace("evil", "../evil")).is_err());
    scene.assert_contained(&["home", "away", "stage"]);
}

#[test]
fn a_link_planted_at_home_leads_nobody_out() {
    let scene = scene_with_home();
    let before = lend(&scene);
    file(&scene.path("away"), "bin/extra", b"x", 0o644);
    let (delta, content) = carry(&scene, &before);
    fs::remove_dir_all(scene.path("home/bin")).unwrap();
    std::os::unix::fs::symlink(scene.path("outside"), scene.path("home/bin")).unwrap();
    let result = apply(
        &scene.open("home"),
        &scene.journal("home"),
        &delta,
        &content,
        &everything,
        &LIMITS(),
    );
    assert!(
        matches!(result, Err(ApplyError::Conflicts(_))),
        "{result:?}"
    );
    scene.assert_contained_except("home", &["away", "stage"]);
}

#[test]
fn an_archive_of_changes_must_hold_what_it_lists_and_nothing_else() {
    let check = |fill: &dyn Fn(&Path)| {
        let scene = Scene::new();
        scene.folder("from");
        fill(&scene.path("from"));
        let mut archive = Vec::new();
        pack(&scene.open("from"), &everything, &LIMITS(), &mut archive).unwrap();
        let into = scene.folder("into");
        let error = unpack_delta(archive.as_slice(), None, &into, &LIMITS()).unwrap_err();
        error.to_string()
    };
    let list = |root: &Path, text: &str| file(root, "meta/delta.json", text.as_bytes(), 0o644);
    let none = check(&|root| file(root, "workspace/a", b"a", 0o644));
    assert!(none.contains("no list of changes"), "{none}");
    let broken = check(&|root| list(root, "{"));
    assert!(broken.contains("its list of changes"), "{broken}");
    let extra = check(&|root| {
        list(root, "{}");
        file(root, "workspace/a", b"a", 0o644);
    });
    assert!(
        extra.contains("workspace/a is not what the list"),
        "{extra}"
    );
    let missing = check(&|root| {
        list(
            root,
            r#"{"a":{"change":"added","after":{"mode":420,"mtime":{"secs":0,"nanos":0},"kind":"dir"}}}"#,
        );
        fs::create_dir(root.join("workspace")).unwrap();
    });
    assert!(missing.contains("a is not what the list"), "{missing}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_work_comes_home_or_is_taken_back(
        work in prop::collection::vec((0usize..4, 0usize..7, 0usize..4), 1..20),
        died_at in prop::option::of(0usize..12),
    ) {
        let scene = Scene::new();
        scene.folder("home");
        for name in ["a/x", "a/b/y", "b", "c/z"] {
            file(&scene.path("home"), name, name.as_bytes(), 0o644);
        }
        let before = lend(&scene);
        let root = scene.path("away");
        let names = ["a", "a/x", "a/b", "a/b/y", "b", "c/z", "d/e"];
        for (act, name, flavour) in work {
            let path = root.join(names[name]);
            if path.parent().is_some_and(|parent| fs::create_dir_all(parent).is_err()) {
                continue;
            }
            if path.is_dir() && !path.is_symlink() { let _ = fs::remove_dir_all(&path); } else { let _ = fs::remove_file(&path); }
            match act {
                0 => file(&root, names[name], &vec![b'n'; flavour * 10], 0o600 + u32::try_from(flavour).unwrap()),
                1 => fs::create_dir(&path).unwrap(),
                2 => std::os::unix::fs::symlink("nowhere", &path).unwrap(),
                _ => {}
            }
        }
        let (delta, content) = carry(&scene, &before);
        let home = scene.open("home");
        let untouched = scene.manifest("home");
        let go = |step: usize| if Some(step) == died_at { Go::Die } else { Go::On };
        run(&home, &scene.journal("home"), &delta, &content, &everything, &LIMITS(), &go).unwrap();
        let expected = if recover(&home, &scene.journal("home")).unwrap() { untouched } else { scene.manifest("away") };
        prop_assert_eq!(timeless(scene.manifest("home")), timeless(expected));
    }
}
