//! From a step of the plan to what is really done: every template filled in, every name understood.

use serde_json::{Map, Value};

use crate::plan::{
    Agent, Command, ConversationMode, Prompt, Provider, Script, SessionTracking, Skill, Step,
    StepKind, WorkflowCall,
};
use crate::problem::Code;
use crate::scope::Scope;
use crate::template;
use crate::world::{FILE_MAX, FileKind};

use super::CALL_DEPTH_MAX;
use super::effect::{
    Action, AgentAction, CommandAction, OperationAction, SessionUse, WorkflowAction,
};
use super::turn::Turn;

/// Why a step cannot be started. Trying again would give the same.
#[derive(Debug)]
pub(super) struct Unresolved {
    pub(super) code: Code,
    pub(super) message: String,
}

impl From<String> for Unresolved {
    fn from(message: String) -> Self {
        Self {
            code: Code::InvalidTemplate,
            message,
        }
    }
}

impl Turn<'_> {
    /// `said` are the user's words in a conversation, with the session they belong to.
    pub(super) fn action(
        &self,
        step: &Step,
        scope: &Scope<'_>,
        said: Option<(&str, Option<String>)>,
    ) -> Result<Action, Unresolved> {
        match &step.kind {
            StepKind::Command(command) => command_action(command, scope).map(Action::Command),
            StepKind::Agent(agent) => self
                .agent_action(agent, scope, said)
                .map(|action| Action::Agent(Box::new(action))),
            StepKind::Operation(operation) => Ok(Action::Operation(OperationAction {
                name: operation.name.clone(),
                inputs: filled_map(&operation.inputs, scope)?,
            })),
            StepKind::Workflow(call) => self.workflow_action(call, scope).map(Action::Workflow),
            StepKind::Parallel(_)
            | StepKind::ForEach(_)
            | StepKind::While(_)
            | StepKind::Gate
            | StepKind::Terminal(_) => Err(Unresolved::from(format!(
                "step {} does nothing of its own",
                step.name
            ))),
        }
    }

    fn agent_action(
        &self,
        agent: &Agent,
        scope: &Scope<'_>,
        said: Option<(&str, Option<String>)>,
    ) -> Result<AgentAction, Unresolved> {
        let optional = |text: &Option<String>| {
            text.as_ref()
                .map(|text| template::render(text, scope))
                .transpose()
        };
        let provider = template::render(&agent.provider, scope)?;
        let (prompt, session) = match said {
            Some((words, session)) => {
                let session =
                    session.map_or(SessionUse::Keep, |session| SessionUse::Continue { session });
                (words.to_owned(), session)
            }
            None => (self.prompt(agent, scope)?, self.session_use(agent)?),
        };
        let skill = |skill: &Skill| match skill {
            Skill::Name(text) => template::render(text, scope),
            Skill::Path(text) => template::render(text, scope).map(|path| {
                // The runner tells paths from names by the slash.
                if path.contains('/') {
                    path
                } else {
                    format!("./{path}")
                }
            }),
        };
        Ok(AgentAction {
            provider: Provider::parse(&provider)?,
            prompt,
            system_prompt: optional(&agent.system_prompt)?,
            role: optional(&agent.role)?,
            skills: agent.skills.iter().map(skill).collect::<Result<_, _>>()?,
            options: filled_map(&agent.options, scope)?,
            output_format: agent.output_format,
            session,
            tool_proxy: agent.tool_proxy.clone(),
            dir: optional(&agent.dir)?,
        })
    }

    fn prompt(&self, agent: &Agent, scope: &Scope<'_>) -> Result<String, Unresolved> {
        match &agent.prompt {
            Some(Prompt::Inline(text)) => Ok(template::render(text, scope)?),
            Some(Prompt::File(path)) => {
                file_text(FileKind::Prompt, path, scope).map(|(_, text)| text)
            }
            None => Ok(String::new()),
        }
    }

    fn session_use(&self, agent: &Agent) -> Result<SessionUse, Unresolved> {
        match &agent.tracking {
            SessionTracking::ContinueFrom(step) => {
                let session = self
                    .state
                    .records
                    .get(step)
                    .and_then(|record| record.session.clone());
                let session = session.ok_or_else(|| Unresolved {
                    code: Code::AgentFailed,
                    message: format!("continue_from: step {step} has left no session to continue"),
                })?;
                Ok(SessionUse::Continue { session })
            }
            SessionTracking::Track => Ok(SessionUse::Keep),
            SessionTracking::None => Ok(match agent.mode {
                ConversationMode::Conversation => SessionUse::Keep,
                ConversationMode::Single => SessionUse::Once,
            }),
        }
    }

    fn workflow_action(
        &self,
        call: &WorkflowCall,
        scope: &Scope<'_>,
    ) -> Result<WorkflowAction, Unresolved> {
        let workflow = template::render(&call.workflow, scope)?;
        let mut call_stack = self.state.setup.call_stack.clone();
        call_stack.push(self.plan.name.clone());
        if call_stack.contains(&workflow) {
            return Err(Unresolved {
                code: Code::WorkflowCircular,
                message: format!(
                    "{workflow} is being run already: {}",
                    call_stack.join(" → ")
                ),
            });
        }
        if call_stack.len() >= CALL_DEPTH_MAX {
            return Err(Unresolved {
                code: Code::WorkflowNesting,
                message: format!("workflows call each other more than {CALL_DEPTH_MAX} deep"),
            });
        }
        Ok(WorkflowAction {
            workflow,
            inputs: filled_map(&call.inputs, scope)?,
            call_stack,
        })
    }
}

fn command_action(command: &Command, scope: &Scope<'_>) -> Result<CommandAction, Unresolved> {
    let (script, line) = match &command.script {
        Script::Inline(text) => (None, template::render(text, scope)?),
        Script::File(path) => {
            let (path, text) = file_text(FileKind::Script, path, scope)?;
            (Some(path), text)
        }
    };
    let dir = command
        .dir
        .as_ref()
        .map(|dir| template::render(dir, scope))
        .transpose()?;
    Ok(CommandAction {
        line,
        script,
        dir,
        capture: command.capture.clone(),
    })
}

/// The path and the text of a file whose path and text are templates.
fn file_text(
    kind: FileKind,
    path: &str,
    scope: &Scope<'_>,
) -> Result<(String, String), Unresolved> {
    let path = template::render(path, scope)?;
    let text = scope
        .world
        .read(kind, &path)
        .map_err(|message| Unresolved {
            code: Code::InputMissingFile,
            message,
        })?;
    if text.len() > FILE_MAX {
        return Err(Unresolved {
            code: Code::InputMissingFile,
            message: format!("{path} is longer than {FILE_MAX} bytes"),
        });
    }
    let text = template::render(&text, scope).map_err(|words| format!("{path}: {words}"))?;
    Ok((path, text))
}

fn filled_map(map: &Map<String, Value>, scope: &Scope<'_>) -> Result<Map<String, Value>, String> {
    map.iter()
        .map(|(key, value)| {
            let value = filled(value, scope).map_err(|words| format!("{key}: {words}"))?;
            Ok((key.clone(), value))
        })
        .collect()
}

/// Fills in every text of a value, at any depth.
pub(super) fn filled(value: &Value, scope: &Scope<'_>) -> Result<Value, String> {
    match value {
        Value::String(text) => template::render(text, scope).map(Value::String),
        Value::Array(items) => items
            .iter()
            .map(|item| filled(item, scope))
            .collect::<Result<_, _>>()
            .map(Value::Array),
        Value::Object(entries) => filled_map(entries, scope).map(Value::Object),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
    }
}

/// What will be done, for somebody who has to agree to it.
pub(super) fn in_words(action: &Action) -> String {
    match action {
        Action::Command(command) => command.line.clone(),
        Action::Agent(agent) => agent.prompt.clone(),
        Action::Operation(operation) => {
            format!(
                "{} {}",
                operation.name,
                Value::Object(operation.inputs.clone())
            )
        }
        Action::Workflow(call) => {
            format!("{} {}", call.workflow, Value::Object(call.inputs.clone()))
        }
        Action::Hook { command } => command.clone(),
    }
}
