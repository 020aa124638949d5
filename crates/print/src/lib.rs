//! Programs that are run once for each prompt: the driver of command-line agents in print mode.
//!
//! Each turn is one process in its own group. What it prints is read line by line as it comes; `programs` holds, one
//! file each, how a program is called and what its lines mean.

mod changes;
mod driver;
mod line;
mod listen;
mod program;
mod programs;
mod reading;
mod run;
mod servers;
mod sessions;
mod tool;

#[cfg(test)]
mod tests;

pub use driver::driver;
pub use sessions::program_session;
