//! Codex: `codex exec --json`.

use domain::turn::{EventKind, Stop, ToolCall, ToolKind, ToolStatus, ToolUpdate, Usage};
use serde_json::{Value, json};

use crate::{
    program::{
        Begin, Findings, Instructions, Invocation, Memory, Output, Program, Reader, Request,
        Servers,
    },
    reading::{Called, Streamed, items, number, other, plan, text},
    servers, tool,
};

pub(super) const PROGRAM: Program = Program {
    executable: Some("codex"),
    invoke,
    output: Output::Lines(reader),
    memory: Memory::Sessions,
    servers: Servers::Settings,
    instructions: Instructions::InPrompt,
};

fn invoke(request: &Request<'_>) -> Invocation {
    let mut invocation = Invocation::new(["exec", "--json", "--skip-git-repo-check"]);
    for (index, server) in request.servers.iter().enumerate() {
        let (setting, env) = servers::setting(index, server);
        invocation.pair("-c", Some(setting));
        invocation.env.extend(env);
    }
    invocation.option("--model", request.model);
    invocation.extend(request.args);
    if let Some(session) = request.resume {
        invocation.add("resume");
        invocation.add(session);
    }
    // A prompt that is only a dash would mean the standard input too.
    if request.is_long() || request.prompt == "-" {
        invocation.add("-");
        invocation.stdin = Some(request.prompt.to_owned());
    } else {
        invocation.add("--");
        invocation.add(request.prompt);
    }
    invocation
}

fn reader(begin: Begin) -> Box<dyn Reader> {
    // Items are counted from zero in every run, so in a later turn they would meet those of the first.
    let suffix = match begin {
        Begin::Fresh => String::new(),
        Begin::Resumed => format!("-{}", &platform::owner::fresh_id()[..8]),
    };
    Box::new(CodexReader {
        suffix,
        ..CodexReader::default()
    })
}

#[derive(Debug, Default)]
struct CodexReader {
    /// Makes the ids of this run its own.
    suffix: String,
    texts: Streamed,
    called: Called,
}

impl Reader for CodexReader {
    fn read(&mut self, line: &Value, findings: &mut Findings) {
        let kind = text(line, &["type"]).unwrap_or_default();
        findings.session = text(line, &["thread_id"]).map(str::to_owned);
        match kind {
            "item.started" | "item.updated" | "item.completed" => {
                self.item(kind, &line["item"], findings);
            }
            "turn.completed" => {
                let usage = &line["usage"];
                findings.push(EventKind::Usage(Usage {
                    input_tokens: number(usage, &["input_tokens"]),
                    output_tokens: number(usage, &["output_tokens"]),
                    cost_usd: None,
                }));
                findings.stop = Some(Stop::EndTurn);
            }
            "turn.failed" => {
                let message = text(line, &["error", "message"]);
                findings.failed(message.unwrap_or("it ended with an error without words"));
            }
            // Also said when a connection is tried again, so it does not end the turn.
            "error" => {
                findings.notice(text(line, &["message"]).unwrap_or("an error without words"))
            }
            _ => {}
        }
        if findings.events.is_empty() {
            findings.push(other(kind));
        }
    }
}

impl CodexReader {
    fn item(&mut self, event: &str, item: &Value, findings: &mut Findings) {
        let kind = text(item, &["type"]).unwrap_or_default();
        let id = text(item, &["id"]).unwrap_or_default();
        let words = text(item, &["text"]).unwrap_or_default();
        match kind {
            "agent_message" | "assistant_message" => findings.text(self.texts.grow(id, words)),
            "reasoning" => findings.thought(self.texts.grow(id, words)),
            "todo_list" => findings.push(plan(&item["items"], "text")),
            "error" => {
                findings.notice(text(item, &["message"]).unwrap_or("an error without words"))
            }
            _ => match call(kind, item) {
                Some(call) => self.tool(event, id, call, findings),
                None => findings.push(other(format!("{event}/{kind}"))),
            },
        }
    }

    /// The first sight of an item is a call, everything later an update.
    fn tool(&mut self, event: &str, id: &str, mut call: ToolCall, findings: &mut Findings) {
        call.id = format!("{id}{}", self.suffix);
        if event == "item.completed" && call.status == ToolStatus::InProgress {
            call.status = ToolStatus::Completed; // Some items have no status of their own.
        }
        if self.called.is_first(id) {
            findings.push(EventKind::ToolCall(call));
            return;
        }
        findings.push(EventKind::ToolUpdate(ToolUpdate {
            id: call.id,
            title: Some(call.title),
            name: None,
            kind: None,
            status: Some(call.status),
            locations: (!call.locations.is_empty()).then_some(call.locations),
            content: (!call.content.is_empty()).then_some(call.content),
            input: call.input,
            output: call.output,
        }));
    }
}

/// An item that is a tool call, without its id.
fn call(kind: &str, item: &Value) -> Option<ToolCall> {
    let words = |key| text(item, &[key]).unwrap_or_default();
    // Its own acts have no other names than what sort of item they are; tools of servers are named as in requests.
    let name = match kind {
        "mcp_tool_call" => format!("mcp__{}__{}", words("server"), words("tool")),
        own => own.to_owned(),
    };
    let (kind, title, input, output) = match kind {
        "command_execution" => {
            let input = json!({"command": words("command")});
            let output = &item["aggregated_output"];
            (
                ToolKind::Execute,
                words("command").to_owned(),
                input,
                output,
            )
        }
        "file_change" => {
            let paths: Vec<&str> = items(&item["changes"])
                .iter()
                .filter_map(|change| text(change, &["path"]))
                .collect();
            let input = json!({"changes": item["changes"]});
            let title = format!("Edit {}", paths.join(", "));
            (ToolKind::Edit, title, input, &Value::Null)
        }
        "mcp_tool_call" => {
            let title = format!("{}: {}", words("server"), words("tool"));
            let output = if item["error"].is_null() {
                &item["result"]
            } else {
                &item["error"]["message"]
            };
            (ToolKind::Other, title, item["arguments"].clone(), output)
        }
        "web_search" => {
            let input = json!({"query": words("query")});
            let title = format!("Search the web: {}", words("query"));
            (ToolKind::Fetch, title, input, &Value::Null)
        }
        _ => return None,
    };
    // The output of a command that has only begun is empty, which is not an output.
    let output = if output == "" { &Value::Null } else { output };
    Some(ToolCall {
        id: String::new(),
        title: tool::one_line(&title),
        name: Some(name),
        kind,
        status: status(item),
        locations: items(&item["changes"])
            .iter()
            .filter_map(|change| text(change, &["path"]))
            .map(tool::location)
            .collect(),
        content: tool::content(output)
            .or_else(|| tool::content(&output["content"]))
            .unwrap_or_default(),
        input: tool::json(&input),
        output: tool::json(output),
    })
}

fn status(item: &Value) -> ToolStatus {
    match text(item, &["status"]) {
        Some("completed") => ToolStatus::Completed,
        Some("failed" | "declined") => ToolStatus::Failed,
        _ => ToolStatus::InProgress,
    }
}
