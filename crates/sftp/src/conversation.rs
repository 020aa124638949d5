//! One client's conversation: each request becomes one reply. Blocking and without a network, so that a thread can
//! serve it and a test can hold it.
//!
//! `handles` are open files and folders, `content` what happens to them, `names` what happens by name.

mod attributes;
mod content;
mod handles;
mod listing;
mod names;

use std::{os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc};

use handles::Handles;

use crate::{
    audit::Act,
    export::{HANDLES_MAX, Lent},
    protocol::{
        Extended, Outbox, PACKET_BYTES_MAX, Request, Status, StatusCode, TRANSFER_BYTES_MAX,
        VERSION, read_request,
    },
    view::{Below, Place},
};

/// What is kept of a refused path: a packet full of it is no use to anybody.
const REFUSED_BYTES_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Conversation {
    lent: Arc<Lent>,
    handles: Handles,
    greeted: bool,
}

/// Why a conversation cannot go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Over {
    /// The lease has ended, or nobody is there any more.
    Lease,
    /// The client does not speak SFTP as we know it.
    Nonsense,
}

/// What a request leaves to be said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reply {
    /// That it is done.
    Done,
    /// Nothing: the reply has been written.
    Written,
}

type Answer = Result<Reply, Status>;

impl Conversation {
    pub(crate) fn new(lent: Arc<Lent>) -> Conversation {
        Conversation {
            handles: Handles::new(Arc::clone(&lent)),
            lent,
            greeted: false,
        }
    }

    /// Performs one packet (without its length) and writes the reply.
    pub(crate) fn answer(&mut self, packet: &[u8], outbox: &mut Outbox) -> Result<(), Over> {
        let (id, request) = read_request(packet).ok_or(Over::Nonsense)?;
        if self.lent.is_over() {
            return Err(Over::Lease);
        }
        match (self.greeted, request) {
            (false, Request::Init { version }) if version >= VERSION => {
                self.greeted = true;
                outbox.version();
                return Ok(());
            }
            (false, _) | (true, Request::Init { .. }) => return Err(Over::Nonsense),
            (true, _) => {}
        }
        match self.perform(id, request, outbox) {
            Ok(Reply::Written) => {}
            Ok(Reply::Done) => outbox.status(id, Status::OK),
            Err(status) => {
                self.note_refusal(&request, status);
                outbox.status(id, status);
            }
        }
        Ok(())
    }

    fn perform(&mut self, id: u32, request: Request<'_>, outbox: &mut Outbox) -> Answer {
        match request {
            Request::Open {
                path,
                flags,
                attributes,
            } => self.open(id, path, flags, attributes, outbox),
            Request::Close { handle } => self.handles.close(handle),
            Request::Read {
                handle,
                offset,
                length,
            } => self.read(id, handle, offset, length, outbox),
            Request::Write {
                handle,
                offset,
                bytes,
            } => self.write(handle, offset, bytes),
            Request::Lstat { path } => self.lstat(id, path, outbox),
            Request::Stat { path } => self.stat(id, path, outbox),
            Request::Fstat { handle } => self.fstat(id, handle, outbox),
            Request::Setstat { path, attributes } => self.setstat(path, attributes),
            Request::Fsetstat { handle, attributes } => self.fsetstat(handle, attributes),
            Request::Opendir { path } => self.opendir(id, path, outbox),
            Request::Readdir { handle } => self.readdir(id, handle, outbox),
            Request::Remove { path } => self.remove(path),
            Request::Mkdir { path, attributes } => self.mkdir(path, attributes),
            Request::Rmdir { path } => self.rmdir(path),
            Request::Realpath { path } => self.realpath(id, path, outbox),
            Request::Rename { from, to } => self.rename(from, to, names::Existing::Kept),
            Request::Readlink { path } => self.readlink(id, path, outbox),
            Request::Symlink { target, link } => self.symlink(target, link),
            Request::Extended(extended) => self.perform_extended(id, extended, outbox),
            Request::Unknown => Err(Status::new(StatusCode::Unsupported, "Not supported")),
            Request::Init { .. } | Request::Malformed => {
                Err(Status::new(StatusCode::BadMessage, "Bad message"))
            }
        }
    }

    fn perform_extended(&mut self, id: u32, extended: Extended<'_>, outbox: &mut Outbox) -> Answer {
        match extended {
            Extended::PosixRename { from, to } => self.rename(from, to, names::Existing::Replaced),
            Extended::Statvfs { path } => self.statvfs(id, path, outbox),
            Extended::Fstatvfs { handle } => self.fstatvfs(id, handle, outbox),
            Extended::Hardlink { from, to } => self.hardlink(from, to),
            Extended::Fsync { handle } => self.fsync(handle),
            Extended::Lsetstat { path, attributes } => self.lsetstat(path, attributes),
            Extended::Limits => {
                let transfer = u64::from(TRANSFER_BYTES_MAX);
                let numbers = [
                    PACKET_BYTES_MAX as u64,
                    transfer,
                    transfer,
                    HANDLES_MAX as u64,
                ];
                outbox.numbers(id, &numbers);
                Ok(Reply::Written)
            }
        }
    }

    /// A place below one of the folders; the root is none.
    fn below(&self, path: &[u8]) -> Result<Below, Status> {
        match Place::of(path)? {
            Place::Below(below) => Ok(below),
            Place::Root => Err(Status::denied("The root cannot be changed")),
        }
    }

    /// A place below that may be changed.
    fn changeable(&self, path: &[u8]) -> Result<Below, Status> {
        let below = self.below(path)?;
        self.lent.check_change(&below)?;
        Ok(below)
    }

    fn note_refusal(&self, request: &Request<'_>, status: Status) {
        if status.code != StatusCode::PermissionDenied {
            return;
        }
        let said = match request {
            Request::Open { path, .. }
            | Request::Lstat { path }
            | Request::Stat { path }
            | Request::Setstat { path, .. }
            | Request::Opendir { path }
            | Request::Remove { path }
            | Request::Mkdir { path, .. }
            | Request::Rmdir { path }
            | Request::Readlink { path }
            | Request::Symlink { link: path, .. }
            | Request::Rename { to: path, .. }
            | Request::Extended(
                Extended::PosixRename { to: path, .. }
                | Extended::Hardlink { to: path, .. }
                | Extended::Lsetstat { path, .. },
            ) => *path,
            _ => b"",
        };
        let said = &said[..said.len().min(REFUSED_BYTES_MAX)];
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(said));
        let why = status.message;
        self.lent.audit.record(Act::Refused { path, why });
    }
}
