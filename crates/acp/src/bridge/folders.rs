//! The folders in requests that open a session: found while the bytes pass, and replaced.
//!
//! Nothing waits for the end of a line. Bytes are held back only from a folder that comes before the name of its method
//! up to that name. Text that is not JSON passes as it is. Messages in a batch are read one by one, and so are those behind
//! what readers trim from a line. A method that is named a second time is taken back: one reader goes by the first name, another
//! by the last, and neither shall see a folder that we took for something else.

mod state;
mod word;

use std::path::Path;

use jsonrpc::LINE_MAX;

use state::{Flow, Held, Level, Member, Method, State, Within};
use word::{is_before_a_message, means};

/// The longest name that matters is `additionalDirectories` with every letter escaped, six bytes each.
const WORD_MAX: usize = 21 * 6;

/// Every folder becomes the one that is there already, so more of them are none.
const NO_MORE_FOLDERS: &[u8] = b"[]";

/// A name of a method that no reader shall go by.
const TAKEN_BACK: &[u8] = b"null";

/// What takes the place of the client's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    begun: Vec<u8>,
    loaded: Vec<u8>,
}

/// Replaces folders in a stream of lines that is cut anywhere.
#[derive(Debug)]
pub struct FolderRewriter {
    folders: Folders,
    state: State,
    /// Whether the line has begun with the mark of a batch.
    batch: bool,
    method: Method,
    /// The text of the name or the method being read, as it stands there.
    word: Vec<u8>,
    /// What becomes of the bytes that are read now.
    flow: Flow,
    held: Vec<u8>,
    held_folders: Vec<Held>,
    /// What replaces the chunk, where it does not pass as it is.
    out: Vec<u8>,
    /// How many bytes of the chunk have gone their way already.
    settled: usize,
    altered: bool,
}

impl Folders {
    /// `begun` is where new sessions work, `loaded` where earlier ones are found.
    pub fn new(begun: &Path, loaded: &Path) -> Self {
        let text = |path: &Path| {
            let path = path.to_string_lossy();
            serde_json::to_vec(&path).expect("text is always JSON")
        };
        Self {
            begun: text(begun),
            loaded: text(loaded),
        }
    }
}

impl FolderRewriter {
    pub fn new(folders: Folders) -> Self {
        Self {
            folders,
            state: State::Start,
            batch: false,
            method: Method::Unknown,
            word: Vec::new(),
            flow: Flow::Passing,
            held: Vec::new(),
            held_folders: Vec::new(),
            out: Vec::new(),
            settled: 0,
            altered: false,
        }
    }

    /// What goes on to the agent now that `chunk` has come; mostly the chunk itself.
    pub fn rewrite<'a>(&'a mut self, chunk: &'a [u8]) -> &'a [u8] {
        self.out.clear();
        self.settled = 0;
        self.altered = self.flow != Flow::Passing;
        let mut at = 0;
        while at < chunk.len() {
            at = self.step(chunk, at);
        }
        if !self.altered {
            return chunk;
        }
        self.settle(chunk, chunk.len());
        &self.out
    }

    /// What was held back when the client stopped in the middle of a line.
    pub fn finish(&mut self) -> &[u8] {
        self.out.clear();
        self.release();
        &self.out
    }

    /// Reads on from `at`; gives where to go on.
    fn step(&mut self, chunk: &[u8], at: usize) -> usize {
        let rest = &chunk[at..];
        let skipped = match self.state {
            State::Rest => memchr::memchr(b'\n', rest),
            State::Inside(_, member, Within::Nested { .. }) if member != Member::Method => {
                let matters = |byte: &u8| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']' | b'\n');
                rest.iter().position(matters)
            }
            State::Inside(_, member, Within::Text { .. }) if member != Member::Method => {
                memchr::memchr3(b'"', b'\\', b'\n', rest)
            }
            _ => Some(0),
        };
        let Some(skipped) = skipped else {
            return chunk.len();
        };
        let at = at + skipped;
        if chunk[at] == b'\n' {
            self.end_message(chunk, at);
            self.batch = false;
            return at + 1;
        }
        self.read(chunk, at)
    }

    fn end_message(&mut self, chunk: &[u8], end: usize) {
        if self.flow != Flow::Passing {
            self.settle(chunk, end);
            self.release();
        }
        self.state = State::Start;
        self.method = Method::Unknown;
    }

    fn read(&mut self, chunk: &[u8], at: usize) -> usize {
        let byte = chunk[at];
        let blank = matches!(byte, b' ' | b'\t' | b'\r');
        match self.state {
            State::Start if is_before_a_message(byte) => self.batch |= byte == b'[',
            State::Start if byte == b'{' => self.state = State::Members(Level::Message),
            State::Members(level) => match byte {
                b'"' => {
                    self.word.clear();
                    let escaped = false;
                    self.state = State::Name { level, escaped };
                }
                b'}' => match level {
                    Level::Message => self.end_message(chunk, at),
                    Level::Params => self.state = State::Members(Level::Message),
                    Level::Meta => self.state = State::Members(Level::Params),
                },
                b',' => {}
                _ if blank => {}
                _ => self.state = State::Rest,
            },
            State::Name { level, escaped } => self.read_name(level, escaped, byte),
            State::Colon(level, member) => match byte {
                b':' => self.state = State::Value(level, member),
                _ if blank => {}
                _ => self.state = State::Rest,
            },
            State::Value(_, _) if blank => {}
            State::Value(level, member) => self.begin_value(chunk, at, level, member),
            State::Inside(level, member, within) => {
                return self.read_value(chunk, at, level, member, within);
            }
            State::Start if self.batch => {
                self.state = State::Skipped(match byte {
                    b'"' => Within::Text { depth: 0 },
                    _ => Within::Scalar,
                });
            }
            State::Skipped(within) => return self.skip(within, byte, at),
            State::Start | State::Rest => self.state = State::Rest,
        }
        at + 1
    }

    /// Reads one byte of what is no message, in a batch that may have some; gives where to go on.
    fn skip(&mut self, within: Within, byte: u8, at: usize) -> usize {
        self.state = match (within, byte) {
            (Within::Scalar, b',' | b']' | b'{') => {
                self.state = State::Start;
                return at; // It belongs to what comes after.
            }
            (Within::Text { .. }, b'"') => State::Start,
            (Within::Text { depth }, b'\\') => State::Skipped(Within::Escape { depth }),
            (Within::Escape { depth }, _) => State::Skipped(Within::Text { depth }),
            (within, _) => State::Skipped(within),
        };
        at + 1
    }

    fn read_name(&mut self, level: Level, escaped: bool, byte: u8) {
        if byte == b'"' && !escaped {
            let member = match level {
                Level::Message if means(&self.word, "method") => match self.method {
                    Method::Unknown => Member::Method,
                    Method::Begins | Method::Loads | Method::Other => Member::Repeated,
                    Method::TooFar => Member::Other,
                },
                Level::Message if means(&self.word, "params") => Member::Params,
                Level::Params if means(&self.word, "cwd") => Member::Folder,
                Level::Params if means(&self.word, "additionalDirectories") => Member::MoreFolders,
                Level::Params if means(&self.word, "_meta") => Member::Meta,
                Level::Meta if means(&self.word, "additionalRoots") => Member::MoreFolders,
                Level::Message | Level::Params | Level::Meta => Member::Other,
            };
            self.state = State::Colon(level, member);
            return;
        }
        self.collect(byte);
        let escaped = byte == b'\\' && !escaped;
        self.state = State::Name { level, escaped };
    }

    /// One byte more than matters is kept, so that a longer word is not taken for its beginning.
    fn collect(&mut self, byte: u8) {
        if self.word.len() <= WORD_MAX {
            self.word.push(byte);
        }
    }

    fn begin_value(&mut self, chunk: &[u8], at: usize, level: Level, member: Member) {
        let byte = chunk[at];
        if member == Member::Params && byte == b'{' && self.method != Method::Other {
            self.state = State::Members(Level::Params);
            return;
        }
        if member == Member::Meta && byte == b'{' {
            self.state = State::Members(Level::Meta);
            return;
        }
        if member.is_replaced() {
            self.begin_replaced(chunk, at, member);
        }
        let within = match byte {
            b'"' => {
                self.word.clear();
                Within::Text { depth: 0 }
            }
            b'{' | b'[' => Within::Nested { depth: 1 },
            _ => Within::Scalar,
        };
        self.state = State::Inside(level, member, within);
    }

    /// Reads one byte of a value; gives where to go on.
    fn read_value(
        &mut self,
        chunk: &[u8],
        at: usize,
        level: Level,
        member: Member,
        within: Within,
    ) -> usize {
        let byte = chunk[at];
        let next = match (within, byte) {
            (Within::Scalar, b',' | b'}' | b']' | b' ' | b'\t' | b'\r') => {
                self.end_value(chunk, at, level, member);
                return at; // It belongs to what comes after the value.
            }
            (Within::Scalar, _) => Within::Scalar,
            (Within::Escape { depth }, _) => Within::Text { depth },
            (Within::Text { depth }, b'\\') => Within::Escape { depth },
            (Within::Text { depth: 0 }, b'"') | (Within::Nested { depth: 1 }, b'}' | b']') => {
                self.end_value(chunk, at + 1, level, member);
                return at + 1;
            }
            (Within::Text { depth }, b'"') => Within::Nested { depth },
            (Within::Text { depth }, _) => Within::Text { depth },
            (Within::Nested { depth }, b'"') => Within::Text { depth },
            (Within::Nested { depth }, b'{' | b'[') => Within::Nested {
                depth: depth.saturating_add(1),
            },
            (Within::Nested { depth }, b'}' | b']') => Within::Nested { depth: depth - 1 },
            (Within::Nested { depth }, _) => Within::Nested { depth },
        };
        if member == Member::Method {
            self.collect(byte);
        }
        self.state = State::Inside(level, member, next);
        at + 1
    }

    fn end_value(&mut self, chunk: &[u8], end: usize, level: Level, member: Member) {
        self.state = State::Members(level);
        match member {
            Member::Folder | Member::MoreFolders | Member::Repeated => {
                self.end_replaced(chunk, end);
            }
            Member::Method => self.know_method(chunk, end),
            Member::Params | Member::Meta | Member::Other => {}
        }
    }

    fn know_method(&mut self, chunk: &[u8], end: usize) {
        let earlier = ["session/load", "session/resume", "session/fork"];
        self.method = if means(&self.word, "session/new") {
            Method::Begins
        } else if earlier.iter().any(|name| means(&self.word, name)) {
            Method::Loads
        } else {
            Method::Other
        };
        if self.flow == Flow::Holding {
            self.settle(chunk, end);
            self.release();
        }
    }

    fn begin_replaced(&mut self, chunk: &[u8], at: usize, member: Member) {
        self.settle(chunk, at);
        self.altered = true;
        match self.replacement(member) {
            Some(other) => {
                self.out.extend_from_slice(&other);
                self.flow = Flow::Dropping;
            }
            None => {
                self.flow = Flow::Holding;
                self.held_folders.push(Held {
                    member,
                    begin: self.held.len(),
                    end: None,
                });
            }
        }
    }

    fn end_replaced(&mut self, chunk: &[u8], end: usize) {
        self.settle(chunk, end);
        match self.flow {
            Flow::Dropping => self.flow = Flow::Passing,
            Flow::Holding => {
                if let Some(last) = self.held_folders.last_mut() {
                    last.end = Some(self.held.len());
                }
            }
            Flow::Passing => {}
        }
    }

    /// What takes the place of a member of this message, once its method is known: the one rule for every folder.
    fn replacement(&self, member: Member) -> Option<Vec<u8>> {
        if member == Member::Repeated {
            return Some(TAKEN_BACK.to_vec());
        }
        let folder = match self.method {
            Method::Begins | Method::TooFar => &self.folders.begun,
            Method::Loads => &self.folders.loaded,
            Method::Unknown | Method::Other => return None,
        };
        Some(match member {
            Member::MoreFolders => NO_MORE_FOLDERS.to_vec(),
            _ => folder.clone(),
        })
    }

    /// Sends the chunk up to `end` its way.
    fn settle(&mut self, chunk: &[u8], end: usize) {
        let bytes = &chunk[self.settled..end];
        self.settled = end;
        match self.flow {
            Flow::Passing => self.out.extend_from_slice(bytes),
            Flow::Dropping => {}
            Flow::Holding => {
                self.held.extend_from_slice(bytes);
                if self.held.len() > LINE_MAX {
                    // Hardly an agent reads such a line, and none shall learn a folder that is not its own from it.
                    self.method = Method::TooFar;
                    self.release();
                }
            }
        }
    }

    /// Lets go of what is held, with the folders in it replaced if the method is known to want it.
    fn release(&mut self) {
        let held = std::mem::take(&mut self.held);
        let mut from = 0;
        self.flow = Flow::Passing;
        let folders = std::mem::take(&mut self.held_folders);
        for Held { member, begin, end } in folders {
            let Some(other) = self.replacement(member) else {
                break; // The message is none of those that open a session.
            };
            self.out.extend_from_slice(&held[from..begin]);
            self.out.extend_from_slice(&other);
            from = end.unwrap_or(held.len());
            if end.is_none() {
                self.flow = Flow::Dropping;
            }
        }
        self.out.extend_from_slice(&held[from..]);
    }
}
