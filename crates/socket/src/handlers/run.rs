//! `agent.run` and `agent.prompt`: one prompt and its answer.

use std::time::Duration;

use domain::session::WhenBusy;
use engine::{CreateSession, RunAgent, RunResult, RunTemplate, TurnOptions};
use wire::daemon::{AgentPromptParams, PromptResult, RunOptions, RunParams};

use super::session;
use crate::{error::RpcError, params, server::Call};

pub(super) async fn run(call: &Call) -> Result<PromptResult, RpcError> {
    let given: RunParams = call.params()?;
    params::prompt("prompt", &given.prompt)?;
    let engine = &call.service.engine;
    let session = given.options.session_id.clone();
    let options = options(given.options);
    let result = match (given.name, given.template) {
        (Some(name), None) => {
            let name = engine.agent_for(&params::target("name", &name)?).await?;
            let by = session.as_deref().map(|id| call.attachments.client(id));
            engine
                .run(RunAgent {
                    name,
                    prompt: given.prompt,
                    options,
                    session,
                    by,
                })
                .await?
        }
        (None, Some(template)) => {
            let cleanup = given.cleanup.unwrap_or(true);
            engine
                .run_template(RunTemplate {
                    template,
                    prompt: given.prompt,
                    options,
                    cleanup,
                })
                .await?
        }
        _ => {
            return Err(RpcError::invalid_params(
                "name",
                "exactly one of name and template is given",
            ));
        }
    };
    Ok(answer(result))
}

pub(super) async fn prompt(call: &Call) -> Result<PromptResult, RpcError> {
    let given: AgentPromptParams = call.params()?;
    params::prompt("message", &given.message)?;
    let engine = &call.service.engine;
    let agent = engine
        .agent_for(&params::target("name", &given.name)?)
        .await?;
    let sessions = engine.sessions();
    let id = match given.session_id {
        Some(id) => {
            sessions.check_owner(&id, &agent).await?;
            id
        }
        None => {
            let create = CreateSession {
                agent,
                client: Some("prompt".to_owned()),
                idle_ttl: None,
            };
            sessions.create(create).await?.session_id
        }
    };
    let outcome = session::turn(call, &id, given.message, WhenBusy::Queue).await?;
    Ok(session::result(id, outcome))
}

fn options(given: RunOptions) -> TurnOptions {
    TurnOptions {
        system_prompt_file: given.system_prompt_file.map(Into::into),
        system_prompt: None,
        append_system_prompt: given.append_system_prompt,
        max_turns: given.max_turns,
        model: given.model,
        timeout: given.timeout_ms.map(Duration::from_millis),
        trace: None,
    }
}

fn answer(result: RunResult) -> PromptResult {
    PromptResult {
        response: result.text.clone(),
        text: result.text,
        session_id: result.session,
        stop_reason: result.stop.as_str().to_owned(),
        error: session::failure(result.stop),
        instance_name: Some(result.agent.to_string()),
        artifacts: Some(result.artifacts.into_iter().map(|(path, _)| path).collect()),
    }
}
