//! Values that several commands take: formats and `KEY=VALUE` pairs.

use clap::{Args, ValueEnum};

/// How a command prints what it found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs: the daemon's own answer
    Json,
    /// Names only, one per line
    Quiet,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormatArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: Format,
}

/// One `KEY=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl std::str::FromStr for Pair {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("write it as KEY=VALUE"),
        }
    }
}
