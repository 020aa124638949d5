//! Asks on their way to the editor and back: a permission is a request of the protocol, a question is a form.

use std::sync::Arc;

use domain::turn::{Answer, Ask, AskKind, Dialect, OptionKind, Raw};
use engine::Answered;
use jsonrpc::CallError;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{face::Face, frames, hello::Abilities};
use crate::{
    convert,
    elicitation::ADDRESS,
    members::{Members, with_session},
};

/// A request to the editor.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) method: &'static str,
    pub(super) params: Box<RawValue>,
    needs: Needs,
}

/// What an editor must be able to, to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Forms,
    Addresses,
}

impl Question {
    pub(super) fn is_for(&self, editor: &Abilities) -> bool {
        match self.needs {
            Needs::Nothing => true,
            Needs::Forms => editor.forms,
            Needs::Addresses => editor.addresses,
        }
    }
}

/// Puts an ask into the words of the protocol: the agent's own, or ours where it has none.
pub(super) fn question(ask: &Ask, raw: Option<&Raw>, session: &str) -> Question {
    let own = raw
        .filter(|raw| raw.dialect == Dialect::Acp)
        .and_then(|raw| with_session(&raw.frame, session));
    let (method, needs, made) = match &ask.kind {
        AskKind::Permission { tool, options, .. } => {
            let option = |option: &domain::turn::AskOption| json!({ "optionId": option.id, "name": option.name, "kind": option_kind(option.kind) });
            let options: Vec<Value> = options.iter().map(option).collect();
            let call = frames::tool_call(tool);
            (
                "session/request_permission",
                Needs::Nothing,
                json!({ "sessionId": session, "toolCall": call, "options": options }),
            )
        }
        AskKind::Question { text, schema } => {
            let schema = schema
                .as_deref()
                .and_then(|schema| serde_json::from_str(schema).ok());
            let line = || json!({ "type": "object", "properties": { "answer": { "type": "string" } }, "required": ["answer"] });
            let form: Value = schema.unwrap_or_else(line);
            (
                "elicitation/create",
                needs(own.as_deref()),
                json!({ "sessionId": session, "mode": "form", "message": text, "requestedSchema": form }),
            )
        }
    };
    let params = own.unwrap_or_else(|| to_raw_value(&made).expect("a value can be written"));
    Question {
        method,
        params,
        needs,
    }
}

fn needs(own: Option<&RawValue>) -> Needs {
    let mode = own.and_then(|own| Members::read(own.get())?.text("mode"));
    match mode.as_deref() {
        Some(ADDRESS) => Needs::Addresses,
        _ => Needs::Forms,
    }
}

/// Whether the editor answered that it has cancelled the turn.
fn is_cancel(result: &RawValue) -> bool {
    let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
    convert::text(&result["outcome"], "outcome") == Some("cancelled")
}

/// What the editor answered.
fn answer(ask: &Ask, result: &RawValue) -> Answer {
    let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
    match &ask.kind {
        AskKind::Permission { .. } => match convert::text(&result["outcome"], "optionId") {
            Some(id) => Answer::Option { id: id.to_owned() },
            None => Answer::Declined,
        },
        AskKind::Question { schema, .. } => {
            if convert::text(&result, "action") != Some("accept") {
                return Answer::Declined;
            }
            let content = &result["content"];
            let line = content
                .as_object()
                .and_then(|fields| fields.values().next());
            let text = match (schema, line) {
                // A question without a schema wants the line itself.
                (None, Some(Value::String(line))) => line.clone(),
                _ => content.to_string(),
            };
            Answer::Text { text }
        }
    }
}

/// An ask on its way through the editor.
pub(super) struct EditorAsk {
    pub(super) face: Arc<Face>,
    pub(super) session: String,
    pub(super) ask: Ask,
}

impl EditorAsk {
    pub(super) async fn answer(self, answered: Result<Box<RawValue>, CallError>) {
        let Ok(result) = answered else {
            return self.give_up().await;
        };
        let sessions = self.face.engine.sessions();
        let client = self.face.client();
        if is_cancel(&result) {
            // An editor that cancels its turn says so here too, and this may come first.
            drop(sessions.cancel_own(&self.session, client).await); // What is over needs no end.
            return self.give_up().await;
        }
        let given = answer(&self.ask, &result);
        if !self.ask.kind.takes(&given) {
            tracing::warn!(ask = %self.ask.id.0, "the editor chose what was not offered");
            return self.give_up().await;
        }
        let words = Some(convert::raw(&result));
        let answered = Answered {
            answer: given,
            words,
        };
        let told = sessions.answer_in_words(&self.session, self.ask.id, answered, client);
        if let Err(error) = told.await {
            tracing::debug!(%error, "an answer of the editor came too late");
        }
    }

    /// The editor cannot answer. Another client may; without one that can, nobody will.
    pub(super) async fn give_up(self) {
        let denial = self.ask.kind.denial();
        let client = self.face.client();
        let sessions = self.face.engine.sessions();
        let declined = sessions.decline(&self.session, self.ask.id, denial, client);
        drop(declined.await); // It may be settled meanwhile.
    }
}

fn option_kind(kind: OptionKind) -> &'static str {
    match kind {
        OptionKind::AllowOnce => "allow_once",
        OptionKind::AllowAlways => "allow_always",
        OptionKind::RejectOnce => "reject_once",
        OptionKind::RejectAlways => "reject_always",
        // Only reached for options that were never in the agent's words, and those have a kind.
        OptionKind::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use domain::turn::AskId;

    use super::*;

    fn ask(schema: Option<&str>) -> Ask {
        let kind = AskKind::Question {
            text: "which?".to_owned(),
            schema: schema.map(str::to_owned),
        };
        Ask {
            id: AskId("ask-1".to_owned()),
            kind,
        }
    }

    fn check(schema: Option<&str>, result: Value, expected: Answer) {
        let raw = to_raw_value(&result).unwrap();
        assert_eq!(answer(&ask(schema), &raw), expected, "{result}");
    }

    #[test]
    fn a_form_is_answered_with_its_line_or_with_all_of_it() {
        let text = |text: &str| Answer::Text {
            text: text.to_owned(),
        };
        check(
            None,
            json!({ "action": "accept", "content": { "answer": "red" } }),
            text("red"),
        );
        check(
            Some("{}"),
            json!({ "action": "accept", "content": { "n": 7 } }),
            text(r#"{"n":7}"#),
        );
        check(None, json!({ "action": "decline" }), Answer::Declined);
        check(None, json!({}), Answer::Declined);
    }

    #[test]
    fn an_agents_own_request_passes_with_the_session_changed() {
        let raw = Raw {
            dialect: Dialect::Acp,
            frame: r#"{"sessionId":"inner","mode":"form","_x":1.50}"#.into(),
        };
        let question = question(&ask(None), Some(&raw), "s-1");
        assert_eq!(question.method, "elicitation/create");
        assert_eq!(
            question.params.get(),
            r#"{"sessionId":"s-1","mode":"form","_x":1.50}"#
        );
    }
}
