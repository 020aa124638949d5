//! An SFTP client made of packets: it says what it likes, also what no real client would.

use std::sync::Arc;

use crate::{
    conversation::{Conversation, Over},
    export::Lent,
    protocol::{Outbox, kind},
};

pub(super) struct Client {
    conversation: Conversation,
    next: u32,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Reply {
    Status(u32),
    Handle(Vec<u8>),
    Data(Vec<u8>),
    Names(Vec<Vec<u8>>),
    /// Size and permissions.
    Attributes(u64, u32),
    Numbers(Vec<u64>),
}

impl Client {
    pub(super) fn new(lent: Arc<Lent>) -> Client {
        let mut conversation = Conversation::new(lent);
        let mut outbox = Outbox::default();
        conversation
            .answer(&[kind::INIT, 0, 0, 0, 3], &mut outbox)
            .unwrap();
        assert_eq!(outbox.take()[4..9], [kind::VERSION, 0, 0, 0, 3]);
        Client {
            conversation,
            next: 1,
        }
    }

    /// Sends one packet; the reply must have its id.
    pub(super) fn try_say(&mut self, kind: u8, body: &[Part<'_>]) -> Result<Reply, Over> {
        let id = self.next;
        self.next += 1;
        let mut packet = vec![kind];
        packet.extend_from_slice(&id.to_be_bytes());
        for part in body {
            part.write(&mut packet);
        }
        let mut outbox = Outbox::default();
        self.conversation.answer(&packet, &mut outbox)?;
        Ok(parse(&outbox.take(), id))
    }

    pub(super) fn say(&mut self, kind: u8, body: &[Part<'_>]) -> Reply {
        self.try_say(kind, body).unwrap()
    }

    pub(super) fn extended(&mut self, name: &str, body: &[Part<'_>]) -> Reply {
        let name = [Part::Text(name.as_bytes())];
        self.say(kind::EXTENDED, &[&name, body].concat())
    }

    pub(super) fn open(&mut self, path: &str, flags: u32) -> Reply {
        let body = [Part::Text(path.as_bytes()), Part::U32(flags), Part::U32(0)];
        self.say(kind::OPEN, &body)
    }

    pub(super) fn opened(&mut self, path: &str, flags: u32) -> Vec<u8> {
        match self.open(path, flags) {
            Reply::Handle(handle) => handle,
            other => panic!("{path}: {other:?}"),
        }
    }

    pub(super) fn read(&mut self, handle: &[u8]) -> Reply {
        let body = [Part::Text(handle), Part::U64(0), Part::U32(65536)];
        self.say(kind::READ, &body)
    }

    pub(super) fn write(&mut self, handle: &[u8], offset: u64, bytes: &[u8]) -> Reply {
        let body = [Part::Text(handle), Part::U64(offset), Part::Text(bytes)];
        self.say(kind::WRITE, &body)
    }

    pub(super) fn close(&mut self, handle: &[u8]) -> Reply {
        self.say(kind::CLOSE, &[Part::Text(handle)])
    }

    /// A request with one path.
    pub(super) fn path(&mut self, kind: u8, path: &str) -> Reply {
        self.say(kind, &[Part::Text(path.as_bytes())])
    }

    /// A request with two paths, in the order of the wire.
    pub(super) fn paths(&mut self, kind: u8, one: &str, two: &str) -> Reply {
        let body = [Part::Text(one.as_bytes()), Part::Text(two.as_bytes())];
        self.say(kind, &body)
    }

    pub(super) fn mkdir(&mut self, path: &str) -> Reply {
        let body = [Part::Text(path.as_bytes()), Part::U32(0)];
        self.say(kind::MKDIR, &body)
    }

    /// Everything that a folder lists.
    pub(super) fn list(&mut self, path: &str) -> Vec<String> {
        let Reply::Handle(handle) = self.path(kind::OPENDIR, path) else {
            panic!("{path} cannot be listed");
        };
        let mut names = Vec::new();
        while let Reply::Names(some) = self.say(kind::READDIR, &[Part::Text(&handle)]) {
            names.extend(some);
        }
        self.close(&handle);
        let mut names: Vec<_> = names
            .into_iter()
            .map(|name| String::from_utf8_lossy(&name).into_owned())
            .collect();
        names.sort();
        names
    }
}

#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    U32(u32),
    U64(u64),
    Text(&'a [u8]),
}

impl Part<'_> {
    fn write(&self, packet: &mut Vec<u8>) {
        match self {
            Part::U32(number) => packet.extend_from_slice(&number.to_be_bytes()),
            Part::U64(number) => packet.extend_from_slice(&number.to_be_bytes()),
            Part::Text(text) => {
                let length = u32::try_from(text.len()).unwrap();
                packet.extend_from_slice(&length.to_be_bytes());
                packet.extend_from_slice(text);
            }
        }
    }
}

fn parse(bytes: &[u8], id: u32) -> Reply {
    let mut cursor = Cursor(bytes);
    assert_eq!(
        cursor.u32() as usize,
        bytes.len() - 4,
        "one reply and no more"
    );
    let kind = cursor.u8();
    assert_eq!(cursor.u32(), id, "the id is the request's");
    match kind {
        kind::STATUS => Reply::Status(cursor.u32()),
        kind::HANDLE => Reply::Handle(cursor.text()),
        kind::DATA => Reply::Data(cursor.text()),
        kind::NAME => {
            let count = cursor.u32();
            let entry = |_| {
                let name = cursor.text();
                cursor.text();
                cursor.attributes();
                name
            };
            Reply::Names((0..count).map(entry).collect())
        }
        kind::ATTRS => {
            let (size, permissions) = cursor.attributes();
            Reply::Attributes(size, permissions)
        }
        kind::EXTENDED_REPLY => {
            let mut numbers = Vec::new();
            while !cursor.0.is_empty() {
                numbers.push(cursor.u64());
            }
            Reply::Numbers(numbers)
        }
        other => panic!("a reply of type {other}"),
    }
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes.to_vec()
    }

    fn u8(&mut self) -> u8 {
        self.bytes(1)[0]
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes(8).try_into().unwrap())
    }

    fn text(&mut self) -> Vec<u8> {
        let length = self.u32() as usize;
        self.bytes(length)
    }

    fn attributes(&mut self) -> (u64, u32) {
        let flags = self.u32();
        if flags == 0 {
            return (0, 0);
        }
        assert_eq!(flags, 0xf, "size, owner, permissions and times");
        let size = self.u64();
        self.bytes(8);
        let permissions = self.u32();
        self.bytes(8);
        (size, permissions)
    }
}
