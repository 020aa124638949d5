//! A turn: one prompt and everything until its stop reason, as every driver produces it and every face consumes it.
//!
//! Events are plain values with one JSON form, which is also how they are stored, streamed and exported.

mod ask;
mod event;
mod standing;
mod tool;

pub use ask::{Answer, Ask, AskId, AskKind, AskOption, OptionKind};
pub use event::{
    Dialect, Event, EventKind, FileChange, PlanEntry, PlanStatus, Raw, Stop, TurnId, Usage,
};
pub use standing::{Standing, go_on};
pub use tool::{Location, ToolCall, ToolContent, ToolKind, ToolStatus, ToolUpdate};
