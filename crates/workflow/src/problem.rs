//! What is wrong with a workflow file or with the values it was given: a code, a place, words, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The workflow runs, but probably not as it was meant.
    Warning,
    /// The workflow cannot be run.
    Error,
}

/// What kind of problem it is; programs rely on the written form, `CATEGORY.SUBJECT.SPECIFIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    YamlSyntax,
    UnknownField,
    WrongType,
    MissingField,
    InvalidValue,
    CycleDetected,
    MissingState,
    InvalidTransition,
    Unreachable,
    InvalidTemplate,
    InvalidReference,
    InvalidExpression,
    UnsafeCommand,
    InputMissingFile,
    InputInvalidFormat,
    InputValidationFailed,
    InputMissingSkill,
    InputMissingRole,
    McpProxyUnknownKey,
    McpProxyEmpty,
    McpProxyUnsupported,
    CommandFailed,
    CommandTimeout,
    ParallelPartialFailure,
    AgentFailed,
    OperationFailed,
    WorkflowFailed,
    WorkflowNesting,
    WorkflowCircular,
    LoopFailed,
    ApprovalDenied,
    StepInterrupted,
    StepsMax,
    RunCancelled,
    SystemIo,
}

impl Code {
    /// The form that programs read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::YamlSyntax => "WORKFLOW.PARSE.YAML_SYNTAX",
            Self::UnknownField => "WORKFLOW.PARSE.UNKNOWN_FIELD",
            Self::WrongType => "WORKFLOW.PARSE.WRONG_TYPE",
            Self::MissingField => "WORKFLOW.VALIDATION.MISSING_FIELD",
            Self::InvalidValue => "WORKFLOW.VALIDATION.INVALID_VALUE",
            Self::CycleDetected => "WORKFLOW.VALIDATION.CYCLE_DETECTED",
            Self::MissingState => "WORKFLOW.VALIDATION.MISSING_STATE",
            Self::InvalidTransition => "WORKFLOW.VALIDATION.INVALID_TRANSITION",
            Self::Unreachable => "WORKFLOW.VALIDATION.UNREACHABLE",
            Self::InvalidTemplate => "WORKFLOW.VALIDATION.INVALID_TEMPLATE",
            Self::InvalidReference => "WORKFLOW.VALIDATION.INVALID_REFERENCE",
            Self::InvalidExpression => "WORKFLOW.VALIDATION.INVALID_EXPRESSION",
            Self::UnsafeCommand => "WORKFLOW.VALIDATION.UNSAFE_COMMAND",
            Self::InputMissingFile => "USER.INPUT.MISSING_FILE",
            Self::InputInvalidFormat => "USER.INPUT.INVALID_FORMAT",
            Self::InputValidationFailed => "USER.INPUT.VALIDATION_FAILED",
            Self::InputMissingSkill => "USER.INPUT.MISSING_SKILL",
            Self::InputMissingRole => "USER.INPUT.MISSING_ROLE",
            Self::McpProxyUnknownKey => "USER.MCP_PROXY.UNKNOWN_KEY",
            Self::McpProxyEmpty => "USER.MCP_PROXY.EMPTY_PROXY",
            Self::McpProxyUnsupported => "USER.MCP_PROXY.UNSUPPORTED_PROVIDER",
            Self::CommandFailed => "EXECUTION.COMMAND.FAILED",
            Self::CommandTimeout => "EXECUTION.COMMAND.TIMEOUT",
            Self::ParallelPartialFailure => "EXECUTION.PARALLEL.PARTIAL_FAILURE",
            Self::AgentFailed => "EXECUTION.AGENT.FAILED",
            Self::OperationFailed => "EXECUTION.OPERATION.FAILED",
            Self::WorkflowFailed => "EXECUTION.WORKFLOW.FAILED",
            Self::WorkflowNesting => "EXECUTION.WORKFLOW.NESTING",
            Self::WorkflowCircular => "EXECUTION.WORKFLOW.CIRCULAR",
            Self::LoopFailed => "EXECUTION.LOOP.FAILED",
            Self::ApprovalDenied => "EXECUTION.APPROVAL.DENIED",
            Self::StepInterrupted => "EXECUTION.STEP.INTERRUPTED",
            Self::StepsMax => "EXECUTION.STEP.TOO_MANY",
            Self::RunCancelled => "EXECUTION.RUN.CANCELLED",
            Self::SystemIo => "SYSTEM.IO.READ_FAILED",
        }
    }

    /// What a command that ends because of this problem exits with.
    ///
    /// A file that cannot be parsed is the user's (1), one that says something impossible is the workflow's (2).
    pub fn exit_code(self) -> i32 {
        match self.as_str().split('.').next() {
            Some("WORKFLOW") if self.is_of_parsing() => 1,
            Some("WORKFLOW") => 2,
            Some("EXECUTION") => 3,
            Some("SYSTEM") => 4,
            _ => 1,
        }
    }

    fn is_of_parsing(self) -> bool {
        self.as_str().starts_with("WORKFLOW.PARSE.")
    }

    /// Every code there is, for documentation and for reading one back.
    pub const ALL: [Self; 35] = [
        Self::YamlSyntax,
        Self::UnknownField,
        Self::WrongType,
        Self::MissingField,
        Self::InvalidValue,
        Self::CycleDetected,
        Self::MissingState,
        Self::InvalidTransition,
        Self::Unreachable,
        Self::InvalidTemplate,
        Self::InvalidReference,
        Self::InvalidExpression,
        Self::UnsafeCommand,
        Self::InputMissingFile,
        Self::InputInvalidFormat,
        Self::InputValidationFailed,
        Self::InputMissingSkill,
        Self::InputMissingRole,
        Self::McpProxyUnknownKey,
        Self::McpProxyEmpty,
        Self::McpProxyUnsupported,
        Self::CommandFailed,
        Self::CommandTimeout,
        Self::ParallelPartialFailure,
        Self::AgentFailed,
        Self::OperationFailed,
        Self::WorkflowFailed,
        Self::WorkflowNesting,
        Self::WorkflowCircular,
        Self::LoopFailed,
        Self::ApprovalDenied,
        Self::StepInterrupted,
        Self::StepsMax,
        Self::RunCancelled,
        Self::SystemIo,
    ];
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = String::deserialize(deserializer)?;
        Self::ALL
            .into_iter()
            .find(|code| code.as_str() == written)
            .ok_or_else(|| serde::de::Error::custom(format!("{written:?} is no code of a problem")))
    }
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub code: Code,
    pub severity: Severity,
    /// Counted from one; zero if the problem is in no place of the file (a missing input, say).
    pub line: u64,
    pub column: u64,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// A problem of a value that stands in no file.
    pub fn placeless(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            line: 0,
            column: 0,
            message: message.into(),
            hint: None,
        }
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(formatter, "{}:{}: ", self.line, self.column)?;
        }
        write!(formatter, "{}: {}", self.code, self.message)?;
        if let Some(hint) = &self.hint {
            write!(formatter, " ({hint})")?;
        }
        Ok(())
    }
}

/// What a command that found these problems exits with: that of the first error, 0 if there are only warnings.
pub fn exit_code(problems: &[Problem]) -> i32 {
    problems
        .iter()
        .find(|problem| problem.is_error())
        .map_or(0, |problem| problem.code.exit_code())
}

/// The problem that is told where there is room for one: the first error, or else the first warning.
pub fn gravest(problems: &[Problem]) -> Option<&Problem> {
    let error = problems.iter().find(|problem| problem.is_error());
    error.or_else(|| problems.first())
}

/// A word as it is shown inside a message: quoted, and never longer than a line.
pub(crate) fn quoted(word: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let mut shown: String = word.chars().take(SHOWN_MAX).collect();
    if shown.len() < word.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// The known word that was probably meant, if one is near.
pub(crate) fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Beyond this likeness a suggestion misleads more often than it helps.
    const LIKENESS_MIN: f64 = 0.72;
    known
        .map(|word| {
            let (known, written) = (word.to_lowercase(), written.to_lowercase());
            // Two letters that changed places are near in edits and far in the other measure.
            let edits_max = 1 + known.len() / 6;
            let likeness = if known == written {
                1.0
            } else if strsim::osa_distance(&known, &written) <= edits_max {
                0.95
            } else {
                strsim::jaro_winkler(&known, &written)
            };
            (likeness, word)
        })
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_its_exit_code() {
        let cases = [
            (Code::YamlSyntax, 1),
            (Code::InputValidationFailed, 1),
            (Code::McpProxyUnknownKey, 1),
            (Code::MissingState, 2),
            (Code::CommandFailed, 3),
            (Code::SystemIo, 4),
        ];
        for (code, expected) in cases {
            assert_eq!(code.exit_code(), expected, "{code}");
        }
    }

    #[test]
    fn warnings_alone_exit_with_zero() {
        let mut problem = Problem::placeless(Code::MissingState, "gone");
        assert_eq!(exit_code(std::slice::from_ref(&problem)), 2);
        problem.severity = Severity::Warning;
        assert_eq!(exit_code(&[problem]), 0);
    }

    #[test]
    fn a_warning_does_not_hide_an_error() {
        let mut warning = Problem::placeless(Code::UnknownField, "odd");
        warning.severity = Severity::Warning;
        let error = Problem::placeless(Code::MissingState, "gone");
        let both = [warning.clone(), error.clone()];
        assert_eq!(gravest(&both), Some(&error));
        assert_eq!(gravest(&both[..1]), Some(&warning));
        assert_eq!(gravest(&[]), None);
    }

    #[test]
    fn codes_are_unique_and_read_back() {
        for code in Code::ALL {
            let written = serde_json::to_string(&code).unwrap();
            assert_eq!(serde_json::from_str::<Code>(&written).unwrap(), code);
        }
        let mut words: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Code::ALL.len());
    }

    #[test]
    fn the_nearest_word_is_found_only_when_it_is_near() {
        let known = ["on_success", "on_failure", "command"];
        let cases = [
            ("on_sucess", Some("on_success")),
            ("onFailure", Some("on_failure")),
            ("comand", Some("command")),
            ("commnad", Some("command")),
            ("zzz", None),
        ];
        for (written, expected) in cases {
            assert_eq!(nearest(written, known.into_iter()), expected, "{written}");
        }
    }
}
