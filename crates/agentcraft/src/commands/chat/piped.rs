//! A chat without a terminal: every line of stdin is a prompt, every answer goes to stdout.

use std::io::BufRead;

use wire::daemon::{PromptResult, SessionIdParams};

use super::{Joined, room::send_prompt};
use crate::{
    args::TalkFormat,
    commands::talk::PAUSE,
    config::Config,
    conversation::{Input, read_as},
    error::CommandError,
    exit::Exit,
    render::{Screen, Stream, Symbols, one_line},
};

pub(super) fn run(
    mut joined: Joined,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let symbols = Symbols::of_locale(&config.environment);
    let mut failed = false;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| CommandError::machine("read stdin", error))?;
        match line.trim() {
            "" => continue,
            "exit" | "quit" => break,
            _ => {}
        }
        let mut stream = Stream::new(TalkFormat::Text, symbols, screen);
        stream.typed(&line);
        let result = turn(&mut joined, &line, &mut stream, screen)?;
        stream.close(screen)?;
        if let Some(error) = &result.error {
            screen.warning(&format!("the turn failed: {}", one_line(error)))?;
        }
        failed |= result.stop_reason != domain::turn::Stop::EndTurn.as_str();
    }
    match failed {
        true => Err(CommandError::Shown(Exit::Failed)),
        false => Ok(()),
    }
}

/// One prompt. Its answer is printed as a whole from the result, since nobody watches it grow.
fn turn(
    joined: &mut Joined,
    line: &str,
    stream: &mut Stream,
    screen: &mut Screen,
) -> Result<PromptResult, CommandError> {
    let call = send_prompt(joined, line)?;
    let mut cancelled = false;
    loop {
        match joined.conversation.next(PAUSE) {
            Some(Input::Answer { id, result }) if id == call => {
                let result: PromptResult = read_as("session.prompt", &result?)?;
                stream.answer(&result.text, screen)?;
                return Ok(result);
            }
            Some(Input::Interrupt) if !cancelled => {
                cancelled = true;
                let session_id = joined.session.session_id.clone();
                joined
                    .conversation
                    .send("session.cancel", &SessionIdParams { session_id })?;
            }
            Some(Input::Interrupt) => return Err(CommandError::Shown(Exit::Failed)),
            Some(Input::Lost(error)) => return Err(error),
            Some(Input::Event(_) | Input::Over(_) | Input::Answer { .. } | Input::Nudge) | None => {
            }
        }
    }
}
