//! `elicitation/create`: the agent asks its user something, as a form with a schema.

use domain::turn::{Answer, AskKind, Raw};
use engine::Answered;
use jsonrpc::ErrorObject;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use crate::{asking::Asking, convert, grants, requests::parsed, sessions::Sessions};

/// The modes of a question.
const FORM: &str = "form";
pub(crate) const ADDRESS: &str = "url";

/// A question to whoever the session belongs to.
#[derive(Debug)]
pub(crate) struct Question {
    asking: Asking,
    kind: AskKind,
    raw: Option<Raw>,
    form: Form,
}

/// How an answer becomes what the agent expects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// One field: the answer is its value.
    Field { name: String, text: bool },
    /// The answer is the whole object.
    Object,
    /// Nothing is to be filled in: it is agreed to, or not.
    Consent,
    /// An address to open; any answer says that it was.
    Address,
}

impl Question {
    /// Forms and addresses are understood, as we said in the handshake.
    pub(crate) fn read(
        sessions: &Sessions,
        params: Option<&RawValue>,
    ) -> Result<Question, ErrorObject> {
        let value = parsed(params);
        let mode = convert::text(&value, "mode").unwrap_or(FORM);
        if ![FORM, ADDRESS].contains(&mode) {
            return Err(ErrorObject::invalid_params(format!(
                "questions of mode {mode:?} are not supported, only forms and addresses"
            )));
        }
        let session = convert::text(&value, "sessionId").unwrap_or_default();
        let asking = sessions.questions(session);
        let asking = asking.ok_or_else(|| grants::unknown(session))?;
        let schema = &value["requestedSchema"];
        let message = convert::text(&value, "message").unwrap_or_default();
        let (form, text) = match mode {
            ADDRESS => {
                let address = convert::text(&value, "url").unwrap_or_default();
                let text = format!("{message}\n{address}\n(open it, then answer with anything)");
                (Form::Address, text)
            }
            _ => (Form::of(schema), message.to_owned()),
        };
        let kind = AskKind::Question {
            text,
            schema: form.schema(schema),
        };
        Ok(Question {
            asking,
            kind,
            raw: params.map(convert::raw),
            form,
        })
    }

    /// Waits for an answer. The end of the turn is one.
    pub(crate) async fn ask(self) -> Result<Box<RawValue>, serde_json::Error> {
        let asking = self.asking.clone();
        let Answered { answer, words } = self.asking.ask(self.kind, self.raw).await;
        if let Some(words) = Asking::native(words) {
            return Ok(words);
        }
        let content = match answer {
            Answer::Text { .. } if self.form == Form::Address => {
                return to_raw_value(&json!({ "action": "accept" }));
            }
            Answer::Text { text } => self.form.content(&text),
            Answer::Declined if asking.is_over() => {
                return to_raw_value(&json!({ "action": "cancel" }));
            }
            Answer::Option { .. } | Answer::Declined => None,
        };
        to_raw_value(&match content {
            Some(content) => json!({ "action": "accept", "content": content }),
            None => declined(),
        })
    }
}

/// The answer to a question that reaches nobody.
pub(crate) fn declined() -> Value {
    json!({ "action": "decline" })
}

impl Form {
    fn of(schema: &Value) -> Form {
        let properties = schema["properties"].as_object();
        let mut properties = properties.into_iter().flatten();
        match (properties.next(), properties.next()) {
            (Some((name, property)), None) => {
                let plain = ["enum", "oneOf", "format", "pattern"]
                    .iter()
                    .all(|key| property[*key].is_null());
                Form::Field {
                    name: name.clone(),
                    text: plain && property["type"] == "string",
                }
            }
            (None, _) => Form::Consent,
            (Some(_), Some(_)) => Form::Object,
        }
    }

    /// The schema, where the answer is more than a line of text.
    fn schema(&self, schema: &Value) -> Option<String> {
        match self {
            Form::Field { text: true, .. } | Form::Address => None,
            Form::Consent => schema
                .is_object()
                .then(|| json!({ "type": "object", "properties": {} }).to_string()),
            Form::Field { .. } | Form::Object => schema.is_object().then(|| schema.to_string()),
        }
    }

    /// What the agent gets for an answer; nothing if it cannot be made to fit.
    fn content(&self, text: &str) -> Option<Map<String, Value>> {
        let field = |name: &str, value| Map::from_iter([(name.to_owned(), value)]);
        let parsed: Option<Value> = serde_json::from_str(text).ok();
        match (self, parsed) {
            (Form::Field { name, text: true }, _) => Some(field(name, text.into())),
            (Form::Object | Form::Consent, Some(Value::Object(object))) => Some(object),
            (Form::Consent, _) if is_yes(text) => Some(Map::new()),
            (Form::Object | Form::Consent | Form::Address, _) => None,
            // An object without any field leaves out the only one.
            (Form::Field { name, .. }, Some(Value::Object(object)))
                if object.is_empty() || object.contains_key(name) =>
            {
                Some(object)
            }
            (Form::Field { name, .. }, value) => {
                Some(field(name, value.unwrap_or_else(|| text.into())))
            }
        }
    }
}

/// Whether somebody agrees. Whatever else is said to a question that has nothing to fill in is a no.
fn is_yes(text: &str) -> bool {
    const YES: [&str; 6] = ["yes", "y", "ok", "okay", "accept", "true"];
    let said = text.trim();
    YES.iter().any(|yes| said.eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(properties: Value, answer: &str, expected: Value) {
        let schema = json!({ "type": "object", "properties": properties });
        let content = Form::of(&schema).content(answer);
        let content = content.map_or(Value::Null, Value::Object);
        assert_eq!(content, expected, "{schema} {answer}");
    }

    #[test]
    fn an_answer_is_put_where_the_form_wants_it() {
        let line = json!({ "answer": { "type": "string" } });
        check(line.clone(), "yes", json!({ "answer": "yes" }));
        check(
            line.clone(),
            r#"{"a":1}"#,
            json!({ "answer": r#"{"a":1}"# }),
        );
        check(line, "7", json!({ "answer": "7" }));
        let number = json!({ "count": { "type": "integer" } });
        check(number.clone(), "7", json!({ "count": 7 }));
        check(number.clone(), r#"{"count":7}"#, json!({ "count": 7 }));
        check(number, "seven", json!({ "count": "seven" }));
        let choice = json!({ "colour": { "type": "string", "enum": ["red"] } });
        check(choice, "red", json!({ "colour": "red" }));
        let two = json!({ "a": { "type": "string" }, "b": { "type": "string" } });
        check(
            two.clone(),
            r#"{"a":"x","b":"y"}"#,
            json!({ "a": "x", "b": "y" }),
        );
        check(two, "x", json!(null));
        let optional = json!({ "force": { "type": "boolean" } });
        check(optional, "{}", json!({}));
        check(json!({}), "{}", json!({}));
        check(json!({}), "Yes", json!({}));
        check(json!({}), "no, wait", json!(null));
    }

    #[test]
    fn only_more_than_a_line_needs_a_schema() {
        let schema = |properties: Value| {
            let schema = json!({ "type": "object", "properties": properties });
            Form::of(&schema).schema(&schema).is_some()
        };
        assert!(!schema(json!({ "answer": { "type": "string" } })));
        assert!(schema(json!({ "answer": { "type": "boolean" } })));
        assert!(schema(json!({ "a": {}, "b": {} })));
        assert!(
            schema(json!({})),
            "that there is nothing to fill in is told"
        );
    }
}
