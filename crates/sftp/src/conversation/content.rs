//! Opening, reading and writing files.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, atomic::Ordering},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, fsync, ftruncate, statat},
    io::{Errno, pread, pwrite},
};

use super::{
    Answer, Conversation, Reply,
    handles::{Handle, OpenFile},
};
use crate::{
    audit::Act,
    protocol::{Attributes, OpenFlags, Outbox, Status, TRANSFER_BYTES_MAX},
    quota::FileId,
    view::{Below, Place},
};

/// Nobody outside may plant set-user-id, set-group-id or sticky bits.
pub(super) const PERMISSIONS: u32 = 0o777;

impl Conversation {
    pub(super) fn open(
        &mut self,
        id: u32,
        path: &[u8],
        flags: OpenFlags,
        attributes: Attributes,
        outbox: &mut Outbox,
    ) -> Answer {
        let Place::Below(below) = Place::of(path)? else {
            return Err(Status::from(Errno::ISDIR));
        };
        if flags.changes() {
            self.lent.check_change(&below)?;
        }
        let place = self.handles.place()?;
        let (file, stat) = match flags.changes() {
            true => self.open_guarded(&below, flags, attributes)?,
            false => self.open_regular(&below, flags, attributes)?,
        };
        let lent = Arc::clone(&self.lent);
        let mut open = OpenFile::new(lent, file, FileId::of(&stat), below, place);
        open.writable = flags.has(OpenFlags::WRITE);
        open.appends = flags.has(OpenFlags::APPEND);
        if flags.has(OpenFlags::TRUNCATE) && stat.st_size > 0 {
            self.lent
                .quota
                .resize(&open, |_| 0, || Ok(ftruncate(&open, 0)?))?;
        }
        if flags.changes() {
            self.lent.audit.record(Act::Opened {
                path: open.below.seen(),
            });
        }
        let handle = self.handles.add(Handle::File(open));
        outbox.handle(id, &handle);
        Ok(Reply::Written)
    }

    /// Opens for a change, unless what is opened stays as it is.
    fn open_guarded(
        &self,
        below: &Below,
        mut flags: OpenFlags,
        attributes: Attributes,
    ) -> Result<(OwnedFd, Stat), Status> {
        let guard = &self.lent.guard;
        if guard.is_idle() && !flags.has(OpenFlags::CREATE) {
            return self.open_regular(below, flags, attributes);
        }
        // No name changes between what is looked at and what is opened.
        let _names = self.lent.names();
        let (parent, name) = self.lent.view.parent(below)?;
        guard.check_new(&parent, name)?;
        let there = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_link = |stat: Stat| FileType::from_raw_mode(stat.st_mode).is_symlink();
        if there.is_ok_and(is_link) {
            // Through a link a file could be made where none may be.
            flags = flags.without(OpenFlags::CREATE);
        }
        let (file, stat) = self.open_regular(below, flags, attributes)?;
        guard.check_file(&stat)?;
        Ok((file, stat))
    }

    fn open_regular(
        &self,
        below: &Below,
        flags: OpenFlags,
        attributes: Attributes,
    ) -> Result<(OwnedFd, Stat), Status> {
        let write = flags.has(OpenFlags::WRITE);
        let mut how = match (flags.has(OpenFlags::READ), write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        };
        if flags.has(OpenFlags::TRUNCATE) && !write {
            return Err(Status::from(Errno::INVAL));
        }
        let mut mode = Mode::empty();
        for (asked, flag) in [
            (OpenFlags::APPEND, OFlags::APPEND),
            (OpenFlags::CREATE, OFlags::CREATE),
            (OpenFlags::EXCLUSIVE, OFlags::EXCL),
        ] {
            how |= if flags.has(asked) {
                flag
            } else {
                OFlags::empty()
            };
        }
        if flags.has(OpenFlags::CREATE) {
            mode = Mode::from_raw_mode(attributes.permissions.unwrap_or(0o666) & PERMISSIONS);
        } else {
            how -= OFlags::EXCL;
        }
        // A pipe must not be waited for, nor a terminal become ours, before it is known what it is.
        let file = self
            .lent
            .view
            .open(below, how | OFlags::NONBLOCK | OFlags::NOCTTY, mode)?;
        let stat = fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((file, stat)),
            FileType::Directory => Err(Status::from(Errno::ISDIR)),
            _ => Err(Status::denied("It is not a regular file")),
        }
    }

    pub(super) fn read(
        &mut self,
        id: u32,
        handle: &[u8],
        offset: u64,
        length: u32,
        outbox: &mut Outbox,
    ) -> Answer {
        let file = self.handles.file(handle)?;
        let length = length.min(TRANSFER_BYTES_MAX) as usize;
        let mut count = 0;
        outbox.data(id, length, |buffer| {
            count = retry(|| pread(file.as_fd(), &mut *buffer, offset))?;
            Ok(count)
        })?;
        let totals = self.lent.audit.totals();
        totals.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(Reply::Written)
    }

    pub(super) fn write(&mut self, handle: &[u8], offset: u64, bytes: &[u8]) -> Answer {
        let lent = Arc::clone(&self.lent);
        let file = self.handles.file(handle)?;
        if !file.writable {
            return Err(Status::denied("It is not open for writing"));
        }
        let length = bytes.len() as u64;
        let end = offset
            .checked_add(length)
            .filter(|end| i64::try_from(*end).is_ok())
            .ok_or(Status::from(Errno::FBIG))?;
        let appends = file.appends;
        let resized = |size: u64| {
            let end = if appends { size + length } else { end };
            size.max(end)
        };
        let mut written = 0;
        let done = lent.quota.resize(file.as_fd(), resized, || {
            while written < bytes.len() {
                let at = offset + written as u64;
                match retry(|| pwrite(file.as_fd(), &bytes[written..], at))? {
                    0 => return Err(Status::from(Errno::NOSPC)),
                    count => written += count,
                }
            }
            Ok(())
        });
        let written = written as u64;
        file.written += written;
        let totals = lent.audit.totals();
        totals.written_bytes.fetch_add(written, Ordering::Relaxed);
        done?;
        Ok(Reply::Done)
    }

    pub(super) fn fsync(&mut self, handle: &[u8]) -> Answer {
        let file = self.handles.file(handle)?;
        fsync(file.as_fd())?;
        Ok(Reply::Done)
    }
}

fn retry<T>(mut act: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match act() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
