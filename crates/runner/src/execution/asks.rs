//! What a run asks people: words in a conversation, an approval, whether to do an interrupted step again.

use domain::{
    permission,
    turn::{Answer, AskKind, AskOption, OptionKind, ToolCall, ToolKind},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use workflow::{AskApproval, AskInput, AskRepeat, Decision, Input, Repeat, Ticket};

use super::Execution;

/// What a form asks where a step was interrupted.
const REPEAT_FORM: &str = r#"{"type":"object","properties":{"decision":{"type":"string","enum":["again","skip","fail"]}},"required":["decision"]}"#;

const ALLOW: &str = "allow";
const REJECT: &str = "reject";

impl Execution {
    /// The conversation of a run at the top is the conversation of the turn; one further down asks a question.
    pub(super) fn ask_input(&mut self, asked: AskInput) {
        if self.kept.head.caller.is_none() {
            self.waiting.push_back(asked);
            return;
        }
        let kind = AskKind::Question {
            text: asked.text.clone(),
            schema: None,
        };
        let (ticket, audience) = (asked.ticket, self.audience.clone());
        self.ask(ticket, kind, move |answer| match answer {
            Answer::Text { text } => Input::Answer { ticket, text },
            Answer::Option { .. } | Answer::Declined => {
                let step = asked.path;
                audience.notice(format!(
                    "nobody has said anything in the conversation {step}, so its workflow is cancelled"
                ));
                Input::Cancel
            }
        });
    }

    pub(super) fn ask_approval(&mut self, asked: AskApproval) {
        let title = match (asked.message.as_str(), asked.summary.as_str()) {
            ("", _) => asked.summary,
            (_, "") => asked.message,
            (message, summary) => format!("{message} ({summary})"),
        };
        let option = |id: &str, name: &str, kind| AskOption {
            id: id.to_owned(),
            name: name.to_owned(),
            kind,
        };
        let gate = match asked.destructive {
            true => permission::FINAL_GATE,
            false => permission::GATE,
        };
        let kind = AskKind::Permission {
            tool: ToolCall {
                name: Some(gate.to_owned()),
                ..self.audience.call_of(&asked.path, title, ToolKind::Other)
            },
            options: vec![
                option(ALLOW, "Approve", OptionKind::AllowOnce),
                option(REJECT, "Deny", OptionKind::RejectOnce),
            ],
            // An approval is there to be given by a human, wherever it is asked.
            destructive: true,
        };
        let ticket = asked.ticket;
        self.ask(ticket, kind, move |answer| Input::Approve {
            ticket,
            decision: if answer
                == (Answer::Option {
                    id: ALLOW.to_owned(),
                }) {
                Decision::Allow
            } else {
                Decision::Deny
            },
        });
    }

    pub(super) fn ask_repeat(&mut self, asked: AskRepeat) {
        let kind = AskKind::Question {
            text: format!("{} Do it again, skip it, or fail?", asked.message),
            schema: Some(REPEAT_FORM.to_owned()),
        };
        let ticket = asked.ticket;
        self.ask(ticket, kind, move |answer| Input::Repeat {
            ticket,
            decision: match answer {
                Answer::Text { text } => repeat_of(&text),
                Answer::Option { .. } | Answer::Declined => Repeat::Fail,
            },
        });
    }

    fn ask(
        &mut self,
        ticket: Ticket,
        kind: AskKind,
        input: impl FnOnce(Answer) -> Input + Send + 'static,
    ) {
        let (audience, outbox) = (self.audience.clone(), self.outbox.clone());
        let withdrawn = CancellationToken::new();
        self.asks.insert(ticket, withdrawn.clone());
        self.scene.node.around.tasks.spawn(|ending| async move {
            let answer = tokio::select! { biased;
                () = withdrawn.cancelled() => return,
                () = ending.cancelled() => Answer::Declined,
                answer = audience.ask(kind, None) => answer,
            };
            let _ = outbox.send(input(answer)).await; // The run may have been dropped.
        });
    }
}

/// A word that somebody typed, or the form with it.
fn repeat_of(text: &str) -> Repeat {
    let form: Value = serde_json::from_str(text).unwrap_or_default();
    match form["decision"].as_str().unwrap_or(text).trim() {
        "again" => Repeat::Again,
        "skip" => Repeat::Skip,
        _ => Repeat::Fail,
    }
}
