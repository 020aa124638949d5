//! Asks of a turn as awaits of a run, and a caller's words as the answer.

use domain::{
    Name,
    permission::{self, Call},
    turn::{Answer, AskId, AskKind, AskOption, OptionKind},
};
use serde_json::{Map, Value, json};
use wire::runs::{AwaitMetadata, AwaitRequest, Message, Part};

/// What a tool was given, as far as it is shown in a question.
const INPUT_SHOWN: usize = 2000;

/// Words that say yes once, in the languages of our users.
const YES: [&str; 31] = [
    "yes",
    "y",
    "yeah",
    "yep",
    "yes please",
    "please do",
    "ok",
    "okay",
    "allow",
    "approve",
    "approved",
    "confirm",
    "confirmed",
    "sure",
    "go ahead",
    "do it",
    "proceed",
    "是",
    "是的",
    "好",
    "好的",
    "好吧",
    "可以",
    "行",
    "同意",
    "允许",
    "确认",
    "没问题",
    "对",
    "嗯",
    "继续",
];

/// Words that say no.
const NO: [&str; 27] = [
    "no",
    "n",
    "nope",
    "no thanks",
    "no thank you",
    "do not",
    "don't",
    "deny",
    "denied",
    "reject",
    "refuse",
    "cancel",
    "stop",
    "否",
    "不",
    "不是",
    "不要",
    "不行",
    "不可以",
    "不同意",
    "不用",
    "不了",
    "别",
    "取消",
    "拒绝",
    "停",
    "算了",
];

/// The ask as the caller sees it.
pub(crate) fn request(id: &AskId, kind: &AskKind, agent: &Name) -> AwaitRequest {
    let metadata = metadata(id, kind);
    let mut part = Part::text(words(kind));
    // Both standard clients drop the metadata of an await and keep unknown fields of a part.
    part.extra = Map::from_iter([
        ("severity".to_owned(), json!(metadata.severity)),
        ("reversible".to_owned(), json!(metadata.reversible)),
    ]);
    part.extra.retain(|_, value| !value.is_null());
    let mut parts = vec![part];
    if let AskKind::Question {
        schema: Some(schema),
        ..
    } = kind
    {
        let mut form = Part::text(schema.clone());
        form.name = Some("answer-schema.json".to_owned());
        form.content_type = "application/schema+json".to_owned();
        parts.push(form);
    }
    AwaitRequest {
        kind: "message".to_owned(),
        message: Message::new(&format!("agent/{agent}"), parts),
        metadata: Some(metadata),
    }
}

fn metadata(id: &AskId, kind: &AskKind) -> AwaitMetadata {
    let mut extra = Map::from_iter([("ask".to_owned(), json!(id.0))]);
    let (severity, reversible) = match kind {
        AskKind::Permission { options, tool, .. } => {
            extra.insert("options".to_owned(), json!(options));
            extra.insert("tool".to_owned(), json!(tool));
            if is_final(kind) {
                (Some("destructive"), Some(false))
            } else {
                (Some("normal"), None)
            }
        }
        AskKind::Question { .. } => (None, None),
    };
    AwaitMetadata {
        severity: severity.map(str::to_owned),
        reversible,
        extra,
    }
}

/// Whether the act cannot be undone: the agent says so, or its look does.
pub(crate) fn is_final(kind: &AskKind) -> bool {
    match kind {
        AskKind::Permission {
            tool, destructive, ..
        } => *destructive || permission::is_destructive(&Call::of(tool, "/")),
        AskKind::Question { .. } => false,
    }
}

fn words(kind: &AskKind) -> String {
    match kind {
        AskKind::Question { text, .. } => text.clone(),
        AskKind::Permission { tool, options, .. } => {
            let input = tool.input.as_deref().unwrap_or_default();
            let shown: String = input.chars().take(INPUT_SHOWN).collect();
            let with = if shown.is_empty() {
                String::new()
            } else {
                format!("\n{shown}")
            };
            let choices: Vec<String> = options
                .iter()
                .map(|option| format!("{} ({})", option.id, option.name))
                .collect();
            format!(
                "The agent asks for permission: {}{with}\nAnswer with one of: {}",
                tool.title,
                choices.join(", ")
            )
        }
    }
}

/// What a caller's messages answer; the error says what would.
pub(crate) fn answer(kind: &AskKind, messages: &[Message]) -> Result<Answer, String> {
    let parts = || messages.iter().flat_map(|message| &message.parts);
    let text: Vec<&str> = parts().filter_map(Part::as_text).collect();
    let text = text.join("\n");
    match kind {
        AskKind::Question { .. } if text.is_empty() => Err("it has no words".to_owned()),
        AskKind::Question { .. } => Ok(Answer::Text { text }),
        AskKind::Permission { options, .. } => {
            let chosen = parts().find_map(chosen_option);
            let said = chosen.unwrap_or(text);
            choose(kind, options, said.trim()).ok_or_else(|| {
                let ids: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
                format!("say one of {}, yes or no", ids.join(", "))
            })
        }
    }
}

/// `{"option": "id"}`, for programs.
fn chosen_option(part: &Part) -> Option<String> {
    if part.content_type != "application/json" {
        return None;
    }
    let value: Value = serde_json::from_str(part.as_text()?).ok()?;
    value.get("option")?.as_str().map(str::to_owned)
}

fn choose(kind: &AskKind, options: &[AskOption], said: &str) -> Option<Answer> {
    let lower = said.to_lowercase().replace([',', '，'], " ");
    let words: Vec<&str> = lower.split_whitespace().collect();
    let word = words.join(" ");
    let word = word.trim_end_matches(['.', '!', '。', '！', ' ']);
    let named = options
        .iter()
        .find(|option| option.id == said || option.name.to_lowercase() == word);
    if let Some(option) = named {
        return Some(Answer::Option {
            id: option.id.clone(),
        });
    }
    if YES.contains(&word) {
        // A plain yes is for this once, whatever else the agent offers.
        let option = kind.option(OptionKind::AllowOnce)?;
        return Some(Answer::Option {
            id: option.id.clone(),
        });
    }
    NO.contains(&word).then(|| kind.denial())
}

#[cfg(test)]
#[path = "awaits_tests.rs"]
mod tests;
