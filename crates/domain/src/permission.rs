//! Permission policy: whether a tool call is allowed, asked about or denied, by its kind, tool, paths and command.
//!
//! Everything is a function of the written policy and the call. What cannot be read with certainty is never allowed
//! by a rule about it, and is caught by every rule that asks or denies.

mod call;
mod command;
mod decide;
mod destructive;
mod glob;
mod parse;
mod path;
mod pattern;
mod policy;
mod sequence;
mod shell;
mod words;
mod wrapper;

#[cfg(test)]
mod command_tests;
#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod hiding_tests;
#[cfg(test)]
mod parse_tests;
#[cfg(test)]
mod properties;

pub use call::Call;
pub use decide::{
    Audience, FINAL_GATE, GATE, Outcome, RuleRef, Verdict, decide, is_gate, outside_name, settle,
};
pub use destructive::is_destructive;
pub use parse::{PolicyError, Problem};
pub use path::CallPath;
pub use pattern::{CommandPattern, PathPattern, Pattern, PatternError};
pub use policy::{Decision, Origin, Place, Policy, RULES_MAX, Rule};
