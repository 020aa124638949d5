//! Replies: written one behind the other into a buffer that leaves in one go.

use rustix::io::Errno;

use super::{Attributes, EXTENSIONS, VERSION, kind};

/// Replies that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
}

/// How a request ended, if not with something to show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Status {
    pub(crate) code: StatusCode,
    pub(crate) message: &'static str,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum StatusCode {
    Ok = 0,
    Eof = 1,
    NoSuchFile = 2,
    PermissionDenied = 3,
    Failure = 4,
    BadMessage = 5,
    Unsupported = 8,
}

/// One line of a listing.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u8],
    /// What `ls -l` of a simple client shows.
    pub(crate) line: &'a [u8],
    pub(crate) attributes: Attributes,
}

impl Status {
    pub(crate) const OK: Status = Status::new(StatusCode::Ok, "Success");
    pub(crate) const EOF: Status = Status::new(StatusCode::Eof, "End of file");

    pub(crate) const fn new(code: StatusCode, message: &'static str) -> Status {
        Status { code, message }
    }

    pub(crate) const fn denied(message: &'static str) -> Status {
        Status::new(StatusCode::PermissionDenied, message)
    }

    pub(crate) const fn failure(message: &'static str) -> Status {
        Status::new(StatusCode::Failure, message)
    }
}

impl From<Errno> for Status {
    fn from(error: Errno) -> Status {
        match error {
            Errno::NOENT | Errno::NOTDIR => Status::new(StatusCode::NoSuchFile, "No such file"),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Status::denied("Permission denied"),
            Errno::XDEV => Status::denied("It leads outside"),
            Errno::LOOP => Status::denied("Too many links"),
            Errno::EXIST => Status::failure("It exists already"),
            Errno::NOTEMPTY => Status::failure("The folder is not empty"),
            Errno::NOSPC | Errno::DQUOT => Status::failure("No space left on device"),
            Errno::NAMETOOLONG => Status::failure("The name is too long"),
            Errno::ISDIR => Status::failure("It is a folder"),
            Errno::OPNOTSUPP => Status::new(StatusCode::Unsupported, "Not supported"),
            Errno::MFILE | Errno::NFILE => Status::failure("Too many open files"),
            // Anything else would tell a stranger about this machine.
            _ => Status::failure("Failure"),
        }
    }
}

impl Outbox {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn version(&mut self) {
        self.packet(kind::VERSION, |bytes| {
            put_u32(bytes, VERSION);
            for (name, version) in EXTENSIONS {
                put_string(bytes, name);
                put_string(bytes, version);
            }
        });
    }

    pub(crate) fn status(&mut self, id: u32, status: Status) {
        self.packet(kind::STATUS, |bytes| {
            put_u32(bytes, id);
            put_u32(bytes, status.code as u32);
            put_string(bytes, status.message.as_bytes());
            put_string(bytes, b"en");
        });
    }

    pub(crate) fn handle(&mut self, id: u32, handle: &[u8]) {
        self.packet(kind::HANDLE, |bytes| {
            put_u32(bytes, id);
            put_string(bytes, handle);
        });
    }

    /// `read` fills the buffer it is given and says how much of it; with an error or nothing read no packet is left.
    pub(crate) fn data(
        &mut self,
        id: u32,
        length: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, Status>,
    ) -> Result<(), Status> {
        let start = self.bytes.len();
        let header = start + 4 + 1 + 4 + 4;
        self.bytes.resize(header + length, 0);
        let count = match read(&mut self.bytes[header..]) {
            Ok(0) => Err(Status::EOF),
            other => other,
        };
        match count {
            Ok(count) => {
                self.bytes.truncate(header + count);
                let packet = &mut self.bytes[start..];
                packet[..4].copy_from_slice(&length_of(count + 9).to_be_bytes());
                packet[4] = kind::DATA;
                packet[5..9].copy_from_slice(&id.to_be_bytes());
                packet[9..13].copy_from_slice(&length_of(count).to_be_bytes());
                Ok(())
            }
            Err(status) => {
                self.bytes.truncate(start);
                Err(status)
            }
        }
    }

    pub(crate) fn names<'a>(&mut self, id: u32, entries: impl ExactSizeIterator<Item = Entry<'a>>) {
        self.packet(kind::NAME, |bytes| {
            put_u32(bytes, id);
            put_u32(bytes, length_of(entries.len()));
            for entry in entries {
                put_string(bytes, entry.name);
                put_string(bytes, entry.line);
                entry.attributes.write(bytes);
            }
        });
    }

    /// A single name without attributes: the answer to REALPATH and READLINK.
    pub(crate) fn name(&mut self, id: u32, name: &[u8]) {
        let attributes = Attributes::default();
        let line = name;
        self.names(
            id,
            std::iter::once(Entry {
                name,
                line,
                attributes,
            }),
        );
    }

    pub(crate) fn attributes(&mut self, id: u32, attributes: &Attributes) {
        self.packet(kind::ATTRS, |bytes| {
            put_u32(bytes, id);
            attributes.write(bytes);
        });
    }

    /// The numbers of an extended reply, which is all that any of ours is made of.
    pub(crate) fn numbers(&mut self, id: u32, numbers: &[u64]) {
        self.packet(kind::EXTENDED_REPLY, |bytes| {
            put_u32(bytes, id);
            for number in numbers {
                bytes.extend_from_slice(&number.to_be_bytes());
            }
        });
    }

    fn packet(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0, 0, 0, kind]);
        body(&mut self.bytes);
        let length = length_of(self.bytes.len() - start - 4);
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

fn put_u32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend_from_slice(&number.to_be_bytes());
}

fn put_string(bytes: &mut Vec<u8>, string: &[u8]) {
    put_u32(bytes, length_of(string.len()));
    bytes.extend_from_slice(string);
}

fn length_of(length: usize) -> u32 {
    u32::try_from(length).expect("replies are bounded far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_gives_nothing_leaves_no_packet_behind() {
        let mut outbox = Outbox::default();
        outbox.status(1, Status::OK);
        let before = outbox.len();
        assert_eq!(outbox.data(2, 64, |_| Ok(0)), Err(Status::EOF));
        let failed = Status::failure("x");
        assert_eq!(outbox.data(2, 64, |_| Err(failed)), Err(failed));
        assert_eq!(outbox.len(), before);
        outbox
            .data(3, 64, |buffer| {
                buffer[..2].copy_from_slice(b"hi");
                Ok(2)
            })
            .unwrap();
        let bytes = outbox.take();
        assert_eq!(bytes[before..], *b"\0\0\0\x0b\x67\0\0\0\x03\0\0\0\x02hi");
    }
}
