//! The exit codes of the command. They are documented in docs/cli.md, and scripts rely on them.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Success = 0,
    /// The operation was understood and failed.
    Failed = 1,
    /// The command line makes no sense; the argument parser uses the same number.
    Usage = 2,
    /// There is no daemon, or it stopped answering.
    Unreachable = 3,
    /// The agent, template or component does not exist.
    NotFound = 4,
    /// A configuration, template or component file is wrong.
    Invalid = 5,
}

impl Exit {
    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.number().into()
    }
}
