//! What a client has open. The names of handles are never used twice, so an old one never means a new file.

use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, atomic::Ordering},
};

use rustix::fs::Dir;

use super::{Answer, Reply};
use crate::{
    audit::Act,
    export::{Counted, Lent},
    protocol::Status,
    quota::FileId,
    view::Below,
};

const UNKNOWN: Status = Status::failure("There is no such handle");

#[derive(Debug)]
pub(super) struct Handles {
    lent: Arc<Lent>,
    open: HashMap<u64, Handle>,
    next: u64,
}

#[derive(Debug)]
pub(super) enum Handle {
    File(OpenFile),
    Folder(OpenFolder),
    /// The root and how many of its entries have been told.
    Root {
        told: usize,
    },
}

#[derive(Debug)]
pub(super) struct OpenFile {
    lent: Arc<Lent>,
    file: OwnedFd,
    id: FileId,
    pub(super) below: Below,
    pub(super) writable: bool,
    pub(super) appends: bool,
    pub(super) written: u64,
    _place: Counted,
}

#[derive(Debug)]
pub(super) struct OpenFolder {
    pub(super) folder: OwnedFd,
    pub(super) entries: Dir,
    pub(super) below: Below,
    pub(super) _place: Counted,
}

impl Handles {
    pub(super) fn new(lent: Arc<Lent>) -> Handles {
        Handles {
            lent,
            open: HashMap::new(),
            next: 0,
        }
    }

    pub(super) fn add(&mut self, handle: Handle) -> [u8; 8] {
        let name = self.next;
        self.next += 1;
        self.open.insert(name, handle);
        name.to_be_bytes()
    }

    pub(super) fn place(&self) -> Result<Counted, Status> {
        self.lent.take_handle()
    }

    /// Roots take no descriptor, so they are bounded here.
    pub(super) fn check_room(&self) -> Result<(), Status> {
        if self.open.len() < crate::export::HANDLES_MAX {
            Ok(())
        } else {
            Err(Status::failure("Too many open files"))
        }
    }

    pub(super) fn get(&mut self, name: &[u8]) -> Result<&mut Handle, Status> {
        self.open.get_mut(&number(name)?).ok_or(UNKNOWN)
    }

    pub(super) fn file(&mut self, name: &[u8]) -> Result<&mut OpenFile, Status> {
        match self.get(name)? {
            Handle::File(file) => Ok(file),
            Handle::Folder(_) | Handle::Root { .. } => {
                Err(Status::failure("The handle is of a folder"))
            }
        }
    }

    pub(super) fn close(&mut self, name: &[u8]) -> Answer {
        self.open.remove(&number(name)?).ok_or(UNKNOWN)?;
        Ok(Reply::Done)
    }
}

fn number(name: &[u8]) -> Result<u64, Status> {
    name.try_into().map(u64::from_be_bytes).map_err(|_| UNKNOWN)
}

impl OpenFile {
    pub(super) fn new(
        lent: Arc<Lent>,
        file: OwnedFd,
        id: FileId,
        below: Below,
        place: Counted,
    ) -> OpenFile {
        lent.quota.opened(id);
        lent.audit.totals().opened.fetch_add(1, Ordering::Relaxed);
        OpenFile {
            lent,
            file,
            id,
            below,
            writable: false,
            appends: false,
            written: 0,
            _place: place,
        }
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.lent.quota.closing(self.id, &self.file);
        if self.written > 0 {
            self.lent.audit.record(Act::Wrote {
                path: self.below.seen(),
                bytes: self.written,
            });
        }
    }
}
