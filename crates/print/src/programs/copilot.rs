//! Copilot CLI: `copilot --output-format=json --silent`.

use std::ffi::OsString;

use domain::turn::{EventKind, Stop, ToolCall, ToolStatus, ToolUpdate, Usage};
use serde_json::Value;

use crate::{
    program::{
        Begin, Findings, Instructions, Invocation, Memory, Output, Program, Reader, Request,
        Servers,
    },
    reading::{Called, Streamed, items, number, other, text},
    servers::Form,
    tool,
};

pub(super) const PROGRAM: Program = Program {
    executable: Some("copilot"),
    invoke,
    output: Output::Lines(reader),
    memory: Memory::Sessions,
    servers: Servers::File(Form::Typed),
    instructions: Instructions::InPrompt,
};

fn invoke(request: &Request<'_>) -> Invocation {
    let mut invocation = Invocation::new(["--output-format=json", "--silent"]);
    invocation.option("--resume", request.resume);
    let servers = request.servers_file.map(|path| {
        let mut value = OsString::from("@");
        value.push(path);
        value
    });
    invocation.option("--additional-mcp-config", servers);
    invocation.option("--model", request.model);
    invocation.extend(request.args);
    if request.is_long() {
        invocation.stdin = Some(request.prompt.to_owned());
    } else {
        invocation.option("--prompt", Some(request.prompt));
    }
    invocation
}

fn reader(_: Begin) -> Box<dyn Reader> {
    Box::<CopilotReader>::default()
}

#[derive(Debug, Default)]
struct CopilotReader {
    texts: Streamed,
    thoughts: Streamed,
    called: Called,
    /// The sum of all calls of the model.
    usage: Usage,
    /// The last error that was told.
    error: Option<String>,
}

impl Reader for CopilotReader {
    fn read(&mut self, line: &Value, findings: &mut Findings) {
        let kind = text(line, &["type"]).unwrap_or_default();
        let body = &line["data"];
        // The words of an agent below are no part of the answer.
        let answers = body["parentToolCallId"].is_null();
        let field = |key| text(body, &[key]).unwrap_or_default();
        match kind {
            "assistant.message_delta" if answers => {
                self.texts.piece(field("messageId"), field("deltaContent"));
                findings.text(field("deltaContent"));
            }
            "assistant.message" => {
                if answers {
                    findings.text(self.texts.finish(field("messageId"), field("content")));
                }
                for request in items(&body["toolRequests"]) {
                    self.call(request, "name", ToolStatus::Pending, findings);
                }
            }
            "assistant.reasoning_delta" if answers => {
                let words = field("deltaContent");
                self.thoughts.piece(field("reasoningId"), words);
                findings.thought(words);
            }
            "assistant.reasoning" if answers => {
                let words = field("content");
                findings.thought(self.thoughts.finish(field("reasoningId"), words));
            }
            "tool.execution_start" => {
                self.call(body, "toolName", ToolStatus::InProgress, findings);
            }
            "tool.execution_partial_result" => {
                let output = &body["partialOutput"];
                let update = tool::update(field("toolCallId"), ToolStatus::InProgress, output);
                findings.push(EventKind::ToolUpdate(update));
            }
            "tool.execution_complete" => complete(body, findings),
            "assistant.usage" => self.usage(body, findings),
            "session.start" | "session.resume" => {
                findings.session = text(body, &["sessionId"]).map(str::to_owned);
            }
            "session.error" => {
                self.error = Some(field("message").to_owned());
                findings.notice(field("message"));
            }
            "result" => self.result(line, findings),
            _ => {}
        }
        if findings.events.is_empty() {
            findings.push(other(kind));
        }
    }
}

impl CopilotReader {
    fn call(&mut self, call: &Value, name: &str, status: ToolStatus, findings: &mut Findings) {
        let (Some(id), Some(name)) = (text(call, &["toolCallId"]), text(call, &[name])) else {
            return;
        };
        if !self.called.is_first(id) {
            findings.push(EventKind::ToolUpdate(ToolUpdate {
                id: id.to_owned(),
                status: Some(status),
                ..ToolUpdate::default()
            }));
            return;
        }
        let seen = tool::call(id, name, &call["arguments"], status);
        let title = text(call, &["toolTitle"]).map(tool::one_line);
        findings.push(EventKind::ToolCall(ToolCall {
            title: title.unwrap_or_else(|| seen.title.clone()),
            ..seen
        }));
    }

    fn usage(&mut self, body: &Value, findings: &mut Findings) {
        let add = |sum: Option<u64>, key| {
            let more = number(body, &[key]);
            sum.map_or(more, |sum| Some(sum + more.unwrap_or(0)))
        };
        self.usage.input_tokens = add(self.usage.input_tokens, "inputTokens");
        self.usage.output_tokens = add(self.usage.output_tokens, "outputTokens");
        findings.push(EventKind::Usage(self.usage));
    }

    fn result(&mut self, line: &Value, findings: &mut Findings) {
        findings.session = text(line, &["sessionId"]).map(str::to_owned);
        findings.stop = Some(match line["exitCode"].as_i64() {
            Some(0) => Stop::EndTurn,
            _ => Stop::Failed {
                message: self
                    .error
                    .take()
                    .unwrap_or_else(|| format!("it ended with code {}", line["exitCode"])),
            },
        });
    }
}

fn complete(body: &Value, findings: &mut Findings) {
    let (status, output) = if body["success"] == true {
        (ToolStatus::Completed, &body["result"]["content"])
    } else {
        (ToolStatus::Failed, &body["error"]["message"])
    };
    let id = text(body, &["toolCallId"]).unwrap_or_default();
    let update = tool::update(id, status, output);
    findings.push(EventKind::ToolUpdate(update));
}
