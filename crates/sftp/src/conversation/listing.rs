//! Listing folders, some entries at a time.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, statat};

use super::{
    Answer, Conversation, Reply,
    handles::{Handle, OpenFolder},
};
use crate::{
    protocol::{Attributes, Entry, Outbox, Status},
    view::{Place, View},
};

/// Entries in one reply: with the longest names some 80 KiB, which every client takes.
const ENTRIES_MAX: usize = 128;

struct Listed {
    name: Vec<u8>,
    line: Vec<u8>,
    attributes: Attributes,
}

impl Conversation {
    pub(super) fn opendir(&mut self, id: u32, path: &[u8], outbox: &mut Outbox) -> Answer {
        self.handles.check_room()?;
        let handle = match Place::of(path)? {
            Place::Root => Handle::Root { told: 0 },
            Place::Below(below) => {
                let place = self.handles.place()?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
                let folder = self.lent.view.open(&below, flags, Mode::empty())?;
                let entries = Dir::read_from(&folder)?;
                Handle::Folder(OpenFolder {
                    folder,
                    entries,
                    below,
                    _place: place,
                })
            }
        };
        let handle = self.handles.add(handle);
        outbox.handle(id, &handle);
        Ok(Reply::Written)
    }

    pub(super) fn readdir(&mut self, id: u32, handle: &[u8], outbox: &mut Outbox) -> Answer {
        let listed = match self.handles.get(handle)? {
            Handle::Folder(OpenFolder {
                folder, entries, ..
            }) => read_some(folder, entries)?,
            Handle::Root { told: 0 } => {
                let listed = list_root(&self.lent.view)?;
                if let Ok(Handle::Root { told }) = self.handles.get(handle) {
                    *told = listed.len();
                }
                listed
            }
            Handle::Root { .. } => Vec::new(),
            Handle::File(_) => return Err(Status::failure("The handle is of a file")),
        };
        if listed.is_empty() {
            return Err(Status::EOF);
        }
        let entries = listed.iter().map(|listed| Entry {
            name: &listed.name,
            line: &listed.line,
            attributes: listed.attributes,
        });
        outbox.names(id, entries);
        Ok(Reply::Written)
    }
}

fn read_some(folder: &OwnedFd, entries: &mut Dir) -> Result<Vec<Listed>, Status> {
    let mut listed = Vec::new();
    while listed.len() < ENTRIES_MAX {
        let Some(entry) = entries.read() else { break };
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        // What is above the root is not told: both are the folder itself.
        let stat = match name {
            b"." | b".." => fstat(folder),
            name => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW),
        };
        if let Ok(stat) = stat {
            listed.push(Listed::new(name, Attributes::from(&stat)));
        }
        // Otherwise it was removed meanwhile.
    }
    Ok(listed)
}

fn list_root(view: &View) -> Result<Vec<Listed>, Status> {
    let root = view.root_attributes()?;
    let mut listed = vec![Listed::new(b".", root), Listed::new(b"..", root)];
    for (name, folder) in view.areas() {
        let attributes = Attributes::from(&fstat(folder.as_fd())?);
        listed.push(Listed::new(name.as_bytes(), attributes));
    }
    Ok(listed)
}

impl Listed {
    fn new(name: &[u8], attributes: Attributes) -> Listed {
        Listed {
            name: name.to_vec(),
            line: line(name, &attributes),
            attributes,
        }
    }
}

/// As `ls -l` would show it, with the day in numbers; clients that care read the attributes.
fn line(name: &[u8], attributes: &Attributes) -> Vec<u8> {
    let mode = attributes.permissions.unwrap_or(0);
    let kind = match mode & 0o170_000 {
        0o040_000 => 'd',
        0o120_000 => 'l',
        0o100_000 => '-',
        _ => '?',
    };
    let mut text = String::from(kind);
    for (index, letter) in "rwxrwxrwx".chars().enumerate() {
        let is_set = mode & (0o400 >> index) != 0;
        text.push(if is_set { letter } else { '-' });
    }
    let (user, group) = attributes
        .owner
        .map_or((0, 0), |owner| (owner.user, owner.group));
    let size = attributes.size.unwrap_or(0);
    let (year, month, day) = day_of(attributes.times.map_or(0, |times| times.modified));
    text += &format!(" 1 {user:<8} {group:<8} {size:>12} {year:04}-{month:02}-{day:02} ");
    let mut line = text.into_bytes();
    line.extend_from_slice(name);
    line
}

/// The civil day of a time since 1970, counted in eras of 400 years that begin in March.
fn day_of(seconds: u32) -> (u32, u32, u32) {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u32::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_civil() {
        for (seconds, expected) in [
            (0, (1970, 1, 1)),
            (951_782_400, (2000, 2, 29)),
            (1_704_067_199, (2023, 12, 31)),
            (u32::MAX, (2106, 2, 7)),
        ] {
            assert_eq!(day_of(seconds), expected, "{seconds}");
        }
    }
}
