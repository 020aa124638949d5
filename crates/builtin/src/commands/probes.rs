//! Commands for those who test a client, or how agents are run: slow, large, broken and strange on purpose.

use std::{ffi::OsStr, time::Duration};

use agent_client_protocol_schema::v1::{ContentChunk, SessionUpdate, StopReason, UsageUpdate};
use jsonrpc::{CallError, ErrorObject};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{number, usage as how_to};
use crate::{
    turn::{Interrupted, Outcome, Turn},
    words,
};

/// Chunks of `/slow` and `/burst`: enough to fill any queue.
const CHUNKS_MAX: u64 = 1_000_000;

/// A chunk of `/burst`; a line stays below the bound of lines.
const CHUNK_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Between two chunks of `/slow`.
const PAUSE_MS: u64 = 300;

/// The longest pause that can be asked for.
const PAUSE_MS_MAX: u64 = 600_000;

/// A client that does not know a request must still answer; one that does not is not waited for.
const PROBE_MAX: Duration = Duration::from_secs(10);

/// What a crash may wait for: the client has read what was sent before it.
const FLUSH_MAX: Duration = Duration::from_millis(500);

/// The size of the context we say we have: `/usage` needs one.
const CONTEXT_TOKENS: u64 = 262_144;

/// What names of variables with secrets contain.
const SECRET_NAMES: [&str; 7] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASS",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
];

/// How well-known secrets begin.
const SECRET_VALUES: [&str; 7] = [
    "sk-",
    "ghp_",
    "gho_",
    "github_pat_",
    "xox",
    "AKIA",
    "-----BEGIN",
];

pub(super) async fn slow(turn: &Turn, rest: &str) -> Outcome {
    let arguments = words::all(rest);
    let count = number(arguments.first(), 5, CHUNKS_MAX);
    let pause = number(arguments.get(1), PAUSE_MS, PAUSE_MS_MAX);
    let (Ok(count), Ok(pause)) = (count, pause) else {
        return how_to(turn, "/slow N [ms]").await;
    };
    for index in 1..=count {
        sleep(Duration::from_millis(pause)).await;
        turn.tell(chunk(format!("chunk {index} of {count}\n")))
            .await?;
    }
    Ok(StopReason::EndTurn)
}

pub(super) async fn burst(turn: &Turn, rest: &str) -> Outcome {
    let arguments = words::all(rest);
    let count = number(arguments.first(), 100, CHUNKS_MAX);
    let bytes = number(arguments.get(1), 0, CHUNK_BYTES_MAX);
    let (Ok(count), Ok(bytes)) = (count, bytes) else {
        return how_to(turn, "/burst N [bytes]").await;
    };
    let bytes = usize::try_from(bytes).unwrap_or(0);
    for index in 1..=count {
        let mut text = format!("chunk {index} of {count}\n");
        if text.len() < bytes {
            let filling = ".".repeat(bytes - text.len());
            text.insert_str(text.len() - 1, &filling);
        }
        // Not recorded: a burst would push everything else out of the history.
        turn.send(chunk(text)).await?;
        if index % 64 == 0 {
            tokio::task::yield_now().await; // So that a cancel in the middle is read.
        }
    }
    turn.session
        .state()
        .history
        .record(chunk(format!("({count} chunks)")));
    Ok(StopReason::EndTurn)
}

fn chunk(text: String) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()))
}

pub(super) fn fail(rest: &str) -> Outcome {
    let message = words::unquoted(rest);
    let message = if message.is_empty() {
        "failed, as you asked".to_owned()
    } else {
        message
    };
    Err(Interrupted::Failed(ErrorObject::internal(message)))
}

pub(super) async fn refuse(turn: &Turn) -> Outcome {
    turn.say("I refuse, as you asked.").await?;
    Ok(StopReason::Refusal)
}

pub(super) async fn limit(turn: &Turn) -> Outcome {
    turn.say("This is as far as my tokens go, as you asked")
        .await?;
    Ok(StopReason::MaxTokens)
}

pub(super) async fn crash(turn: &Turn, rest: &str) -> Outcome {
    let arguments = words::all(rest);
    let Ok(code) = number(arguments.first(), 1, 255) else {
        return how_to(turn, "/crash [code]").await;
    };
    let code = u8::try_from(code).unwrap_or(1);
    turn.say(format!("Crashing with code {code}.")).await?;
    let _ = timeout(FLUSH_MAX, turn.surroundings.peer.flush()).await; // A client that does not read misses it.
    let _ = turn.surroundings.crash.send(code).await; // The loop is only gone if the process is.
    std::future::pending().await
}

pub(super) async fn hang(turn: &Turn) -> Outcome {
    turn.say("Hanging until you cancel.").await?;
    std::future::pending().await
}

pub(super) async fn unknown(turn: &Turn) -> Outcome {
    let peer = &turn.surroundings.peer;
    let strange = json!({
        "sessionId": turn.session.id,
        "update": {
            "sessionUpdate": "agentcraft_unknown",
            "extra": { "list": [1, 2.5, null], "text": "an update of a kind that nobody knows" },
        },
        "extraBesideUpdate": true,
        "_meta": { "agentcraft": "probe" },
    });
    peer.notify("session/update", &strange).await?;
    let params = json!({ "sessionId": turn.session.id, "text": "probe", "extra": { "list": [1, 2.5, null] } });
    let answer = timeout(
        PROBE_MAX,
        peer.call_with_cancel("_agentcraft/probe", &params),
    )
    .await;
    let said = match answer {
        Ok(Ok(result)) => format!("The client answered the probe: {}", result.get()),
        Ok(Err(CallError::Remote(error))) => {
            format!(
                "The client answered the probe with error {}: {}",
                error.code, error.message
            )
        }
        Ok(Err(CallError::Closed)) => return Err(Interrupted::Closed),
        Ok(Err(error)) => format!("The probe failed: {}", words::chain(&error)),
        Err(_) => format!(
            "The client did not answer the probe in {} seconds",
            PROBE_MAX.as_secs()
        ),
    };
    turn.say(said).await?;
    Ok(StopReason::EndTurn)
}

pub(super) async fn late(turn: &Turn) -> Outcome {
    turn.say("An update follows after the end of this turn.")
        .await?;
    turn.loose_ends().late_update = true;
    Ok(StopReason::EndTurn)
}

pub(super) async fn env(turn: &Turn, rest: &str) -> Outcome {
    let name = words::unquoted(rest);
    if name.is_empty() {
        return how_to(turn, "/env NAME").await;
    }
    let value = turn.surroundings.environment.get(OsStr::new(&name));
    let said = match value {
        None => format!("{name} is not set."),
        Some(value) => {
            let value = value.to_string_lossy();
            if looks_secret(&name, &value) {
                format!("{name} is set; it looks like a secret, so I keep it to myself.")
            } else {
                format!("{name} is set to: {value}")
            }
        }
    };
    turn.say(said).await?;
    Ok(StopReason::EndTurn)
}

pub(super) async fn usage(turn: &Turn) -> Outcome {
    let used = turn.session.state().history.tokens();
    turn.send(SessionUpdate::UsageUpdate(UsageUpdate::new(
        used,
        CONTEXT_TOKENS,
    )))
    .await?;
    turn.say(format!(
        "About {used} tokens of {CONTEXT_TOKENS} are used, if I had a model."
    ))
    .await?;
    Ok(StopReason::EndTurn)
}

fn looks_secret(name: &str, value: &str) -> bool {
    let name = name.to_uppercase();
    let userinfo = value.split_once("://").is_some_and(|(_, rest)| {
        let authority = rest.split('/').next().unwrap_or(rest);
        authority.contains('@')
    });
    SECRET_NAMES.iter().any(|part| name.contains(part))
        || SECRET_VALUES
            .iter()
            .any(|start| value.trim_start().starts_with(start))
        || userinfo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_by_name_or_by_value() {
        let secret = [
            ("OPENAI_API_KEY", "x"),
            ("db_password", "x"),
            ("X", "sk-abc"),
            ("URL", "https://user:word@host/path"),
        ];
        let harmless = [
            ("PATH", "/bin"),
            ("URL", "https://host/@path"),
            ("LANG", "C"),
        ];
        secret
            .iter()
            .for_each(|(name, value)| assert!(looks_secret(name, value), "{name}"));
        harmless
            .iter()
            .for_each(|(name, value)| assert!(!looks_secret(name, value), "{name}"));
    }
}
