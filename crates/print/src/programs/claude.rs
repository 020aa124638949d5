//! Claude Code: `claude -p --output-format stream-json --verbose --include-partial-messages`. Qwen Code prints the same
//! lines.

use domain::turn::{EventKind, Stop, ToolStatus, Usage};
use serde_json::Value;

use crate::{
    program::{
        Begin, Findings, Instructions, Invocation, Memory, Output, Program, Reader, Request,
        Servers,
    },
    reading::{Called, Streamed, at, items, number, other, plan, text},
    servers::Form,
    tool,
};

pub(super) const PROGRAM: Program = Program {
    executable: Some("claude"),
    invoke,
    output: Output::Lines(reader),
    memory: Memory::Sessions,
    servers: Servers::File(Form::Typed),
    instructions: Instructions::Option,
};

fn invoke(request: &Request<'_>) -> Invocation {
    let mut invocation = Invocation::default();
    // It takes every argument up to the next option for a further file, so an option has to follow.
    invocation.pair("--mcp-config", request.servers_file);
    // Without `--verbose` this format is refused; without the pieces, words come only when a whole message is there.
    for arg in [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
    ] {
        invocation.add(arg);
    }
    let options = request.options;
    let turns = options.max_turns.map(|turns| turns.to_string());
    let append = options.append_system_prompt.as_ref();
    invocation.pair("--system-prompt-file", options.system_prompt_file.as_ref());
    invocation.pair("--append-system-prompt", append);
    invocation.pair("--resume", request.resume);
    invocation.pair("--max-turns", turns);
    invocation.pair("--model", request.model);
    invocation.extend(request.args);
    if request.is_long() {
        invocation.stdin = Some(request.prompt.to_owned());
    } else {
        invocation.add("--");
        invocation.add(request.prompt);
    }
    invocation
}

pub(super) fn reader(_: Begin) -> Box<dyn Reader> {
    Box::<ClaudeReader>::default()
}

#[derive(Debug, Default)]
struct ClaudeReader {
    /// The message whose pieces come now.
    message: String,
    texts: Streamed,
    thoughts: Streamed,
    /// Whether there was any text of the answer.
    answered: bool,
    called: Called,
}

impl Reader for ClaudeReader {
    fn read(&mut self, line: &Value, findings: &mut Findings) {
        findings.session = text(line, &["session_id"]).map(str::to_owned);
        match text(line, &["type"]) {
            Some("assistant") => self.assistant(line, findings),
            Some("user") => user(line, findings),
            Some("stream_event") => self.piece(line, findings),
            Some("result") => self.result(line, findings),
            Some(kind) => {
                let subtype = text(line, &["subtype"]).map(|subtype| format!("/{subtype}"));
                findings.push(other(format!("{kind}{}", subtype.unwrap_or_default())));
            }
            None => {}
        }
    }
}

impl ClaudeReader {
    fn assistant(&mut self, line: &Value, findings: &mut Findings) {
        let message = text(line, &["message", "id"]).unwrap_or_default();
        // The words of an agent below are no part of the answer, and those of an error come again with the result.
        let answers = line["parent_tool_use_id"].is_null() && line["error"].is_null();
        for block in items(at(line, &["message", "content"])) {
            let words = |key| text(block, &[key]).unwrap_or_default();
            match block["type"].as_str() {
                Some("text") if answers => {
                    findings.text(self.texts.finish(message, words("text")));
                    self.answered |= !words("text").is_empty();
                }
                Some("thinking") if answers => {
                    findings.thought(self.thoughts.finish(message, words("thinking")));
                }
                Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                    self.call(block, findings);
                }
                Some(kind) if kind.ends_with("_tool_result") => answer(block, findings),
                _ => {}
            }
        }
        if findings.events.is_empty() {
            findings.push(other("assistant"));
        }
    }

    fn call(&mut self, block: &Value, findings: &mut Findings) {
        let (Some(id), Some(name)) = (text(block, &["id"]), text(block, &["name"])) else {
            return;
        };
        if !self.called.is_first(id) {
            return; // A message that is printed again calls nothing again.
        }
        let input = &block["input"];
        let call = tool::call(id, name, input, ToolStatus::InProgress);
        findings.push(EventKind::ToolCall(call));
        if tool::is_plan(name) {
            findings.push(plan(&input["todos"], "content"));
        }
    }

    /// A piece of a message, printed with `--include-partial-messages`; the whole message follows.
    fn piece(&mut self, line: &Value, findings: &mut Findings) {
        findings.comes_again = true;
        // The words of an agent below are no part of the answer, and its messages come between those of the one above.
        if !line["parent_tool_use_id"].is_null() {
            return;
        }
        let event = &line["event"];
        if let Some(id) = text(event, &["message", "id"]) {
            id.clone_into(&mut self.message);
        }
        let delta = &event["delta"];
        if let Some(words) = text(delta, &["text"]) {
            self.texts.piece(&self.message, words);
            self.answered |= !words.is_empty();
            findings.text(words);
        } else if let Some(words) = text(delta, &["thinking"]) {
            self.thoughts.piece(&self.message, words);
            findings.thought(words);
        }
    }

    fn result(&mut self, line: &Value, findings: &mut Findings) {
        let words = text(line, &["result"]).unwrap_or_default();
        let subtype = text(line, &["subtype"]).unwrap_or_default();
        let failed = line["is_error"] == true || subtype.starts_with("error");
        if !self.answered && !failed {
            findings.text(words); // Of a command that is answered without the model, only this tells.
        }
        findings.push(usage(line));
        for denial in items(&line["permission_denials"]) {
            let name = text(denial, &["tool_name"]).unwrap_or("a tool");
            let title = tool::call("", name, &denial["tool_input"], ToolStatus::Failed).title;
            findings.notice(format!(
                "not allowed, and nobody could be asked in print mode: {title}"
            ));
        }
        findings.stop = Some(match text(line, &["stop_reason"]) {
            _ if subtype == "error_max_turns" => Stop::MaxTurnRequests,
            _ if failed => Stop::Failed {
                message: failure(line, words, subtype),
            },
            Some("max_tokens") => Stop::MaxTokens,
            Some("refusal") => Stop::Refusal,
            _ => Stop::EndTurn,
        });
    }
}

fn user(line: &Value, findings: &mut Findings) {
    for block in items(at(line, &["message", "content"])) {
        if block["type"] == "tool_result" {
            answer(block, findings);
        }
    }
    if findings.events.is_empty() {
        findings.push(other("user"));
    }
}

fn answer(block: &Value, findings: &mut Findings) {
    let Some(id) = text(block, &["tool_use_id"]) else {
        return;
    };
    let status = if block["is_error"] == true {
        ToolStatus::Failed
    } else {
        ToolStatus::Completed
    };
    let update = tool::update(id, status, &block["content"]);
    findings.push(EventKind::ToolUpdate(update));
}

fn usage(line: &Value) -> EventKind {
    let usage = &line["usage"];
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached: u64 = cached.iter().filter_map(|key| number(usage, &[key])).sum();
    EventKind::Usage(Usage {
        input_tokens: number(usage, &["input_tokens"]).map(|tokens| tokens + cached),
        output_tokens: number(usage, &["output_tokens"]),
        cost_usd: line["total_cost_usd"].as_f64(),
    })
}

fn failure(line: &Value, words: &str, subtype: &str) -> String {
    let told: Vec<&str> = items(&line["errors"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    if !words.is_empty() {
        words.to_owned()
    } else if let Some(message) = text(line, &["error", "message"]) {
        message.to_owned()
    } else if told.is_empty() {
        format!("it ended with {subtype:?}")
    } else {
        told.join("; ")
    }
}
