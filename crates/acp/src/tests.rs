//! The driver against the real built-in agent, and against agents that do what agents should not.

mod builtin_agent;
mod hostile;
mod opening;
mod requests;
mod support;
mod terminals;
mod turns;
