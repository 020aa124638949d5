//! Workflow files: from text to a checked plan, and the machine that says which step comes next.
//!
//! Three things, all of them pure; files, time, variables and chance are passed in:
//!
//! - [`load`] reads a file and gives a [`Plan`] or every [`Problem`] in it at once, each with its place.
//! - [`Machine`] runs a plan: `apply(input, now)` takes an [`Input`] (a step ended, somebody answered, time passed) and
//!   gives [`Effect`]s (start this, ask that, the run is over). Write [`Machine::state`] down before performing them; a run
//!   is taken up from it with [`Machine::restore`] and [`Input::Recover`], which never repeats a step that had ended.
//! - [`Mask`] takes secrets out of a stream.

mod check;
mod describe;
mod document;
mod duration;
mod expression;
mod graph;
mod inputs;
mod load;
mod machine;
mod mask;
mod plan;
mod problem;
mod reader;
mod scope;
mod template;
mod world;

pub use describe::{Description, StepDescription};
pub use duration::{format_duration, parse_duration};
pub use graph::{graph_mermaid, graph_text};
pub use inputs::check_inputs;
pub use load::{Loaded, Mention, Mentioned, TemplateLookup, WORKFLOW_FILE_MAX, load};
pub use machine::{
    Action, AgentAction, Announcement, AskApproval, AskInput, AskRepeat, Beginning, CALL_DEPTH_MAX,
    CommandAction, Decision, Effect, Extent, Failure, Finish, Input, Interrupted, Machine,
    OperationAction, Outcome, Record, Rejected, Repeat, RewindFrom, SessionUse, Setup, Start,
    State, StepResult, StepStatus, StopReason, Ticket, Tokens, WorkflowAction,
};
pub use mask::{Mask, MaskStream, SECRET_NAMES, is_secret_name};
pub use plan::{
    Agent, Approval, Backoff, Capture, Command, ConversationMode, ForEach, Hook, InputKind,
    InputSpec, InputValidation, Items, Limit, OnDeny, Operation, OutputFormat, Parallel, Plan,
    Prompt, Provider, Retry, Script, SessionTracking, Skill, Step, StepHooks, StepKind, Steps,
    Strategy, Terminal, TerminalStatus, ToolProxy, Transition, WhileLoop, WorkflowCall,
    WorkflowHooks,
};
pub use problem::{Code, Problem, Severity, exit_code, gravest};
pub use world::{EmptyWorld, FILE_MAX, FileKind, World};
