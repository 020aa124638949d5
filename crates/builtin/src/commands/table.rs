//! The table of commands: name, what follows it, what it does.

use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandInput, UnstructuredCommandInput,
};

use crate::words::Line;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    List,
    Read,
    Search,
    Write,
    Append,
    Run,
    Think,
    Plan,
    Ask,
    Mode,
    Pwd,
    Mcp,
    Skills,
    Env,
    Usage,
    Fs,
    Terminal,
    Slow,
    Burst,
    Fail,
    Refuse,
    Limit,
    Crash,
    Hang,
    Unknown,
    Late,
    Fork,
}

/// For whom a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Everybody: the overview lists it.
    Everyday,
    /// Whoever tests a client, or how agents are run.
    Testing,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) command: Command,
    pub(super) name: &'static str,
    /// Empty if nothing follows the name.
    pub(super) hint: &'static str,
    pub(super) description: &'static str,
    pub(super) audience: Audience,
}

const fn row(
    command: Command,
    audience: Audience,
    name: &'static str,
    hint: &'static str,
    description: &'static str,
) -> Row {
    Row {
        command,
        name,
        hint,
        description,
        audience,
    }
}

use Audience::{Everyday, Testing};

pub(super) const TABLE: [Row; 28] = [
    row(Command::Help, Everyday, "help", "", "Says what I can do"),
    row(Command::List, Everyday, "list", "[path]", "Lists a folder"),
    row(
        Command::Read,
        Everyday,
        "read",
        "path [line [limit]]",
        "Shows a file, or some of its lines",
    ),
    row(
        Command::Search,
        Everyday,
        "search",
        "text [path]",
        "Finds a text in the files",
    ),
    row(
        Command::Write,
        Everyday,
        "write",
        "path text",
        "Writes a file, after asking",
    ),
    row(
        Command::Append,
        Everyday,
        "append",
        "path text",
        "Adds a line to a file, after asking",
    ),
    row(
        Command::Run,
        Everyday,
        "run",
        "command",
        "Runs a shell command, after asking",
    ),
    row(
        Command::Think,
        Everyday,
        "think",
        "text",
        "Thinks aloud, then answers",
    ),
    row(
        Command::Plan,
        Everyday,
        "plan",
        "one; two; three",
        "Makes a plan and goes through it",
    ),
    row(
        Command::Ask,
        Everyday,
        "ask",
        "question",
        "Asks you, and repeats your answer",
    ),
    row(
        Command::Mode,
        Everyday,
        "mode",
        "ask | auto | plan",
        "Shows or changes whether I ask first",
    ),
    row(Command::Pwd, Everyday, "pwd", "", "Says where I work"),
    row(
        Command::Mcp,
        Everyday,
        "mcp",
        "",
        "Names the MCP servers of this session",
    ),
    row(
        Command::Skills,
        Everyday,
        "skills",
        "",
        "Lists the skills in the workspace",
    ),
    row(
        Command::Env,
        Everyday,
        "env",
        "NAME",
        "Says whether a variable is set",
    ),
    row(Command::Usage, Testing, "usage", "", "Sends a usage update"),
    row(
        Command::Fs,
        Testing,
        "fs",
        "read path | write path text",
        "Uses the client's own file methods",
    ),
    row(
        Command::Terminal,
        Testing,
        "terminal",
        "command",
        "Uses the client's own terminal methods",
    ),
    row(
        Command::Slow,
        Testing,
        "slow",
        "N [ms]",
        "Sends N chunks, each after some milliseconds",
    ),
    row(
        Command::Burst,
        Testing,
        "burst",
        "N [bytes]",
        "Sends N numbered chunks as fast as possible",
    ),
    row(
        Command::Fail,
        Testing,
        "fail",
        "[message]",
        "Answers the prompt with an error",
    ),
    row(
        Command::Refuse,
        Testing,
        "refuse",
        "",
        "Ends the turn with a refusal",
    ),
    row(
        Command::Limit,
        Testing,
        "limit",
        "",
        "Ends the turn at the token limit",
    ),
    row(
        Command::Crash,
        Testing,
        "crash",
        "[code]",
        "Ends the process in the middle of the turn",
    ),
    row(
        Command::Hang,
        Testing,
        "hang",
        "",
        "Never ends until it is cancelled",
    ),
    row(
        Command::Unknown,
        Testing,
        "unknown",
        "",
        "Sends an unknown update and an unknown request",
    ),
    row(
        Command::Late,
        Testing,
        "late",
        "",
        "Sends an update after the turn has ended",
    ),
    row(
        Command::Fork,
        Testing,
        "fork",
        "",
        "Leaves a process behind that left the group: for tests that nothing survives",
    ),
];

/// The command a line means. Without a slash a word that takes nothing after it must stand alone: "help me with
/// this" is a sentence, and so is "hang on".
pub(super) fn find(line: &Line<'_>) -> Option<Command> {
    let row = TABLE.iter().find(|row| row.name == line.name);
    row.filter(|row| line.slash || !row.hint.is_empty() || line.rest.is_empty())
        .map(|row| row.command)
}

/// The commands as the protocol describes them.
pub(crate) fn available() -> Vec<AvailableCommand> {
    let describe = |row: &Row| {
        let command = AvailableCommand::new(row.name, row.description);
        if row.hint.is_empty() {
            return command;
        }
        let input = UnstructuredCommandInput::new(row.hint);
        command.input(AvailableCommandInput::Unstructured(input))
    };
    TABLE.iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(text: &str) -> Option<Command> {
        find(&Line::parse(text).unwrap())
    }

    #[test]
    fn every_name_finds_its_own_command() {
        for row in &TABLE {
            assert_eq!(meant(row.name), Some(row.command), "{}", row.name);
            assert_eq!(
                meant(&format!("/{} x", row.name)),
                Some(row.command),
                "{}",
                row.name
            );
        }
        assert_eq!(meant("/nonsense"), None);
    }

    #[test]
    fn a_sentence_that_starts_with_a_word_of_ours_is_a_sentence() {
        assert_eq!(meant("help me with this"), None);
        assert_eq!(meant("hang on a second"), None);
        assert_eq!(meant("read notes.txt"), Some(Command::Read));
    }
}
