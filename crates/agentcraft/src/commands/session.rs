//! `agentcraft session …`.

use domain::session::Lease;
use engine::SessionView;
use serde_json::Value;

use wire::daemon::{
    SessionAnswerParams, SessionAttachParams, SessionEventsParams, SessionIdParams,
    SessionListParams,
};

use super::{
    chat, done, intent,
    talk::{self, PAUSE},
};
use crate::{
    args::{AnswerArgs, ExportArgs, ExportFormat, Format, SessionCommand, WatchArgs},
    config::Config,
    connection::Connection,
    conversation::{Conversation, Input, kind_of},
    error::CommandError,
    render::{Screen, Stream, Symbols, session_detail, session_markdown, session_table},
};

/// `s-` and a UUID.
const ID_LENGTH: usize = 38;

pub(super) fn run(
    command: SessionCommand,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    match command {
        SessionCommand::List(arguments) => {
            let agent_name = arguments.agent.map(|agent| agent.to_string());
            list(
                &SessionListParams { agent_name },
                arguments.output.format,
                config,
                screen,
            )
        }
        SessionCommand::Show(arguments) => {
            let id = whole_id(arguments.id, config)?;
            show(&id, arguments.output.format, config, screen)
        }
        SessionCommand::Attach(arguments) => {
            chat::attach(&whole_id(arguments.id, config)?, config, screen)
        }
        SessionCommand::Watch(mut arguments) => {
            arguments.id = whole_id(arguments.id, config)?;
            watch(&arguments, config, screen)
        }
        SessionCommand::Close(arguments) => {
            let id = whole_id(arguments.id, config)?;
            let answer = act("session.close", &id, config)?;
            let words = format!("closed {id}");
            done(&answer, &id, &words, arguments.output.format, screen)
        }
        SessionCommand::Cancel(arguments) => {
            let id = whole_id(arguments.id, config)?;
            let answer = act("session.cancel", &id, config)?;
            let words = format!("cancelled what {id} was doing");
            done(&answer, &id, &words, arguments.output.format, screen)
        }
        SessionCommand::Answer(mut arguments) => {
            arguments.id = whole_id(arguments.id, config)?;
            answer(arguments, config, screen)
        }
        SessionCommand::Export(mut arguments) => {
            arguments.id = whole_id(arguments.id, config)?;
            export(&arguments, config, screen)
        }
        SessionCommand::Tree(arguments) => intent::tree(&arguments, config, screen),
    }
}

/// The id of the session that the beginning of an id means. Sessions that are over are named in full.
fn whole_id(given: String, config: &Config) -> Result<String, CommandError> {
    if given.len() >= ID_LENGTH {
        return Ok(given);
    }
    let params = SessionListParams { agent_name: None };
    let sessions: Vec<SessionView> = Connection::open(config)?.call("session.list", &params)?;
    let ids = sessions.into_iter().map(|session| session.session_id);
    let mut meant: Vec<String> = ids.filter(|id| id.starts_with(&given)).collect();
    match meant.len() {
        // The daemon says that there is none.
        0 => Ok(given),
        1 => Ok(meant.remove(0)),
        count => Err(CommandError::Refused {
            message: format!("{count} sessions begin with {given}"),
            hint: format!("write more of it: {}", meant.join(", ")),
        }),
    }
}

fn list(
    params: &SessionListParams,
    format: Format,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let mut connection = Connection::open(config)?;
    let answer = connection.ask("session.list", params)?;
    if format == Format::Json {
        return Ok(screen.json(&answer)?);
    }
    let sessions: Vec<SessionView> = connection.read("session.list", answer)?;
    match format {
        Format::Quiet => sessions
            .iter()
            .try_for_each(|session| screen.line(&session.session_id))?,
        _ if sessions.is_empty() => {
            screen.note("there are no sessions; `agentcraft agent chat NAME` begins one")?;
        }
        Format::Table | Format::Json => screen.table(&session_table(&sessions))?,
    }
    Ok(())
}

fn show(
    id: &str,
    format: Format,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let mut connection = Connection::open(config)?;
    let answer = connection.ask("session.get", &by_id(id))?;
    if format == Format::Json {
        return Ok(screen.json(&answer)?);
    }
    let session: SessionView = connection.read("session.get", answer)?;
    match format {
        Format::Quiet => screen.line(&session.session_id)?,
        Format::Table | Format::Json => screen.print(&session_detail(&session, screen.style()))?,
    }
    Ok(())
}

fn act(method: &str, id: &str, config: &Config) -> Result<Value, CommandError> {
    Connection::open(config)?.ask(method, &by_id(id))
}

fn answer(arguments: AnswerArgs, config: &Config, screen: &mut Screen) -> Result<(), CommandError> {
    let params = SessionAnswerParams {
        session_id: arguments.id,
        ask: arguments.ask,
        option: arguments.option,
        text: arguments.text,
        decline: arguments.decline,
    };
    let answer = Connection::open(config)?.ask("session.answer", &params)?;
    let words = format!("answered {}", params.ask);
    done(
        &answer,
        &params.ask,
        &words,
        arguments.output.format,
        screen,
    )
}

/// Shows what happens until the session is over or Ctrl-C.
fn watch(arguments: &WatchArgs, config: &Config, screen: &mut Screen) -> Result<(), CommandError> {
    let mut conversation = Connection::open(config)?.converse()?;
    let session: SessionView = conversation.call("session.get", &by_id(&arguments.id))?;
    let symbols = Symbols::of_locale(&config.environment);
    let mut stream = Stream::whole(arguments.output.format, symbols, screen);
    if is_over(&session) {
        // There is nothing to wait for, only a past.
        if let Some(from_seq) = arguments.from {
            replay(
                &mut conversation,
                &arguments.id,
                from_seq,
                &mut stream,
                screen,
            )?;
        }
        return Ok(());
    }
    let params = SessionAttachParams {
        session_id: arguments.id.clone(),
        client_id: Some("watch".to_owned()),
        from_seq: arguments.from,
        ..SessionAttachParams::default()
    };
    let _: SessionView = conversation.call("session.attach", &params)?;
    loop {
        match conversation.next(PAUSE) {
            Some(Input::Event(event)) if event.session_id == arguments.id => {
                stream.event(&event.event, event.kind().as_ref(), screen)?;
            }
            Some(Input::Interrupt) => return Ok(stream.close(screen)?),
            Some(Input::Over(over)) if over.session_id == arguments.id => {
                return Ok(stream.close(screen)?);
            }
            Some(Input::Lost(error)) => {
                stream.close(screen)?;
                return Err(error);
            }
            Some(Input::Event(_) | Input::Over(_) | Input::Answer { .. } | Input::Nudge) | None => {
                stream.pause(screen)?;
            }
        }
    }
}

fn replay(
    conversation: &mut Conversation,
    id: &str,
    mut from_seq: u64,
    stream: &mut Stream,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    loop {
        let params = SessionEventsParams {
            session_id: id.to_owned(),
            from_seq,
            limit: None,
        };
        let page: Vec<Box<serde_json::value::RawValue>> =
            conversation.call("session.events", &params)?;
        let Some(last) = page.last() else {
            return Ok(stream.close(screen)?);
        };
        from_seq = talk::seq(last) + 1;
        for event in &page {
            stream.event(event, kind_of(event).as_ref(), screen)?;
        }
    }
}

fn export(
    arguments: &ExportArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let mut conversation = Connection::open(config)?.converse()?;
    let session: SessionView = conversation.call("session.get", &by_id(&arguments.id))?;
    let events = talk::events(&mut conversation, &arguments.id)?;
    match arguments.format {
        ExportFormat::Json => {
            for event in &events {
                screen.line(event.get())?;
            }
        }
        ExportFormat::Markdown => {
            let kinds: Vec<_> = events.iter().filter_map(|event| kind_of(event)).collect();
            screen.print(&session_markdown(&session, kinds.iter()))?;
        }
    }
    Ok(())
}

fn is_over(session: &SessionView) -> bool {
    matches!(session.state, Lease::Expired | Lease::Closed)
}

fn by_id(id: &str) -> SessionIdParams {
    SessionIdParams {
        session_id: id.to_owned(),
    }
}
