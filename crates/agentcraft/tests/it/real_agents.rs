//! The agents people use, against a scripted model: run by `./test --all`, described in `tests/real-agents.md`.
//!
//! Each behaviour is one test over the table of agents. What an agent cannot do by its own nature is a row with the
//! reason; where the programs or the model are not on this machine a test says so and ends.

mod agents;
mod client;
mod model;
mod scene;
mod slow;
mod slow_editors;
mod slow_steps;
mod table;
