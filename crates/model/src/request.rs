//! One question to the server, and its answer as it streams in.

use std::time::Duration;

use domain::turn::EventKind;
use engine::{DriverError, SessionSink};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::sse::Decoder;

use crate::{
    settings::Settings,
    stream::{ANSWER_BYTES_MAX, Answer, Piece},
};

/// How long a server may be silent: big models on small machines think for minutes before the first word.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// How often a question is put to a server that is busy.
const TRIES_MAX: u32 = 4;

/// The first pause before asking a busy server again, doubled each time.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// What is read of a refusal: a page of HTML is larger than what it says.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// What is shown of a refusal.
const WORDS_MAX: usize = 2_000;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    Cancelled,
    Failed(DriverError),
}

/// Asks, shows what comes, and gives the whole answer.
pub(crate) async fn ask(
    client: &Client,
    settings: &Settings,
    body: &Value,
    sink: &SessionSink,
    cancel: &CancellationToken,
) -> Result<Answer, NoAnswer> {
    tokio::select! { biased;
        () = cancel.cancelled() => Err(NoAnswer::Cancelled),
        answer = receive(client, settings, body, sink) => answer.map_err(NoAnswer::Failed),
    }
}

/// The body of a question.
pub(crate) fn body(settings: &Settings, messages: &[Value], tools: &[Value]) -> Value {
    let mut body = json!({
        "model": settings.model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools.to_vec());
    }
    for (name, value) in &settings.parameters {
        body[name] = value.clone();
    }
    body
}

async fn receive(
    client: &Client,
    settings: &Settings,
    body: &Value,
    sink: &SessionSink,
) -> Result<Answer, DriverError> {
    let mut response = send(client, settings, body).await?;
    let is_stream = response
        .headers()
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with("text/event-stream"));
    let mut answer = Answer::default();
    if !is_stream {
        let whole = read_up_to(&mut response, ANSWER_BYTES_MAX).await?;
        if whole.len() > ANSWER_BYTES_MAX {
            let what = format!("its answer is larger than {ANSWER_BYTES_MAX} bytes");
            return Err(DriverError::Protocol { what });
        }
        show(&mut answer, &String::from_utf8_lossy(&whole), sink)?;
        return Ok(answer);
    }
    let mut decoder = Decoder::default();
    while let Some(chunk) = next(&mut response).await? {
        let events = decoder
            .push(chunk.as_ref())
            .map_err(|_| DriverError::Protocol {
                what: "an event of its stream is too large".to_owned(),
            })?;
        for event in events {
            if event.data.trim() == "[DONE]" {
                return Ok(answer);
            }
            show(&mut answer, &event.data, sink)?;
        }
        sink.room().await;
    }
    Ok(answer)
}

/// The next piece of a body; a server that is silent for too long is given up.
async fn next(response: &mut Response) -> Result<Option<impl AsRef<[u8]> + use<>>, DriverError> {
    let chunk = tokio::time::timeout(SILENCE_MAX, response.chunk()).await;
    chunk.map_err(|_| silent())?.map_err(|error| lost(&error))
}

/// A body; of one that is longer than the limit, a little more than that.
async fn read_up_to(response: &mut Response, limit: usize) -> Result<Vec<u8>, DriverError> {
    let mut bytes = Vec::new();
    while bytes.len() <= limit
        && let Some(chunk) = next(response).await?
    {
        bytes.extend_from_slice(chunk.as_ref());
    }
    Ok(bytes)
}

fn show(answer: &mut Answer, line: &str, sink: &SessionSink) -> Result<(), DriverError> {
    let pieces = answer
        .take(line)
        .map_err(|message| DriverError::Refused { code: 0, message })?;
    for piece in pieces {
        let kind = match piece {
            Piece::Text(text) => EventKind::Text { text },
            Piece::Thought(text) => EventKind::Thought { text },
        };
        sink.emit(kind, None);
    }
    Ok(())
}

/// Puts the question; a server that is busy is asked again, one that refuses is not.
async fn send(client: &Client, settings: &Settings, body: &Value) -> Result<Response, DriverError> {
    let mut pause = PAUSE_FIRST;
    for attempt in 1.. {
        let mut request = client
            .post(format!("{}/chat/completions", settings.base_url))
            .header("accept", "text/event-stream")
            .json(body);
        if let Some(key) = &settings.key {
            request = request.bearer_auth(key);
        }
        let sent = tokio::time::timeout(SILENCE_MAX, request.send()).await;
        let response = sent.map_err(|_| silent())?.map_err(|error| lost(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let is_busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        if !is_busy || attempt >= TRIES_MAX {
            return Err(refused(status, response).await);
        }
        tokio::time::sleep(asked_pause(&response).unwrap_or(pause)).await;
        pause *= 2;
    }
    Err(silent())
}

/// How long the server wants to be left alone, within reason.
fn asked_pause(response: &Response) -> Option<Duration> {
    let header = response.headers().get("retry-after")?.to_str().ok()?;
    let pause = Duration::from_secs(header.trim().parse().ok()?);
    (pause < SILENCE_MAX).then_some(pause)
}

async fn refused(status: StatusCode, mut response: Response) -> DriverError {
    let words = read_up_to(&mut response, REFUSAL_BYTES_MAX).await;
    let words = String::from_utf8_lossy(&words.unwrap_or_default()).into_owned();
    let told = serde_json::from_str::<Value>(&words).ok();
    let told = told.and_then(|told| told["error"]["message"].as_str().map(str::to_owned));
    let mut message = told.unwrap_or(words);
    message.truncate(message.floor_char_boundary(WORDS_MAX));
    DriverError::Refused {
        code: i64::from(status.as_u16()),
        message: match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => format!(
                "{message} (put the key into the variable that backend.config.apiKeyEnv names, OPENAI_API_KEY by default)"
            ),
            _ => message,
        },
    }
}

fn silent() -> DriverError {
    DriverError::Silent {
        what: "the prompt",
        limit: SILENCE_MAX,
    }
}

fn lost(error: &reqwest::Error) -> DriverError {
    DriverError::Gone {
        how: engine::chain(error),
    }
}
