//! Sessions: conversations with one agent that outlive every client and the daemon.

mod asks;
mod binding;
mod flush;
mod handle;
mod live;
mod native;
mod queued;
mod reader;
mod record;
mod sessions;
mod task;
mod work;

pub use native::{
    About, Backlog, Clash, Expects, Lent, NativeAnswer, NativeMessage, NativeOpen, NativeRequest,
    NativeSession, OpenConversation, OpenError, Thread,
};
pub use reader::EventReader;
pub(crate) use record::SessionRecord;
pub use record::{SessionView, Waiting};
pub(crate) use sessions::is_own;
pub use sessions::{Answers, AttachAs, CreateSession, FirstTurn, Prompt, Sessions, TurnOutcome};
pub(crate) use task::{Surroundings, spares};
