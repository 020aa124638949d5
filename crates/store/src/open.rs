//! Opening the store: pragmas, version check, backup before a migration, and the handle everybody holds.

use std::{
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::watch;

use crate::{
    ahead::Ahead,
    blobs::Blobs,
    change::Change,
    checkpoint::Checkpoints,
    journal::{self, JournalQuery, JournalRow},
    migrations,
    worker::{StoreError, Worker},
};

/// How long a file that others have for themselves is waited for; nobody holds it for more than a moment.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// The pause before the next try, where SQLite does not wait by itself.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// What a committed write survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the file is thrown away by the process that made it, or by the next one.
    None,
    /// The death of this process at any moment.
    #[default]
    ProcessDeath,
    /// Also the loss of power; each commit waits for the disk.
    PowerLoss,
}

/// How many processes may have the file open at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Users {
    One,
    Several,
}

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("could not create the store at {}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("could not open the store at {}", path.display())]
    Open {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error(
        "the store at {} was written by a newer version (schema {found}, this program knows {known}); \
         install that version again, or point AGENTCRAFT_HOME to another folder",
        path.display()
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error(
        "the file at {} is no store of this program (schema {found}); move it away, or point AGENTCRAFT_HOME to another folder",
        path.display()
    )]
    Foreign { path: PathBuf, found: i64 },
    #[error("could not back up the store to {} before bringing it forward", path.display())]
    Backup {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("could not bring the store at {} forward to schema {to}", path.display())]
    Migrate {
        path: PathBuf,
        to: i64,
        source: rusqlite::Error,
    },
    #[error("could not bring what was kept beside the store at {} into it", path.display())]
    Ahead { path: PathBuf, source: StoreError },
    #[error("could not start the store's thread")]
    Thread { source: io::Error },
}

/// The store. Clones share it; the file is closed when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Store {
    writer: Arc<Worker>,
    reader: Arc<Worker>,
    blobs: Arc<Blobs>,
    /// The last to go, after what it works for.
    _checkpoints: Arc<Checkpoints>,
}

impl Store {
    /// Opens or creates the store in the file `path`, whose folder exists. Others may have it open as well.
    pub fn open(path: &Path, durability: Durability) -> Result<Self, OpenError> {
        Self::open_for(path, durability, Users::Several)
    }

    /// The same for a file that no other process opens meanwhile: writes are kept in a log beside it, at a fraction of the
    /// price, and brought into the database together.
    pub fn open_alone(path: &Path, durability: Durability) -> Result<Self, OpenError> {
        Self::open_for(path, durability, Users::One)
    }

    fn open_for(path: &Path, durability: Durability, users: Users) -> Result<Self, OpenError> {
        create_private(path)?;
        let failed = |source| OpenError::Open {
            path: path.to_owned(),
            source,
        };
        let mut writer = connect(path, durability).map_err(failed)?;
        migrate(&mut writer, path)?;
        let reader = connect(path, durability).map_err(failed)?;
        let blobs = Arc::new(Blobs::of(path, durability));
        let ahead = match (users, durability) {
            (Users::Several, _) => None,
            // Each write waits for the disk, and the database's own log is as good to wait for as another.
            (Users::One, Durability::PowerLoss) => {
                open_ahead(path, &mut writer, &blobs, true)?.close();
                None
            }
            (Users::One, Durability::ProcessDeath) => {
                Some(open_ahead(path, &mut writer, &blobs, true)?)
            }
            (Users::One, Durability::None) => Some(open_ahead(path, &mut writer, &blobs, false)?),
        };
        // After what may fail: it ends with the writer, which is dropped after it.
        let checkpoints = Checkpoints::start(&mut writer, path.to_owned(), durability)
            .map_err(|source| OpenError::Thread { source })?;
        let start = |connection, ahead, name| {
            Worker::start(connection, blobs.clone(), ahead, name)
                .map_err(|source| OpenError::Thread { source })
        };
        Ok(Self {
            writer: Arc::new(start(writer, ahead, "store-writer")?),
            reader: Arc::new(start(reader, None, "store-reader")?),
            blobs,
            _checkpoints: Arc::new(checkpoints),
        })
    }

    /// Writes all of `changes` or none; when it returns, they are as durable as the store was opened to be.
    pub async fn write(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.writer.write(changes).await
    }

    /// Changes whenever the journal has new lines.
    pub fn journal_growth(&self) -> watch::Receiver<u64> {
        self.writer.lines()
    }

    pub(crate) fn writer(&self) -> &Worker {
        &self.writer
    }

    pub(crate) fn blobs(&self) -> &Arc<Blobs> {
        &self.blobs
    }

    /// Reads what was written before.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        what: &'static str,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.settle().await?;
        self.reader.read(what, read).await
    }

    /// Every agent's record, by name.
    pub async fn agents(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.read("the agents", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT name, record FROM agents ORDER BY name")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
        .await
    }

    /// A fact of the node.
    pub async fn fact(&self, key: &str) -> Result<Option<String>, StoreError> {
        let key = key.to_owned();
        self.read("a fact", move |connection| {
            let mut statement =
                connection.prepare_cached("SELECT value FROM facts WHERE key = ?1")?;
            let mut rows = statement.query([key])?;
            rows.next()?.map(|row| row.get(0)).transpose()
        })
        .await
    }

    /// Lines of the history, oldest first.
    pub async fn journal(&self, query: JournalQuery) -> Result<Vec<JournalRow>, StoreError> {
        self.read("the journal", move |connection| {
            journal::read(connection, &query)
        })
        .await
    }
}

fn open_ahead(
    path: &Path,
    writer: &mut Connection,
    blobs: &Blobs,
    is_kept: bool,
) -> Result<Arc<Ahead>, OpenError> {
    let opened = Ahead::open(path, writer, blobs, is_kept);
    opened.map(Arc::new).map_err(|source| OpenError::Ahead {
        path: path.to_owned(),
        source,
    })
}

/// The file is its owner's alone from the first moment; SQLite gives its companions the same mode.
fn create_private(path: &Path) -> Result<(), OpenError> {
    let created = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path);
    created.map(drop).map_err(|source| OpenError::Create {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn connect(path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_MAX)?;
    let synchronous = match durability {
        Durability::None => "OFF",
        Durability::ProcessDeath => "NORMAL",
        Durability::PowerLoss => "FULL",
    };
    // Before the change of mode, which would otherwise wait for the disk.
    connection.pragma_update(None, "synchronous", synchronous)?;
    write_ahead(&connection)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // The page cache counts against the daemon's idle memory; state is small.
    connection.pragma_update(None, "cache_size", -1024)?;
    Ok(connection)
}

/// Turns the write-ahead log on. Of several that open a new file at once all want it for themselves at this moment, and SQLite
/// refuses rather than waits where two wait for each other.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + BUSY_MAX;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                thread::sleep(BUSY_PAUSE);
            }
            done => return done,
        }
    }
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let known = migrations::current();
    let found = migrations::version(connection).map_err(|source| OpenError::Open {
        path: path.to_owned(),
        source,
    })?;
    if found > known {
        return Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            known,
        });
    }
    if found < 0 {
        return Err(OpenError::Foreign {
            path: path.to_owned(),
            found,
        });
    }
    if found == known {
        return Ok(());
    }
    if found > 0 {
        let backup = path.with_extension(format!("schema-{found}.backup"));
        // A backup of the same version that is there already is the older, untouched one.
        if !backup.exists() {
            connection
                .execute("VACUUM INTO ?1", [backup.to_string_lossy()])
                .map_err(|source| OpenError::Backup {
                    path: backup,
                    source,
                })?;
        }
    }
    migrations::run(connection).map_err(|source| OpenError::Migrate {
        path: path.to_owned(),
        to: known,
        source,
    })
}
