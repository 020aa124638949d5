//! Commands that go through the client's own methods: its files and its terminals.

use agent_client_protocol_schema::v1::{
    CreateTerminalRequest, CreateTerminalResponse, ReadTextFileRequest, ReadTextFileResponse,
    ReleaseTerminalRequest, StopReason, Terminal, TerminalOutputRequest, TerminalOutputResponse,
    ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdateFields, ToolKind,
    WaitForTerminalExitRequest, WaitForTerminalExitResponse, WriteTextFileRequest,
};
use jsonrpc::CallError;
use serde_json::json;

use super::{files::place, usage};
use crate::{
    session::Mode,
    tool::Tool,
    turn::{Interrupted, Outcome, Turn},
    words,
    workspace::Place,
};

/// What is repeated of an output or a file in a message.
const SHOWN_BYTES_MAX: usize = 8 * 1024;

/// What the client keeps of a terminal's output.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024;

pub(super) async fn fs(turn: &Turn, rest: &str) -> Outcome {
    const HOW: &str = "/fs read path or /fs write path text";
    let Some((verb, rest)) = words::first(rest) else {
        return usage(turn, HOW).await;
    };
    let Some((path, text)) = words::first(rest) else {
        return usage(turn, HOW).await;
    };
    let place = match place(turn, &path) {
        Ok(place) => place,
        Err(refusal) => return said(turn, &format!("That did not work: {refusal}.")).await,
    };
    let files = &turn.client.fs;
    match verb.to_lowercase().as_str() {
        "read" if files.read_text_file => fs_read(turn, &path, place).await,
        "write" if files.write_text_file => {
            fs_write(turn, &path, place, words::unquoted(text)).await
        }
        "read" | "write" => {
            said(
                turn,
                &format!("The client did not declare that it can {verb} files."),
            )
            .await
        }
        _ => usage(turn, HOW).await,
    }
}

async fn fs_read(turn: &Turn, path: &str, place: Place) -> Outcome {
    let tool = turn.open_tool("fs_read", |mut call| {
        call.title = format!("Read {path} through the client");
        call.kind(ToolKind::Read)
            .locations(vec![ToolCallLocation::new(&place.absolute)])
    });
    let tool = tool.await?;
    tool.start().await?;
    let request = ReadTextFileRequest::new(turn.session.id.clone(), place.absolute);
    let answer = turn
        .call::<_, ReadTextFileResponse>("fs/read_text_file", &request)
        .await;
    let Some((tool, answer)) = answer_or_failure(tool, answer).await? else {
        return Ok(StopReason::EndTurn);
    };
    let fields = ToolCallUpdateFields::new().content(vec![answer.content.as_str().into()]);
    tool.complete(fields.raw_output(json!({ "bytes": answer.content.len() })))
        .await?;
    let shown = words::shortened(&answer.content, SHOWN_BYTES_MAX);
    said(turn, &format!("{path}, as the client has it:\n{shown}")).await
}

async fn fs_write(turn: &Turn, path: &str, place: Place, text: String) -> Outcome {
    if turn.session.state().mode == Mode::Plan {
        let words = format!("Plan mode: I would let the client write {path}. Nothing was changed.");
        return said(turn, &words).await;
    }
    let tool = turn.open_tool("fs_write", |mut call| {
        call.title = format!("Write {path} through the client");
        call.kind(ToolKind::Edit)
            .locations(vec![ToolCallLocation::new(&place.absolute)])
    });
    let tool = tool.await?;
    tool.start().await?;
    let bytes = text.len();
    let request = WriteTextFileRequest::new(turn.session.id.clone(), place.absolute, text);
    let answer = turn
        .call::<_, Option<serde_json::Value>>("fs/write_text_file", &request)
        .await;
    let Some((tool, _)) = answer_or_failure(tool, answer).await? else {
        return Ok(StopReason::EndTurn);
    };
    tool.complete(ToolCallUpdateFields::new().raw_output(json!({ "bytes": bytes })))
        .await?;
    said(turn, &format!("The client wrote {bytes} bytes to {path}.")).await
}

pub(super) async fn terminal(turn: &Turn, rest: &str) -> Outcome {
    if rest.is_empty() {
        return usage(turn, "/terminal command").await;
    }
    if !turn.client.terminal {
        return said(turn, "The client did not declare that it has terminals.").await;
    }
    if turn.session.state().mode == Mode::Plan {
        let words = format!(
            "Plan mode: I would run `{rest}` in a terminal of the client. Nothing was run."
        );
        return said(turn, &words).await;
    }
    let tool = turn.open_tool("terminal", |mut call| {
        call.title = format!(
            "Run {} in a terminal of the client",
            words::shortened(rest, 200)
        );
        call.kind(ToolKind::Execute)
            .raw_input(json!({ "command": rest }))
    });
    let tool = tool.await?;
    let done = in_terminal(turn, &tool, rest).await;
    let Some((tool, (exited, output))) = answer_or_failure(tool, done).await? else {
        return Ok(StopReason::EndTurn);
    };
    let status = exited.exit_status;
    let told = match (status.exit_code, status.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown end".to_owned(),
    };
    let raw = json!({ "exitCode": status.exit_code, "output": output.output, "truncated": output.truncated });
    tool.complete(ToolCallUpdateFields::new().raw_output(raw))
        .await?;
    let shown = words::shortened(&output.output, SHOWN_BYTES_MAX);
    said(
        turn,
        &format!("{}\nThe client's terminal: {told}.", shown.trim_end()),
    )
    .await
}

/// The life of a terminal. One that is not released here is released at the end of the turn.
async fn in_terminal(
    turn: &Turn,
    tool: &Tool<'_>,
    command: &str,
) -> Result<(WaitForTerminalExitResponse, TerminalOutputResponse), CallError> {
    let session = turn.session.id.clone();
    let folder = turn.root().join(turn.session.state().folder.clone());
    let request = CreateTerminalRequest::new(session.clone(), "/bin/sh")
        .args(vec!["-c".to_owned(), command.to_owned()])
        .cwd(folder)
        .output_byte_limit(OUTPUT_BYTES_MAX);
    let created: CreateTerminalResponse = turn.call("terminal/create", &request).await?;
    let id = created.terminal_id;
    turn.loose_ends().terminals.insert(id.0.to_string());
    let content = vec![ToolCallContent::Terminal(Terminal::new(id.clone()))];
    let shown = ToolCallUpdateFields::new()
        .content(content)
        .status(ToolCallStatus::InProgress);
    tool.progress(shown).await.map_err(|_| CallError::Closed)?;
    let request = WaitForTerminalExitRequest::new(session.clone(), id.clone());
    let exited = turn.call("terminal/wait_for_exit", &request).await?;
    let request = TerminalOutputRequest::new(session.clone(), id.clone());
    let output = turn.call("terminal/output", &request).await?;
    let request = ReleaseTerminalRequest::new(session, id.clone());
    turn.call::<_, Option<serde_json::Value>>("terminal/release", &request)
        .await?;
    turn.loose_ends().terminals.remove(&*id.0);
    Ok((exited, output))
}

/// The answer with the tool that waits for it, or none if the tool has been ended because there is no answer.
async fn answer_or_failure<'a, T>(
    tool: Tool<'a>,
    answer: Result<T, CallError>,
) -> Result<Option<(Tool<'a>, T)>, Interrupted> {
    match answer {
        Ok(answer) => Ok(Some((tool, answer))),
        Err(CallError::Closed) => Err(Interrupted::Closed),
        Err(error) => {
            tool.fail(&words::chain(&error)).await?;
            Ok(None)
        }
    }
}

async fn said(turn: &Turn, words: &str) -> Outcome {
    turn.say(words).await?;
    Ok(StopReason::EndTurn)
}
