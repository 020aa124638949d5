//! The other end of MCP: servers that this node starts or reaches, and the tools they offer, as a [`engine::ToolSource`].
//!
//! Each server has a task that keeps it there: it connects, lists what there is, waits for changes, and comes back with
//! a growing pause when the server is lost.

mod connect;
mod handler;
mod keep;
mod login;
mod logins;
mod source;
mod sse;
#[cfg(test)]
mod tests;
mod told;
mod trouble;

use std::sync::Arc;

pub use login::{LoginError, login};
pub use logins::Logins;

/// Starts MCP servers and offers their tools; to those that want a login it shows the one that is kept.
pub fn tool_sources(logins: Logins) -> engine::ToolSources {
    engine::ToolSources::new(move |servers, cwd, around| {
        let tools = source::McpTools::open(servers, cwd, around, &logins);
        Arc::new(tools) as Arc<dyn engine::ToolSource>
    })
}
