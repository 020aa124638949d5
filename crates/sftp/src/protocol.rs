//! SFTP version 3 as bytes: packets in, packets out. No file is touched here.
//!
//! Names are bytes from end to end. What cannot be read is an answer of its own (`BAD_MESSAGE`) under the request's
//! id, so that no client waits for ever.

mod attributes;
mod reply;
mod request;

pub(crate) use attributes::{Attributes, Owner, Times};
pub(crate) use reply::{Entry, Outbox, Status, StatusCode};
pub(crate) use request::{Extended, OpenFlags, Request, read_request};

/// The version that is spoken; OpenSSH and sshfs speak no other.
pub(crate) const VERSION: u32 = 3;

/// The longest packet that is read, as OpenSSH has it: a write of the largest size with room to spare.
pub(crate) const PACKET_BYTES_MAX: usize = 256 * 1024;

/// The most that one read returns or one write brings. Clients keep up to 64 such requests under way, which makes
/// 8 MiB, well below what is held for a connection.
pub(crate) const TRANSFER_BYTES_MAX: u32 = 128 * 1024;

/// What the kernel takes as a path.
pub(crate) const PATH_BYTES_MAX: usize = 4096;

/// The names and versions of what is understood beyond version 3.
pub(crate) const EXTENSIONS: [(&[u8], &[u8]); 7] = [
    (b"posix-rename@openssh.com", b"1"),
    (b"statvfs@openssh.com", b"2"),
    (b"fstatvfs@openssh.com", b"2"),
    (b"hardlink@openssh.com", b"1"),
    (b"fsync@openssh.com", b"1"),
    (b"lsetstat@openssh.com", b"1"),
    (b"limits@openssh.com", b"1"),
];

/// Numbers of packet types, as the draft and OpenSSH have them.
pub(crate) mod kind {
    pub(crate) const INIT: u8 = 1;
    pub(crate) const VERSION: u8 = 2;
    pub(crate) const OPEN: u8 = 3;
    pub(crate) const CLOSE: u8 = 4;
    pub(crate) const READ: u8 = 5;
    pub(crate) const WRITE: u8 = 6;
    pub(crate) const LSTAT: u8 = 7;
    pub(crate) const FSTAT: u8 = 8;
    pub(crate) const SETSTAT: u8 = 9;
    pub(crate) const FSETSTAT: u8 = 10;
    pub(crate) const OPENDIR: u8 = 11;
    pub(crate) const READDIR: u8 = 12;
    pub(crate) const REMOVE: u8 = 13;
    pub(crate) const MKDIR: u8 = 14;
    pub(crate) const RMDIR: u8 = 15;
    pub(crate) const REALPATH: u8 = 16;
    pub(crate) const STAT: u8 = 17;
    pub(crate) const RENAME: u8 = 18;
    pub(crate) const READLINK: u8 = 19;
    pub(crate) const SYMLINK: u8 = 20;
    pub(crate) const STATUS: u8 = 101;
    pub(crate) const HANDLE: u8 = 102;
    pub(crate) const DATA: u8 = 103;
    pub(crate) const NAME: u8 = 104;
    pub(crate) const ATTRS: u8 = 105;
    pub(crate) const EXTENDED: u8 = 200;
    pub(crate) const EXTENDED_REPLY: u8 = 201;
}
