//! What an agent asks during a call, put to the person at the client as a form, where the client has forms.

use std::collections::HashMap;

use domain::turn::{Answer, Ask, AskId, AskKind, AskOption};
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, JsonObject, RequestId, ServerRequest,
};
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinSet};
use tracing::debug;

use crate::caller::Caller;

/// The only field of a form of ours.
const FIELD: &str = "answer";

/// Letters of an act's input that a form shows: enough to judge it by, and no wall of text.
const INPUT_MAX: usize = 2000;

/// The forms that are open at the client during one turn. Those that are open when this is dropped wait for nothing.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Not shown yet: what a rule decides is settled in the same breath.
    held: Vec<Ask>,
    answers: JoinSet<Answered>,
    open: HashMap<AskId, (RequestId, AbortHandle)>,
}

/// What somebody made of a form.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) ask: AskId,
    pub(crate) answer: Answer,
}

impl Asking {
    /// Takes an ask in, to be shown by [`Asking::show`] once nothing more has come.
    pub(crate) fn hold(&mut self, ask: Ask) {
        self.held.push(ask);
    }

    pub(crate) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Shows a form for each ask that is held.
    pub(crate) async fn show(&mut self, caller: &Caller) {
        for ask in std::mem::take(&mut self.held) {
            self.put(caller, ask).await;
        }
    }

    /// What cannot be shown is declined, since nobody will answer it here.
    async fn put(&mut self, caller: &Caller, ask: Ask) {
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: words(&ask.kind),
            requested_schema: schema(&ask.kind),
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
        let Ask { id, kind } = ask;
        let asked = tokio::select! { biased;
            () = caller.left() => return, // What is open then is settled with the turn.
            asked = caller.ask(request) => asked,
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(error) => {
                debug!(%error, "could not ask the client");
                let answer = Answer::Declined;
                self.answers
                    .spawn(std::future::ready(Answered { ask: id, answer }));
                return;
            }
        };
        let request = asked.id.clone();
        let ask = id.clone();
        let waiting = self.answers.spawn(async move {
            let answer = match asked.await_response().await {
                Ok(ClientResult::ElicitResult(result)) => read(&kind, result),
                Ok(_) | Err(_) => Answer::Declined, // The client has no such form after all.
            };
            Answered { ask, answer }
        });
        self.open.insert(id, (request, waiting));
    }

    /// Somebody else has answered, or nobody need to any more.
    pub(crate) async fn withdraw(&mut self, caller: &Caller, ask: &AskId) {
        self.held.retain(|held| held.id != *ask);
        if let Some((request, waiting)) = self.open.remove(ask) {
            waiting.abort();
            caller.take_back(request).await;
        }
    }

    /// The next answer. Without a form that is open there is none.
    pub(crate) async fn answered(&mut self) -> Answered {
        loop {
            match self.answers.join_next().await {
                Some(Ok(answered)) => {
                    self.open.remove(&answered.ask);
                    return answered;
                }
                Some(Err(_)) => {} // It was withdrawn.
                None => std::future::pending().await,
            }
        }
    }
}

fn words(kind: &AskKind) -> String {
    match kind {
        AskKind::Permission {
            tool, destructive, ..
        } => {
            let mut words = format!("May the agent do this? {}", tool.title);
            for location in &tool.locations {
                words.push_str(&format!("\n{}", location.path));
            }
            if let Some(input) = &tool.input {
                let shown: String = input.chars().take(INPUT_MAX).collect();
                let rest = if shown.len() < input.len() { "…" } else { "" };
                words.push_str(&format!("\n{shown}{rest}"));
            }
            if *destructive {
                words.push_str("\nThis cannot be undone.");
            }
            words
        }
        AskKind::Question { text, .. } => text.clone(),
    }
}

/// What a form may hold is little; a question that wants more is a line of text, and its answer JSON.
fn schema(kind: &AskKind) -> ElicitationSchema {
    let own = |field: Value| {
        let form = json!({"type": "object", "properties": {FIELD: field}, "required": [FIELD]});
        let form: JsonObject = serde_json::from_value(form).expect("it is an object");
        ElicitationSchema::from_json_schema(form).expect("a field of text is allowed in forms")
    };
    match kind {
        AskKind::Permission { options, .. } => {
            let named: Vec<&str> = options
                .iter()
                .map(|option| label(options, option))
                .collect();
            own(json!({"type": "string", "title": "Decision", "enum": named}))
        }
        AskKind::Question { schema, .. } => {
            let wanted = schema.as_deref().and_then(form_of);
            wanted.unwrap_or_else(|| own(json!({"type": "string", "title": "Answer"})))
        }
    }
}

fn form_of(schema: &str) -> Option<ElicitationSchema> {
    ElicitationSchema::from_json_schema(serde_json::from_str(schema).ok()?).ok()
}

/// What an option is called in a form: by its name, unless that is another one's too.
fn label<'a>(options: &'a [AskOption], option: &'a AskOption) -> &'a str {
    let is_alone = options.iter().filter(|it| it.name == option.name).count() == 1;
    if is_alone { &option.name } else { &option.id }
}

fn read(kind: &AskKind, result: ElicitResult) -> Answer {
    let content = match result.action {
        ElicitationAction::Accept => result.content.unwrap_or_default(),
        _ => return kind.denial(), // Whoever dismisses a form has not allowed anything.
    };
    let said = content.get(FIELD).and_then(Value::as_str);
    match kind {
        AskKind::Permission { options, .. } => {
            let mut options_of = options.iter();
            let chosen = options_of.find(|option| Some(label(options, option)) == said);
            chosen.map_or_else(
                || kind.denial(),
                |option| Answer::Option {
                    id: option.id.clone(),
                },
            )
        }
        AskKind::Question { schema, .. } => {
            let is_form = schema.as_deref().and_then(form_of).is_some();
            match said {
                _ if is_form => Answer::Text {
                    text: content.to_string(),
                },
                Some(text) => Answer::Text {
                    text: text.to_owned(),
                },
                None => Answer::Declined,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::turn::{OptionKind, ToolCall, ToolKind, ToolStatus};

    use super::*;

    fn option(id: &str, name: &str, kind: OptionKind) -> AskOption {
        let (id, name) = (id.to_owned(), name.to_owned());
        AskOption { id, name, kind }
    }

    fn permission(options: Vec<AskOption>) -> AskKind {
        let tool = ToolCall {
            id: "t".to_owned(),
            title: "Delete a.txt".to_owned(),
            name: None,
            kind: ToolKind::Delete,
            status: ToolStatus::Pending,
            locations: Vec::new(),
            content: Vec::new(),
            input: Some("x".repeat(INPUT_MAX + 1)),
            output: None,
        };
        AskKind::Permission {
            tool,
            options,
            destructive: true,
        }
    }

    fn usual() -> AskKind {
        permission(vec![
            option("a", "Allow", OptionKind::AllowOnce),
            option("r", "Reject", OptionKind::RejectOnce),
        ])
    }

    fn answered(action: ElicitationAction, content: Value) -> ElicitResult {
        let mut result = ElicitResult::new(action);
        result.content = Some(content);
        result
    }

    fn chosen(id: &str) -> Answer {
        Answer::Option { id: id.to_owned() }
    }

    #[test]
    fn a_form_says_what_is_asked_and_offers_the_options_by_name() {
        let shown = words(&usual());
        assert!(shown.contains("Delete a.txt") && shown.contains("cannot be undone"));
        assert!(shown.contains(&format!("{}…", "x".repeat(INPUT_MAX))));
        let form = serde_json::to_value(schema(&usual())).unwrap();
        assert_eq!(
            form["properties"][FIELD]["enum"],
            json!(["Allow", "Reject"])
        );
        assert_eq!(form["required"], json!([FIELD]));
    }

    #[test]
    fn only_an_option_that_was_offered_is_an_answer_and_everything_else_is_no() {
        use ElicitationAction::{Accept, Cancel, Decline};
        let cases = [
            (Accept, json!({FIELD: "Allow"}), chosen("a")),
            (Accept, json!({FIELD: "Reject"}), chosen("r")),
            (Accept, json!({FIELD: "Perhaps"}), chosen("r")),
            (Accept, json!({}), chosen("r")),
            (Decline, json!({FIELD: "Allow"}), chosen("r")),
            (Cancel, Value::Null, chosen("r")),
        ];
        for (action, content, answer) in cases {
            assert_eq!(
                read(&usual(), answered(action, content.clone())),
                answer,
                "{content}"
            );
        }
    }

    #[test]
    fn options_of_the_same_name_are_told_apart_by_their_ids() {
        let kind = permission(vec![
            option("one", "Yes", OptionKind::AllowOnce),
            option("all", "Yes", OptionKind::AllowAlways),
            option("no", "No", OptionKind::RejectOnce),
        ]);
        let form = serde_json::to_value(schema(&kind)).unwrap();
        assert_eq!(
            form["properties"][FIELD]["enum"],
            json!(["one", "all", "No"])
        );
        let accept = |said: &str| answered(ElicitationAction::Accept, json!({FIELD: said}));
        assert_eq!(read(&kind, accept("one")), chosen("one"));
        assert_eq!(read(&kind, accept("Yes")), chosen("no"));
    }

    #[test]
    fn a_question_is_a_line_of_text_or_the_form_it_wants() {
        let question = |schema: Option<Value>| AskKind::Question {
            text: "Which port?".to_owned(),
            schema: schema.map(|schema| schema.to_string()),
        };
        let accept = |content| answered(ElicitationAction::Accept, content);
        let text = |text: &str| Answer::Text {
            text: text.to_owned(),
        };
        let plain = question(None);
        assert_eq!(read(&plain, accept(json!({FIELD: "80"}))), text("80"));
        let form = json!({"type": "object", "properties": {"port": {"type": "integer"}}});
        let wanted = question(Some(form));
        assert!(schema(&wanted).properties.contains_key("port"));
        assert_eq!(
            read(&wanted, accept(json!({"port": 80}))),
            text(r#"{"port":80}"#)
        );
        // What is no form in this protocol is asked for as text.
        let deep =
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}});
        let deep = question(Some(deep));
        assert!(schema(&deep).properties.contains_key(FIELD));
        assert_eq!(read(&deep, accept(json!({FIELD: "{}"}))), text("{}"));
    }
}
