//! A chat without a terminal: every line of stdin is a prompt, every answer goes to stdout as it comes.

use std::{
    io::{self, BufRead, Read},
    time::Instant,
};

use domain::turn::Stop;
use wire::daemon::{PromptResult, SessionCancelParams};

use super::{Joined, room::send_prompt};
use crate::{
    args::TalkFormat,
    commands::talk::{LATE, OwnTurn, PAUSE, PROMPT_MAX, Step},
    config::Config,
    conversation::{Input, read_as},
    error::CommandError,
    exit::Exit,
    render::{Screen, Stream, Symbols, one_line},
};

/// A line of stdin.
enum Line {
    Prompt(String),
    /// It cannot be a prompt, for this reason.
    Unfit(&'static str),
    End,
}

pub(super) fn run(
    mut joined: Joined,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let symbols = Symbols::of_locale(&config.environment);
    let mut stdin = io::stdin().lock();
    let mut failed = false;
    for number in 1_u64.. {
        let line = match next_line(&mut stdin) {
            Ok(Line::Prompt(line)) => line,
            Ok(Line::Unfit(why)) => {
                screen.warning(&format!("line {number} was left out: {why}"))?;
                failed = true;
                continue;
            }
            Ok(Line::End) => break,
            Err(error) => return Err(CommandError::machine("read stdin", error)),
        };
        match line.trim() {
            "" => continue,
            "exit" | "quit" => break,
            _ => {}
        }
        let mut stream = Stream::new(TalkFormat::Text, symbols, screen);
        stream.typed(&line);
        let result = turn(&mut joined, &line, &mut stream, screen);
        stream.close(screen)?; // What came before a loss is shown.
        let result = result?;
        if let Some(error) = &result.error {
            screen.warning(&format!("the turn failed: {}", one_line(error)))?;
        }
        failed |= result.stop_reason != Stop::EndTurn.as_str();
    }
    match failed {
        true => Err(CommandError::Shown(Exit::Failed)),
        false => Ok(()),
    }
}

/// Reads a line; one that is too long or not text is read to its end and told.
fn next_line(stdin: &mut impl BufRead) -> io::Result<Line> {
    let mut bytes = Vec::new();
    stdin
        .by_ref()
        .take(PROMPT_MAX + 1)
        .read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(Line::End);
    }
    if bytes.len() as u64 > PROMPT_MAX && bytes.last() != Some(&b'\n') {
        stdin.skip_until(b'\n')?;
        return Ok(Line::Unfit("it is longer than 4 MiB"));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Line::Prompt(text.trim_end_matches(['\n', '\r']).to_owned()),
        Err(_) => Line::Unfit("it is not UTF-8"),
    })
}

/// One prompt, until its result and its last event are there.
fn turn(
    joined: &mut Joined,
    line: &str,
    stream: &mut Stream,
    screen: &mut Screen,
) -> Result<PromptResult, CommandError> {
    let call = send_prompt(joined, line)?;
    let mut own = OwnTurn::default();
    let mut ended: Option<(PromptResult, Instant)> = None;
    let mut cancelled = false;
    loop {
        if let Some((result, at)) = &ended
            && (own.is_over_after(result) || at.elapsed() > LATE)
        {
            return Ok(result.clone());
        }
        match joined.conversation.next(PAUSE) {
            None => stream.pause(screen)?,
            Some(Input::Event(event)) if event.session_id == joined.session.session_id => {
                let kind = event.kind();
                if own.takes(kind.as_ref(), event.own) == Step::Show {
                    stream.event(&event.event, kind.as_ref(), screen)?;
                }
            }
            Some(Input::Answer { id, result }) if id == call => {
                ended = Some((read_as("session.prompt", &result?)?, Instant::now()));
            }
            Some(Input::Interrupt) if !cancelled => {
                cancelled = true;
                let params = SessionCancelParams {
                    session_id: joined.session.session_id.clone(),
                    own: true,
                };
                joined.conversation.send("session.cancel", &params)?;
            }
            Some(Input::Interrupt) => return Err(CommandError::Shown(Exit::Failed)),
            Some(Input::Lost(error)) => return Err(error),
            Some(Input::Event(_) | Input::Over(_) | Input::Answer { .. } | Input::Nudge) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_text_is_told_and_the_next_one_is_read() {
        let mut stdin: &[u8] = b"one\r\n\xff\xfe\ntwo";
        let mut lines = Vec::new();
        loop {
            match next_line(&mut stdin).unwrap() {
                Line::Prompt(text) => lines.push(text),
                Line::Unfit(why) => lines.push(why.to_owned()),
                Line::End => break,
            }
        }
        assert_eq!(lines, ["one", "it is not UTF-8", "two"]);
    }
}
