//! `agent.run` and `agent.prompt`: one prompt and its answer.

use std::time::Duration;

use domain::session::WhenBusy;
use engine::{
    Answers, CreateSession, OpenRun, Prompt, RunAgent, RunResult, RunTemplate, TurnOptions,
};
use wire::daemon::{AgentPromptParams, ErrorCode, PromptResult, RunOptions, RunParams};

use super::session;
use crate::{attachments::Stream, error::RpcError, params, server::Call};

pub(super) async fn run(call: &Call) -> Result<PromptResult, RpcError> {
    let given: RunParams = call.params()?;
    params::prompt("prompt", &given.prompt)?;
    let watching = Watching {
        stream: given.stream,
        answers: given.answers,
    };
    // Whoever looks on at an agent that is made for this alone has the only eyes for what comes of it.
    let is_made_for_it = given.template.is_some() && given.cleanup.unwrap_or(true);
    let run = async {
        let mut run = open(call, given).await?;
        watching.attach(call, run.session()).await?;
        run.asked_by(call.attachments.client(run.session()));
        Ok::<_, RpcError>(run)
    };
    let run = tokio::select! { biased;
        () = call.caller.peer.closed(), if watching.is_there() => return Err(left()),
        run = run => run?,
    };
    let result = tokio::select! { biased;
        () = call.caller.peer.closed(), if watching.is_there() && is_made_for_it => return Err(left()),
        result = run.finish() => result?,
    };
    Ok(answer(result))
}

async fn open(call: &Call, given: RunParams) -> Result<OpenRun, RpcError> {
    let engine = &call.service.engine;
    let session = given.options.session_id.clone();
    let options = options(given.options)?;
    match (given.name, given.template) {
        (Some(name), None) => {
            let run = RunAgent {
                // It is started for the prompt alone, as any other that does not run.
                name: engine.ensure(&params::target("name", &name)?).await?,
                prompt: given.prompt,
                options,
                session,
                by: None,
            };
            Ok(engine.open_run(run).await?)
        }
        (None, Some(_)) if session.is_some() => Err(RpcError::invalid_params(
            "options.sessionId",
            "an agent that is made for this prompt has no session before",
        )),
        (None, Some(template)) => {
            let run = RunTemplate {
                template,
                prompt: given.prompt,
                options,
                cleanup: given.cleanup.unwrap_or(true),
            };
            Ok(engine.open_template_run(run).await?)
        }
        _ => Err(RpcError::invalid_params(
            "name",
            "exactly one of name and template is given",
        )),
    }
}

/// What the connection that asks for a turn wants of it before it is over.
#[derive(Debug, Clone, Copy)]
struct Watching {
    stream: bool,
    answers: bool,
}

impl Watching {
    fn is_there(self) -> bool {
        self.stream || self.answers
    }

    /// Sends the events from now on, and asks what its own turn asks.
    async fn attach(self, call: &Call, session: &str) -> Result<(), RpcError> {
        if !self.is_there() {
            return Ok(());
        }
        let last = call.service.engine.sessions().get(session).await?.last_seq;
        let stream = Stream {
            from: last + 1,
            raw: false,
        };
        let answers = match self.answers {
            true => Answers::OwnTurns,
            false => Answers::Nothing,
        };
        let attached = call
            .attachments
            .attach(session, Some("command"), answers, Some(stream));
        attached.await?;
        Ok(())
    }
}

fn left() -> RpcError {
    let message = "the client has left".to_owned();
    RpcError::new(ErrorCode::GenericBusiness, message)
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
    let watching = Watching {
        stream: given.stream,
        answers: given.answers,
    };
    watching.attach(call, &id).await?;
    let prompt = Prompt {
        text: given.message,
        options: TurnOptions::default(),
        when_busy: WhenBusy::Queue,
        by: None,
    };
    let outcome = session::turn(call, &id, prompt).await?;
    Ok(session::result(id, outcome))
}

fn options(given: RunOptions) -> Result<TurnOptions, RpcError> {
    Ok(TurnOptions {
        system_prompt_file: given.system_prompt_file.map(Into::into),
        system_prompt: None,
        append_system_prompt: given.append_system_prompt,
        max_turns: given.max_turns,
        model: given.model,
        timeout: given.timeout_ms.map(Duration::from_millis),
        trace: params::trace("options.trace", given.trace)?,
        ..TurnOptions::default()
    })
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
