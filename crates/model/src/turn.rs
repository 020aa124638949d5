//! One turn: ask the model, do what it wants, tell it, until it wants nothing more.

use domain::turn::{
    Answer, AskKind, AskOption, EventKind, OptionKind, Stop, ToolCall, ToolContent, ToolStatus,
    ToolUpdate, Usage,
};
use engine::{DriverError, DriverSurroundings, SessionSink, TurnOptions};
use reqwest::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    conversation::{Conversation, Wanted},
    request::{self, NoAnswer},
    settings::Settings,
    toolbox::{Task, Toolbox},
};

/// Rounds of tools in one turn, unless the caller sets fewer: a model that has not come to an end by then goes in circles.
const ROUNDS_MAX: u32 = 25;

const ALLOW: &str = "allow";
const REJECT: &str = "reject";

/// Everything a turn works with.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) client: &'a Client,
    pub(crate) settings: &'a Settings,
    pub(crate) around: &'a DriverSurroundings,
    pub(crate) toolbox: &'a Toolbox,
    pub(crate) sink: &'a SessionSink,
    pub(crate) options: &'a TurnOptions,
    pub(crate) system: Option<String>,
    pub(crate) cancel: &'a CancellationToken,
}

impl Work<'_> {
    /// Carries out the prompt. The conversation holds whole exchanges only, whatever happens.
    pub(crate) async fn run(
        &self,
        conversation: &mut Conversation,
        prompt: &str,
    ) -> Result<Stop, DriverError> {
        let place = conversation.user(prompt);
        let running = async {
            self.toolbox.settled().await;
            self.rounds(conversation).await
        };
        let stop = match self.options.timeout {
            None => running.await,
            Some(limit) => match tokio::time::timeout(limit, running).await {
                Ok(stop) => stop,
                Err(_) => Err(DriverError::Silent {
                    what: "the prompt",
                    limit,
                }),
            },
        };
        if stop.is_err() {
            conversation.rewind(place);
        }
        stop
    }

    async fn rounds(&self, conversation: &mut Conversation) -> Result<Stop, DriverError> {
        let rounds = self.options.max_turns.unwrap_or(ROUNDS_MAX).min(ROUNDS_MAX);
        // Each round is asked anew with all that was said, and is paid for.
        let mut used = Usage::default();
        for _ in 0..rounds {
            let body = self.question(conversation);
            let asked =
                request::ask(self.client, self.settings, &body, self.sink, self.cancel).await;
            let mut answer = match asked {
                Ok(answer) => answer,
                Err(NoAnswer::Failed(error)) => return Err(error),
                Err(NoAnswer::Cancelled) => {
                    conversation.assistant("", &[]);
                    return Ok(Stop::Cancelled);
                }
            };
            if let Some(usage) = answer.usage {
                used = used.plus(usage);
                self.sink.emit(EventKind::Usage(used), None);
            }
            name_nameless(&mut answer.wanted, conversation.messages().len());
            conversation.assistant(&answer.text, &answer.wanted);
            if answer.wanted.is_empty() {
                return Ok(end(answer.finish.as_deref()));
            }
            for wanted in &answer.wanted {
                let output = self.serve(wanted).await;
                conversation.tool(&wanted.id, &output);
            }
            if self.cancel.is_cancelled() {
                return Ok(Stop::Cancelled);
            }
        }
        Ok(Stop::MaxTurnRequests)
    }

    fn question(&self, conversation: &Conversation) -> Value {
        let system = self.system.as_ref();
        let system = system.map(|system| json!({ "role": "system", "content": system }));
        let messages: Vec<Value> = system
            .into_iter()
            .chain(conversation.messages().iter().cloned())
            .collect();
        let mut body = request::body(self.settings, &messages, &self.toolbox.definitions());
        if let Some(model) = &self.options.model {
            body["model"] = json!(model);
        }
        body
    }

    /// Does one thing the model wants, if it may; what it is told in any case.
    async fn serve(&self, wanted: &Wanted) -> String {
        let task = match self.toolbox.parse(&wanted.name, &wanted.arguments) {
            Ok(task) => task,
            Err(why) => {
                let mut call = self.sighting(wanted, None);
                call.status = ToolStatus::Failed;
                call.content = vec![ToolContent::Text { text: why.clone() }];
                self.sink.emit(EventKind::ToolCall(call), None);
                return format!("Error: {why}");
            }
        };
        let call = self.sighting(wanted, Some(&task));
        self.sink.emit(EventKind::ToolCall(call.clone()), None);
        let changes = call.content.clone();
        if task.needs_permission() && !self.is_allowed(call).await {
            let text = "Denied: this was not permitted.".to_owned();
            self.report(&wanted.id, ToolStatus::Failed, Vec::new(), &text);
            return text;
        }
        self.sink.emit(
            EventKind::ToolUpdate(ToolUpdate {
                id: wanted.id.clone(),
                status: Some(ToolStatus::InProgress),
                ..ToolUpdate::default()
            }),
            None,
        );
        let done = self.toolbox.perform(task, self.around, self.cancel).await;
        match done {
            Ok(output) => {
                self.report(&wanted.id, ToolStatus::Completed, changes, &output);
                output
            }
            Err(why) => {
                self.report(&wanted.id, ToolStatus::Failed, Vec::new(), &why);
                format!("Error: {why}")
            }
        }
    }

    fn sighting(&self, wanted: &Wanted, task: Option<&Task>) -> ToolCall {
        ToolCall {
            id: wanted.id.clone(),
            title: task.map_or_else(|| wanted.name.clone(), Task::title),
            name: Some(wanted.name.clone()),
            kind: task.map(Task::kind).unwrap_or_default(),
            status: ToolStatus::Pending,
            locations: task
                .map(|task| task.locations(&self.toolbox.place))
                .unwrap_or_default(),
            content: task
                .map(|task| task.preview(&self.toolbox.place))
                .unwrap_or_default(),
            input: Some(wanted.arguments.clone()),
            output: None,
        }
    }

    async fn is_allowed(&self, tool: ToolCall) -> bool {
        let option = |id: &str, name: &str, kind| AskOption {
            id: id.to_owned(),
            name: name.to_owned(),
            kind,
        };
        let ask = AskKind::Permission {
            tool,
            options: vec![
                option(ALLOW, "Allow", OptionKind::AllowOnce),
                option(REJECT, "Reject", OptionKind::RejectOnce),
            ],
            destructive: false,
        };
        let answer = tokio::select! { biased;
            () = self.cancel.cancelled() => Answer::Declined,
            answer = self.sink.ask(ask, None) => answer,
        };
        answer
            == Answer::Option {
                id: ALLOW.to_owned(),
            }
    }

    /// What is shown of a call is replaced by this, so what it has changed is told again.
    fn report(&self, id: &str, status: ToolStatus, changes: Vec<ToolContent>, words: &str) {
        let text = words.to_owned();
        let mut content = changes;
        content.push(ToolContent::Text { text });
        let update = ToolUpdate {
            id: id.to_owned(),
            status: Some(status),
            content: Some(content),
            ..ToolUpdate::default()
        };
        self.sink.emit(EventKind::ToolUpdate(update), None);
    }
}

/// Some servers give no ids; the model must still be told which answer belongs to which question.
fn name_nameless(wanted: &mut [Wanted], round: usize) {
    for (index, wanted) in wanted.iter_mut().enumerate() {
        if wanted.id.is_empty() {
            wanted.id = format!("call-{round}-{index}");
        }
    }
}

fn end(finish: Option<&str>) -> Stop {
    match finish {
        Some("length") => Stop::MaxTokens,
        Some("content_filter") => Stop::Refusal,
        Some(_) | None => Stop::EndTurn,
    }
}
