//! A step that prompts an agent: whichever kind it is, its turn is told inside the run's.

mod direct;
mod managed;

use std::{ffi::OsStr, path::Path, time::Duration};

use domain::{
    target::{Maker, Target},
    turn::{EventKind, Location, Stop, ToolCall, ToolContent, ToolUpdate, Usage},
};
use engine::TurnOptions;
use platform::system;
use serde_json::Value;
use tokio::time::Instant;
use workflow::{
    AgentAction, OutputFormat, Provider, SessionUse, StepResult, StepStatus, Tokens, ToolProxy,
};

use super::{Act, context};
use crate::surroundings::Scene;

/// What is kept of an answer.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// What an agent that was told to cancel has to end its turn, before its process is told to end or, where that is not the
/// step's, is left to its own. Together with the grace of a process it is what a cancelled run may take.
const WIND_DOWN: Duration = Duration::from_millis(750);

/// Why a turn has not come about that was no longer wanted.
const STOPPED: &str = "cancelled";

/// How a turn of a step's agent came out.
#[derive(Debug)]
struct Spoken {
    stop: Stop,
    text: String,
    is_cut: bool,
    usage: Usage,
    /// What continues the conversation later.
    session: Option<String>,
}

/// What the agent is asked beside the prompt.
fn options(act: &Act, action: &AgentAction, system: Option<String>) -> TurnOptions {
    let option = |name: &str| action.options.get(name);
    let turns = option("max_turns").and_then(Value::as_u64);
    TurnOptions {
        append_system_prompt: system,
        trace: act.scene.trace,
        max_turns: turns.and_then(|turns| u32::try_from(turns).ok()),
        model: option("model").and_then(Value::as_str).map(str::to_owned),
        ..TurnOptions::default()
    }
}

pub(super) async fn run(act: &Act, action: AgentAction) -> StepResult {
    let is_kept_in = |proxy: &ToolProxy| proxy.intercept_builtins;
    if action.tool_proxy.as_ref().is_some_and(is_kept_in) {
        // To run it with all its tools is what the file was written to prevent.
        let why = "mcp_proxy wants the agent kept from its own tools, which cannot be done here";
        return StepResult::failed(1, why);
    }
    let action = match act.scene.choices.applied(action) {
        Ok(action) => action,
        Err(why) => return StepResult::failed(1, why),
    };
    let context = match context::of(&action, &act.scene) {
        Ok(context) => context,
        Err(why) => return StepResult::failed(1, why),
    };
    let action = match elsewhere(act, &action.provider) {
        Some(words) => AgentAction {
            provider: Provider::Acp(words),
            ..action
        },
        None => action,
    };
    let spoken = match &action.provider {
        Provider::Agent(_) | Provider::Template(_) => managed::speak(act, &action, context).await,
        Provider::Named(name) => match direct::backend(name) {
            Some(_) => direct::speak(act, &action, context).await,
            None => managed::speak(act, &action, context).await,
        },
        Provider::Known(_) | Provider::Acp(_) => direct::speak(act, &action, context).await,
    };
    match spoken {
        Ok(spoken) => result(&action, spoken),
        Err(why) if act.stop.is_cancelled() => cancelled(why),
        Err(why) => StepResult::failed(1, why),
    }
}

/// What speaks for an agent that this node does not have, where there may be a daemon that has it. Other nodes are known to
/// the daemon alone.
fn elsewhere(act: &Act, provider: &Provider) -> Option<Vec<String>> {
    let node = &act.scene.node;
    let program = node.elsewhere.as_ref()?;
    let is_here = |name: &str| {
        let engine = node.engine.get();
        engine.is_some_and(|engine| engine.agent(name).is_ok())
    };
    let name = match provider {
        Provider::Agent(name) if !is_here(name) => name,
        Provider::Named(name) if is_of_other_node(name) => name,
        Provider::Agent(_)
        | Provider::Named(_)
        | Provider::Template(_)
        | Provider::Known(_)
        | Provider::Acp(_) => return None,
    };
    let words = ["proxy", name, "--lease"].map(str::to_owned);
    let program = program.to_string_lossy().into_owned();
    Some(std::iter::once(program).chain(words).collect())
}

fn is_of_other_node(name: &str) -> bool {
    matches!(
        name.parse(),
        Ok(Target::Made(Maker::Peer { .. } | Maker::Workspace { .. }))
    )
}

/// The providers that a step can have without saying more than a name.
pub(super) fn known(scene: &Scene) -> Vec<String> {
    const AGENTS_MAX: usize = 100;
    let path = scene.environment().get(OsStr::new("PATH"));
    let path = path.cloned().unwrap_or_default();
    let is_installed = |program: &&(&str, &str)| system::find_program(program.1, &path).is_some();
    let programs = direct::PROGRAMS.iter().filter(is_installed);
    let programs = programs.map(|(provider, _)| (*provider).to_owned());
    let agents = scene.node.engine.get().map(|engine| engine.agents());
    let others = agents.unwrap_or_default().into_iter();
    // The agent that runs the workflow is not an agent of its steps.
    let others = others.filter(|agent| agent.name.as_str() != scene.node.around.agent);
    let others = others.map(|agent| format!("agent:{}", agent.name));
    programs.chain(others).take(AGENTS_MAX).collect()
}

/// Never, without a moment.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn cancelled(why: String) -> StepResult {
    StepResult {
        status: StepStatus::Cancelled,
        exit_code: 130,
        error: Some(why),
        ..StepResult::default()
    }
}

fn result(action: &AgentAction, spoken: Spoken) -> StepResult {
    let mut result = match spoken.stop {
        Stop::EndTurn | Stop::MaxTokens | Stop::MaxTurnRequests => {
            StepResult::succeeded(spoken.text)
        }
        Stop::Cancelled => cancelled("cancelled".to_owned()),
        Stop::Refusal => StepResult::failed(1, "the agent refused"),
        Stop::Failed { message } => StepResult::failed(1, message),
    };
    result.session = match action.session {
        SessionUse::Once => None,
        SessionUse::Keep | SessionUse::Continue { .. } => spoken.session,
    };
    result.truncated = spoken.is_cut;
    result.tokens = tokens(spoken.usage, &result.output);
    shape(action.output_format, result)
}

/// The answer as the step wants it.
fn shape(format: OutputFormat, mut result: StepResult) -> StepResult {
    if result.status != StepStatus::Succeeded {
        return result;
    }
    match format {
        OutputFormat::Raw => {}
        OutputFormat::Text => result.output = without_fence(&result.output).to_owned(),
        OutputFormat::Json => {
            let text = without_fence(&result.output);
            match serde_json::from_str(text) {
                Ok(value) => result.response = Some(value),
                Err(error) => {
                    let why = format!("the answer is not JSON: {error}");
                    return StepResult {
                        output: result.output,
                        ..StepResult::failed(1, why)
                    };
                }
            }
        }
    }
    result
}

/// The inside of a block of code, if the whole answer is one.
fn without_fence(text: &str) -> &str {
    let trimmed = text.trim();
    let inside = trimmed
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    inside.map_or(trimmed, |(_, inside)| inside.trim_end())
}

fn tokens(usage: Usage, output: &str) -> Tokens {
    match (usage.input_tokens, usage.output_tokens) {
        (None, None) => Tokens {
            input: 0,
            // About four letters each, where the agent does not say.
            output: output.len() as u64 / 4,
            estimated: true,
        },
        (input, output) => Tokens {
            input: input.unwrap_or(0),
            output: output.unwrap_or(0),
            estimated: false,
        },
    }
}

/// What an agent has said in its turn, gathered from its events.
#[derive(Debug, Default)]
struct Answered {
    text: String,
    /// There was more of it.
    is_cut: bool,
    usage: Usage,
}

impl Answered {
    /// Passes an event on to whoever watches the run, if it is of interest there.
    fn hear(&mut self, act: &Act, kind: &EventKind) {
        match kind {
            EventKind::Text { text } => {
                let room = ANSWER_MAX - self.text.len();
                self.is_cut |= text.len() > room;
                let kept = text.floor_char_boundary(room.min(text.len()));
                self.text.push_str(&text[..kept]);
            }
            EventKind::Usage(usage) => self.usage = self.usage.updated(*usage),
            EventKind::TurnStarted { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::Ask(_)
            | EventKind::AskSettled { .. }
            | EventKind::Other { .. } => return, // The run has its own.
            EventKind::Thought { .. }
            | EventKind::ToolCall(_)
            | EventKind::ToolUpdate(_)
            | EventKind::Artifact { .. }
            | EventKind::Notice { .. } => {}
            EventKind::Plan { .. } => return, // The plan of the turn is the plan of the run.
        }
        let told = placed(kind.clone(), &act.scene.cwd);
        act.audience.inner(&act.path, told);
    }
}

/// With whole paths: whoever watches may be in another folder than the agent.
fn placed(kind: EventKind, folder: &Path) -> EventKind {
    let whole = |path: String| folder.join(path).to_string_lossy().into_owned();
    let places = |places: Vec<Location>| -> Vec<Location> {
        let placed = |place: Location| Location {
            path: whole(place.path),
            ..place
        };
        places.into_iter().map(placed).collect()
    };
    let contents = |contents: Vec<ToolContent>| -> Vec<ToolContent> {
        let placed = |content| match content {
            ToolContent::Diff { path, old, new } => ToolContent::Diff {
                path: whole(path),
                old,
                new,
            },
            other @ (ToolContent::Text { .. } | ToolContent::Terminal { .. }) => other,
        };
        contents.into_iter().map(placed).collect()
    };
    match kind {
        EventKind::ToolCall(call) => EventKind::ToolCall(ToolCall {
            locations: places(call.locations),
            content: contents(call.content),
            ..call
        }),
        EventKind::ToolUpdate(update) => EventKind::ToolUpdate(ToolUpdate {
            locations: update.locations.map(places),
            content: update.content.map(contents),
            ..update
        }),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_around_the_whole_answer_is_taken_away() {
        for (text, inside) in [
            ("```json\n{\"a\":1}\n```", "{\"a\":1}"),
            ("  plain  ", "plain"),
            ("```\ncode\n```\nand words", "```\ncode\n```\nand words"),
        ] {
            assert_eq!(without_fence(text), inside);
        }
    }

    #[test]
    fn an_answer_that_should_be_json_and_is_not_fails_the_step() {
        let shaped = shape(OutputFormat::Json, StepResult::succeeded("nope"));
        assert_eq!(shaped.status, StepStatus::Failed);
        let shaped = shape(OutputFormat::Json, StepResult::succeeded("[1]"));
        assert_eq!(shaped.response, Some(serde_json::json!([1])));
    }
}
