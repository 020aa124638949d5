//! What the agent understands: the table of its commands, and which of them a prompt means.

mod client;
mod files;
mod probes;
mod search;
mod shell;
mod skills;
mod table;
mod talk;

use agent_client_protocol_schema::v1::{ContentBlock, EmbeddedResourceResource, StopReason};

pub(crate) use table::available;

use crate::{
    turn::{Interrupted, Outcome, Turn},
    updates::user_message,
    words::{self, Line},
};
use table::{Command, find};

/// What is quoted of an attached text: enough to see that it arrived.
const ATTACHMENT_BYTES_MAX: usize = 4 * 1024;

/// Answers a prompt.
pub(crate) async fn answer(turn: &Turn, prompt: Vec<ContentBlock>) -> Outcome {
    for block in &prompt {
        turn.session
            .state()
            .history
            .record(user_message(block.clone()));
    }
    turn.save().await; // What the user said survives a crash of the turn.
    let mut texts = Vec::new();
    for block in prompt {
        match block {
            ContentBlock::Text(text) => texts.push(text.text),
            block => attachment(turn, block).await?,
        }
    }
    let text = texts.join("\n");
    let Some(line) = Line::parse(&text) else {
        if texts.is_empty() {
            return Ok(StopReason::EndTurn); // What was attached has been answered.
        }
        return talk::help(turn, &text).await;
    };
    let command = find(&line);
    let question = turn.session.state().question.take();
    match (question, command) {
        // A question is answered in plain words; a slash means the user wants something else.
        (Some(question), _) if !line.slash => talk::answered(turn, &question, &text).await,
        (_, Some(command)) => dispatch(turn, command, line.rest).await,
        (_, None) => talk::help(turn, &text).await,
    }
}

async fn dispatch(turn: &Turn, command: Command, rest: &str) -> Outcome {
    match command {
        Command::Help => talk::overview(turn).await,
        Command::List => files::list(turn, rest).await,
        Command::Read => files::read(turn, rest).await,
        Command::Search => search::search(turn, rest).await,
        Command::Write => files::write(turn, rest, files::Change::Replace).await,
        Command::Append => files::write(turn, rest, files::Change::Append).await,
        Command::Run => shell::run(turn, rest).await,
        Command::Think => talk::think(turn, rest).await,
        Command::Plan => talk::plan(turn, rest).await,
        Command::Ask => talk::ask(turn, rest).await,
        Command::Mode => talk::mode(turn, rest).await,
        Command::Pwd => talk::pwd(turn).await,
        Command::Mcp => talk::mcp(turn).await,
        Command::Skills => skills::skills(turn).await,
        Command::Env => probes::env(turn, rest).await,
        Command::Usage => probes::usage(turn).await,
        Command::Fs => client::fs(turn, rest).await,
        Command::Terminal => client::terminal(turn, rest).await,
        Command::Slow => probes::slow(turn, rest).await,
        Command::Burst => probes::burst(turn, rest).await,
        Command::Fail => probes::fail(rest),
        Command::Refuse => probes::refuse(turn).await,
        Command::Limit => probes::limit(turn).await,
        Command::Crash => probes::crash(turn, rest).await,
        Command::Hang => probes::hang(turn).await,
        Command::Unknown => probes::unknown(turn).await,
        Command::Late => probes::late(turn).await,
        Command::Fork => shell::fork(turn).await,
    }
}

/// Says what arrived beside the text.
async fn attachment(turn: &Turn, block: ContentBlock) -> Result<(), Interrupted> {
    let said = match block {
        ContentBlock::Image(_) => {
            "I have no eyes: I cannot look at images, so I left the image out.\n".to_owned()
        }
        ContentBlock::Audio(_) => {
            "I have no ears: I cannot listen to audio, so I left it out.\n".to_owned()
        }
        ContentBlock::ResourceLink(link) => format!("You linked {} ({}).\n", link.name, link.uri),
        ContentBlock::Resource(resource) => match resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => {
                let quoted = words::quoted(&words::shortened(&text.text, ATTACHMENT_BYTES_MAX));
                format!("You attached {}:\n{quoted}\n", text.uri)
            }
            _ => "You attached something that is not text; I left it out.\n".to_owned(),
        },
        _ => "You attached something I do not know; I left it out.\n".to_owned(),
    };
    turn.say(said).await
}

/// Says how a command is written and ends the turn.
async fn usage(turn: &Turn, how: &str) -> Outcome {
    turn.say(format!("Write it like this: `{how}`")).await?;
    Ok(StopReason::EndTurn)
}

/// A number of the user within bounds, or the default.
fn number(word: Option<&String>, default: u64, max: u64) -> Result<u64, String> {
    match word {
        None => Ok(default),
        Some(word) => match word.parse::<u64>() {
            Ok(number) if number <= max => Ok(number),
            Ok(_) | Err(_) => Err(format!("{word:?} is not a number from 0 to {max}.")),
        },
    }
}
