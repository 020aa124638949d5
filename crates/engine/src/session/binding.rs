//! The agent's side of a session: which driver, and which conversation in it.
//!
//! After a restart of the agent or of the daemon the driver is another one; the conversation is then taken up where the
//! agent can, and said to be lost where it cannot.

use std::sync::Arc;

use catalog::McpServer;
use domain::turn::{EventKind, Stop};

use crate::{
    Continuity, Driver, DriverError, OpenSession, SessionSink, Turn, session::SessionRecord,
};

/// A conversation that is open in a driver.
#[derive(Debug, Clone)]
pub(super) struct Binding {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) conversation: String,
}

impl Binding {
    /// Whether it is a conversation in this very driver.
    pub(super) fn is_with(&self, driver: &Arc<dyn Driver>) -> bool {
        Arc::ptr_eq(&self.driver, driver)
    }
}

/// Opens the conversation in `driver`, or takes it up there.
pub(super) async fn bind(
    driver: Arc<dyn Driver>,
    record: &SessionRecord,
    mcp_servers: Vec<McpServer>,
    sink: SessionSink,
) -> Result<Binding, DriverError> {
    let open = OpenSession {
        cwd: record.cwd.clone(),
        mcp_servers,
        resume: record.agent_session.clone(),
        sink: sink.clone(),
    };
    let opened = driver.open(open).await?;
    if let Continuity::Lost { why } = opened.continuity {
        let text = format!("the agent does not remember this conversation: {why}");
        sink.emit(EventKind::Notice { text }, None);
    }
    Ok(Binding {
        driver,
        conversation: opened.id,
    })
}

/// Carries out one turn; a failure of the agent is a stop reason like any other.
pub(super) async fn take_turn(binding: &Binding, turn: Turn) -> Stop {
    match binding.driver.turn(turn).await {
        Ok(stop) => stop,
        Err(error) => Stop::Failed {
            message: error.to_string(),
        },
    }
}
