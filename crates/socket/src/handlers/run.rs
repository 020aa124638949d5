//! `agent.run` and `agent.prompt`: one prompt and its answer.

use std::time::Duration;

use domain::session::WhenBusy;
use engine::{CreateSession, RunAgent, RunResult, RunTemplate, TurnOptions};
use wire::daemon::{AgentPromptParams, ErrorCode, PromptResult, RunOptions, RunParams};

use super::session;
use crate::{attachments::Stream, error::RpcError, params, server::Call};

pub(super) async fn run(call: &Call) -> Result<PromptResult, RpcError> {
    let given: RunParams = call.params()?;
    params::prompt("prompt", &given.prompt)?;
    let engine = &call.service.engine;
    let session = given.options.session_id.clone();
    let options = options(given.options);
    let is_made_for_it = given.template.is_some() && given.cleanup.unwrap_or(true);
    let mut run = match (given.name, given.template) {
        (Some(name), None) => {
            let run = RunAgent {
                name: engine.agent_for(&params::target("name", &name)?).await?,
                prompt: given.prompt,
                options,
                session,
                by: None,
            };
            engine.open_run(run).await?
        }
        (None, Some(template)) => {
            let run = RunTemplate {
                template,
                prompt: given.prompt,
                options,
                cleanup: given.cleanup.unwrap_or(true),
            };
            engine.open_template_run(run).await?
        }
        _ => {
            return Err(RpcError::invalid_params(
                "name",
                "exactly one of name and template is given",
            ));
        }
    };
    if given.stream || given.answers {
        let id = run.session();
        let last = engine.sessions().get(id).await?.last_seq;
        let stream = Stream {
            from: last + 1,
            raw: false,
        };
        let attached = call
            .attachments
            .attach(id, Some("run"), given.answers, Some(stream));
        attached.await?;
    }
    run.asked_by(call.attachments.client(run.session()));
    // Whoever looked on at an agent that is made for this alone has the only eyes for what comes of it.
    let is_watched = given.stream && is_made_for_it;
    let result = tokio::select! { biased;
        result = run.finish() => result?,
        () = call.caller.peer.closed(), if is_watched => {
            let message = "the client has left";
            return Err(RpcError::new(ErrorCode::GenericBusiness, message.to_owned()));
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
    let (text, truncated) = session::within_a_line(result.text);
    PromptResult {
        response: text.clone(),
        text,
        truncated,
        session_id: result.session,
        stop_reason: result.stop.as_str().to_owned(),
        error: session::failure(result.stop),
        instance_name: Some(result.agent.to_string()),
        artifacts: Some(result.artifacts.into_iter().map(|(path, _)| path).collect()),
    }
}
