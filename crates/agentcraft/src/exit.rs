//! The exit codes of the command. They are documented in docs/cli.md, and scripts rely on them.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    /// The operation was understood and failed.
    Failed,
    /// The command line makes no sense; the argument parser uses the same number.
    Usage,
    /// There is no daemon, or it stopped answering.
    Unreachable,
    /// The agent, template or component does not exist.
    NotFound,
    /// A configuration, template or component file is wrong.
    Invalid,
    /// A run of a workflow ended with this number, by the rules of its format; never zero.
    Run(u8),
}

impl Exit {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::NotFound => 4,
            Self::Invalid => 5,
            Self::Run(number) => number,
        }
    }

    /// The end of a run, or of the attempt to begin one.
    pub(crate) fn of_run(number: i32) -> Self {
        Self::Run(u8::try_from(number).unwrap_or(1).max(1))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.number().into()
    }
}
