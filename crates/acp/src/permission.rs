//! `session/request_permission`: the agent asks before it acts, and learns which option was chosen.

use domain::{
    permission::{Call, is_destructive},
    turn::{Answer, AskKind, OptionKind, Raw},
};
use jsonrpc::ErrorObject;
use serde_json::{Value, json, value::RawValue};

use crate::{
    convert,
    requests::parsed,
    sessions::{Asked, Sessions},
};

/// A permission that is asked for.
#[derive(Debug)]
pub(crate) struct Permission {
    session: String,
    asked: Asked,
    kind: AskKind,
    raw: Option<Raw>,
}

impl Permission {
    /// Reads the request; what it leaves out about its tool call was said before.
    pub(crate) fn read(
        sessions: &Sessions,
        params: Option<&RawValue>,
    ) -> Result<Permission, ErrorObject> {
        let value = parsed(params);
        let session = convert::text(&value, "sessionId").unwrap_or_default();
        let update = convert::tool(&value["toolCall"])
            .ok_or_else(|| ErrorObject::invalid_params("toolCall.toolCallId is missing"))?;
        let asked = sessions.asked(session, update).ok_or_else(|| {
            ErrorObject::invalid_params(format!("there is no session {session:?}"))
        })?;
        let kind = AskKind::Permission {
            tool: asked.tool.clone(),
            options: convert::options(&value["options"]),
            destructive: is_destructive(&Call::of(&asked.tool, "")),
        };
        Ok(Permission {
            session: session.to_owned(),
            asked,
            kind,
            raw: params.map(convert::raw),
        })
    }

    /// Waits for a decision. The end of the turn decides too.
    pub(crate) async fn ask(self, sessions: &Sessions) -> Value {
        let Permission {
            session,
            asked,
            kind,
            raw,
        } = self;
        let options = kind.clone();
        match asked.asking.ask(kind, raw).await {
            Answer::Option { id } => {
                for lasting in [OptionKind::AllowOnce, OptionKind::AllowAlways] {
                    if options
                        .option(lasting)
                        .is_some_and(|option| option.id == id)
                    {
                        sessions.grant(&session, &asked.tool, lasting);
                    }
                }
                json!({ "outcome": { "outcome": "selected", "optionId": id } })
            }
            Answer::Text { .. } | Answer::Declined => {
                json!({ "outcome": { "outcome": "cancelled" } })
            }
        }
    }
}
