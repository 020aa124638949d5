//! The port for protocols that ride on A2A, and the answer to lending a workspace where nobody takes it.

use std::{fmt, net::IpAddr, pin::Pin};

use engine::Caller;
use serde_json::{Value, json};
use wire::a2a::{AgentExtension, Message, Part};

/// A future of an extension.
pub type ExtensionFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Takes the messages that are its own before they become tasks.
pub trait Extension: Send + Sync + fmt::Debug {
    /// Its address, which clients name in the `A2A-Extensions` header.
    fn uri(&self) -> &str;

    /// Its line on the cards; nothing for one that is not advertised.
    fn card(&self) -> Option<AgentExtension>;

    /// The parts of the answer, or nothing if the message is none of its business.
    fn handle<'a>(
        &'a self,
        message: &'a Message,
        call: &'a ExtensionCall,
    ) -> ExtensionFuture<'a, Option<Vec<Part>>>;

    /// Whether this id is that of something of its own, which has been ended for the caller.
    fn cancel<'a>(&'a self, _id: &'a str, _call: &'a ExtensionCall) -> ExtensionFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// Who sends a message, and to whom.
#[derive(Debug, Clone)]
pub struct ExtensionCall {
    pub caller: Caller,
    /// The agent it is for; nothing if it is for the node.
    pub agent: Option<String>,
    /// Extensions that the client wants to use.
    pub declared: Vec<String>,
    /// The address at the other end of the connection, where there is one.
    pub from: Option<IpAddr>,
}

/// The address of AWCP.
pub const AWCP_URI: &str = "https://awcp-protocol.org/v1";

/// Turns down workspaces that somebody wants to lend, in words, on a node that takes none.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeclineWorkspaces;

impl Extension for DeclineWorkspaces {
    fn uri(&self) -> &str {
        AWCP_URI
    }

    fn card(&self) -> Option<AgentExtension> {
        None
    }

    fn handle<'a>(
        &'a self,
        message: &'a Message,
        _: &'a ExtensionCall,
    ) -> ExtensionFuture<'a, Option<Vec<Part>>> {
        let reply = message.data("awcp").map(|awcp| vec![declined(awcp)]);
        Box::pin(std::future::ready(reply))
    }
}

fn declined(awcp: &Value) -> Part {
    let id = awcp
        .get("delegation_id")
        .or_else(|| awcp.get("delegationId"));
    let id = id.cloned().unwrap_or(Value::Null);
    Part::data(json!({ "awcp": {
        "version": "1",
        "type": "ERROR",
        "delegation_id": id,
        "code": "DECLINED",
        "message": "this node takes no workspaces",
        "hint": "ask its owner to turn delegation on, or choose another node",
    }}))
}

#[cfg(test)]
mod tests {
    use wire::a2a::{Content, Role};

    use super::*;

    #[tokio::test]
    async fn an_invitation_is_declined_in_words_and_other_messages_pass() {
        let call = ExtensionCall {
            caller: Caller::owner(),
            agent: None,
            declared: Vec::new(),
            from: None,
        };
        let invite = json!({ "awcp": { "type": "INVITE", "delegation_id": "d-1" } });
        let message = Message::new("m".to_owned(), Role::User, vec![Part::data(invite)]);
        let reply = DeclineWorkspaces.handle(&message, &call).await.unwrap();
        let Content::Data(data) = &reply[0].content else {
            panic!("the answer is data")
        };
        assert_eq!(data["awcp"]["type"], "ERROR");
        assert_eq!(data["awcp"]["code"], "DECLINED");
        assert_eq!(data["awcp"]["delegation_id"], "d-1");
        let hello = Message::new("m".to_owned(), Role::User, vec![Part::text("hello")]);
        assert_eq!(DeclineWorkspaces.handle(&hello, &call).await, None);
    }
}
