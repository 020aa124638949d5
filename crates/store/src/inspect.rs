//! Looking at a store without changing it: which version it has, and what opening it would mean.

use std::{fs, path::Path};

use rusqlite::{Connection, OpenFlags};

use crate::{migrations, open::OpenError};

/// The version of a store beside the one that this program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    pub found: i64,
    pub known: i64,
}

impl Schema {
    /// Whether opening the store goes on with it, as it is or brought forward.
    pub fn is_usable(self) -> bool {
        (0..=self.known).contains(&self.found)
    }
}

/// The schema of the store in the file `path`; nothing where there is no store yet.
pub fn inspect(path: &Path) -> Result<Option<Schema>, OpenError> {
    if !path.exists() {
        return Ok(None);
    }
    let failed = |source| OpenError::Open {
        path: path.to_owned(),
        source,
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    Ok(Some(Schema {
        found: migrations::version(&connection).map_err(failed)?,
        known: migrations::current(),
    }))
}

/// What is wrong inside a store, in the words of its library; nothing if it is whole, or not there yet.
pub fn damage(path: &Path) -> Option<String> {
    if !path.exists() {
        return None;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let checked = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    });
    match checked {
        Ok(said) if said == "ok" => None,
        Ok(said) => Some(said),
        Err(error) => Some(error.to_string()),
    }
}

/// How many bytes a store takes on the disk: its file, and those beside it that hold what is not in it yet.
pub fn size(path: &Path) -> u64 {
    let endings = ["", "-wal", "-ahead-0", "-ahead-1"];
    let bytes = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        fs::metadata(name).map_or(0, |found| found.len())
    };
    endings.into_iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, Store};

    #[test]
    fn a_store_is_looked_at_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        assert_eq!(inspect(&path).unwrap(), None);
        assert!(!path.exists(), "looking makes nothing");
        drop(Store::open(&path, Durability::ProcessDeath).unwrap());
        let known = migrations::current();
        assert_eq!(
            inspect(&path).unwrap(),
            Some(Schema {
                found: known,
                known
            })
        );
        let newer = Connection::open(&path).unwrap();
        newer
            .pragma_update(None, "user_version", known + 1)
            .unwrap();
        drop(newer);
        let found = known + 1;
        assert_eq!(inspect(&path).unwrap(), Some(Schema { found, known }));
        assert_eq!(damage(&path), None);
        std::fs::write(&path, "not a store at all, only some words").unwrap();
        assert!(inspect(&path).is_err());
        assert!(damage(&path).unwrap().contains("not a database"));
    }
}
