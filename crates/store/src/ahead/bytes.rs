//! Changes as bytes, as they lie in the log until the database has them.
//!
//! A frame is the length of what it holds, its number, a hash of both, and the changes of one write. What follows the last
//! frame may be anything: an older frame, half of one, nothing.

use sha2::{Digest, Sha256};

use crate::{Change, Entry, EventBatch, RecordRow, SessionRow};

/// Length (4 bytes), number (8), hash (8).
const HEAD: usize = 20;

/// A write as it was read back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) number: u64,
    pub(super) changes: Vec<Change>,
}

/// The frame of a write.
pub(super) fn frame(number: u64, changes: &[Change]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    for change in changes {
        put_change(&mut bytes, change);
    }
    let length = u32::try_from(bytes.len() - HEAD).unwrap_or(u32::MAX);
    let hash = hash(number, &bytes[HEAD..]);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..12].copy_from_slice(&number.to_le_bytes());
    bytes[12..HEAD].copy_from_slice(&hash);
    bytes
}

/// The frames at the beginning of a log, up to the first that is not whole or does not follow the one before it.
pub(super) fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut left = Bytes { left: bytes };
    let mut frames: Vec<Frame> = Vec::new();
    while let Some(frame) = left.frame() {
        let follows = frames
            .last()
            .is_none_or(|last| last.number + 1 == frame.number);
        if !follows {
            break;
        }
        frames.push(frame);
    }
    frames
}

fn hash(number: u64, body: &[u8]) -> [u8; 8] {
    let mut hasher = Sha256::new();
    hasher.update(number.to_le_bytes());
    hasher.update(body);
    let mut short = [0; 8];
    short.copy_from_slice(&hasher.finalize()[..8]);
    short
}

fn put_change(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::PutAgent { name, record } => put_texts(bytes, 0, &[name, record]),
        Change::DeleteAgent { name } => put_texts(bytes, 1, &[name]),
        Change::PutFact { key, value } => put_texts(bytes, 2, &[key, value]),
        Change::Journal(entry) => {
            put_texts(bytes, 3, &[&entry.kind, &entry.body]);
            bytes.extend(entry.at.to_le_bytes());
            put_option(bytes, entry.agent.as_deref());
            put_option(bytes, entry.session.as_deref());
        }
        Change::PutSession(row) => {
            put_texts(bytes, 4, &[&row.id, &row.agent, &row.record]);
            bytes.push(u8::from(row.live));
        }
        Change::AppendEvents(batch) => {
            put_texts(bytes, 5, &[&batch.session, &batch.lines]);
            bytes.extend(batch.first.to_le_bytes());
            bytes.extend(batch.last.to_le_bytes());
            bytes.extend(batch.at.to_le_bytes());
        }
        Change::PutRecord(row) => put_record(bytes, 6, row),
        Change::PutLiveRecord(row) => put_record(bytes, 7, row),
        Change::DeleteRecord { kind, id } => put_texts(bytes, 8, &[kind, id]),
    }
}

fn put_record(bytes: &mut Vec<u8>, tag: u8, row: &RecordRow) {
    put_texts(bytes, tag, &[&row.kind, &row.id, &row.record]);
    bytes.extend(row.at.to_le_bytes());
    bytes.push(u8::from(row.live));
}

fn put_texts(bytes: &mut Vec<u8>, tag: u8, texts: &[&String]) {
    bytes.push(tag);
    for text in texts {
        put_text(bytes, text);
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn put_option(bytes: &mut Vec<u8>, text: Option<&str>) {
    bytes.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(bytes, text);
    }
}

/// What is left to be read; each reader says nothing where there is not enough of it.
struct Bytes<'a> {
    left: &'a [u8],
}

impl<'a> Bytes<'a> {
    fn frame(&mut self) -> Option<Frame> {
        let length = u32::from_le_bytes(self.array()?);
        let number = u64::from_le_bytes(self.array()?);
        let hashed: [u8; 8] = self.array()?;
        let body = self.take(usize::try_from(length).ok()?)?;
        if hash(number, body) != hashed {
            return None;
        }
        let mut body = Bytes { left: body };
        let mut changes = Vec::new();
        while !body.left.is_empty() {
            changes.push(body.change()?);
        }
        Some(Frame { number, changes })
    }

    fn change(&mut self) -> Option<Change> {
        let [tag] = self.array()?;
        Some(match tag {
            0 => Change::PutAgent {
                name: self.text()?,
                record: self.text()?,
            },
            1 => Change::DeleteAgent { name: self.text()? },
            2 => Change::PutFact {
                key: self.text()?,
                value: self.text()?,
            },
            3 => {
                let (kind, body) = (self.text()?, self.text()?);
                Change::Journal(Entry {
                    kind,
                    body,
                    at: self.signed()?,
                    agent: self.option()?,
                    session: self.option()?,
                })
            }
            4 => Change::PutSession(SessionRow {
                id: self.text()?,
                agent: self.text()?,
                record: self.text()?,
                live: self.flag()?,
            }),
            5 => {
                let (session, lines) = (self.text()?, self.text()?);
                Change::AppendEvents(EventBatch {
                    session,
                    lines,
                    first: u64::from_le_bytes(self.array()?),
                    last: u64::from_le_bytes(self.array()?),
                    at: self.signed()?,
                })
            }
            6 => Change::PutRecord(self.record()?),
            7 => Change::PutLiveRecord(self.record()?),
            8 => Change::DeleteRecord {
                kind: self.text()?,
                id: self.text()?,
            },
            _ => return None,
        })
    }

    fn record(&mut self) -> Option<RecordRow> {
        Some(RecordRow {
            kind: self.text()?,
            id: self.text()?,
            record: self.text()?,
            at: self.signed()?,
            live: self.flag()?,
        })
    }

    fn option(&mut self) -> Option<Option<String>> {
        match self.flag()? {
            true => self.text().map(Some),
            false => Some(None),
        }
    }

    fn text(&mut self) -> Option<String> {
        let length = u32::from_le_bytes(self.array()?);
        let bytes = self.take(usize::try_from(length).ok()?)?;
        String::from_utf8(bytes.to_vec()).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        let [flag] = self.array()?;
        Some(flag != 0)
    }

    fn signed(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(length)?;
        self.left = left;
        Some(taken)
    }
}
