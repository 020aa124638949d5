//! `agentcraft agent chat` and `session attach`: a conversation with an agent.
//!
//! The daemon runs the agent in every case, so that policy, journal and other clients see the conversation. An agent that
//! is not started is started for the time of the chat and stopped afterwards, unless somebody else uses it by then.

mod piped;
mod room;
mod view;

use engine::SessionView;
use wire::daemon::{
    AgentMeta, NameParams, SessionAttachParams, SessionCreateParams, SessionIdParams,
};

use crate::{
    args::ChatArgs, config::Config, connection::Connection, conversation::Conversation,
    error::CommandError, render::Screen,
};

/// How many turns of the past are shown to one who comes back.
const PAST_TURNS: usize = 3;

/// Who we are for the session.
const CLIENT: &str = "chat";

/// What every prompt of a chat asks for.
#[derive(Debug, Clone, Default)]
struct Wishes {
    model: Option<String>,
    max_turns: Option<u32>,
}

/// A session that we are attached to.
#[derive(Debug)]
struct Joined {
    conversation: Conversation,
    session: SessionView,
    wishes: Wishes,
}

pub(super) fn run(
    arguments: &ChatArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let wishes = Wishes {
        model: arguments.model.clone(),
        max_turns: arguments.max_turns,
    };
    if let Some(id) = &arguments.session_id {
        return join(id, arguments.name.name(), wishes, config, screen);
    }
    let name = &arguments.name.to_string();
    let mut conversation = Connection::open(config)?.converse()?;
    let answers = screen.is_interactive();
    let was_stopped = is_stopped(&mut conversation, name);
    let session = create(&mut conversation, name, answers)?;
    // Some have no process of their own.
    let is_started = was_stopped && !is_stopped(&mut conversation, name);
    if is_started && screen.is_interactive() {
        screen.note(&format!(
            "started {name} for this chat; it stops when nobody uses it any more"
        ))?;
    }
    let joined = Joined {
        conversation,
        session,
        wishes,
    };
    talk(joined, config, screen)
}

/// Takes part in a session that exists.
pub(super) fn attach(id: &str, config: &Config, screen: &mut Screen) -> Result<(), CommandError> {
    join(id, None, Wishes::default(), config, screen)
}

fn join(
    id: &str,
    agent: Option<&str>,
    wishes: Wishes,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let mut conversation = Connection::open(config)?.converse()?;
    let session_id = id.to_owned();
    let session: SessionView = conversation.call("session.get", &SessionIdParams { session_id })?;
    if let Some(agent) = agent
        && agent != session.agent_name
    {
        return Err(CommandError::Refused {
            message: format!(
                "{id} is a session with {}, not with {agent}",
                session.agent_name
            ),
            hint: format!("`agentcraft session attach {id}` goes on with it"),
        });
    }
    let is_interactive = screen.is_interactive();
    // A program wants the answers to its own lines alone.
    let from_seq = match is_interactive {
        true => Some(view::past_begin(&mut conversation, &session, PAST_TURNS)?),
        false => None,
    };
    let params = SessionAttachParams {
        session_id: id.to_owned(),
        client_id: Some(CLIENT.to_owned()),
        from_seq,
        answers: is_interactive,
        raw: false,
        start: true,
    };
    let session = conversation.call("session.attach", &params)?;
    let joined = Joined {
        conversation,
        session,
        wishes,
    };
    talk(joined, config, screen)
}

fn talk(joined: Joined, config: &Config, screen: &mut Screen) -> Result<(), CommandError> {
    match screen.is_interactive() {
        true => room::run(joined, config, screen),
        false => piped::run(joined, config, screen),
    }
}

/// Whether there is such an agent and it does not run.
fn is_stopped(conversation: &mut Conversation, agent: &str) -> bool {
    let name = agent.to_owned();
    let status: Result<AgentMeta, _> = conversation.call("agent.status", &NameParams { name });
    status.is_ok_and(|agent| agent.pid.is_none())
}

/// A new session. An agent that does not run is started for as long as we are there.
fn create(
    conversation: &mut Conversation,
    agent: &str,
    answers: bool,
) -> Result<SessionView, CommandError> {
    let params = SessionCreateParams {
        agent_name: agent.to_owned(),
        client_id: Some(CLIENT.to_owned()),
        stream: true,
        answers,
        start: true,
        ..SessionCreateParams::default()
    };
    conversation.call("session.create", &params)
}
