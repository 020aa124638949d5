//! Qwen Code: `qwen --output-format=stream-json`, which prints what Claude Code prints.

use crate::{
    program::{Instructions, Invocation, Memory, Output, Program, Request, Servers},
    servers::Form,
};

pub(super) const PROGRAM: Program = Program {
    executable: Some("qwen"),
    invoke,
    output: Output::Lines(super::claude::reader),
    memory: Memory::Sessions,
    servers: Servers::File(Form::ByKey),
    instructions: Instructions::Option,
};

fn invoke(request: &Request<'_>) -> Invocation {
    let mut invocation = Invocation::new(["--output-format=stream-json"]);
    let options = request.options;
    invocation.option("--resume", request.resume);
    invocation.option("--append-system-prompt", options.instructions());
    invocation.option(
        "--max-session-turns",
        options.max_turns.map(|turns| turns.to_string()),
    );
    invocation.option("--mcp-config", request.servers_file);
    invocation.option("--model", request.model);
    invocation.extend(request.args);
    if request.is_long() {
        invocation.stdin = Some(request.prompt.to_owned());
    } else {
        invocation.option("--prompt", Some(request.prompt));
    }
    invocation
}
