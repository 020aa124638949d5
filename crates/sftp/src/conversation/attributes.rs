//! Looking at attributes and setting them, through descriptors: never by a name that somebody may swap.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, Stat, StatVfs, Timespec, Timestamps, chmod, fstat,
        fstatvfs, ftruncate, statat, utimensat,
    },
    io::Errno,
};

use super::{Answer, Conversation, Reply, content::PERMISSIONS, handles::Handle};
use crate::{
    audit::Act,
    protocol::{Attributes, Outbox, Owner, Status, Times},
    view::{Below, Place},
};

/// Flags of a file system in a `statvfs` reply.
const READ_ONLY: u64 = 1;
const NO_SET_USER_ID: u64 = 2;

impl Conversation {
    pub(super) fn lstat(&mut self, id: u32, path: &[u8], outbox: &mut Outbox) -> Answer {
        self.show_attributes(id, path, OFlags::NOFOLLOW, outbox)
    }

    pub(super) fn stat(&mut self, id: u32, path: &[u8], outbox: &mut Outbox) -> Answer {
        self.show_attributes(id, path, OFlags::empty(), outbox)
    }

    fn show_attributes(
        &mut self,
        id: u32,
        path: &[u8],
        follow: OFlags,
        outbox: &mut Outbox,
    ) -> Answer {
        let attributes = match Place::of(path)? {
            Place::Root => self.lent.view.root_attributes()?,
            Place::Below(below) => Attributes::from(&fstat(self.look(&below, follow)?)?),
        };
        outbox.attributes(id, &attributes);
        Ok(Reply::Written)
    }

    pub(super) fn fstat(&mut self, id: u32, handle: &[u8], outbox: &mut Outbox) -> Answer {
        let attributes = match self.handles.get(handle)? {
            Handle::File(file) => Attributes::from(&fstat(file.as_fd())?),
            Handle::Folder(folder) => Attributes::from(&fstat(&folder.folder)?),
            Handle::Root { .. } => self.lent.view.root_attributes()?,
        };
        outbox.attributes(id, &attributes);
        Ok(Reply::Written)
    }

    pub(super) fn setstat(&mut self, path: &[u8], attributes: Attributes) -> Answer {
        let below = self.changeable(path)?;
        // No name changes between what is looked at and what is opened.
        let _names = self.lent.names();
        let seen = self.look(&below, OFlags::empty())?;
        self.lent.guard.check_file(&fstat(&seen)?)?;
        if let Some(size) = attributes.size {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
            let file = self.lent.view.open(&below, flags, Mode::empty())?;
            self.resize(&file, size)?;
        }
        set_mode_and_times(seen.as_fd(), &attributes)?;
        self.note_set(&below);
        Ok(Reply::Done)
    }

    pub(super) fn fsetstat(&mut self, handle: &[u8], attributes: Attributes) -> Answer {
        let (file, below, writable) = match &*self.handles.get(handle)? {
            Handle::File(file) => (file.as_fd(), &file.below, file.writable),
            Handle::Folder(folder) => (folder.folder.as_fd(), &folder.below, false),
            Handle::Root { .. } => return Err(Status::denied("The root cannot be changed")),
        };
        self.lent.check_change(below)?;
        self.lent.guard.check_file(&fstat(file)?)?;
        if let Some(size) = attributes.size {
            if !writable {
                return Err(Status::denied("It is not open for writing"));
            }
            resize(&self.lent, file, size)?;
        }
        set_mode_and_times(file, &attributes)?;
        let below = below.clone();
        self.note_set(&below);
        Ok(Reply::Done)
    }

    /// Of a link itself only the times can be set.
    pub(super) fn lsetstat(&mut self, path: &[u8], attributes: Attributes) -> Answer {
        let below = self.changeable(path)?;
        let (parent, name) = self.lent.view.parent(&below)?;
        let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !FileType::from_raw_mode(stat.st_mode).is_symlink() {
            return self.setstat(path, attributes);
        }
        check_owner(&stat, attributes.owner)?;
        if attributes.size.is_some() || attributes.permissions.is_some() {
            return Err(Status::from(Errno::OPNOTSUPP));
        }
        if let Some(times) = attributes.times {
            utimensat(&parent, name, &timestamps(times), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        self.note_set(&below);
        Ok(Reply::Done)
    }

    pub(super) fn statvfs(&mut self, id: u32, path: &[u8], outbox: &mut Outbox) -> Answer {
        let stat = match Place::of(path)? {
            Place::Root => fstatvfs(&self.lent.view.workspace)?,
            Place::Below(below) => fstatvfs(self.look(&below, OFlags::empty())?)?,
        };
        self.show_room(id, &stat, outbox);
        Ok(Reply::Written)
    }

    pub(super) fn fstatvfs(&mut self, id: u32, handle: &[u8], outbox: &mut Outbox) -> Answer {
        let stat = match self.handles.get(handle)? {
            Handle::File(file) => fstatvfs(file.as_fd())?,
            Handle::Folder(folder) => fstatvfs(&folder.folder)?,
            Handle::Root { .. } => fstatvfs(&self.lent.view.workspace)?,
        };
        self.show_room(id, &stat, outbox);
        Ok(Reply::Written)
    }

    /// Under a quota the room is the quota's, as far as the disk has it.
    fn show_room(&self, id: u32, stat: &StatVfs, outbox: &mut Outbox) {
        let unit = stat.f_frsize.max(1);
        let (mut blocks, mut free, mut available) = (stat.f_blocks, stat.f_bfree, stat.f_bavail);
        if let Some(limit) = self.lent.quota.limit() {
            let left = limit.saturating_sub(self.lent.quota.grown()) / unit;
            blocks = blocks.min(limit / unit);
            free = free.min(left);
            available = available.min(left);
        }
        let read_only = if self.lent.is_read_only() {
            READ_ONLY
        } else {
            0
        };
        let numbers = [
            stat.f_bsize,
            unit,
            blocks,
            free,
            available,
            stat.f_files,
            stat.f_ffree,
            stat.f_favail,
            0, // Which file system it is concerns nobody outside.
            read_only | NO_SET_USER_ID,
            stat.f_namemax,
        ];
        outbox.numbers(id, &numbers);
    }

    fn look(&self, below: &Below, follow: OFlags) -> Result<OwnedFd, Status> {
        self.lent
            .view
            .open(below, OFlags::PATH | follow, Mode::empty())
    }

    fn resize(&self, file: &OwnedFd, size: u64) -> Result<(), Status> {
        if !FileType::from_raw_mode(fstat(file)?.st_mode).is_file() {
            return Err(Status::denied("It is not a regular file"));
        }
        resize(&self.lent, file.as_fd(), size)
    }

    fn note_set(&self, below: &Below) {
        self.lent
            .audit
            .record(Act::AttributesSet { path: below.seen() });
    }
}

fn resize(lent: &crate::export::Lent, file: BorrowedFd<'_>, size: u64) -> Result<(), Status> {
    if i64::try_from(size).is_err() {
        return Err(Status::from(Errno::FBIG));
    }
    lent.quota
        .resize(file, |_| size, || Ok(ftruncate(file, size)?))
}

/// Of a file or folder that is open in whatever way, also without the right to read it: its name in `/proc` follows to
/// the very thing that was opened, and a link has been followed before.
fn set_mode_and_times(file: BorrowedFd<'_>, attributes: &Attributes) -> Result<(), Status> {
    let stat = fstat(file)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !kind.is_file() && !kind.is_dir() {
        return Err(Status::denied("It is neither a file nor a folder"));
    }
    check_owner(&stat, attributes.owner)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    if let Some(permissions) = attributes.permissions {
        chmod(&path, Mode::from_raw_mode(permissions & PERMISSIONS))?;
    }
    if let Some(times) = attributes.times {
        utimensat(rustix::fs::CWD, &path, &timestamps(times), AtFlags::empty())?;
    }
    Ok(())
}

/// Files keep their owner; to say who that is already is no change.
fn check_owner(stat: &Stat, owner: Option<Owner>) -> Result<(), Status> {
    match owner {
        Some(Owner { user, group }) if (user, group) != (stat.st_uid, stat.st_gid) => {
            Err(Status::denied("The owner cannot be changed"))
        }
        _ => Ok(()),
    }
}

fn timestamps(times: Times) -> Timestamps {
    let time = |seconds: u32| Timespec {
        tv_sec: i64::from(seconds),
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time(times.accessed),
        last_modification: time(times.modified),
    }
}
