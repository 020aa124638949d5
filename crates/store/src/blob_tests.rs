//! Claims about bodies that are too large for rows.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{Change, Durability, EventBatch, SessionRow, Store, blobs::BODY_MAX};

/// Where the child of the test of crashes finds its store.
const HOME: &str = "STORE_TEST_HOME";

fn open(folder: &Path) -> Store {
    Store::open(&folder.join("state.db"), Durability::ProcessDeath).unwrap()
}

fn events(session: &str, seq: u64, lines: &[Value]) -> Change {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line.to_string());
        text.push('\n');
    }
    Change::AppendEvents(EventBatch {
        session: session.into(),
        first: seq,
        last: seq + lines.len() as u64 - 1,
        at: 1,
        lines: text,
    })
}

fn bodies(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.join("state.blobs"));
    files
        .map(|files| files.map(|file| file.unwrap().path()).collect())
        .unwrap_or_default()
}

async fn lines(store: &Store, session: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut next = 1;
    loop {
        let page = store.events(session, next).await.unwrap();
        let Some(last) = page.last() else {
            return all;
        };
        next = last.last + 1;
        for batch in &page {
            let parsed = batch
                .lines
                .lines()
                .map(|line| serde_json::from_str(line).unwrap());
            all.extend(parsed.collect::<Vec<Value>>());
        }
    }
}

#[tokio::test]
async fn large_texts_are_private_files_and_come_back_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (large, other) = ("é\"\n".repeat(BODY_MAX), "x".repeat(BODY_MAX + 1));
    let said = [
        json!({"seq": 1, "text": "small", "odd": {"$blob": "no hash"}}),
        json!({"seq": 2, "content": [{"text": large}, {"text": other}], "output": large}),
        json!({"seq": 3, "text": "y".repeat(BODY_MAX)}),
        json!({"seq": 4, "words": vec!["z"; BODY_MAX]}),
    ];
    store.write(vec![events("s", 1, &said)]).await.unwrap();
    store
        .write(vec![events("t", 1, &[json!({"text": large})])])
        .await
        .unwrap();
    let files = bodies(folder.path());
    assert_eq!(files.len(), 2, "the same text is kept once");
    for file in &files {
        assert_eq!(
            fs::metadata(file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    let mode = fs::metadata(folder.path().join("state.blobs")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o700);
    assert_eq!(lines(&store, "s").await, said);
    drop(store);
    let rows = rusqlite::Connection::open(folder.path().join("state.db")).unwrap();
    let held: i64 = rows
        .query_row(
            "SELECT max(length(lines)) FROM events WHERE session = 't'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(held < 200, "{held} bytes stayed in the row");
    drop(rows);
    assert_eq!(lines(&open(folder.path()), "s").await, said);
}

#[tokio::test]
async fn bodies_go_with_the_last_session_that_speaks_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let row = |id: &str, live| {
        Change::PutSession(SessionRow {
            id: id.into(),
            agent: "a".into(),
            live,
            record: "{}".into(),
        })
    };
    let said = json!({"text": "x".repeat(2 * BODY_MAX)});
    for id in ["s", "t"] {
        let changes = vec![row(id, true), events(id, 1, std::slice::from_ref(&said))];
        store.write(changes).await.unwrap();
    }
    store.write(vec![row("s", false)]).await.unwrap();
    store.prune(50, 100).await.unwrap();
    assert!(lines(&store, "s").await.is_empty());
    assert_eq!(lines(&store, "t").await, [said]);
    assert_eq!(bodies(folder.path()).len(), 1);
    store.write(vec![row("t", false)]).await.unwrap();
    store.prune(50, 100).await.unwrap();
    assert_eq!(bodies(folder.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_body_without_a_row_goes_and_a_row_without_its_body_is_said_to_lack_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let said = |letter: &str| json!({"seq": 1, "text": letter.repeat(2 * BODY_MAX), "kept": "k"});
    store
        .write(vec![events("s", 1, &[said("a")])])
        .await
        .unwrap();
    let kept = bodies(folder.path());
    // The place is taken, so the body is written and the row is not: as after a crash between the two.
    let twice = store.write(vec![events("s", 1, &[said("b")])]).await;
    assert!(twice.is_err());
    fs::write(folder.path().join("state.blobs/unfinished"), "half").unwrap();
    assert_eq!(bodies(folder.path()).len(), 3);
    drop(store);
    let store = open(folder.path());
    assert_eq!(lines(&store, "s").await, [said("a")]);
    store.prune(0, 100).await.unwrap();
    assert_eq!(bodies(folder.path()), kept);
    // The same words as those that went are kept again.
    store
        .write(vec![events("s", 2, &[said("b")])])
        .await
        .unwrap();
    assert_eq!(lines(&store, "s").await, [said("a"), said("b")]);
    fs::remove_file(&kept[0]).unwrap();
    let left = lines(&store, "s").await;
    assert_eq!(left[0]["text"], "[this is no longer kept]");
    assert_eq!((&left[0]["kept"], &left[1]), (&json!("k"), &said("b")));
}

/// Not a claim: what the test below kills.
#[tokio::test]
#[ignore = "runs as a child of another test"]
async fn writes_bodies_until_it_is_killed() {
    let Some(folder) = env::var_os(HOME) else {
        return;
    };
    let store = open(Path::new(&folder));
    let first = store.last_event("s").await.unwrap() + 1;
    for seq in first.. {
        let said = json!({"seq": seq, "text": seq.to_string().repeat(BODY_MAX + 1)});
        store.write(vec![events("s", seq, &[said])]).await.unwrap();
        eprintln!("kept {seq}");
    }
}

#[tokio::test]
async fn kill_9_at_any_moment_leaves_rows_with_their_bodies_and_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut promised = 0;
    for round in 1..=10_u64 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "blob_tests::writes_bodies_until_it_is_killed"])
            .args(["--ignored", "--nocapture"])
            .env(HOME, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let words = BufReader::new(child.stderr.take().unwrap());
        let kept = |line: &str| line.strip_prefix("kept ")?.parse::<u64>().ok();
        let seen = words
            .lines()
            .filter_map(|line| kept(&line.unwrap()))
            .take(usize::try_from(round).unwrap());
        promised = seen.last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let store = open(folder.path());
    let left = lines(&store, "s").await;
    assert!(
        left.len() as u64 >= promised,
        "{} of {promised}",
        left.len()
    );
    for (line, seq) in left.iter().zip(1_u64..) {
        let text = seq.to_string().repeat(BODY_MAX + 1);
        assert_eq!(line["seq"], seq);
        assert!(line["text"] == text, "the body of {seq} is not what it was");
    }
    store.prune(0, 100).await.unwrap();
    assert_eq!(bodies(folder.path()).len(), left.len());
}
