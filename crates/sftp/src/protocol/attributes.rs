//! The attributes of a file as packets carry them.

use rustix::fs::Stat;

use super::request::Cursor;

const SIZE: u32 = 0x1;
const OWNER: u32 = 0x2;
const PERMISSIONS: u32 = 0x4;
const TIMES: u32 = 0x8;
const EXTENDED: u32 = 0x8000_0000;

/// More extended attributes than this in one packet are nonsense; nobody uses any.
const EXTENDED_MAX: u32 = 64;

/// Every part may be absent: a client says only what it wants changed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Attributes {
    pub(crate) size: Option<u64>,
    pub(crate) owner: Option<Owner>,
    pub(crate) permissions: Option<u32>,
    pub(crate) times: Option<Times>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// Seconds since 1970; the protocol knows nothing finer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Times {
    pub(crate) accessed: u32,
    pub(crate) modified: u32,
}

impl Attributes {
    /// `None` if the packet ends too early.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Option<Attributes> {
        let flags = cursor.u32()?;
        let mut attributes = Attributes::default();
        if flags & SIZE != 0 {
            attributes.size = Some(cursor.u64()?);
        }
        if flags & OWNER != 0 {
            attributes.owner = Some(Owner {
                user: cursor.u32()?,
                group: cursor.u32()?,
            });
        }
        if flags & PERMISSIONS != 0 {
            attributes.permissions = Some(cursor.u32()?);
        }
        if flags & TIMES != 0 {
            attributes.times = Some(Times {
                accessed: cursor.u32()?,
                modified: cursor.u32()?,
            });
        }
        if flags & EXTENDED != 0 {
            let count = cursor.u32().filter(|count| *count <= EXTENDED_MAX)?;
            for _ in 0..count {
                cursor.string()?;
                cursor.string()?;
            }
        }
        Some(attributes)
    }

    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        let mut flags = 0;
        for (bit, is_there) in [
            (SIZE, self.size.is_some()),
            (OWNER, self.owner.is_some()),
            (PERMISSIONS, self.permissions.is_some()),
            (TIMES, self.times.is_some()),
        ] {
            flags |= if is_there { bit } else { 0 };
        }
        bytes.extend_from_slice(&flags.to_be_bytes());
        if let Some(size) = self.size {
            bytes.extend_from_slice(&size.to_be_bytes());
        }
        if let Some(Owner { user, group }) = self.owner {
            bytes.extend_from_slice(&user.to_be_bytes());
            bytes.extend_from_slice(&group.to_be_bytes());
        }
        if let Some(permissions) = self.permissions {
            bytes.extend_from_slice(&permissions.to_be_bytes());
        }
        if let Some(Times { accessed, modified }) = self.times {
            bytes.extend_from_slice(&accessed.to_be_bytes());
            bytes.extend_from_slice(&modified.to_be_bytes());
        }
    }
}

impl From<&Stat> for Attributes {
    fn from(stat: &Stat) -> Attributes {
        // Times before 1970 or after 2106 cannot be said.
        let seconds = |time: i64| u32::try_from(time.max(0)).unwrap_or(u32::MAX);
        Attributes {
            size: Some(stat.st_size.unsigned_abs()),
            owner: Some(Owner {
                user: stat.st_uid,
                group: stat.st_gid,
            }),
            permissions: Some(stat.st_mode),
            times: Some(Times {
                accessed: seconds(stat.st_atime),
                modified: seconds(stat.st_mtime),
            }),
        }
    }
}
