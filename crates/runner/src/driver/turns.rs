//! One prompt: a run that waits is told it, or it names a workflow that begins.

use domain::turn::{Answer, AskKind, Dialect, EventKind, Raw, Stop};
use engine::{DriverError, Occasion, Turn};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use workflow::{AskInput, Code, Finish, InputKind, InputSpec, Outcome, Plan};

use super::RunKeeper;
use crate::{
    execution::{Execution, Order, Progress, TakenUp},
    found::{Found, ShelfError},
    history::History,
    parked::Parked,
    prompt::Command,
    refused::StartError,
    show::Audience,
    surroundings,
    talk::Talk,
};

/// What is said first where a prompt cannot be read as a workflow and its inputs.
const INVALID_PROMPT: &str = "USER.ACP.INVALID_PROMPT";

/// How a prompt has come to its workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meant {
    /// By its name, with inputs after it.
    Named,
    /// By itself: all of it is text for the workflow.
    Text,
}

impl RunKeeper {
    pub(super) async fn take(&self, turn: Turn) -> Result<Stop, DriverError> {
        let talk = self.talk(&turn.session)?;
        let mut place = talk.run.lock().await;
        let audience = Audience::new(talk.sink.clone(), self.node.mask());
        let waiting = match (place.take(), talk.may_have_left()) {
            (Some(parked), _) => parked.take().await,
            (None, true) => self.left(&talk, audience.clone()).await,
            (None, false) => None,
        };
        let execution = match (waiting, turn.options.occasion) {
            (Some(mut waiting), _) => waiting.answer(turn.prompt.clone()).await.map(|()| waiting),
            (None, Occasion::Prompt) => self.begin(&talk, &turn, audience.clone()).await,
            (None, Occasion::LateAnswer) => self.asked(&talk, audience.clone()).await,
        };
        let mut execution = match execution {
            Ok(execution) => execution,
            Err(error) => return Ok(self.refuse(&talk, &audience, error)),
        };
        match execution.drive(&turn.cancel).await {
            Ok(Progress::Waiting(AskInput { .. })) => {
                *place = Some(Parked::new(execution, &self.node.around.tasks));
                Ok(Stop::EndTurn)
            }
            Ok(Progress::Finished(finish)) => {
                let stop = execution.conclude(&finish);
                if finish.outcome == Outcome::Failed {
                    tell_failure(&talk, &execution.masked(&finish));
                }
                Ok(stop)
            }
            Err(error) => {
                execution.leave();
                Err(DriverError::Program {
                    why: engine::chain(&error),
                })
            }
        }
    }

    /// The run whose question was answered when its turn was gone: it goes on at its gate, asks again, and is answered.
    async fn asked(&self, talk: &Talk, audience: Audience) -> Result<Execution, StartError> {
        let history = History::new(self.node.records.clone());
        match history.left_in(&talk.id).await? {
            Some(run) => self.taken_up(talk, &run, audience).await,
            None => Err(StartError::Prompt {
                why: "What was asked here is over; begin the workflow again.".to_owned(),
            }),
        }
    }

    async fn taken_up(
        &self,
        talk: &Talk,
        run: &str,
        audience: Audience,
    ) -> Result<Execution, StartError> {
        let taken_up = TakenUp {
            servers: talk.servers.clone(),
            choices: talk.choices().clone(),
            ..TakenUp::going_on(audience)
        };
        Execution::resume(&self.node, run, taken_up).await
    }

    /// The run that waits here since before a restart.
    async fn left(&self, talk: &Talk, audience: Audience) -> Option<Execution> {
        let history = History::new(self.node.records.clone());
        let run = history.waiting_in(&talk.id).await.ok().flatten()?;
        match self.taken_up(talk, &run, audience.clone()).await {
            Ok(execution) => {
                execution.was_seen();
                Some(execution)
            }
            Err(error) => {
                audience.notice(format!(
                    "the run {run} that waited here cannot be gone on with: {}",
                    engine::chain(&error)
                ));
                None
            }
        }
    }

    async fn begin(
        &self,
        talk: &Talk,
        turn: &Turn,
        audience: Audience,
    ) -> Result<Execution, StartError> {
        let (found, command, meant) = self.meant(talk, &turn.prompt)?;
        let plan = found.plan(&talk.cwd)?;
        let inputs = match meant {
            Meant::Named => command.inputs(&plan),
            Meant::Text => command.text(&plan),
        };
        let mut inputs = inputs.map_err(|error| StartError::Prompt {
            why: error.to_string(),
        })?;
        let secret_names = &self.node.secret_names;
        ask_missing(&plan, &mut inputs, &audience, &turn.cancel, secret_names).await;
        let order = Order {
            cwd: talk.cwd.clone(),
            servers: talk.servers.clone(),
            choices: talk.choices().clone(),
            audience,
            parent: None,
            trace: turn.options.trace,
            call_stack: Vec::new(),
            talk: Some(turn.session.clone()),
            earlier: None,
        };
        Execution::prepare(&self.node, &found, inputs, order).await
    }

    /// The workflow that a prompt is for. One that the node's owner has chosen may be any file; one that a prompt names is
    /// on the shelf, and is the chosen one where the agent has that alone.
    fn meant(&self, talk: &Talk, prompt: &str) -> Result<(Found, Command, Meant), StartError> {
        let shelf = &self.node.shelf;
        let named = Command::parse(prompt);
        let text = |name: &str| Command {
            name: name.to_owned(),
            rest: prompt.trim().to_owned(),
        };
        if let Some(only) = &self.only {
            let found = shelf.find(&self.node.around.workspace, only)?;
            return Ok(match named.filter(|command| command.name == *only) {
                Some(command) => (found, command, Meant::Named),
                None => (found, text(only), Meant::Text),
            });
        }
        match (named, &self.usual) {
            (Some(command), _) => {
                let found = shelf.named(&talk.cwd, &command.name)?;
                Ok((found, command, Meant::Named))
            }
            (None, Some(usual)) => Ok((shelf.find(&talk.cwd, usual)?, text(usual), Meant::Text)),
            (None, None) => Err(StartError::Shelf(ShelfError::Missing {
                name: String::new(),
                known: Vec::new(),
            })),
        }
    }

    /// Says what is wrong and what there is; the turn has not done anything.
    fn refuse(&self, talk: &Talk, audience: &Audience, error: StartError) -> Stop {
        let mut words = match &error {
            StartError::Shelf(ShelfError::Missing { name, .. }) if name.is_empty() => {
                format!("{INVALID_PROMPT}: Name a workflow with a slash before it.")
            }
            StartError::Shelf(missing @ ShelfError::Missing { .. }) => {
                format!("{INVALID_PROMPT}: {missing}.")
            }
            StartError::Prompt { why } => format!("{INVALID_PROMPT}: {why}"),
            other => engine::chain(other),
        };
        let code = code(&error);
        if !words.contains(&code) {
            words = format!("{code}: {words}");
        }
        if let StartError::Shelf(ShelfError::Missing { .. }) = error {
            let names = self.available(&talk.cwd).into_iter();
            let names: Vec<String> = names
                .map(|(found, _, _)| format!("/{}", found.name))
                .collect();
            words.push_str(&match names.is_empty() {
                true => " There are none here: put files into .agentcraft/workflows.".to_owned(),
                false => format!(" There are {}.", names.join(", ")),
            });
        }
        audience.text(words);
        answer_refused(talk, &code, error.exit_code());
        Stop::Refusal
    }
}

/// What programs tell refused prompts apart by.
fn code(error: &StartError) -> String {
    let gravest = workflow::gravest(error.problems());
    match (gravest, error) {
        (Some(problem), _) => problem.code.to_string(),
        (None, StartError::Prompt { .. } | StartError::Shelf(ShelfError::Missing { .. })) => {
            INVALID_PROMPT.to_owned()
        }
        (None, StartError::NoRun { .. }) => Code::WorkflowFailed.to_string(),
        (None, _) if error.exit_code() == Code::SystemIo.exit_code() => Code::SystemIo.to_string(),
        (None, _) => Code::WorkflowFailed.to_string(),
    }
}

/// Answers a prompt in the words of an editor's protocol.
fn answer_refused(talk: &Talk, code: &str, exit_code: i32) {
    let about = json!({ "code": code, "exitCode": exit_code });
    let answer = json!({ "stopReason": "refusal", "_meta": { "agentcraft": about } });
    let kind = EventKind::Other {
        name: "session/prompt".to_owned(),
    };
    let raw = Raw {
        dialect: Dialect::Acp,
        frame: answer.to_string().into(),
    };
    talk.sink.emit(kind, Some(raw));
}

/// Tells an editor why a run has failed, in the words of its protocol: a message with the code, which a session that is loaded again
/// shows too, and an answer to the prompt instead of an error of the protocol's.
fn tell_failure(talk: &Talk, finish: &Finish) {
    let failure = finish.failure.as_ref();
    let code = failure.map_or(Code::WorkflowFailed, |failure| failure.code);
    let text = format!("{code}: {}", finish.message);
    talk.tell(
        "agent_message_chunk",
        &json!({ "content": { "type": "text", "text": text } }),
    );
    answer_refused(talk, &code.to_string(), crate::exit_code(finish));
}

/// Asks for what is required and was not given, where somebody can be asked; what is declined stays missing.
async fn ask_missing(
    plan: &Plan,
    inputs: &mut Map<String, Value>,
    audience: &Audience,
    cancel: &CancellationToken,
    secret_names: &[String],
) {
    for spec in &plan.inputs {
        if !spec.required || spec.default.is_some() || inputs.contains_key(&spec.name) {
            continue;
        }
        let text = match spec.description.as_str() {
            "" => format!("{} ({})", spec.name, spec.kind.word()),
            words => format!("{} ({}): {words}", spec.name, spec.kind.word()),
        };
        let kind = AskKind::Question {
            text,
            schema: Some(form(spec, secret_names).to_string()),
        };
        let answer = tokio::select! { biased;
            () = cancel.cancelled() => return,
            answer = audience.ask(kind, None) => answer,
        };
        let Answer::Text { text } = answer else {
            return;
        };
        inputs.insert(spec.name.clone(), given(spec, &text));
    }
}

/// What a form asks for an input: what the workflow says of it.
fn form(spec: &InputSpec, secret_names: &[String]) -> Value {
    let rules = &spec.validation;
    let mut field = json!({ "type": spec.kind.word(), "title": spec.name });
    let shown_default = spec
        .default
        .as_ref()
        .filter(|_| !surroundings::is_secret_input(spec, secret_names));
    let described = (!spec.description.is_empty()).then(|| json!(spec.description));
    let choices = (!rules.choices.is_empty()).then(|| json!(rules.choices));
    for (name, value) in [
        ("description", described),
        ("default", shown_default.cloned()),
        ("enum", choices.filter(|_| spec.kind == InputKind::String)),
        (
            "pattern",
            rules.pattern.as_ref().map(|pattern| json!(pattern)),
        ),
        ("minimum", rules.min.map(Value::from)),
        ("maximum", rules.max.map(Value::from)),
    ] {
        if let Some(value) = value {
            field[name] = value;
        }
    }
    json!({
        "type": "object", "properties": { spec.name.as_str(): field }, "required": [spec.name],
    })
}

/// What was answered: the form, or a line where somebody has none.
fn given(spec: &InputSpec, text: &str) -> Value {
    let form: Option<Map<String, Value>> = serde_json::from_str(text).ok();
    match form.and_then(|mut form| form.remove(&spec.name)) {
        Some(Value::String(text)) => crate::prompt::typed(&text, Some(spec.kind)),
        Some(value) => value,
        None => crate::prompt::typed(text, Some(spec.kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> InputSpec {
        let text = format!(
            "name: t\ninputs:\n  - {text}\nstates:\n  initial: done\n  done: {{type: terminal}}\n"
        );
        let plan = workflow::load(&text, &|_| Err(String::new())).plan;
        plan.unwrap().inputs.remove(0)
    }

    #[test]
    fn a_form_for_an_input_has_its_type_rules_description_and_default() {
        let check = |text: &str, field: Value| {
            let spec = spec(text);
            let form = form(&spec, &[]);
            assert_eq!(form["properties"][&spec.name], field, "{text}");
            assert_eq!(form["required"], json!([spec.name]));
        };
        check(
            "{name: n, type: integer, required: true, description: How many, validation: {min: 1, max: 5}}",
            json!({"type": "integer", "title": "n", "description": "How many", "minimum": 1, "maximum": 5}),
        );
        check(
            "{name: colour, type: string, default: red, validation: {enum: [red, blue]}}",
            json!({"type": "string", "title": "colour", "enum": ["red", "blue"], "default": "red"}),
        );
        check(
            "{name: tag, type: string, required: true, validation: {pattern: '^v'}}",
            json!({"type": "string", "title": "tag", "pattern": "^v"}),
        );
        check(
            "{name: sure, type: boolean, default: true}",
            json!({"type": "boolean", "title": "sure", "default": true}),
        );
        check(
            "{name: api_key, type: string, default: hush-hush}",
            json!({"type": "string", "title": "api_key"}),
        );
    }

    #[test]
    fn every_refused_prompt_has_a_code() {
        let path = std::path::PathBuf::from("w.yaml");
        let source = platform::files::read_bounded(std::path::Path::new("/nowhere"), 1);
        let problems = workflow::load("states: [", &|_| Err(String::new())).problems;
        for (error, expected) in [
            (
                StartError::Shelf(ShelfError::Read {
                    path: path.clone(),
                    source: source.unwrap_err(),
                }),
                Code::SystemIo.to_string(),
            ),
            (
                StartError::Shelf(ShelfError::Invalid { path, problems }),
                Code::YamlSyntax.to_string(),
            ),
            (
                StartError::Prompt { why: String::new() },
                INVALID_PROMPT.to_owned(),
            ),
        ] {
            assert_eq!(code(&error), expected, "{error}");
        }
    }

    #[test]
    fn a_form_and_a_line_give_the_same_value() {
        let spec = spec("{name: n, type: integer, required: true}");
        for text in [r#"{"n": 3}"#, r#"{"n": "3"}"#, "3"] {
            assert_eq!(given(&spec, text), json!(3), "{text}");
        }
    }
}
