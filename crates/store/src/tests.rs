//! Claims about the store, against real files.

use crate::{
    Change, Durability, Entry, EventBatch, JournalQuery, OpenError, RecordQuery, RecordRow,
    SessionRow, Store,
};

fn entry(at: i64, kind: &str, agent: &str) -> Change {
    Change::Journal(Entry {
        at,
        kind: kind.into(),
        agent: Some(agent.into()),
        session: None,
        body: format!(r#"{{"n":{at}}}"#),
    })
}

fn put(name: &str, record: &str) -> Change {
    Change::PutAgent {
        name: name.into(),
        record: record.into(),
    }
}

fn open(folder: &tempfile::TempDir) -> Store {
    Store::open(&folder.path().join("state.db"), Durability::ProcessDeath).unwrap()
}

#[tokio::test]
async fn what_is_written_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    store
        .write(vec![
            put("b", "{}"),
            put("a", "1"),
            entry(5, "agent.created", "a"),
        ])
        .await
        .unwrap();
    store
        .write(vec![
            put("a", "2"),
            Change::DeleteAgent { name: "b".into() },
        ])
        .await
        .unwrap();
    store
        .write(vec![Change::PutFact {
            key: "node".into(),
            value: "n-1".into(),
        }])
        .await
        .unwrap();
    drop(store);
    let store = open(&folder);
    assert_eq!(
        store.agents().await.unwrap(),
        [("a".to_owned(), "2".to_owned())]
    );
    assert_eq!(store.fact("node").await.unwrap().as_deref(), Some("n-1"));
    assert_eq!(store.fact("other").await.unwrap(), None);
    assert_eq!(
        store.journal(JournalQuery::default()).await.unwrap().len(),
        1
    );
}

#[tokio::test]
async fn lines_of_one_sort_are_left_out_and_those_behind_them_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut lines = vec![entry(1, "turn.started", "a")];
    lines.extend((2..100).map(|at| entry(at, "audit.call", "a")));
    store.write(lines).await.unwrap();
    let query = JournalQuery {
        without_prefix: Some("audit.".into()),
        limit: Some(10),
        ..JournalQuery::default()
    };
    let rows = store.journal(query).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.at).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn the_journal_is_narrowed_by_every_part_of_a_query() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let lines = vec![
        entry(1, "agent.created", "a"),
        entry(2, "agent.running", "a"),
        entry(3, "turn.started", "b"),
        entry(4, "agent.stopped", "a"),
    ];
    store.write(lines).await.unwrap();
    let cases: Vec<(JournalQuery, &[i64])> = vec![
        (JournalQuery::default(), &[1, 2, 3, 4]),
        (
            JournalQuery {
                agent: Some("a".into()),
                ..Default::default()
            },
            &[1, 2, 4],
        ),
        (
            JournalQuery {
                kind_prefix: Some("turn.".into()),
                ..Default::default()
            },
            &[3],
        ),
        (
            JournalQuery {
                since: Some(3),
                ..Default::default()
            },
            &[3, 4],
        ),
        (
            JournalQuery {
                after_seq: Some(3),
                ..Default::default()
            },
            &[4],
        ),
        (
            JournalQuery {
                after_seq: Some(0),
                limit: Some(2),
                ..Default::default()
            },
            &[1, 2],
        ),
        (
            JournalQuery {
                contains: Some("\"n\":2".into()),
                ..Default::default()
            },
            &[2],
        ),
        (
            JournalQuery {
                limit: Some(2),
                ..Default::default()
            },
            &[3, 4],
        ),
    ];
    for (query, moments) in cases {
        let rows = store.journal(query.clone()).await.unwrap();
        assert_eq!(
            rows.iter().map(|row| row.at).collect::<Vec<_>>(),
            moments,
            "{query:?}"
        );
    }
}

#[tokio::test]
async fn many_writers_at_once_all_get_their_answer() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let writes: Vec<_> = (0..500)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.write(vec![put(&format!("a{n}"), "{}")]).await })
        })
        .collect();
    for write in writes {
        write.await.unwrap().unwrap();
    }
    assert_eq!(store.agents().await.unwrap().len(), 500);
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    drop(open(&folder));
    rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let error = Store::open(&path, Durability::ProcessDeath).unwrap_err();
    assert!(
        matches!(error, OpenError::Newer { found: 99, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("newer version"), "{error}");
}

#[tokio::test]
async fn a_file_with_a_version_that_never_was_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.pragma_update(None, "user_version", -5).unwrap();
    let error = Store::open(&path, Durability::ProcessDeath).unwrap_err();
    assert!(
        matches!(error, OpenError::Foreign { found: -5, .. }),
        "{error}"
    );
    let kept: i64 = other
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, -5);
    assert!(!crate::inspect(&path).unwrap().unwrap().is_usable());
}

#[tokio::test]
async fn sessions_and_their_events_come_back_in_order_and_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let row = |id: &str, live| SessionRow {
        id: id.into(),
        agent: "a".into(),
        live,
        record: "{}".into(),
    };
    let batch = |first: u64, last: u64, size: usize| {
        Change::AppendEvents(EventBatch {
            session: "s1".into(),
            first,
            last,
            at: 1,
            lines: "x".repeat(size),
        })
    };
    store
        .write(vec![
            Change::PutSession(row("s1", true)),
            Change::PutSession(row("s2", true)),
        ])
        .await
        .unwrap();
    store
        .write(vec![
            Change::PutSession(row("s2", false)),
            batch(1, 3, 10),
            batch(4, 4, 2_000_000),
            batch(5, 9, 10),
        ])
        .await
        .unwrap();
    assert_eq!(store.sessions(true).await.unwrap(), [row("s1", true)]);
    assert_eq!(store.sessions(false).await.unwrap().len(), 2);
    assert_eq!(store.session("s2").await.unwrap(), Some(row("s2", false)));
    assert_eq!(
        (
            store.last_event("s1").await.unwrap(),
            store.last_event("s2").await.unwrap()
        ),
        (9, 0)
    );
    let firsts = |page: Vec<EventBatch>| page.iter().map(|batch| batch.first).collect::<Vec<_>>();
    assert_eq!(
        firsts(store.events("s1", 1).await.unwrap()),
        [1, 4],
        "a page ends where it is large enough"
    );
    assert_eq!(firsts(store.events("s1", 3).await.unwrap()), [1, 4]);
    assert_eq!(firsts(store.events("s1", 5).await.unwrap()), [5]);
    assert_eq!(
        firsts(store.events("s1", 10).await.unwrap()),
        Vec::<u64>::new()
    );
}

#[test]
fn a_store_that_several_open_at_once_is_made_once() {
    const AT_ONCE: usize = 8;
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let ready = std::sync::Barrier::new(AT_ONCE);
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    ready.wait();
                    Store::open(&path, Durability::ProcessDeath).unwrap();
                });
            }
        });
    }
}

#[tokio::test]
async fn an_older_store_is_backed_up_and_brought_forward() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(
        "CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
         CREATE TABLE agents (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
         CREATE TABLE journal (seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind TEXT NOT NULL, agent TEXT, body TEXT NOT NULL);
         INSERT INTO agents VALUES ('kept', '{}'); PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(old);
    let store = open(&folder);
    assert_eq!(store.agents().await.unwrap().len(), 1);
    assert_eq!(store.sessions(false).await.unwrap(), []);
    assert!(folder.path().join("state.schema-1.backup").exists());
}

#[tokio::test]
async fn what_is_too_old_or_too_much_goes_and_live_sessions_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    store
        .write(
            (1..=100)
                .map(|at| entry(at, "agent.running", "a"))
                .collect(),
        )
        .await
        .unwrap();
    let row = |id: &str, live| {
        Change::PutSession(SessionRow {
            id: id.into(),
            agent: "a".into(),
            live,
            record: "{}".into(),
        })
    };
    let event = |session: &str, at| {
        Change::AppendEvents(EventBatch {
            session: session.into(),
            first: 1,
            last: 1,
            at,
            lines: "{}".into(),
        })
    };
    let changes = vec![
        row("old", false),
        event("old", 10),
        row("new", false),
        event("new", 90),
        row("live", true),
        event("live", 10),
    ];
    store.write(changes).await.unwrap();
    store.prune(50, 1000).await.unwrap();
    assert_eq!(
        store
            .journal(JournalQuery::default())
            .await
            .unwrap()
            .first()
            .unwrap()
            .at,
        50
    );
    let ids: Vec<String> = store
        .sessions(false)
        .await
        .unwrap()
        .into_iter()
        .map(|row| row.id)
        .collect();
    assert_eq!(ids, ["live", "new"]);
    assert_eq!(store.last_event("old").await.unwrap(), 0);
    store.prune(0, 10).await.unwrap();
    assert_eq!(
        store.journal(JournalQuery::default()).await.unwrap().len(),
        10
    );
}

#[tokio::test]
async fn records_are_paged_newest_first_and_only_finished_ones_are_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let record = |id: &str, at: i64, live: bool| {
        Change::PutRecord(RecordRow {
            kind: "run".into(),
            id: id.into(),
            at,
            live,
            record: format!("{at}"),
        })
    };
    let changes = vec![
        record("a", 1, true),
        record("b", 2, false),
        record("c", 3, true),
        record("c", 4, false),
        record("d", 4, true),
    ];
    store.write(changes).await.unwrap();
    let ids = async |only_live, before, limit| {
        let query = RecordQuery {
            kind: "run".into(),
            only_live,
            before,
            limit,
        };
        let rows = store.records(query).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(false, None, 3).await, ["d", "c", "b"]);
    assert_eq!(ids(false, Some((2, "b".into())), 3).await, ["a"]);
    assert_eq!(ids(true, None, 9).await, ["d", "a"]);
    store.prune(4, 100).await.unwrap();
    assert_eq!(ids(false, None, 9).await, ["d", "c", "a"]);
    let gone = Change::DeleteRecord {
        kind: "run".into(),
        id: "a".into(),
    };
    store.write(vec![gone]).await.unwrap();
    assert_eq!(store.record("run", "a").await.unwrap(), None);
    assert_eq!(store.record("run", "c").await.unwrap().unwrap().at, 4);
}

#[tokio::test]
async fn whoever_follows_the_journal_is_told_of_new_lines() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut growth = store.journal_growth();
    store.write(vec![put("a", "1")]).await.unwrap();
    assert!(!growth.has_changed().unwrap());
    store
        .write(vec![entry(5, "agent.created", "a")])
        .await
        .unwrap();
    growth.changed().await.unwrap();
}
