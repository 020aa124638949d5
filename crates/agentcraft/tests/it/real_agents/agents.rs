//! The agents: which backend each is, and what makes it talk to the scripted model instead of the internet.

use std::{env, path::PathBuf};

use serde_json::{Value, json};

use super::model::ESCALATED;

/// One row of the table of agents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agent {
    pub(super) name: &'static str,
    pub(super) backend: &'static str,
    config: fn() -> Value,
    env: fn(&str) -> Value,
    /// Files below its home directory.
    pub(super) files: fn(&str) -> Vec<(&'static str, String)>,
    /// How it makes a file, since not every one has a tool for it.
    write: Write,
    pub(super) takes_up: TakesUp,
    pub(super) tools: Tools,
    pub(super) print_tools: Tools,
}

/// What the model learns of the tools of MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tools {
    Told,
    /// Nothing until it searches for one, which the scripted model does not.
    Searched,
    /// Nothing of those it would have to ask for, where nobody can be asked.
    Withheld,
}

/// When an earlier session can be taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakesUp {
    AtOnce,
    /// Gemini names a session's file by its minute. Loading it in that minute begins the file anew, and it then finds
    /// "no previous sessions".
    FromTheNextMinute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Tool,
    Shell,
    /// A command for which the model asks to leave the agent's sandbox, in which nothing can be written.
    ShellOutsideItsSandbox,
}

pub(super) const AGENTS: [Agent; 6] = [
    Agent {
        name: "claude",
        backend: "claude-code",
        config: || json!({}),
        env: |model| {
            json!({
                "ANTHROPIC_BASE_URL": model,
                "ANTHROPIC_API_KEY": "sk-ant-dummy",
                "IS_SANDBOX": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_AUTOUPDATER": "1",
            })
        },
        files: |_| Vec::new(),
        write: Write::Tool,
        takes_up: TakesUp::AtOnce,
        tools: Tools::Told,
        print_tools: Tools::Told,
    },
    Agent {
        name: "codex",
        backend: "codex",
        config: || json!({}),
        env: |_| json!({"OPENAI_API_KEY": "sk-dummy"}),
        files: |model| {
            let config = format!(
                "model = \"gpt-5\"\nmodel_provider = \"scripted\"\napproval_policy = \"on-request\"\n\
                 [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{model}/v1\"\n\
                 env_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n"
            );
            vec![(".codex/config.toml", config)]
        },
        write: Write::ShellOutsideItsSandbox,
        takes_up: TakesUp::AtOnce,
        tools: Tools::Told,
        print_tools: Tools::Told,
    },
    Agent {
        name: "gemini",
        backend: "gemini",
        // Its process takes the model as an argument, its print mode as the template's model.
        config: || json!({"model": "gemini-2.5-flash", "extraArgs": ["-m", "gemini-2.5-flash"]}),
        env: |model| {
            json!({
                "GEMINI_API_KEY": "dummy",
                "GOOGLE_GEMINI_BASE_URL": model,
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
            })
        },
        files: |_| {
            let settings = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
            vec![(".gemini/settings.json", settings.to_string())]
        },
        write: Write::Tool,
        takes_up: TakesUp::FromTheNextMinute,
        tools: Tools::Told,
        print_tools: Tools::Withheld,
    },
    Agent {
        name: "qwen",
        backend: "qwen",
        config: || json!({}),
        env: |model| {
            json!({
                "OPENAI_API_KEY": "sk-dummy",
                "OPENAI_BASE_URL": format!("{model}/v1"),
                "OPENAI_MODEL": "fake-model",
            })
        },
        files: |_| Vec::new(),
        write: Write::Tool,
        takes_up: TakesUp::AtOnce,
        tools: Tools::Searched,
        print_tools: Tools::Told,
    },
    Agent {
        name: "opencode",
        backend: "opencode",
        config: || json!({"model": "scripted/fake-model"}),
        env: |model| {
            let config = json!({
                "model": "scripted/fake-model",
                "small_model": "scripted/fake-model",
                "provider": {"scripted": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": format!("{model}/v1"), "apiKey": "sk-dummy"},
                    "models": {"fake-model": {"name": "Scripted", "tool_call": true}},
                }},
            });
            json!({
                "OPENCODE_CONFIG_CONTENT": config.to_string(),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
            })
        },
        files: |_| Vec::new(),
        write: Write::Tool,
        takes_up: TakesUp::AtOnce,
        tools: Tools::Told,
        print_tools: Tools::Told,
    },
    Agent {
        name: "copilot",
        backend: "copilot",
        config: || json!({}),
        env: |model| {
            json!({
                "COPILOT_OFFLINE": "true",
                "COPILOT_PROVIDER_BASE_URL": format!("{model}/v1"),
                "COPILOT_PROVIDER_API_KEY": "sk-dummy",
                "COPILOT_PROVIDER_WIRE_API": "completions",
                "COPILOT_MODEL": "gpt-5.4",
            })
        },
        files: |_| Vec::new(),
        // Its tool for edits takes patches, which the scripted model does not write.
        write: Write::Shell,
        takes_up: TakesUp::AtOnce,
        tools: Tools::Told,
        print_tools: Tools::Told,
    },
];

impl Agent {
    /// A template of this agent that talks to the model.
    pub(super) fn template(&self, model: &str) -> Value {
        json!({
            "backend": {"type": self.backend, "config": (self.config)()},
            "env": (self.env)(model),
        })
    }

    /// What to say so that it makes a file, and the rule that lets it.
    pub(super) fn write(&self, path: &str, content: &str) -> (String, &'static str) {
        match self.write {
            Write::Tool => (format!("WRITE {path} {content}"), "edit"),
            Write::Shell => (format!("BASH printf {content} > {path}"), "execute"),
            Write::ShellOutsideItsSandbox => {
                let prompt = format!("BASH printf {content} > {path} {ESCALATED}");
                (prompt, "execute")
            }
        }
    }

    /// What to say so that it tries to make a file without asking, where it can be made to.
    pub(super) fn write_unasked(&self, path: &str, content: &str) -> Option<String> {
        match self.write {
            Write::Tool | Write::Shell => None,
            Write::ShellOutsideItsSandbox => Some(format!("BASH printf {content} > {path}")),
        }
    }
}

/// The folder with the agents' programs, which `./test --all` installs.
pub(super) fn programs() -> Option<PathBuf> {
    let modules = PathBuf::from(env::var_os("AGENTCRAFT_TEST_NODE_MODULES")?);
    Some(modules.join(".bin")).filter(|folder| folder.is_dir())
}
