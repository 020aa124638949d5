//! Everything the command prints. Nothing else writes to stdout or stderr.

mod agent;
mod component;
mod doctor;
mod failure;
mod fields;
mod node;
mod problems;
mod screen;
mod style;
mod table;
mod template;
mod time;

pub(crate) use agent::{agent_detail, agent_table, resolve_detail};
pub(crate) use component::{component_detail, component_table};
pub(crate) use doctor::{Finding, Level, doctor_report};
pub(crate) use node::{daemon_detail, welcome};
pub(crate) use problems::{broken_file, validation};
pub(crate) use screen::Screen;
pub(crate) use style::{Colors, Style};
pub(crate) use table::Table;
pub(crate) use template::{template_detail, template_table};
