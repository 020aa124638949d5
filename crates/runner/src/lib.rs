//! Runs of workflows: performs what the plan says, writes down every move, and is a driver of turns.
//!
//! `workflow` decides what comes next; here it is written down first and then done. A run tells what happens as the
//! events of a turn, so whoever can show a turn can show a run: a plan for its steps, a tool call for each of them.

mod act;
mod choices;
mod clock;
mod driver;
mod execution;
mod folders;
mod found;
mod history;
mod parked;
mod prompt;
mod refused;
mod restore;
mod servers;
mod setup;
mod show;
mod surroundings;
mod talk;
#[cfg(test)]
mod tests;
mod watch;
mod words;
mod world;
mod written;

pub use act::context::missing;
pub use choices::Choices;
pub use driver::{RunKeeper, driver};
pub use execution::{Caller, Earlier, Execution, Order, Progress, TakenUp};
pub use folders::Folders;
pub use found::{Found, Shelf, ShelfError};
pub use history::{History, RunState, RunView};
pub use prompt::{Command, PromptError, typed};
pub use refused::{StartError, exit_code};
pub use restore::{RunDetail, StepDetail, detail};
pub use servers::Servers;
pub use setup::describe;
pub use show::Audience;
pub use surroundings::{Surroundings, mask, offered, shown};
