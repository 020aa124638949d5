//! Requests: read from a packet without copying its names or its data.

use super::{Attributes, kind};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Request<'a> {
    Init {
        version: u32,
    },
    Open {
        path: &'a [u8],
        flags: OpenFlags,
        attributes: Attributes,
    },
    Close {
        handle: &'a [u8],
    },
    Read {
        handle: &'a [u8],
        offset: u64,
        length: u32,
    },
    Write {
        handle: &'a [u8],
        offset: u64,
        bytes: &'a [u8],
    },
    Lstat {
        path: &'a [u8],
    },
    Fstat {
        handle: &'a [u8],
    },
    Setstat {
        path: &'a [u8],
        attributes: Attributes,
    },
    Fsetstat {
        handle: &'a [u8],
        attributes: Attributes,
    },
    Opendir {
        path: &'a [u8],
    },
    Readdir {
        handle: &'a [u8],
    },
    Remove {
        path: &'a [u8],
    },
    Mkdir {
        path: &'a [u8],
        attributes: Attributes,
    },
    Rmdir {
        path: &'a [u8],
    },
    Realpath {
        path: &'a [u8],
    },
    Stat {
        path: &'a [u8],
    },
    Rename {
        from: &'a [u8],
        to: &'a [u8],
    },
    Readlink {
        path: &'a [u8],
    },
    /// In the order that OpenSSH and sshfs send, not the draft's.
    Symlink {
        target: &'a [u8],
        link: &'a [u8],
    },
    Extended(Extended<'a>),
    /// A type that version 3 does not have.
    Unknown,
    /// The packet ends too early or too late for its type.
    Malformed,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Extended<'a> {
    PosixRename {
        from: &'a [u8],
        to: &'a [u8],
    },
    Statvfs {
        path: &'a [u8],
    },
    Fstatvfs {
        handle: &'a [u8],
    },
    Hardlink {
        from: &'a [u8],
        to: &'a [u8],
    },
    Fsync {
        handle: &'a [u8],
    },
    Lsetstat {
        path: &'a [u8],
        attributes: Attributes,
    },
    Limits,
}

/// How a file is to be opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct OpenFlags(pub(crate) u32);

impl OpenFlags {
    pub(crate) const READ: OpenFlags = OpenFlags(0x1);
    pub(crate) const WRITE: OpenFlags = OpenFlags(0x2);
    pub(crate) const APPEND: OpenFlags = OpenFlags(0x4);
    pub(crate) const CREATE: OpenFlags = OpenFlags(0x8);
    pub(crate) const TRUNCATE: OpenFlags = OpenFlags(0x10);
    pub(crate) const EXCLUSIVE: OpenFlags = OpenFlags(0x20);

    pub(crate) fn has(self, flag: OpenFlags) -> bool {
        self.0 & flag.0 != 0
    }

    pub(crate) fn without(self, flag: OpenFlags) -> OpenFlags {
        OpenFlags(self.0 & !flag.0)
    }

    /// Anything that can change a file or make one.
    pub(crate) fn changes(self) -> bool {
        self.0 & !OpenFlags::READ.0 != 0
    }
}

/// The id and the request of a packet without its length. `None` for one too short to have an id.
pub(crate) fn read_request(packet: &[u8]) -> Option<(u32, Request<'_>)> {
    let (kind, rest) = packet.split_first()?;
    let mut cursor = Cursor(rest);
    let id = cursor.u32()?;
    if *kind == kind::INIT {
        // What follows are the client's extensions, none of which matter to a server.
        return Some((0, Request::Init { version: id }));
    }
    let request = match read_body(*kind, &mut cursor) {
        Some(request) if cursor.0.is_empty() || request == Request::Unknown => request,
        Some(_) | None => Request::Malformed,
    };
    Some((id, request))
}

fn read_body<'a>(kind: u8, cursor: &mut Cursor<'a>) -> Option<Request<'a>> {
    Some(match kind {
        kind::OPEN => Request::Open {
            path: cursor.string()?,
            flags: OpenFlags(cursor.u32()?),
            attributes: Attributes::read(cursor)?,
        },
        kind::CLOSE => Request::Close {
            handle: cursor.string()?,
        },
        kind::READ => Request::Read {
            handle: cursor.string()?,
            offset: cursor.u64()?,
            length: cursor.u32()?,
        },
        kind::WRITE => Request::Write {
            handle: cursor.string()?,
            offset: cursor.u64()?,
            bytes: cursor.string()?,
        },
        kind::FSTAT => Request::Fstat {
            handle: cursor.string()?,
        },
        kind::FSETSTAT => Request::Fsetstat {
            handle: cursor.string()?,
            attributes: Attributes::read(cursor)?,
        },
        kind::READDIR => Request::Readdir {
            handle: cursor.string()?,
        },
        kind::EXTENDED => read_extended(cursor)?,
        _ => return read_named(kind, cursor),
    })
}

/// The requests that begin with a path.
fn read_named<'a>(kind: u8, cursor: &mut Cursor<'a>) -> Option<Request<'a>> {
    if !matches!(
        kind,
        kind::LSTAT | kind::SETSTAT | kind::OPENDIR | kind::REMOVE..=kind::SYMLINK
    ) {
        return Some(Request::Unknown);
    }
    let path = cursor.string()?;
    Some(match kind {
        kind::LSTAT => Request::Lstat { path },
        kind::SETSTAT => Request::Setstat {
            path,
            attributes: Attributes::read(cursor)?,
        },
        kind::OPENDIR => Request::Opendir { path },
        kind::REMOVE => Request::Remove { path },
        kind::MKDIR => Request::Mkdir {
            path,
            attributes: Attributes::read(cursor)?,
        },
        kind::RMDIR => Request::Rmdir { path },
        kind::REALPATH => Request::Realpath { path },
        kind::STAT => Request::Stat { path },
        kind::RENAME => Request::Rename {
            from: path,
            to: cursor.string()?,
        },
        kind::READLINK => Request::Readlink { path },
        _ => Request::Symlink {
            target: path,
            link: cursor.string()?,
        },
    })
}

fn read_extended<'a>(cursor: &mut Cursor<'a>) -> Option<Request<'a>> {
    let extended = match cursor.string()? {
        b"posix-rename@openssh.com" => Extended::PosixRename {
            from: cursor.string()?,
            to: cursor.string()?,
        },
        b"statvfs@openssh.com" => Extended::Statvfs {
            path: cursor.string()?,
        },
        b"fstatvfs@openssh.com" => Extended::Fstatvfs {
            handle: cursor.string()?,
        },
        b"hardlink@openssh.com" => Extended::Hardlink {
            from: cursor.string()?,
            to: cursor.string()?,
        },
        b"fsync@openssh.com" => Extended::Fsync {
            handle: cursor.string()?,
        },
        b"lsetstat@openssh.com" => Extended::Lsetstat {
            path: cursor.string()?,
            attributes: Attributes::read(cursor)?,
        },
        b"limits@openssh.com" => Extended::Limits,
        _ => return Some(Request::Unknown),
    };
    Some(Request::Extended(extended))
}

/// What is left of a packet.
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*bytes))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*bytes))
    }

    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(bytes: &[u8]) -> Vec<u8> {
        [
            &u32::try_from(bytes.len()).unwrap().to_be_bytes()[..],
            bytes,
        ]
        .concat()
    }

    fn packet(kind: u8, body: &[&[u8]]) -> Vec<u8> {
        [&[kind][..], &7u32.to_be_bytes(), &body.concat()].concat()
    }

    #[test]
    fn names_are_bytes_and_ids_are_kept() {
        let bytes = packet(kind::STAT, &[&string(b"\xff\xfe/\xc3\xa9")]);
        let path = &b"\xff\xfe/\xc3\xa9"[..];
        assert_eq!(read_request(&bytes), Some((7, Request::Stat { path })));
    }

    #[test]
    fn a_link_is_made_in_the_order_of_openssh() {
        let bytes = packet(kind::SYMLINK, &[&string(b"target"), &string(b"link")]);
        let (target, link) = (&b"target"[..], &b"link"[..]);
        assert_eq!(
            read_request(&bytes),
            Some((7, Request::Symlink { target, link }))
        );
    }

    #[test]
    fn a_packet_of_the_wrong_length_is_malformed_and_keeps_its_id() {
        for body in [
            &b""[..],
            b"\0\0\0\x05abc",
            b"\xff\xff\xff\xff",
            b"\0\0\0\x01ab",
        ] {
            for kind in kind::OPEN..=kind::SYMLINK {
                let bytes = packet(kind, &[body]);
                assert_eq!(
                    read_request(&bytes),
                    Some((7, Request::Malformed)),
                    "type {kind} with {body:?}"
                );
            }
        }
    }

    #[test]
    fn unknown_types_and_extensions_are_told_apart_from_bad_ones() {
        for bytes in [
            packet(99, &[b"whatever"]),
            packet(kind::EXTENDED, &[&string(b"copy-data"), b"more"]),
        ] {
            assert_eq!(read_request(&bytes), Some((7, Request::Unknown)));
        }
        assert_eq!(read_request(b"\x05\0\0"), None);
        assert_eq!(read_request(b""), None);
    }
}
