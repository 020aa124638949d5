//! The daemon's socket: its methods, their parameters and results, and its error codes.

mod agent;
mod delegation;
mod errors;
mod methods;
mod proxy;
mod service;
mod session;
mod template;

pub use agent::{
    AgentMeta, AttachParams, CreateParams, DestroyParams, DetachParams, DetachResult, Overrides,
    ResolveParams, ResolveResult, WorkDirConflict,
};
pub use delegation::{DelegationIdParams, DelegationMessage, DelegationWaitParams};
pub use errors::{ErrorCode, ErrorData};
pub use methods::{METHODS, Method};
pub use proxy::{
    LeaseParams, LeaseResult, ProxyCallbackParams, ProxyConnectParams, ProxyForwardParams,
    ProxyMessage, ProxySession,
};
pub use service::{Empty, NameParams, PingResult, ShutdownResult, Success};
pub use session::{
    AgentPromptParams, JournalLine, JournalParams, Ok, PromptResult, RunOptions, RunParams,
    SessionAnswerParams, SessionAttachParams, SessionCancelParams, SessionCreateParams,
    SessionEventsParams, SessionIdParams, SessionListParams, SessionPromptParams,
};
pub use template::{FileParams, Problem, TemplateProblems, ValidateResult};
