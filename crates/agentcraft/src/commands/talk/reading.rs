//! A prompt as it was given: on the command line, or on stdin.

use std::io::Read;

use crate::error::CommandError;

/// The longest prompt: a line of the socket has ten megabytes, and JSON may double what it quotes.
pub(in crate::commands) const PROMPT_MAX: u64 = 4 * 1024 * 1024;

/// The text itself, or all of stdin for `-`.
pub(in crate::commands) fn prompt_text(given: &str) -> Result<String, CommandError> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(PROMPT_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| CommandError::machine("read the prompt from stdin", error))?;
    match text.len() as u64 {
        0 => Err(refused("there was nothing on stdin")),
        length if length > PROMPT_MAX => Err(refused("the prompt on stdin is longer than 4 MiB")),
        _ => Ok(text),
    }
}

fn refused(message: &str) -> CommandError {
    CommandError::Refused {
        message: message.to_owned(),
        hint:
            "`--prompt -` takes the prompt from stdin, such as `git diff | agentcraft agent run …`"
                .to_owned(),
    }
}
