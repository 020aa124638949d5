//! Whether a call of the office's agent is carried out: the permission rules of this node first, and then whoever sits at
//! the terminal. Where a rule wants somebody to be asked and nobody can be, it is not.

use std::sync::Arc;

use domain::{
    permission::{Audience, Call, Outcome, Policy, decide, is_destructive, settle},
    turn::{ToolCall, ToolKind, ToolStatus},
};
use serde_json::Value;
use smcp::computer::{Confirm, Confirmation};

use crate::office::Asking;

/// Characters of one text in a call's arguments that are shown to whoever must agree to it: what comes after a long text
/// must be seen too.
const TEXT_SHOWN_MAX: usize = 200;

/// Characters of all arguments that are shown. Nobody can agree to more.
const SHOWN_MAX: usize = 4000;

/// Decides by the rules, and asks where they say so.
pub(super) fn agreement(policy: Policy, folder: String, asking: Option<Asking>) -> Confirm {
    let rules = Arc::new((policy, folder));
    Arc::new(move |asked: Confirmation| {
        let (rules, asking) = (Arc::clone(&rules), asking.clone());
        Box::pin(async move {
            let audience = match asking {
                Some(_) => Audience::Somebody,
                None => Audience::Nobody,
            };
            let (outcome, words) = ruled(&rules.0, &rules.1, &asked, audience);
            match (outcome, asking) {
                (Outcome::AllowOnce, _) => Ok(()),
                (Outcome::Ask, Some(asking)) => ask(&asking, asked).await,
                (Outcome::Ask | Outcome::Deny | Outcome::DenyNobody, _) => Err(words),
            }
        })
    })
}

/// What the rules say. A tool that the file applies by itself needs no default of theirs, but a rule counts.
fn ruled(
    policy: &Policy,
    folder: &str,
    asked: &Confirmation,
    audience: Audience,
) -> (Outcome, String) {
    let name = &asked.shown;
    let call = ToolCall {
        id: String::new(),
        title: format!("{}__{}", asked.server, asked.tool),
        name: Some(name.clone()),
        kind: ToolKind::Other,
        status: ToolStatus::Pending,
        locations: Vec::new(),
        content: Vec::new(),
        input: Some(Value::Object(asked.params.clone()).to_string()),
        output: None,
    };
    let call = Call::of(&call, folder);
    let verdict = decide(policy, &call);
    if asked.is_applied && verdict.rule.is_none() {
        return (Outcome::AllowOnce, String::new());
    }
    let outcome = settle(
        &verdict,
        !asked.is_applied && is_destructive(&call),
        audience,
    );
    let words = match outcome {
        Outcome::DenyNobody => {
            format!("{name} needs a confirmation, and nobody is there to give it.")
        }
        Outcome::AllowOnce | Outcome::Ask | Outcome::Deny => {
            format!("{name} was not carried out: {}.", outcome.words(&verdict))
        }
    };
    (outcome, words)
}

/// Asks whoever sits at the terminal.
async fn ask(asking: &Asking, asked: Confirmation) -> Result<(), String> {
    let name = asked.shown;
    let mut arguments = Value::Object(asked.params);
    shorten(&mut arguments);
    let arguments = arguments.to_string();
    if arguments.chars().count() > SHOWN_MAX {
        return Err(format!(
            "{name} needs a confirmation, and its arguments are too long for anybody to read."
        ));
    }
    let question = format!(
        "{} wants {} of {} with {arguments}: carry it out?",
        asked.agent, asked.tool, asked.server
    );
    match asking.agreed(question).await {
        true => Ok(()),
        false => Err(format!("{name} needs a confirmation, and it was refused.")),
    }
}

/// Cuts long texts, wherever they are, and says how much is missing.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            let count = text.chars().count();
            if count > TEXT_SHOWN_MAX {
                let shown: String = text.chars().take(TEXT_SHOWN_MAX).collect();
                *text = format!("{shown}… ({} more characters)", count - TEXT_SHOWN_MAX);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_comes_after_a_long_text_is_seen_by_whoever_agrees() {
        let mut arguments =
            json!({"x": "a".repeat(9000), "y": ["é".repeat(201)], "z": "rm -rf HOME"});
        shorten(&mut arguments);
        let shown = arguments.to_string();
        assert!(shown.ends_with(r#""z":"rm -rf HOME"}"#), "{shown}");
        assert!(shown.contains("(8800 more characters)") && shown.contains("(1 more characters)"));
        assert!(shown.len() < SHOWN_MAX);
    }

    #[test]
    fn rules_come_before_the_question_and_nobody_to_ask_is_a_refusal() {
        let policy = json!({
            "allow": ["files__read*", "files__delete_all"], "ask": ["files__move"],
            "deny": ["files__burn", "execute(rm *)"],
        });
        let policy = Policy::from_object(policy.as_object().unwrap()).unwrap();
        let outcome = |tool: &str, params: Value, is_applied: bool, audience| {
            let asked = Confirmation {
                agent: "ann".to_owned(),
                server: "files".to_owned(),
                tool: tool.to_owned(),
                shown: format!("files__{tool}"),
                params: params.as_object().unwrap().clone(),
                is_applied,
            };
            ruled(&policy, "/work", &asked, audience).0
        };
        let (some, none) = (Audience::Somebody, Audience::Nobody);
        for (tool, is_applied, audience, expected) in [
            ("read_all", false, none, Outcome::AllowOnce),
            ("write", true, none, Outcome::AllowOnce),
            ("write", false, some, Outcome::Ask),
            ("write", false, none, Outcome::DenyNobody),
            ("move", true, some, Outcome::Ask),
            ("move", true, none, Outcome::DenyNobody),
            ("burn", true, some, Outcome::Deny),
            // What cannot be undone is asked about although a rule allows it.
            ("delete_all", false, some, Outcome::Ask),
        ] {
            let found = outcome(tool, json!({}), is_applied, audience);
            assert_eq!(found, expected, "{tool} {is_applied} {audience:?}");
        }
        let command = json!({"command": "cd /tmp && rm -r x"});
        assert_eq!(outcome("run", command, true, some), Outcome::Deny);
    }
}
