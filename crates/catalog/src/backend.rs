//! The programs an agent can run on: how each is started, what it speaks, and what it needs from the environment.

use serde::{Deserialize, Serialize};

use crate::environment::EnvironmentPattern;
use crate::template::Template;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendType {
    Cursor,
    ClaudeCode,
    Custom,
    Builtin,
    Codex,
    Gemini,
    Qwen,
    #[serde(rename = "opencode")]
    OpenCode,
    Copilot,
    CursorAgent,
    Command,
    #[serde(rename = "openai-compatible")]
    OpenAiCompatible,
    Workflow,
    Peer,
    A2a,
    Delegation,
}

impl BackendType {
    /// Every type, as written in files and on the wire.
    pub const ALL: [(&'static str, Self); 16] = [
        ("cursor", Self::Cursor),
        ("claude-code", Self::ClaudeCode),
        ("custom", Self::Custom),
        ("builtin", Self::Builtin),
        ("codex", Self::Codex),
        ("gemini", Self::Gemini),
        ("qwen", Self::Qwen),
        ("opencode", Self::OpenCode),
        ("copilot", Self::Copilot),
        ("cursor-agent", Self::CursorAgent),
        ("command", Self::Command),
        ("openai-compatible", Self::OpenAiCompatible),
        ("workflow", Self::Workflow),
        ("peer", Self::Peer),
        ("a2a", Self::A2a),
        ("delegation", Self::Delegation),
    ];

    /// The type of this word, if there is one.
    pub fn parse(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find_map(|(name, backend)| (name == word).then_some(backend))
    }

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        self.profile().word
    }

    /// Whether the daemon itself speaks to what takes the turns, with no program in between.
    pub fn is_endpoint(self) -> bool {
        self.profile().interaction == Interaction::Endpoint
    }

    /// The setting without which an agent of this type has nobody to speak to.
    pub fn needed_setting(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::OpenAiCompatible => Some(("baseUrl", "the address of the model server")),
            Self::Workflow => Some(("workflow", "the name of the workflow to run")),
            Self::Peer => Some(("url", "the address of the node, or config.node: its name")),
            Self::A2a => Some(("url", "the address of the agent or of its card")),
            Self::Delegation => Some((
                "url",
                "the address of the node that does the work, or config.node: its name",
            )),
            Self::Cursor
            | Self::ClaudeCode
            | Self::Custom
            | Self::Builtin
            | Self::Codex
            | Self::Gemini
            | Self::Qwen
            | Self::OpenCode
            | Self::Copilot
            | Self::CursorAgent
            | Self::Command => None,
        }
    }

    /// Whether it speaks to a node, which may be named instead of addressed.
    pub fn has_node(self) -> bool {
        matches!(self, Self::Peer | Self::Delegation)
    }

    /// Whether the template itself says how the program is called.
    pub fn takes_args(self) -> bool {
        matches!(self, Self::Custom | Self::Command)
    }

    pub fn profile(self) -> &'static BackendProfile {
        match self {
            Self::Cursor => &CURSOR,
            Self::ClaudeCode => &CLAUDE_CODE,
            Self::Custom => &CUSTOM,
            Self::Builtin => &BUILTIN,
            Self::Codex => &CODEX,
            Self::Gemini => &GEMINI,
            Self::Qwen => &QWEN,
            Self::OpenCode => &OPENCODE,
            Self::Copilot => &COPILOT,
            Self::CursorAgent => &CURSOR_AGENT,
            Self::Command => &COMMAND,
            Self::OpenAiCompatible => &OPENAI_COMPATIBLE,
            Self::Workflow => &WORKFLOW,
            Self::Peer => &PEER,
            Self::A2a => &A2A,
            Self::Delegation => &DELEGATION,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderType {
    Anthropic,
    #[serde(rename = "openai")]
    OpenAi,
    Custom,
    None,
}

impl ProviderType {
    /// Every type, as written in files and on the wire.
    pub const ALL: [(&'static str, Self); 4] = [
        ("anthropic", Self::Anthropic),
        ("openai", Self::OpenAi),
        ("custom", Self::Custom),
        ("none", Self::None),
    ];

    fn environment(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => ANTHROPIC_VARIABLES,
            Self::OpenAi => &["OPENAI_*"],
            Self::Custom | Self::None => &[],
        }
    }
}

/// How a conversation with the started program goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interaction {
    /// It speaks ACP on its standard input and output.
    Acp,
    /// It runs, but not for us to talk to: an editor's window, somebody's own program.
    None,
    /// There is no lasting process: each turn runs the program once, with the prompt as an argument.
    PerTurn,
    /// There is no program at all: the daemon speaks to a model, runs a workflow, or asks somebody else's agent.
    Endpoint,
}

/// Where a missing program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Install {
    Npm(&'static str),
    Page(&'static str),
    /// Part of us, or named by the template: nothing to install.
    Nothing,
}

impl Install {
    /// What a person does about a missing program.
    pub fn remedy(self) -> Option<String> {
        match self {
            Self::Npm(package) => Some(format!("npm install -g {package}")),
            Self::Page(page) => Some(format!("see {page}")),
            Self::Nothing => None,
        }
    }
}

/// One row of the table of backends. `program` is `None` where the template names it or it is our own executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendProfile {
    pub word: &'static str,
    pub program: Option<&'static str>,
    pub args: &'static [&'static str],
    pub interaction: Interaction,
    /// Patterns of variables passed from the daemon, as `NAME` or `PREFIX_*`.
    pub environment: &'static [&'static str],
    /// Whether it also gets the variables of the template's provider, since it works with any.
    pub provider_environment: bool,
    pub version_args: &'static [&'static str],
    pub install: Install,
}

const ANTHROPIC_VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
];

const ACP_PROGRAM: BackendProfile = BackendProfile {
    word: "",
    program: None,
    args: &[],
    interaction: Interaction::Acp,
    environment: &[],
    provider_environment: false,
    version_args: &["--version"],
    install: Install::Nothing,
};

const CURSOR: BackendProfile = BackendProfile {
    word: "cursor",
    program: Some("cursor"),
    interaction: Interaction::None,
    // It opens a window, so it needs to find the display of whoever started the daemon.
    environment: &[
        "CURSOR_*",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "XDG_*",
    ],
    install: Install::Page("https://cursor.com"),
    ..ACP_PROGRAM
};

const CLAUDE_CODE: BackendProfile = BackendProfile {
    word: "claude-code",
    program: Some("claude-agent-acp"),
    environment: &[
        "ANTHROPIC_*",
        "CLAUDE_CODE_*",
        "CLAUDE_CONFIG_DIR",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
        // As root Claude refuses to work without permission prompts unless this is set.
        "IS_SANDBOX",
    ],
    install: Install::Npm("@agentclientprotocol/claude-agent-acp"),
    ..ACP_PROGRAM
};

const CUSTOM: BackendProfile = BackendProfile {
    word: "custom",
    interaction: Interaction::None,
    provider_environment: true,
    ..ACP_PROGRAM
};

const BUILTIN: BackendProfile = BackendProfile {
    word: "builtin",
    args: &["builtin-agent"],
    ..ACP_PROGRAM
};

const CODEX: BackendProfile = BackendProfile {
    word: "codex",
    program: Some("codex-acp"),
    environment: &["CODEX_*", "OPENAI_*"],
    install: Install::Npm("@agentclientprotocol/codex-acp"),
    ..ACP_PROGRAM
};

const GEMINI: BackendProfile = BackendProfile {
    word: "gemini",
    program: Some("gemini"),
    args: &["--acp"],
    environment: &["GEMINI_*", "GOOGLE_*"],
    install: Install::Npm("@google/gemini-cli"),
    ..ACP_PROGRAM
};

const QWEN: BackendProfile = BackendProfile {
    word: "qwen",
    program: Some("qwen"),
    // Its own default in this mode is to act without asking.
    args: &["--acp", "--approval-mode", "default"],
    environment: &["DASHSCOPE_API_KEY", "OPENAI_*", "QWEN_*"],
    install: Install::Npm("@qwen-code/qwen-code"),
    ..ACP_PROGRAM
};

const OPENCODE: BackendProfile = BackendProfile {
    word: "opencode",
    program: Some("opencode"),
    args: &["acp"],
    environment: &["OPENCODE_*"],
    provider_environment: true,
    install: Install::Npm("opencode-ai"),
    ..ACP_PROGRAM
};

const COPILOT: BackendProfile = BackendProfile {
    word: "copilot",
    program: Some("copilot"),
    args: &["--acp"],
    environment: &["COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"],
    install: Install::Npm("@github/copilot"),
    ..ACP_PROGRAM
};

const CURSOR_AGENT: BackendProfile = BackendProfile {
    word: "cursor-agent",
    program: Some("cursor-agent"),
    args: &["acp"],
    environment: &["CURSOR_*"],
    install: Install::Page("https://cursor.com/cli"),
    ..ACP_PROGRAM
};

const COMMAND: BackendProfile = BackendProfile {
    word: "command",
    interaction: Interaction::PerTurn,
    provider_environment: true,
    ..ACP_PROGRAM
};

const ENDPOINT: BackendProfile = BackendProfile {
    interaction: Interaction::Endpoint,
    ..ACP_PROGRAM
};

const OPENAI_COMPATIBLE: BackendProfile = BackendProfile {
    word: "openai-compatible",
    environment: &["OPENAI_*"],
    ..ENDPOINT
};

const WORKFLOW: BackendProfile = BackendProfile {
    word: "workflow",
    ..ENDPOINT
};

const PEER: BackendProfile = BackendProfile {
    word: "peer",
    ..ENDPOINT
};

const A2A: BackendProfile = BackendProfile {
    word: "a2a",
    ..ENDPOINT
};

const DELEGATION: BackendProfile = BackendProfile {
    word: "delegation",
    ..ENDPOINT
};

/// Which program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// The executable that is running now.
    Own,
    /// A name looked up on the path, or a path.
    Named(String),
}

/// Everything needed to start a template's backend, except the values of the variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchCommand {
    pub program: Program,
    pub args: Vec<String>,
    pub interaction: Interaction,
    pub environment: Vec<EnvironmentPattern>,
}

impl LaunchCommand {
    pub fn speaks_acp(&self) -> bool {
        self.interaction == Interaction::Acp
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    #[error("the backend {word:?} needs backend.config.executablePath")]
    NoExecutable { word: &'static str },
}

/// How to start an agent of this template in its workspace.
pub fn launch_command(
    template: &Template,
    workspace_dir: &str,
) -> Result<LaunchCommand, LaunchError> {
    let backend = &template.backend;
    let backend_type = backend.backend_type();
    let profile = backend_type.profile();
    let program = match (backend.executable_path(), profile.program) {
        (Some(path), _) => Program::Named(path.to_owned()),
        (None, Some(program)) => Program::Named(program.to_owned()),
        (None, None) if backend_type == BackendType::Builtin || backend_type.is_endpoint() => {
            Program::Own
        }
        (None, None) => return Err(LaunchError::NoExecutable { word: profile.word }),
    };
    let mut args: Vec<String> = profile.args.iter().map(|&arg| arg.to_owned()).collect();
    if backend_type.takes_args() {
        args = match (backend.args(), backend_type) {
            (Some(written), _) => written,
            (None, BackendType::Command) => Vec::new(),
            (None, _) => vec![workspace_dir.to_owned()],
        };
    } else {
        if backend_type == BackendType::Copilot && !template.domain_context.mcp_servers.is_empty() {
            // Over ACP it takes no servers that are programs; the file is part of every workspace with servers.
            args.push(format!(
                "--additional-mcp-config=@{workspace_dir}/.mcp.json"
            ));
        }
        args.extend(backend.extra_args());
        if backend_type == BackendType::Cursor {
            args.push(workspace_dir.to_owned());
        }
    }
    let interaction = if backend_type == BackendType::Custom && backend.speaks_acp() {
        Interaction::Acp
    } else {
        profile.interaction
    };
    Ok(LaunchCommand {
        program,
        args,
        interaction,
        environment: environment(template, profile),
    })
}

fn environment(template: &Template, profile: &BackendProfile) -> Vec<EnvironmentPattern> {
    let provider = if profile.provider_environment {
        template.provider.provider_type.environment()
    } else {
        &[]
    };
    let mut patterns: Vec<EnvironmentPattern> = profile
        .environment
        .iter()
        .chain(provider)
        .filter_map(|pattern| EnvironmentPattern::parse(pattern))
        .chain(template.pass_env.iter().cloned())
        .collect();
    patterns.sort();
    patterns.dedup();
    patterns
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
