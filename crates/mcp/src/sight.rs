//! Which agents a client is told of: all of them on the owner's own stdio and with the owner's token, else the public ones.

use engine::Rights;
use jsonrpc::ErrorObject;
use rmcp::{RoleServer, service::RequestContext};
use serde_json::{Value, json};
use wire::daemon::{AgentMeta, Empty, ErrorCode, NameParams, SessionIdParams};

use crate::{
    daemon::{DaemonError, Link},
    event::SessionView,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    All,
    Public,
}

impl Sight {
    /// Looked at with each request: several tokens may be shown in one session.
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let Some(parts) = context.extensions.get::<axum::http::request::Parts>() else {
            return Self::All; // Not from the network.
        };
        match parts.extensions.get::<engine::Caller>() {
            Some(caller) if caller.rights == Rights::All => Self::All,
            Some(_) | None => Self::Public,
        }
    }

    /// The agents that the client is told of, in the daemon's own words.
    pub(crate) async fn agents(self, link: &mut Link) -> Result<Vec<Value>, DaemonError> {
        let mut agents: Vec<Value> = link.call("agent.list", &Empty {}).await?;
        agents.retain(|agent| self == Self::All || agent["private"] != true);
        Ok(agents)
    }

    /// Refuses an agent that the client is not told of, as one that is not there. A target that has none yet passes.
    pub(crate) async fn check(self, link: &mut Link, name: &str) -> Result<(), DaemonError> {
        let is_hidden = self == Self::Public && self.agent(link, name).await? == Found::Hidden;
        match is_hidden {
            false => Ok(()),
            true => Err(refused(
                ErrorCode::AgentNotFound,
                format!("there is no agent called {name}"),
            )),
        }
    }

    /// Refuses a session with an agent that the client is not told of. Of an agent that is gone nobody knows what it was.
    pub(crate) async fn check_session(
        self,
        link: &mut Link,
        session: &str,
    ) -> Result<(), DaemonError> {
        if self == Self::All {
            return Ok(());
        }
        let params = SessionIdParams {
            session_id: session.to_owned(),
        };
        let view: SessionView = link.call("session.get", &params).await?;
        match self.agent(link, &view.agent_name).await? == Found::Seen {
            true => Ok(()),
            false => Err(refused(
                ErrorCode::GenericBusiness,
                format!("there is no session {session}"),
            )),
        }
    }

    async fn agent(self, link: &mut Link, name: &str) -> Result<Found, DaemonError> {
        let params = NameParams {
            name: name.to_owned(),
        };
        match link.call::<AgentMeta>("agent.status", &params).await {
            Ok(agent) if agent.private => Ok(Found::Hidden),
            Ok(_) => Ok(Found::Seen),
            Err(error) if error.is(ErrorCode::AgentNotFound) => Ok(Found::Nothing),
            Err(error) => Err(error),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Seen,
    Hidden,
    Nothing,
}

fn refused(code: ErrorCode, message: String) -> DaemonError {
    let data = json!({ "errorCode": code.name(), "context": {} });
    DaemonError::Refused(ErrorObject::new(code.number(), message).with_data(&data))
}
