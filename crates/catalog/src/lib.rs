//! Templates and components: from a file to a checked value, and the workspace they ask for.
//!
//! Everything here is pure. Text comes in and a value with all its problems comes out; a template and the loaded
//! components go in and a list of files comes out. Whoever has the disk reads the files and performs the plan.

mod backend;
mod component;
mod document;
mod environment;
mod front_matter;
mod path;
mod placeholder;
mod problem;
mod reader;
mod samples;
mod schema;
mod template;
mod workspace;

pub use backend::{
    BackendProfile, BackendType, Install, Interaction, LaunchCommand, LaunchError, Program,
    ProviderType, launch_command,
};
pub use component::{
    ComponentKind, Components, McpServer, OwnProgram, Prompt, Skill, Workflow, parse_mcp_server,
    parse_prompt, parse_skill, parse_workflow,
};
pub use document::Format;
pub use environment::{EnvironmentPattern, is_variable_name};
pub use front_matter::front_matter;
pub use path::{RelativePath, RelativePathError};
pub use problem::{Checked, Invalid, PROBLEMS_MAX, Problem, Severity};
pub use samples::{SAMPLES, Sample};
pub use schema::{DocumentKind, schema};
pub use template::{
    Backend, DomainContext, InitializerStep, InlineMcpServer, McpServerRef, OfficeRef, Provider,
    STEP_TIMEOUT_MS_DEFAULT, Template, WorkingDirectory, check_template, parse_template,
};
pub use workspace::{MissingComponent, PlannedFile, WorkspacePlan, mcp_servers, plan};
