//! Any program of the user's: it gets the prompt, and what it prints is the answer.

use crate::program::{Instructions, Invocation, Memory, Output, Program, Request, Servers};

/// Stands for the prompt in an argument.
const PROMPT: &str = "{{prompt}}";

/// As a whole argument, which is left out: the prompt comes on standard input.
const STDIN: &str = "{{stdin}}";

pub(super) const PROGRAM: Program = Program {
    executable: None,
    invoke,
    output: Output::Text,
    memory: Memory::None,
    servers: Servers::Untold,
    instructions: Instructions::InPrompt,
};

fn invoke(request: &Request<'_>) -> Invocation {
    let mut invocation = Invocation::default();
    for arg in request.args.iter().filter(|arg| *arg != STDIN) {
        invocation.add(arg.replace(PROMPT, request.prompt));
    }
    if request.args.iter().any(|arg| arg == STDIN) {
        invocation.stdin = Some(request.prompt.to_owned());
    } else if !request.args.iter().any(|arg| arg.contains(PROMPT)) {
        // A program that takes options decides itself whether a `--` comes before this, so none is added.
        invocation.add(request.prompt);
    }
    invocation
}
