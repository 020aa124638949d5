//! The daemon's socket: its methods, their parameters and results, and its error codes.

mod agent;
mod errors;
mod methods;
mod service;
mod template;

pub use agent::{
    AgentMeta, AttachParams, CreateParams, DestroyParams, DetachParams, DetachResult, Overrides,
    ResolveParams, ResolveResult, WorkDirConflict,
};
pub use errors::{ErrorCode, ErrorData};
pub use methods::{METHODS, Method};
pub use service::{Empty, NameParams, PingResult, ShutdownResult, Success};
pub use template::{FileParams, Problem, TemplateProblems, ValidateResult};
