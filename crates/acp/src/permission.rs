//! `session/request_permission`: the agent asks before it acts, and learns which option was chosen.

use domain::{
    permission::{Call, is_destructive},
    turn::{Answer, AskKind, OptionKind, Raw},
};
use engine::Answered;
use jsonrpc::ErrorObject;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use crate::{
    asking::Asking,
    convert, grants,
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
        let asked = sessions.asked(session, update);
        let asked = asked.ok_or_else(|| grants::unknown(session))?;
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
    pub(crate) async fn ask(self, sessions: &Sessions) -> Result<Box<RawValue>, serde_json::Error> {
        let Permission {
            session,
            asked,
            kind,
            raw,
        } = self;
        let options = kind.clone();
        let Answered { answer, words } = asked.asking.ask(kind, raw).await;
        let made = match answer {
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
        };
        match Asking::native(words) {
            Some(words) => Ok(words),
            None => to_raw_value(&made),
        }
    }
}
