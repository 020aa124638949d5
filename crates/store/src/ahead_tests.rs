//! Writes that are kept ahead of the database: seen by whoever reads, found again after a death, worth the same merged.

use std::{fs, path::Path};

use rusqlite::Connection;

use crate::{Change, Durability, Entry, EventBatch, JournalQuery, RecordRow, SessionRow, Store};

fn line(kind: &str) -> Change {
    Change::Journal(Entry {
        at: 1,
        kind: kind.to_owned(),
        agent: None,
        session: Some("s".to_owned()),
        body: "{}".to_owned(),
    })
}

fn record(id: &str, live: bool, text: &str) -> RecordRow {
    RecordRow {
        kind: "run".to_owned(),
        id: id.to_owned(),
        at: 7,
        live,
        record: format!("\"{text}\""),
    }
}

fn open(path: &Path) -> Store {
    Store::open_alone(path, Durability::ProcessDeath).unwrap()
}

/// The files as they are at this moment, which is what a process that is killed leaves.
fn copy(from: &Path, to: &Path) {
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

async fn kinds(store: &Store) -> Vec<String> {
    let lines = store.journal(JournalQuery::default()).await.unwrap();
    lines.into_iter().map(|line| line.kind).collect()
}

#[tokio::test]
async fn what_was_kept_is_read_at_once_and_nothing_is_left_beside_a_store_that_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let store = open(&path);
    for number in 0..100 {
        let row = record("a", true, &number.to_string());
        store.write(vec![Change::PutRecord(row)]).await.unwrap();
        let read = store.record("run", "a").await.unwrap().unwrap();
        assert_eq!(read.record, format!("\"{number}\""));
    }
    store.write(vec![line("last")]).await.unwrap();
    drop(store);
    let left: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().contains("-ahead")),
        "{left:?}"
    );
    assert_eq!(kinds(&open(&path)).await, ["last"]);
}

#[tokio::test]
async fn what_was_kept_is_there_after_a_death_at_any_moment_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let store = open(&path);
    for number in 0..50_usize {
        store.write(vec![line(&number.to_string())]).await.unwrap();
        if number % 7 == 3 {
            // Some are in the database by then, and some only in the log.
            store.journal(JournalQuery::default()).await.unwrap();
        }
        let dead = tempfile::tempdir().unwrap();
        copy(dir.path(), dead.path());
        let expected: Vec<String> = (0..=number).map(|number| number.to_string()).collect();
        let dead_path = dead.path().join("store.db");
        for _ in 0..2 {
            assert_eq!(kinds(&open(&dead_path)).await, expected, "after {number}");
        }
    }
}

#[tokio::test]
async fn half_a_frame_was_promised_to_nobody_and_what_follows_it_is_written_over_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let store = open(&path);
    store.write(vec![line("one")]).await.unwrap();
    store.write(vec![line("two")]).await.unwrap();
    let dead = tempfile::tempdir().unwrap();
    copy(dir.path(), dead.path());
    drop(store);
    let log = dead.path().join("store.db-ahead-0");
    let whole = fs::read(&log).unwrap();
    let half = whole.len() / 2;
    for cut in [half + 1, half + 19, half + 30, whole.len() - 1] {
        let again = tempfile::tempdir().unwrap();
        copy(dead.path(), again.path());
        fs::write(again.path().join("store.db-ahead-0"), &whole[..cut]).unwrap();
        let store = open(&again.path().join("store.db"));
        assert_eq!(kinds(&store).await, ["one"], "cut at {cut}");
        store.write(vec![line("three")]).await.unwrap();
        assert_eq!(kinds(&store).await, ["one", "three"], "cut at {cut}");
    }
    let mut wrong = whole;
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    fs::write(&log, &wrong).unwrap();
    assert_eq!(kinds(&open(&dead.path().join("store.db"))).await, ["one"]);
}

#[tokio::test]
async fn the_log_stays_short_however_much_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let store = open(&path);
    let body = "x".repeat(100 * 1024);
    for number in 0..200 {
        let row = record("a", true, &format!("{number}{body}"));
        store.write(vec![Change::PutRecord(row)]).await.unwrap();
        if number % 5 == 0 {
            store.record("run", "a").await.unwrap();
        }
    }
    let dead = tempfile::tempdir().unwrap();
    copy(dir.path(), dead.path());
    for log in ["store.db-ahead-0", "store.db-ahead-1"] {
        let length = fs::metadata(dir.path().join(log)).unwrap().len();
        assert!(length < 4 * 1024 * 1024, "{log}: {length}");
        assert!(length > 0, "{log} has never had its turn");
    }
    let left = open(&dead.path().join("store.db"));
    let row = left.record("run", "a").await.unwrap().unwrap();
    assert!(row.record.starts_with("\"199x"), "{}", &row.record[..9]);
}

#[tokio::test]
async fn a_write_that_makes_no_sense_takes_no_other_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("store.db"));
    let events = |last| {
        Change::AppendEvents(EventBatch {
            session: "s".to_owned(),
            first: 1,
            last,
            at: 1,
            lines: "{}\n".to_owned(),
        })
    };
    store.write(vec![events(1)]).await.unwrap();
    store.last_event("s").await.unwrap();
    store.write(vec![line("before")]).await.unwrap();
    store.write(vec![events(1), line("bad")]).await.unwrap();
    store.write(vec![line("after")]).await.unwrap();
    assert_eq!(kinds(&store).await, ["before", "after"]);
}

#[tokio::test]
async fn where_the_disk_is_full_nothing_that_was_promised_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let store = open(&path);
    let pages = |max: i64| {
        store
            .writer()
            .read("the bound of pages", move |connection| {
                let sql = format!("PRAGMA max_page_count = {max}");
                connection.query_row(&sql, [], |row| row.get::<_, i64>(0))
            })
    };
    store.write(vec![line("before")]).await.unwrap();
    store.agents().await.unwrap();
    pages(1).await.unwrap(); // As many as there are: the database takes nothing more.
    let body = "x".repeat(100 * 1024);
    let large = |id: &str| vec![Change::PutRecord(record(id, true, &body)), line(id)];
    store.write(large("kept")).await.unwrap();
    let error = store.record("run", "kept").await.unwrap_err();
    assert!(error.is_of_the_disk(), "{error:?}");
    let error = store.write(large("refused")).await.unwrap_err();
    assert!(error.is_of_the_disk(), "{error:?}");
    let dead = tempfile::tempdir().unwrap();
    copy(dir.path(), dead.path());
    let left = open(&dead.path().join("store.db"));
    assert_eq!(kinds(&left).await, ["before", "kept"], "after a death");
    pages(i64::from(u32::MAX - 1)).await.unwrap();
    store.write(vec![line("room")]).await.unwrap();
    assert_eq!(kinds(&store).await, ["before", "kept", "room"]);
    assert!(store.record("run", "refused").await.unwrap().is_none());
}

#[tokio::test]
async fn a_transaction_of_its_own_finds_what_was_kept_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("store.db"));
    store.write(vec![line("one"), line("two")]).await.unwrap();
    assert_eq!(store.prune(0, 1).await.unwrap(), 1);
    assert_eq!(kinds(&store).await, ["two"]);
}

#[tokio::test]
async fn of_two_that_want_the_store_alone_the_second_gets_it_when_the_first_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let first = open(&path);
    first.write(vec![line("one")]).await.unwrap();
    let (told, opened) = std::sync::mpsc::channel();
    let second = std::thread::spawn({
        let path = path.clone();
        move || {
            let store = open(&path);
            told.send(()).unwrap();
            store
        }
    });
    first.write(vec![line("two")]).await.unwrap();
    assert!(opened.try_recv().is_err(), "both have it");
    drop(first);
    let second = second.join().unwrap();
    second.write(vec![line("three")]).await.unwrap();
    assert_eq!(kinds(&second).await, ["one", "two", "three"]);
    let dead = tempfile::tempdir().unwrap();
    copy(dir.path(), dead.path());
    let left = open(&dead.path().join("store.db"));
    assert_eq!(kinds(&left).await, ["one", "two", "three"]);
    let refused = Store::open_alone(&path, Durability::ProcessDeath).unwrap_err();
    let cause = std::iter::successors(Some(&refused as &dyn std::error::Error), |it| it.source());
    let said: Vec<String> = cause.map(ToString::to_string).collect();
    assert!(
        said.iter().any(|it| it.contains("another process has")),
        "{said:?}"
    );
}

/// Numbers that look like chance and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn change(&mut self, text: u64, seqs: &mut [u64; 2]) -> Change {
        let id = ["a", "b"][usize::try_from(self.roll(2)).unwrap()];
        let (name, value) = (id.to_owned(), text.to_string());
        let row = record(id, self.roll(3) > 0, &value);
        match self.roll(9) {
            0 | 1 => Change::PutRecord(row),
            2..=4 => Change::PutLiveRecord(row),
            5 => Change::DeleteRecord {
                kind: row.kind,
                id: row.id,
            },
            6 => Change::PutSession(SessionRow {
                id: name,
                agent: "x".to_owned(),
                live: self.roll(2) == 0,
                record: value,
            }),
            7 => match self.roll(3) {
                0 => Change::DeleteAgent { name },
                1 => Change::PutFact { key: name, value },
                _ => Change::PutAgent {
                    name,
                    record: value,
                },
            },
            _ => {
                let seq = &mut seqs[usize::from(id == "b")];
                let (first, last) = (*seq + 1, *seq + 1 + self.roll(3));
                *seq = last;
                let lines = (first..=last).map(|seq| format!("{{\"seq\":{seq}}}\n"));
                Change::AppendEvents(EventBatch {
                    session: name,
                    first,
                    last,
                    at: 3,
                    lines: lines.collect(),
                })
            }
        }
    }
}

/// Everything in the tables, events as the lines they are.
fn dump(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut all = Vec::new();
    for sql in [
        "SELECT kind || '/' || id || ' ' || live || ' ' || record FROM records ORDER BY 1",
        "SELECT id || ' ' || agent || ' ' || live || ' ' || record FROM sessions ORDER BY 1",
        "SELECT name || ' ' || record FROM agents ORDER BY 1",
        "SELECT key || ' ' || value FROM facts WHERE key NOT LIKE 'store.%' ORDER BY 1",
        "SELECT session || ' ' || group_concat(lines, '') FROM (SELECT * FROM events ORDER BY session, first) GROUP BY session",
    ] {
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement
            .query_map([], |row| row.get::<_, String>(0))
            .unwrap();
        all.extend(rows.map(Result::unwrap));
    }
    all
}

#[tokio::test]
async fn writes_together_come_to_the_same_as_one_after_the_other() {
    for seed in 1..=40 {
        let dir = tempfile::tempdir().unwrap();
        let (merged, single) = (dir.path().join("merged.db"), dir.path().join("single.db"));
        let mut dice = Dice(seed * 7919);
        let ours = open(&merged);
        let theirs = Store::open(&single, Durability::None).unwrap();
        let mut seqs = [0, 0];
        for number in 0..60 {
            let changes: Vec<Change> = (0..=dice.roll(2))
                .map(|part| dice.change(number * 10 + part, &mut seqs))
                .collect();
            ours.write(changes.clone()).await.unwrap();
            theirs.write(changes).await.unwrap();
            if dice.roll(12) == 0 {
                ours.agents().await.unwrap(); // What is kept so far is in the database now.
            }
        }
        drop((ours, theirs));
        assert_eq!(dump(&merged), dump(&single), "seed {seed}");
    }
}
