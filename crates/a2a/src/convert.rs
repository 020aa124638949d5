//! Between the protocol's words and the domain's: what an agent is told of a message, what a client is told of a turn.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::turn::{Answer, AskKind, AskOption, OptionKind, Stop};
use serde_json::{Value, json};
use wire::a2a::{Content, ErrorCode, Message, Part, TaskState};

use crate::error::Refusal;

/// What agents read: they are told everything as text.
pub(crate) const INPUT_MODES: [&str; 3] = ["text/plain", "text/*", "application/json"];

/// What tasks give back.
pub(crate) const OUTPUT_MODES: [&str; 2] = ["text/plain", "application/json"];

/// What a message says, as text: its parts one after the other, files with their names.
pub fn prompt(message: &Message) -> String {
    let parts: Vec<String> = message.parts.iter().filter_map(part_text).collect();
    parts.join("\n\n")
}

fn part_text(part: &Part) -> Option<String> {
    let name = part.filename.as_deref();
    Some(match &part.content {
        Content::Text(text) => match name {
            Some(name) => format!("{name}:\n{text}"),
            None => text.clone(),
        },
        Content::Raw(raw) => {
            let bytes = STANDARD.decode(raw).ok()?;
            let text = String::from_utf8(bytes).ok()?;
            format!("{}:\n{text}", name.unwrap_or("attached file"))
        }
        Content::Url(url) => format!("{}: {url}", name.unwrap_or("attached file")),
        Content::Data(data) => data.to_string(),
    })
}

/// Refuses what an agent cannot be told.
pub(crate) fn check(message: &Message) -> Result<(), Refusal> {
    if message.message_id.is_empty() {
        return Err(Refusal::invalid("message.messageId", "it is empty"));
    }
    if message.parts.is_empty() {
        let words = "at least one part is needed";
        return Err(Refusal::invalid("message.parts", words));
    }
    for (index, part) in message.parts.iter().enumerate() {
        check_part(part, &format!("message.parts[{index}]"))?;
    }
    Ok(())
}

/// Whatever a file is said to be, an agent can read it if it is text.
fn check_part(part: &Part, field: &str) -> Result<(), Refusal> {
    let Content::Raw(raw) = &part.content else {
        return Ok(());
    };
    let bytes = STANDARD
        .decode(raw)
        .map_err(|_| Refusal::invalid(field, "`raw` is not base64"))?;
    if bytes.contains(&0) || String::from_utf8(bytes).is_err() {
        let media = part.media_type.as_deref().unwrap_or("a file");
        let words = format!("{field}: agents here read text, and this is {media} and no text");
        return Err(
            Refusal::new(ErrorCode::ContentTypeNotSupported, words).with("mediaType", media)
        );
    }
    Ok(())
}

/// The state a turn's end leads to, and what there is to say of it.
pub(crate) fn ending(stop: &Stop) -> (TaskState, Option<String>) {
    match stop {
        Stop::EndTurn => (TaskState::Completed, None),
        Stop::Cancelled => (TaskState::Canceled, None),
        Stop::Refusal => (
            TaskState::Rejected,
            Some("the agent refuses to do this".to_owned()),
        ),
        Stop::MaxTokens => (
            TaskState::Failed,
            Some("the agent stopped at its limit of tokens".to_owned()),
        ),
        Stop::MaxTurnRequests => (
            TaskState::Failed,
            Some("the agent stopped at its limit of steps".to_owned()),
        ),
        Stop::Failed { message } => (TaskState::Failed, Some(message.clone())),
    }
}

/// What a client must provide: input for a question, authorisation for a permission. The text is for people, the data for
/// programs, which answer with a data part `{"optionId": …}` or with text.
pub(crate) fn asked(kind: &AskKind) -> (TaskState, Vec<Part>) {
    match kind {
        AskKind::Question { text, schema } => {
            let mut parts = vec![Part::text(text.clone())];
            if let Some(schema) = schema {
                let schema: Value = serde_json::from_str(schema).unwrap_or_else(|_| json!(schema));
                parts.push(Part::data(json!({ "schema": schema })));
            }
            (TaskState::InputRequired, parts)
        }
        AskKind::Permission {
            tool,
            options,
            destructive,
        } => {
            let words: Vec<String> = options
                .iter()
                .map(|option| format!("{} ({})", option.id, option.name))
                .collect();
            let text = format!(
                "May I? {}\nAnswer with one of: {}",
                tool.title,
                words.join(", ")
            );
            let data = json!({
                "permission": {
                    "title": tool.title,
                    "name": tool.name,
                    "kind": tool.kind.as_str(),
                    "input": tool.input,
                    "destructive": destructive,
                    "options": options,
                },
            });
            (
                TaskState::AuthRequired,
                vec![Part::text(text), Part::data(data)],
            )
        }
    }
}

/// What a client's message means as an answer.
pub(crate) fn answer(kind: &AskKind, message: &Message, text: String) -> Result<Answer, Refusal> {
    match kind {
        AskKind::Question { schema: None, .. } => Ok(Answer::Text { text }),
        AskKind::Question {
            schema: Some(_), ..
        } => {
            let data = message.parts.iter().find_map(|part| match &part.content {
                Content::Data(data) => Some(data.to_string()),
                Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
            });
            Ok(Answer::Text {
                text: data.unwrap_or(text),
            })
        }
        AskKind::Permission { options, .. } => {
            let said = message.data("optionId").and_then(Value::as_str);
            let said = said.map_or_else(|| message.text(), str::to_owned);
            let option = choose(options, said.trim()).ok_or_else(|| {
                let ids: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
                let words = format!("answer the permission with one of {}", ids.join(", "));
                Refusal::invalid("message.parts", words)
            })?;
            Ok(Answer::Option {
                id: option.id.clone(),
            })
        }
    }
}

/// The option that is meant. A plain yes or no never becomes one for ever.
fn choose<'a>(options: &'a [AskOption], said: &str) -> Option<&'a AskOption> {
    let of_kind = |kind| options.iter().find(|option| option.kind == kind);
    let named = options.iter().find(|option| {
        option.id.eq_ignore_ascii_case(said) || option.name.eq_ignore_ascii_case(said)
    });
    named.or_else(|| match said.to_ascii_lowercase().as_str() {
        "yes" | "y" | "ok" | "allow" | "approve" | "approved" => of_kind(OptionKind::AllowOnce),
        "no" | "n" | "deny" | "denied" | "reject" => of_kind(OptionKind::RejectOnce),
        _ => None,
    })
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
