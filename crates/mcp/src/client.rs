//! The other end of MCP: servers that this node starts or reaches, and the tools they offer, as a [`engine::ToolSource`].
//!
//! Each server has a task that keeps it there: it connects, lists what there is, waits for changes, and comes back with
//! a growing pause when the server is lost.

mod connect;
mod handler;
mod keep;
mod source;
mod sse;
#[cfg(test)]
mod tests;
mod told;
mod trouble;

use std::sync::Arc;

/// Starts MCP servers and offers their tools.
pub fn tool_sources() -> engine::ToolSources {
    engine::ToolSources::new(|servers, cwd, around| {
        Arc::new(source::McpTools::open(servers, cwd, around)) as Arc<dyn engine::ToolSource>
    })
}
