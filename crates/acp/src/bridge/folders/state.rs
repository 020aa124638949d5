//! Where the reader of a message stands.

/// A folder among the bytes that are held: where it begins and, once it is known, ends.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) member: Member,
    pub(super) begin: usize,
    pub(super) end: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Passing,
    /// Until it is known what the line is.
    Holding,
    /// A folder that has been replaced.
    Dropping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Unknown,
    /// `session/new`.
    Begins,
    /// `session/load`, `session/resume` or `session/fork`.
    Loads,
    Other,
    /// Not known after more bytes than anybody waits for, and taken for `session/new`.
    TooFar,
}

/// Which object's members are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Message,
    Params,
    /// `_meta` of the params, where agents take more folders under a name of their own.
    Meta,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    Method,
    /// The method, named again.
    Repeated,
    Params,
    Meta,
    Folder,
    MoreFolders,
    Other,
}

impl Member {
    pub(super) fn is_replaced(self) -> bool {
        match self {
            Member::Repeated | Member::Folder | Member::MoreFolders => true,
            Member::Method | Member::Params | Member::Meta | Member::Other => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// An object or array, `depth` of them.
    Nested {
        depth: u32,
    },
    Text {
        depth: u32,
    },
    /// Behind a backslash.
    Escape {
        depth: u32,
    },
    /// A number, or a word like `null`.
    Scalar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Before a message.
    Start,
    /// Nothing that matters comes before the end of the line.
    Rest,
    Members(Level),
    Name {
        level: Level,
        escaped: bool,
    },
    Colon(Level, Member),
    Value(Level, Member),
    Inside(Level, Member, Within),
    /// In something of a batch that is no message.
    Skipped(Within),
}
