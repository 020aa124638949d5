//! OpenCode: `opencode run --format=json`.

use domain::turn::{EventKind, Stop, ToolCall, ToolStatus, ToolUpdate, Usage};
use serde_json::Value;

use crate::{
    program::{
        Begin, Findings, Instructions, Invocation, Memory, Output, Program, Reader, Request,
        Servers,
    },
    reading::{Called, Streamed, number, other, plan, text},
    servers, tool,
};

pub(super) const PROGRAM: Program = Program {
    executable: Some("opencode"),
    invoke,
    output: Output::Lines(reader),
    memory: Memory::Sessions,
    servers: Servers::Variable,
    instructions: Instructions::InPrompt,
};

fn invoke(request: &Request<'_>) -> Invocation {
    let mut invocation = Invocation::new(["run", "--format=json", "--thinking"]);
    invocation.option("--session", request.resume);
    invocation.option("--model", request.model);
    invocation.extend(request.args);
    if let Some(configuration) = servers::configuration(request) {
        invocation
            .env
            .insert(servers::CONFIGURATION.into(), configuration);
    }
    // It puts an argument with spaces into quotes and waits for the end of its input anyway, so the words go there.
    invocation.stdin = Some(request.prompt.to_owned());
    invocation
}

fn reader(_: Begin) -> Box<dyn Reader> {
    Box::<OpenCodeReader>::default()
}

#[derive(Debug, Default)]
struct OpenCodeReader {
    parts: Streamed,
    called: Called,
    /// The sum of all steps.
    usage: Usage,
    /// Why the last step ended.
    stop: Option<Stop>,
}

impl Reader for OpenCodeReader {
    fn read(&mut self, line: &Value, findings: &mut Findings) {
        findings.session = text(line, &["sessionID"]).map(str::to_owned);
        let kind = text(line, &["type"]).unwrap_or_default();
        let part = &line["part"];
        let id = text(part, &["id"]).unwrap_or_default();
        let words = text(part, &["text"]).unwrap_or_default();
        match kind {
            "text" => findings.text(self.parts.grow(id, words)),
            "reasoning" => findings.thought(self.parts.grow(id, words)),
            "tool_use" => self.tool(part, findings),
            "step_finish" => self.step(part, findings),
            "error" => {
                let message = text(line, &["error", "data", "message"])
                    .or_else(|| text(line, &["error", "message"]))
                    .or_else(|| text(line, &["error", "name"]))
                    .unwrap_or("an error without words");
                findings.notice(message);
                self.stop = Some(Stop::Failed {
                    message: message.to_owned(),
                });
            }
            _ => {}
        }
        if findings.events.is_empty() {
            findings.push(other(kind));
        }
    }

    fn silent_stop(&self) -> Option<Stop> {
        Some(self.stop.clone().unwrap_or(Stop::EndTurn))
    }
}

impl OpenCodeReader {
    fn tool(&mut self, part: &Value, findings: &mut Findings) {
        let state = &part["state"];
        let id = text(part, &["callID"]).or_else(|| text(part, &["id"]));
        let (Some(id), Some(name)) = (id, text(part, &["tool"])) else {
            return;
        };
        let (status, output) = match text(state, &["status"]) {
            Some("completed") => (ToolStatus::Completed, &state["output"]),
            Some("error") => (ToolStatus::Failed, &state["error"]),
            Some("pending") => (ToolStatus::Pending, &Value::Null),
            _ => (ToolStatus::InProgress, &Value::Null),
        };
        let title = text(state, &["title"]).filter(|title| !title.is_empty());
        if !self.called.is_first(id) {
            findings.push(EventKind::ToolUpdate(ToolUpdate {
                title: title.map(tool::one_line),
                input: tool::json(&state["input"]),
                ..tool::update(id, status, output)
            }));
            return;
        }
        let call = tool::call(id, name, &state["input"], status);
        findings.push(EventKind::ToolCall(ToolCall {
            title: title.map_or(call.title.clone(), tool::one_line),
            content: tool::content(output).unwrap_or_default(),
            output: tool::json(output),
            ..call
        }));
        if tool::is_plan(name) {
            findings.push(plan(&state["input"]["todos"], "content"));
        }
    }

    fn step(&mut self, part: &Value, findings: &mut Findings) {
        let tokens = &part["tokens"];
        let paths: [&[&str]; 3] = [&["input"], &["cache", "read"], &["cache", "write"]];
        let input: u64 = paths.iter().filter_map(|path| number(tokens, path)).sum();
        let output = number(tokens, &["output"]).unwrap_or(0);
        let cost = part["cost"].as_f64().unwrap_or(0.0);
        self.usage = Usage {
            input_tokens: Some(self.usage.input_tokens.unwrap_or(0) + input),
            output_tokens: Some(self.usage.output_tokens.unwrap_or(0) + output),
            cost_usd: Some(self.usage.cost_usd.unwrap_or(0.0) + cost),
        };
        findings.push(EventKind::Usage(self.usage));
        self.stop = match text(part, &["reason"]) {
            Some("length") => Some(Stop::MaxTokens),
            Some("content-filter") => Some(Stop::Refusal),
            _ => None,
        };
    }
}
