//! Asks: what a turn waits for, and how it is answered.

use serde::{Deserialize, Serialize};

use super::ToolCall;

/// An ask of one session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AskId(pub String);

/// Something that a turn waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    pub id: AskId,
    #[serde(flatten)]
    pub kind: AskKind,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "ask",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum AskKind {
    /// May the agent do this?
    Permission {
        tool: ToolCall,
        options: Vec<AskOption>,
        /// It cannot be undone, so a human must decide.
        #[serde(default)]
        destructive: bool,
    },
    /// What shall the agent know?
    Question {
        text: String,
        /// JSON Schema text of the answer where it is more than a line of text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<String>,
    },
}

/// One way to answer a permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskOption {
    pub id: String,
    pub name: String,
    pub kind: OptionKind,
}

/// What an option means, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    /// Something that only the agent and whoever chooses it know: nobody chooses it for them.
    Other,
}

/// How an ask ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "answer",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Answer {
    /// One of the options of a permission.
    Option { id: String },
    /// The answer to a question: text, or JSON where a schema asked for it.
    Text { text: String },
    /// Nobody answered, and nobody will: the turn was cancelled or the question was turned down.
    Declined,
}

impl AskKind {
    /// The option of this kind, if the agent offers one. Once never becomes always.
    pub fn option(&self, wanted: OptionKind) -> Option<&AskOption> {
        match self {
            Self::Permission { options, .. } => options.iter().find(|option| option.kind == wanted),
            Self::Question { .. } => None,
        }
    }

    /// The answer that says no, as softly as the agent lets us.
    pub fn denial(&self) -> Answer {
        let option = self
            .option(OptionKind::RejectOnce)
            .or_else(|| self.option(OptionKind::RejectAlways));
        option.map_or(Answer::Declined, |option| Answer::Option {
            id: option.id.clone(),
        })
    }

    /// Whether `answer` fits what was asked.
    pub fn takes(&self, answer: &Answer) -> bool {
        match (self, answer) {
            (_, Answer::Declined) | (Self::Question { .. }, Answer::Text { .. }) => true,
            (Self::Permission { options, .. }, Answer::Option { id }) => {
                options.iter().any(|option| option.id == *id)
            }
            (Self::Permission { .. }, Answer::Text { .. })
            | (Self::Question { .. }, Answer::Option { .. }) => false,
        }
    }
}

impl Ask {
    pub(super) fn weight(&self) -> usize {
        match &self.kind {
            AskKind::Permission { tool, options, .. } => tool.weight() + options.len() * 64,
            AskKind::Question { text, schema } => {
                text.len() + schema.as_ref().map_or(0, String::len)
            }
        }
    }
}
