//! The tools that take turns: with an agent that exists, and with one made just for it.

use std::{collections::BTreeMap, num::NonZeroU64, time::Duration};

use rmcp::model::CallToolResult;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use tracing::warn;
use wire::daemon::{
    AgentMeta, CreateParams, DestroyParams, ErrorCode, NameParams, Overrides, PromptResult,
    RunOptions, RunParams, SessionAttachParams, SessionCreateParams, SessionPromptParams, Success,
};

use super::{
    arguments::{Message, PromptAgent, Run, RunAgent},
    reach, result,
};
use crate::{
    caller::Caller,
    daemon::{Daemon, DaemonError, Link},
    event::SessionView,
    failure::{Failure, chain},
    leftovers,
    sight::Sight,
    turn::{Asks, Turn, TurnError},
};

/// What sessions call us.
const CLIENT: &str = "mcp";

/// How often a start is begun for one call: of many calls that come at once one starts the agent, and if that fails another.
const STARTS_MAX: usize = 2;

/// How often an agent that somebody else starts is looked at: far less than any agent takes to start.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long a run takes whose caller does not say.
const LIMIT_MS: u64 = 300_000;

/// A hundred years: a longer limit is none, and would be no moment that a clock can name.
const FAR_MS: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

pub(super) async fn prompt(
    arguments: Result<PromptAgent, Failure>,
    daemon: &Daemon,
    mut caller: Caller,
) -> Result<CallToolResult, Failure> {
    let PromptAgent {
        name,
        message,
        session_id,
    } = arguments?;
    reach::check_agent(&name, daemon, &caller).await?;
    let asks = match caller.can_be_asked() {
        true => Asks::Client,
        false => Asks::Others,
    };
    let mut link = daemon.connect().await?;
    let session = tokio::select! { biased;
        session = join(&mut link, caller.sight(), &name, session_id, asks) => session?,
        () = caller.left() => return Err(Failure::cancelled()),
    };
    let params = SessionPromptParams {
        session_id: session.clone(),
        text: message,
        queue: false,
        trace: caller.trace(),
    };
    let turn = Turn {
        session: &session,
        method: "session.prompt",
        params: &params,
        asks,
    };
    let mut outcome = turn.take(&mut link, &mut caller).await;
    if let Err(TurnError::Daemon(error)) = &outcome
        && error.is(ErrorCode::AgentNotAttached)
    {
        tokio::select! { biased;
            started = start(&mut link, &name) => started?,
            () = caller.left() => return Err(Failure::cancelled()),
        }
        outcome = turn.take(&mut link, &mut caller).await;
    }
    let ended = succeeded(outcome?)?;
    let message = Message {
        response: ended.response,
        session_id: ended.session_id,
        stop_reason: ended.stop_reason,
    };
    let more = format!(
        "(sessionId {}, stopReason {})",
        message.session_id, message.stop_reason
    );
    result(vec![message.response.clone(), more], &message)
}

/// The session to prompt in, with its events: the one that is named, or a new one.
async fn join(
    link: &mut Link,
    sight: Sight,
    agent: &str,
    session: Option<String>,
    asks: Asks,
) -> Result<String, Failure> {
    sight.check(link, agent).await?;
    let Some(session) = session else {
        return open(link, agent, asks).await;
    };
    sight.check_session(link, &session).await?;
    let params = SessionAttachParams {
        session_id: session,
        client_id: Some(CLIENT.to_owned()),
        answers: asks.are_ours(),
        ..SessionAttachParams::default()
    };
    let view: SessionView = link.call("session.attach", &params).await?;
    if view.agent_name != agent && !is_meant(link, agent, &view.agent_name).await? {
        let message = format!(
            "session {} is a conversation with {}, not with {agent}",
            view.session_id, view.agent_name
        );
        return Err(Failure::invalid(message).with("field", "sessionId"));
    }
    Ok(view.session_id)
}

/// Whether a target means the agent of this name.
async fn is_meant(link: &mut Link, target: &str, name: &str) -> Result<bool, Failure> {
    let params = NameParams {
        name: target.to_owned(),
    };
    match link.call::<AgentMeta>("agent.status", &params).await {
        Ok(agent) => Ok(agent.name == name),
        Err(error) if error.is(ErrorCode::AgentNotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A new session; an agent that is not running is started for it.
async fn open(link: &mut Link, agent: &str, asks: Asks) -> Result<String, Failure> {
    let params = SessionCreateParams {
        agent_name: agent.to_owned(),
        client_id: Some(CLIENT.to_owned()),
        stream: true,
        answers: asks.are_ours(),
        ..SessionCreateParams::default()
    };
    let created: Result<SessionView, DaemonError> = link.call("session.create", &params).await;
    let view = match created {
        Err(error) if error.is(ErrorCode::AgentNotAttached) => {
            start(link, agent).await?;
            link.call("session.create", &params).await?
        }
        created => created?,
    };
    Ok(view.session_id)
}

/// Starts the agent, or waits for a start that somebody else has begun. What has failed or was stopped meanwhile is begun once
/// more, and then whoever wants something of it is told how it is.
async fn start(link: &mut Link, agent: &str) -> Result<(), DaemonError> {
    let params = NameParams {
        name: agent.to_owned(),
    };
    for _ in 0..STARTS_MAX {
        match link.call::<AgentMeta>("agent.start", &params).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is(ErrorCode::AgentAlreadyRunning) => {}
            Err(error) => return Err(error),
        }
        let mut agent: AgentMeta = link.call("agent.status", &params).await?;
        while ["starting", "stopping"].contains(&agent.status.as_str()) {
            tokio::time::sleep(LOOK_AGAIN).await; // The daemon bounds both.
            agent = link.call("agent.status", &params).await?;
        }
        if agent.status == "running" {
            break;
        }
    }
    Ok(())
}

/// Answers when the limit is over, however long what was begun takes to be ended and removed.
pub(super) async fn run(
    arguments: Result<RunAgent, Failure>,
    daemon: &Daemon,
    caller: Caller,
) -> Result<CallToolResult, Failure> {
    let RunAgent {
        template,
        prompt,
        timeout_ms,
    } = arguments?;
    reach::check_template(&template, &caller)?;
    let limit_ms = timeout_ms.map_or(LIMIT_MS, NonZeroU64::get);
    let until = deadline(limit_ms);
    let (dismiss, calls) = caller.dismissal();
    let (ended, has_ended) = oneshot::channel();
    let (removed, is_removed) = oneshot::channel::<()>();
    let daemon = daemon.clone();
    calls.spawn(async move {
        let _removed = removed;
        let task = Task {
            template,
            prompt,
            limit_ms,
        };
        task.carry_out(&daemon, caller, ended).await;
    });
    let Ok(outcome) = timeout_at(until, has_ended).await else {
        dismiss.cancel();
        return Err(Failure::late(limit_ms));
    };
    // It is told by being dropped. An agent that does not go in time is removed after the answer.
    let _ = timeout_at(until, is_removed).await;
    let lost = |_| Err(Failure::turn("the call was given up"));
    let ended = succeeded(outcome.unwrap_or_else(lost)?)?;
    let run = Run {
        response: ended.response,
        artifacts: ended.artifacts.unwrap_or_default(),
        stop_reason: ended.stop_reason,
    };
    let mut text = vec![run.response.clone()];
    if !run.artifacts.is_empty() {
        text.push(format!(
            "Files that changed: {}. They were in the agent's own workspace, which is gone.",
            run.artifacts.join(", ")
        ));
    }
    result(text, &run)
}

/// When a limit is over; the furthest moment that there is for one that nobody lives to see.
fn deadline(limit_ms: u64) -> Instant {
    let now = Instant::now();
    let far = Duration::from_millis(limit_ms.min(FAR_MS));
    now + far
}

/// What a run is asked to do.
struct Task {
    template: String,
    prompt: String,
    limit_ms: u64,
}

impl Task {
    /// Makes the agent, has it do the task, says how that ended, and removes the agent.
    async fn carry_out(
        self,
        daemon: &Daemon,
        mut caller: Caller,
        ended: oneshot::Sender<Result<PromptResult, Failure>>,
    ) {
        let made = async {
            let mut link = daemon.connect().await?;
            let name = create(&mut link, self.template).await?;
            Ok::<_, Failure>((link, name))
        };
        let (mut link, name) = match made.await {
            Ok(made) => made,
            Err(failure) => {
                let _ = ended.send(Err(failure)); // Whoever asked has left.
                return;
            }
        };
        let options = RunOptions {
            timeout_ms: Some(self.limit_ms),
            trace: caller.trace(),
            ..RunOptions::default()
        };
        let outcome = run_once(&mut link, &mut caller, &name, self.prompt, options).await;
        let _ = ended.send(outcome); // As above.
        // On a connection of its own: the first one may be what failed.
        let params = DestroyParams {
            name: name.clone(),
            force: true,
        };
        if let Err(error) = daemon.call::<Success>("agent.destroy", &params).await {
            warn!(name, error = %chain(&error), "could not destroy the agent of a run");
        }
    }
}

/// An agent for one run. It carries our mark, so that whoever comes after us removes it if we are killed, and the next daemon does
/// if the daemon is.
async fn create(link: &mut Link, template: String) -> Result<String, DaemonError> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let name = format!("run-{}", &id[..12]);
    let params = CreateParams {
        name: name.clone(),
        template,
        overrides: Overrides {
            launch_mode: Some("one-shot".to_owned()),
            workspace_policy: Some("ephemeral".to_owned()),
            private: true,
            metadata: BTreeMap::from([
                leftovers::mark(),
                ("autoDestroy".to_owned(), "daemon".to_owned()),
            ]),
            ..Overrides::default()
        },
    };
    link.call::<AgentMeta>("agent.create", &params).await?;
    Ok(name)
}

async fn run_once(
    link: &mut Link,
    caller: &mut Caller,
    name: &str,
    prompt: String,
    mut options: RunOptions,
) -> Result<PromptResult, Failure> {
    let asks = match caller.can_be_asked_by_a_task() {
        true => Asks::Client,
        false => Asks::Others,
    };
    let session = tokio::select! { biased;
        session = open(link, name, asks) => session?,
        () = caller.left() => return Err(Failure::cancelled()),
    };
    options.session_id = Some(session.clone());
    let params = RunParams {
        name: Some(name.to_owned()),
        prompt,
        options,
        ..RunParams::default()
    };
    let turn = Turn {
        session: &session,
        method: "agent.run",
        params: &params,
        asks,
    };
    Ok(turn.take(link, caller).await?)
}

/// A turn that ended, but not well, is a failed call.
fn succeeded(ended: PromptResult) -> Result<PromptResult, Failure> {
    let failure = match (ended.stop_reason.as_str(), &ended.error) {
        (_, Some(message)) => Failure::turn(message.clone()),
        ("failed", None) => Failure::turn("the agent did not say why"),
        ("cancelled", None) => Failure::cancelled(),
        _ => return Ok(ended),
    };
    Err(failure
        .with("sessionId", ended.session_id)
        .after_saying(&ended.response))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(stop_reason: &str, error: Option<&str>) -> PromptResult {
        PromptResult {
            response: "so far".to_owned(),
            text: "so far".to_owned(),
            session_id: "s".to_owned(),
            truncated: false,
            stop_reason: stop_reason.to_owned(),
            error: error.map(str::to_owned),
            instance_name: None,
            artifacts: None,
        }
    }

    #[test]
    fn turns_that_failed_or_were_cancelled_are_failed_calls() {
        let code = |ended| succeeded(ended).unwrap_err().code;
        assert_eq!(code(ended("failed", Some("no"))), "TURN_FAILED");
        assert_eq!(code(ended("failed", None)), "TURN_FAILED");
        assert_eq!(code(ended("cancelled", None)), "TURN_CANCELLED");
        for fine in ["end_turn", "max_tokens", "refusal", "max_turn_requests"] {
            assert!(succeeded(ended(fine, None)).is_ok(), "{fine}");
        }
    }
}
