//! Gemini CLI: `gemini --output-format=stream-json`.

use domain::turn::{EventKind, Stop, ToolStatus, Usage};
use serde_json::Value;

use crate::{
    program::{
        Begin, Findings, Instructions, Invocation, Memory, Output, Program, Reader, Request,
        Servers,
    },
    reading::{Streamed, number, other, text},
    tool,
};

/// Messages have no ids: pieces of one come in a row.
const MESSAGE: &str = "message";

pub(super) const PROGRAM: Program = Program {
    executable: Some("gemini"),
    invoke,
    output: Output::Lines(reader),
    memory: Memory::Sessions,
    // A file that it is told of has to be root's, and so has every folder above it.
    servers: Servers::Untold,
    instructions: Instructions::InPrompt,
};

fn invoke(request: &Request<'_>) -> Invocation {
    let mut invocation = Invocation::new(["--output-format=stream-json"]);
    invocation.option("--resume", request.resume);
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
    Box::<GeminiReader>::default()
}

#[derive(Debug, Default)]
struct GeminiReader {
    texts: Streamed,
    /// How many calls came without an id.
    nameless: usize,
}

impl Reader for GeminiReader {
    fn read(&mut self, line: &Value, findings: &mut Findings) {
        let kind = text(line, &["type"]).unwrap_or_default();
        findings.session = text(line, &["session_id"]).map(str::to_owned);
        match kind {
            "message" if line["role"] == "assistant" => {
                let words = text(line, &["content"]).unwrap_or_default();
                if line["delta"] == true {
                    self.texts.piece(MESSAGE, words);
                    findings.text(words);
                } else {
                    findings.text(self.texts.finish(MESSAGE, words));
                }
            }
            "tool_use" => self.call(line, findings),
            "tool_result" => self.answer(line, findings),
            "error" => {
                findings.notice(text(line, &["message"]).unwrap_or("an error without words"))
            }
            "result" => result(line, findings),
            _ => {}
        }
        if findings.events.is_empty() {
            findings.push(other(kind));
        }
    }
}

impl GeminiReader {
    fn call(&mut self, line: &Value, findings: &mut Findings) {
        self.texts = Streamed::default(); // The next words are of another message.
        let id = text(line, &["tool_id"]).map_or_else(
            || {
                self.nameless += 1;
                format!("tool-{}", self.nameless)
            },
            str::to_owned,
        );
        let name = text(line, &["tool_name"]).unwrap_or("tool");
        let call = tool::call(&id, name, &line["parameters"], ToolStatus::InProgress);
        findings.push(EventKind::ToolCall(call));
    }

    fn answer(&self, line: &Value, findings: &mut Findings) {
        // An answer without an id is that of the last call without one.
        let id = text(line, &["tool_id"])
            .map_or_else(|| format!("tool-{}", self.nameless), str::to_owned);
        let (status, output) = if line["status"] == "success" {
            (ToolStatus::Completed, &line["output"])
        } else if line["output"].is_null() {
            (ToolStatus::Failed, &line["error"]["message"])
        } else {
            (ToolStatus::Failed, &line["output"])
        };
        let update = tool::update(&id, status, output);
        findings.push(EventKind::ToolUpdate(update));
    }
}

fn result(line: &Value, findings: &mut Findings) {
    let stats = &line["stats"];
    if stats.is_object() {
        findings.push(EventKind::Usage(Usage {
            input_tokens: number(stats, &["input_tokens"]),
            output_tokens: number(stats, &["output_tokens"]),
            cost_usd: None,
        }));
    }
    let error = &line["error"];
    let kind = text(error, &["type"]).unwrap_or_default();
    findings.stop = Some(if line["status"] == "success" {
        Stop::EndTurn
    } else if kind.contains("TurnLimited") || kind == "MAX_TURNS_EXCEEDED" {
        Stop::MaxTurnRequests
    } else {
        Stop::Failed {
            message: text(error, &["message"])
                .unwrap_or("it ended with an error without words")
                .to_owned(),
        }
    });
}
