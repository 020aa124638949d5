//! The engine: one task per live thing, and the API every face calls.
//!
//! Decisions come from the pure crates; here they are written down first and then performed. Faces hold an [`Engine`]
//! and translate; they never touch files, processes or the store by themselves.

mod agent;
mod caller;
mod calls;
mod clock;
mod config;
mod driver;
mod engine;
mod error;
mod event_log;
mod library;
mod records;
mod recovery;
mod retention;
mod session;
mod tally;
mod tools;

pub use agent::{AgentView, Confinement, Walls, WorkDir, WorkDirConflict, chain};
pub use caller::{Authenticator, Caller, Rights, TokenId, further_right};
pub use calls::{CallGuard, Calls, TurnOf};
pub use config::{EngineConfig, LauncherMode};
pub use driver::{
    AcpProcess, Answered, Answering, AskRequest, Connecting, Continuity, Driver, DriverError,
    DriverFuture, DriverSurroundings, Drivers, EndpointAgent, EndpointDrivers, Occasion,
    OpenSession, Opened, PrintProgram, Rules, SessionSink, Turn, TurnOptions,
};
pub use engine::{
    Create, Engine, Loan, OpenRun, Overrides, Purpose, Resolved, RunAgent, RunResult, RunTemplate,
    Start,
};
pub use error::{EngineError, ErrorKind};
pub use event_log::{EventLog, Page};
pub use library::{FileProblems, Library, Validation};
pub use records::{Batch, Keep, Note, Records, Stored, Which};
pub use session::{
    About, Answers, AttachAs, Backlog, Clash, CreateSession, EventReader, Expects, FirstTurn, Lent,
    NativeAnswer, NativeMessage, NativeOpen, NativeRequest, NativeSession, OpenConversation,
    OpenError, Prompt, SessionView, Sessions, Thread, TurnOutcome, Waiting,
};
pub use store::{JournalQuery, JournalRow};
pub use tally::{Counts, Durations};
pub use tools::{
    ServerState, ServerStatus, Tool, ToolCall, ToolError, ToolOutput, ToolProgress, ToolServer,
    ToolSource, ToolSources,
};
