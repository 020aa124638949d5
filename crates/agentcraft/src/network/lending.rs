//! Lending a workspace over A2A: messages of the extension reach the delegations of this node.

use std::sync::Arc;

use a2a::{AWCP_URI, Extension, ExtensionCall, ExtensionFuture};
use awcp::{Delegations, Origin};
use serde_json::{Value, json};
use wire::a2a::{AgentExtension, Message, Part};

/// The extension in front of the delegations.
#[derive(Debug)]
pub(super) struct LentWorkspaces {
    pub(super) delegations: Delegations,
}

impl LentWorkspaces {
    pub(super) fn extension(delegations: Delegations) -> Arc<dyn Extension> {
        Arc::new(Self { delegations })
    }
}

impl Extension for LentWorkspaces {
    fn uri(&self) -> &str {
        AWCP_URI
    }

    fn card(&self) -> Option<AgentExtension> {
        serde_json::from_value(json!({
            "uri": AWCP_URI,
            "description": "Takes workspaces that are lent to it under a lease",
            "required": false,
            "params": { "transports": self.delegations.transports() },
        }))
        .ok()
    }

    fn handle<'a>(
        &'a self,
        message: &'a Message,
        call: &'a ExtensionCall,
    ) -> ExtensionFuture<'a, Option<Vec<Part>>> {
        Box::pin(async move {
            let data = message_data(message)?;
            let (caller, origin) = (&call.caller, Origin::from(call.from));
            let reply = self.delegations.handle_message(&data, caller, origin);
            let reply = reply.await?;
            Some(vec![Part::data(reply)])
        })
    }

    fn cancel<'a>(&'a self, id: &'a str, call: &'a ExtensionCall) -> ExtensionFuture<'a, bool> {
        Box::pin(self.delegations.cancel_task(id, &call.caller))
    }
}

/// The part of the message that is about lending, with what stands beside it.
fn message_data(message: &Message) -> Option<Value> {
    let awcp = message.data("awcp")?;
    let mut data = json!({ "awcp": awcp });
    for key in ["awcp_secret", domain::TRACEPARENT, awcp::CHAIN_KEY] {
        if let Some(value) = message.data(key) {
            data[key] = value.clone();
        }
    }
    Some(data)
}
