//! `session.*` and `journal.query`.

use std::time::Duration;

use domain::{
    Name,
    session::WhenBusy,
    target::Target,
    turn::{Answer, AskId, Stop},
};
use engine::{
    CreateSession, JournalQuery, Loan, Prompt, SessionView, Start, TurnOptions, TurnOutcome,
};
use serde_json::{Value, value::RawValue};
use wire::daemon::{
    JournalLine, JournalParams, Ok as Done, PromptResult, SessionAnswerParams, SessionAttachParams,
    SessionCancelParams, SessionCreateParams, SessionEventsParams, SessionIdParams,
    SessionListParams, SessionPromptParams,
};

use crate::{
    attachments::{EventView, Stream, too_long},
    error::RpcError,
    params,
    server::Call,
};

/// Events that one page of the history holds unless the caller asks for fewer.
const PAGE_MAX: u32 = 1000;

/// Bytes of events in one page: far below the ceiling of a line.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The longest event on a page: an answer is a line of at most 10 MiB, and something is around the event.
const EVENT_MAX: usize = 10 * 1024 * 1024 - 1024;

/// The longest answer as it is sent, which is twice in one line.
const ANSWER_ENCODED_MAX: usize = 5 * 1024 * 1024 - 64 * 1024;

/// What a line of the journal takes beside its body, and room for escapes.
const LINE_OVERHEAD: usize = 512;

/// Lines of the journal that one answer holds unless the caller asks for fewer.
const JOURNAL_MAX: u32 = 1000;

pub(super) async fn create(call: &Call) -> Result<SessionView, RpcError> {
    let given: SessionCreateParams = call.params()?;
    params::client(given.client_id.as_deref())?;
    let engine = &call.service.engine;
    let target = params::target("agentName", &given.agent_name)?;
    let agent = match given.start {
        // Started for as long as the connection needs it, whoever made it.
        true => engine.ensure(&target).await?,
        false => engine.agent_for(&target).await?,
    };
    let loan = borrowed(call, given.start, &agent).await?;
    let create = CreateSession {
        agent,
        client: given.client_id.clone(),
        idle_ttl: given.idle_ttl_ms.map(Duration::from_millis),
    };
    let view = engine.sessions().create(create).await?;
    if let Some(mut loan) = loan {
        loan.is_for(&view.session_id);
        call.attachments.keep(loan).await;
    }
    let stream = given.stream.then_some(Stream {
        from: 1,
        raw: given.raw,
    });
    let name = given.client_id.as_deref();
    Ok(call
        .attachments
        .attach(&view.session_id, name, given.answers.into(), stream)
        .await?)
}

/// The agent for as long as this connection needs it, where it is to be started for that or was started for others.
async fn borrowed(call: &Call, start: bool, agent: &Name) -> Result<Option<Loan>, RpcError> {
    let start = match start {
        true => Start::IfNeeded,
        false => Start::Never,
    };
    Ok(call.service.engine.borrow(agent, start).await?)
}

pub(super) async fn attach(call: &Call) -> Result<SessionView, RpcError> {
    let given: SessionAttachParams = call.params()?;
    params::client(given.client_id.as_deref())?;
    let sessions = call.service.engine.sessions();
    let view = sessions.get(&given.session_id).await?;
    let agent = params::name("agentName", &view.agent_name)?;
    if let Some(mut loan) = borrowed(call, given.start, &agent).await? {
        loan.is_for(&view.session_id);
        call.attachments.keep(loan).await;
    }
    let stream = Stream {
        from: given.from_seq.unwrap_or(view.last_seq + 1),
        raw: given.raw,
    };
    let name = given.client_id.as_deref();
    Ok(call
        .attachments
        .attach(&given.session_id, name, given.answers.into(), Some(stream))
        .await?)
}

pub(super) async fn prompt(call: &Call) -> Result<PromptResult, RpcError> {
    let given: SessionPromptParams = call.params()?;
    params::prompt("text", &given.text)?;
    let when_busy = if given.queue {
        WhenBusy::Queue
    } else {
        WhenBusy::Refuse
    };
    let options = TurnOptions {
        trace: params::trace("trace", given.trace)?,
        ..TurnOptions::default()
    };
    let prompt = Prompt {
        text: given.text,
        options,
        when_busy,
        by: None,
    };
    let outcome = turn(call, &given.session_id, prompt).await?;
    Ok(result(given.session_id, outcome))
}

/// One turn of a session, asked for by this connection, from the prompt to its end.
pub(super) async fn turn(
    call: &Call,
    session: &str,
    prompt: Prompt,
) -> Result<TurnOutcome, RpcError> {
    let sessions = call.service.engine.sessions();
    let from = sessions.get(session).await?.last_seq + 1;
    let prompt = Prompt {
        by: Some(call.attachments.client(session)),
        ..prompt
    };
    let turn = sessions.prompt(session, prompt).await?;
    Ok(sessions.outcome(session, turn, from).await?)
}

pub(super) fn result(session_id: String, outcome: TurnOutcome) -> PromptResult {
    let (text, truncated) = within_a_line(outcome.text);
    PromptResult {
        response: text.clone(),
        text,
        truncated,
        session_id,
        stop_reason: outcome.stop.as_str().to_owned(),
        error: failure(outcome.stop),
        instance_name: None,
        artifacts: None,
    }
}

/// An answer that fits into a line twice, and whether that is only its beginning.
pub(super) fn within_a_line(mut text: String) -> (String, bool) {
    let mut length = 0;
    let fits = |letter: char| {
        length += encoded_len(letter);
        length <= ANSWER_ENCODED_MAX
    };
    let end = text.char_indices().map_while({
        let mut fits = fits;
        move |(at, letter)| fits(letter).then_some(at + letter.len_utf8())
    });
    let end = end.last().unwrap_or(0);
    let truncated = end < text.len();
    text.truncate(end);
    (text, truncated)
}

/// Bytes of a letter as JSON.
fn encoded_len(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        letter => letter.len_utf8(),
    }
}

pub(super) fn failure(stop: Stop) -> Option<String> {
    match stop {
        Stop::Failed { message } => Some(message),
        Stop::EndTurn
        | Stop::MaxTokens
        | Stop::MaxTurnRequests
        | Stop::Refusal
        | Stop::Cancelled => None,
    }
}

pub(super) async fn answer(call: &Call) -> Result<Done, RpcError> {
    let given: SessionAnswerParams = call.params()?;
    let answer = match (given.option, given.text, given.decline) {
        (Some(id), None, false) => Answer::Option { id },
        (None, Some(text), false) => Answer::Text { text },
        (None, None, true) => Answer::Declined,
        _ => {
            return Err(RpcError::invalid_params(
                "option",
                "exactly one of option, text and decline is given",
            ));
        }
    };
    let by = call.attachments.client(&given.session_id);
    call.service
        .engine
        .sessions()
        .answer(&given.session_id, AskId(given.ask), answer, by)
        .await?;
    Ok(Done { ok: true })
}

pub(super) async fn cancel(call: &Call) -> Result<Done, RpcError> {
    let given: SessionCancelParams = call.params()?;
    let id = &given.session_id;
    let sessions = call.service.engine.sessions();
    match given.own {
        true => sessions.cancel_own(id, call.attachments.client(id)).await?,
        false => sessions.cancel(id).await?,
    }
    Ok(Done { ok: true })
}

pub(super) async fn close(call: &Call) -> Result<Done, RpcError> {
    let given: SessionIdParams = call.params()?;
    call.service
        .engine
        .sessions()
        .close(&given.session_id)
        .await?;
    Ok(Done { ok: true })
}

pub(super) async fn list(call: &Call) -> Result<Vec<SessionView>, RpcError> {
    let given: SessionListParams = call.params()?;
    let agent = about(call, given.agent_name);
    Ok(call.service.engine.sessions().list(agent.as_deref()))
}

pub(super) async fn get(call: &Call) -> Result<SessionView, RpcError> {
    let given: SessionIdParams = call.params()?;
    Ok(call
        .service
        .engine
        .sessions()
        .get(&given.session_id)
        .await?)
}

pub(super) async fn events(call: &Call) -> Result<Vec<Box<RawValue>>, RpcError> {
    let given: SessionEventsParams = call.params()?;
    let limit = given.limit.unwrap_or(PAGE_MAX).min(PAGE_MAX) as usize;
    let mut reader = call
        .service
        .engine
        .sessions()
        .events(&given.session_id, given.from_seq)
        .await?;
    let (mut page, mut bytes) = (Vec::new(), 0);
    while page.len() < limit && bytes < PAGE_BYTES {
        let Some(event) = reader.try_next().await? else {
            break;
        };
        let mut text = super::answer(EventView::of(&event, false))?;
        let length = text.get().len();
        if length > EVENT_MAX {
            let (seq, at, kind) = (event.seq, event.at, &too_long(length));
            text = super::answer(EventView::Meaning { seq, at, kind })?;
        }
        bytes += text.get().len();
        if bytes > PAGE_BYTES && !page.is_empty() {
            break; // The next page begins with it.
        }
        page.push(text);
    }
    Ok(page)
}

/// Whose sessions or lines are looked for: also those of an agent that is there no more.
fn about(call: &Call, said: Option<String>) -> Option<String> {
    let said = said?;
    let Ok(target) = said.parse::<Target>() else {
        return Some(said);
    };
    let engine = &call.service.engine;
    let name = engine.agent_of(&target);
    Some(name.unwrap_or_else(|_| target.agent_name()).to_string())
}

pub(super) async fn journal(call: &Call) -> Result<Vec<JournalLine>, RpcError> {
    let given: JournalParams = call.params()?;
    let query = JournalQuery {
        without_prefix: None,
        agent: about(call, given.agent),
        session: given.session,
        kind_prefix: given.kind,
        since: given.since,
        after_seq: given.after_seq,
        contains: given.grep,
        trace: given.trace,
        limit: Some(given.limit.unwrap_or(JOURNAL_MAX).min(JOURNAL_MAX)),
    };
    let is_forward = query.after_seq.is_some();
    let rows = call.service.engine.journal(query).await?;
    let line = |row: engine::JournalRow| JournalLine {
        seq: row.seq,
        at: row.at,
        kind: row.kind,
        agent: row.agent,
        session: row.session,
        body: serde_json::from_str(&row.body).unwrap_or(Value::String(row.body)),
    };
    // As many as fit: an answer is a line, too.
    let mut bytes = 0;
    let fits = |row: &engine::JournalRow| {
        bytes += row.body.len() + LINE_OVERHEAD;
        bytes <= PAGE_BYTES
    };
    if is_forward {
        return Ok(rows.into_iter().take_while(fits).map(line).collect());
    }
    let mut lines: Vec<JournalLine> = rows.into_iter().rev().take_while(fits).map(line).collect();
    lines.reverse();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_cut_only_if_it_does_not_fit_into_a_line_twice() {
        let plain = "x".repeat(ANSWER_ENCODED_MAX);
        assert_eq!(within_a_line(plain.clone()), (plain.clone(), false));
        assert_eq!(within_a_line(plain.clone() + "x"), (plain, true));
        for odd in ["\u{1}", "\"", "ü"] {
            let (text, _) = within_a_line(odd.repeat(ANSWER_ENCODED_MAX));
            let line = serde_json::to_string(&text).unwrap();
            assert!(
                line.len() <= ANSWER_ENCODED_MAX + 2,
                "{odd:?}: {}",
                line.len()
            );
        }
    }
}
