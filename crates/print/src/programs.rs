//! The table of programs that have a print mode.

mod claude;
mod codex;
mod command;
mod copilot;
mod gemini;
mod opencode;
mod qwen;

use crate::program::Program;

/// The program of a backend, if it can be run once for each prompt.
pub(crate) fn find(backend: &str) -> Option<Program> {
    match backend {
        "claude-code" => Some(claude::PROGRAM),
        "codex" => Some(codex::PROGRAM),
        "gemini" => Some(gemini::PROGRAM),
        "qwen" => Some(qwen::PROGRAM),
        "opencode" => Some(opencode::PROGRAM),
        "copilot" => Some(copilot::PROGRAM),
        "command" => Some(command::PROGRAM),
        _ => None,
    }
}
