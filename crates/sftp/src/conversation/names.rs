//! What happens by name: each change in an opened parent by its last name, where the kernel follows nothing.

use std::{ffi::OsStr, os::fd::AsFd, os::unix::ffi::OsStrExt};

use rustix::{
    fs::{
        AtFlags, FileType, Mode, RenameFlags, linkat, mkdirat, renameat, renameat_with, statat,
        symlinkat, unlinkat,
    },
    io::Errno,
};

use super::{Answer, Conversation, Reply, content::PERMISSIONS};
use crate::{
    audit::Act,
    links,
    protocol::{Attributes, Outbox, PATH_BYTES_MAX, Status},
    view::plain,
};

/// What a rename does to what has the new name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Existing {
    Kept,
    Replaced,
}

impl Conversation {
    pub(super) fn realpath(&mut self, id: u32, path: &[u8], outbox: &mut Outbox) -> Answer {
        outbox.name(id, &plain(path)?);
        Ok(Reply::Written)
    }

    pub(super) fn remove(&mut self, path: &[u8]) -> Answer {
        let below = self.changeable(path)?;
        let (parent, name) = self.lent.view.parent(&below)?;
        self.lent.guard.check(&parent, name)?;
        let _names = self.lent.names();
        let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        unlinkat(&parent, name, AtFlags::empty())?;
        self.lent.quota.removed(&stat);
        self.lent.audit.record(Act::Removed { path: below.seen() });
        Ok(Reply::Done)
    }

    pub(super) fn mkdir(&mut self, path: &[u8], attributes: Attributes) -> Answer {
        let below = self.changeable(path)?;
        let (parent, name) = self.lent.view.parent(&below)?;
        let _names = self.lent.names();
        self.lent.guard.check_new(&parent, name)?;
        let mode = attributes.permissions.unwrap_or(PERMISSIONS) & PERMISSIONS;
        mkdirat(&parent, name, Mode::from_raw_mode(mode))?;
        self.lent
            .audit
            .record(Act::FolderMade { path: below.seen() });
        Ok(Reply::Done)
    }

    pub(super) fn rmdir(&mut self, path: &[u8]) -> Answer {
        let below = self.changeable(path)?;
        let (parent, name) = self.lent.view.parent(&below)?;
        self.lent.guard.check(&parent, name)?;
        unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
        self.lent
            .audit
            .record(Act::FolderRemoved { path: below.seen() });
        Ok(Reply::Done)
    }

    pub(super) fn rename(&mut self, from: &[u8], to: &[u8], existing: Existing) -> Answer {
        let (from, to) = (self.changeable(from)?, self.changeable(to)?);
        let (old_parent, old_name) = self.lent.view.parent(&from)?;
        let (new_parent, new_name) = self.lent.view.parent(&to)?;
        let _names = self.lent.names();
        self.lent.guard.check(&old_parent, old_name)?;
        self.lent.guard.check_new(&new_parent, new_name)?;
        let stat = statat(&old_parent, old_name, AtFlags::SYMLINK_NOFOLLOW)?;
        let root = self.lent.view.folder(from.area)?.as_fd();
        let (old, new) = (old_parent.as_fd(), new_parent.as_fd());
        links::check_move(old_name, &stat, root, old, new)?;
        let replaced = statat(new, new_name, AtFlags::SYMLINK_NOFOLLOW).ok();
        match existing {
            Existing::Replaced => renameat(old, old_name, new, new_name)?,
            Existing::Kept => {
                match renameat_with(old, old_name, new, new_name, RenameFlags::NOREPLACE) {
                    // Not every file system can do it in one step; no other change of names happens meanwhile.
                    Err(Errno::INVAL) if replaced.is_none() => {
                        renameat(old, old_name, new, new_name)?;
                    }
                    Err(Errno::INVAL) => return Err(Status::from(Errno::EXIST)),
                    other => other?,
                }
            }
        }
        if let Some(replaced) = replaced
            && (replaced.st_dev, replaced.st_ino) != (stat.st_dev, stat.st_ino)
        {
            self.lent.quota.removed(&replaced);
        }
        self.lent.audit.record(Act::Renamed {
            from: from.seen(),
            to: to.seen(),
        });
        Ok(Reply::Done)
    }

    pub(super) fn hardlink(&mut self, from: &[u8], to: &[u8]) -> Answer {
        let (from, to) = (self.changeable(from)?, self.changeable(to)?);
        let (old_parent, old_name) = self.lent.view.parent(&from)?;
        let (new_parent, new_name) = self.lent.view.parent(&to)?;
        let _names = self.lent.names();
        self.lent.guard.check(&old_parent, old_name)?;
        self.lent.guard.check_new(&new_parent, new_name)?;
        let stat = statat(&old_parent, old_name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::RegularFile | FileType::Symlink
        ) {
            return Err(Status::denied("Only files can have a second name"));
        }
        self.lent.guard.check_file(&stat)?;
        let root = self.lent.view.folder(from.area)?.as_fd();
        let (old, new) = (old_parent.as_fd(), new_parent.as_fd());
        links::check_move(old_name, &stat, root, old, new)?;
        linkat(old, old_name, new, new_name, AtFlags::empty())?;
        self.lent.audit.record(Act::Linked {
            from: from.seen(),
            to: to.seen(),
        });
        Ok(Reply::Done)
    }

    pub(super) fn readlink(&mut self, id: u32, path: &[u8], outbox: &mut Outbox) -> Answer {
        let below = self.below(path)?;
        let (parent, name) = self.lent.view.parent(&below)?;
        let root = self.lent.view.folder(below.area)?.as_fd();
        let target = links::read(name, root, parent.as_fd())?;
        outbox.name(id, &target);
        Ok(Reply::Written)
    }

    pub(super) fn symlink(&mut self, target: &[u8], link: &[u8]) -> Answer {
        let below = self.changeable(link)?;
        if target.len() >= PATH_BYTES_MAX {
            return Err(Status::from(Errno::NAMETOOLONG));
        }
        let (parent, name) = self.lent.view.parent(&below)?;
        let _names = self.lent.names();
        self.lent.guard.check_new(&parent, name)?;
        let root = self.lent.view.folder(below.area)?.as_fd();
        links::check(target, root, parent.as_fd())?;
        let target = OsStr::from_bytes(target);
        symlinkat(target, &parent, name)?;
        self.lent.audit.record(Act::LinkMade {
            path: below.seen(),
            target: target.into(),
        });
        Ok(Reply::Done)
    }
}
