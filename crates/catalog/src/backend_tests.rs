//! The table of backends and the command each template becomes.

use serde_json::{Value, json};

use super::*;
use crate::{Format, parse_template};

fn template(backend: Value, provider: &str, more: Value) -> Template {
    let mut value = json!({
        "name": "t", "version": "1.0.0", "backend": backend,
        "provider": {"type": provider}, "domainContext": {},
    });
    for (key, entry) in more.as_object().unwrap() {
        value[key] = entry.clone();
    }
    let checked = parse_template(&value.to_string(), Format::Json);
    checked
        .value
        .unwrap_or_else(|| panic!("{:?}", checked.problems))
}

/// `program args… | interaction | patterns`, so a case reads like the table.
fn shown(template: &Template) -> String {
    let command = match launch_command(template, "/w") {
        Ok(command) => command,
        Err(error) => return error.to_string(),
    };
    let program = match &command.program {
        Program::Own => "<own>",
        Program::Named(name) => name,
    };
    let words: Vec<&str> = std::iter::once(program)
        .chain(command.args.iter().map(String::as_str))
        .collect();
    let patterns: Vec<String> = command
        .environment
        .iter()
        .map(ToString::to_string)
        .collect();
    format!(
        "{} | {:?} | {}",
        words.join(" "),
        command.interaction,
        patterns.join(" ")
    )
}

/// `backend; provider; what is started`, one case a line.
const STARTED: &str = r#"
{"type": "claude-code"}; anthropic; claude-agent-acp | Acp | CLAUDE_CONFIG_DIR DISABLE_AUTOUPDATER DISABLE_TELEMETRY IS_SANDBOX ANTHROPIC_* CLAUDE_CODE_*
{"type": "claude-code", "config": {"executablePath": "/x/claude"}}; custom; /x/claude | Acp | CLAUDE_CONFIG_DIR DISABLE_AUTOUPDATER DISABLE_TELEMETRY IS_SANDBOX ANTHROPIC_* CLAUDE_CODE_*
{"type": "codex"}; openai; codex-acp | Acp | CODEX_* OPENAI_*
{"type": "gemini"}; custom; gemini --acp | Acp | GEMINI_* GOOGLE_*
{"type": "gemini", "config": {"extraArgs": ["-m", "x"]}}; custom; gemini --acp -m x | Acp | GEMINI_* GOOGLE_*
{"type": "qwen"}; custom; qwen --acp --approval-mode default | Acp | DASHSCOPE_API_KEY OPENAI_* QWEN_*
{"type": "opencode"}; openai; opencode acp | Acp | OPENAI_* OPENCODE_*
{"type": "copilot"}; custom; copilot --acp | Acp | GH_TOKEN GITHUB_TOKEN COPILOT_*
{"type": "cursor-agent"}; custom; cursor-agent acp | Acp | CURSOR_*
{"type": "cursor"}; custom; cursor /w | None | DBUS_SESSION_BUS_ADDRESS DISPLAY WAYLAND_DISPLAY XAUTHORITY CURSOR_* XDG_*
{"type": "builtin"}; none; <own> builtin-agent | Acp |
{"type": "builtin", "config": {"executablePath": "/x/other"}}; none; /x/other builtin-agent | Acp |
{"type": "custom"}; none; the backend "custom" needs backend.config.executablePath
{"type": "custom", "config": {"executablePath": "mine"}}; openai; mine /w | None | OPENAI_*
{"type": "custom", "config": {"executablePath": "mine", "args": [], "protocol": "acp"}}; none; mine | Acp |
{"type": "command", "config": {"executablePath": "llm", "args": ["-p"]}}; anthropic; llm -p | PerTurn | ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL
{"type": "command", "config": {"executablePath": "llm"}}; none; llm | PerTurn |
"#;

#[test]
fn each_backend_starts_its_program_with_what_it_needs() {
    for case in STARTED.trim().lines() {
        let [backend, provider, expected] = case.split("; ").collect::<Vec<_>>()[..] else {
            panic!("not a case: {case}");
        };
        let backend = serde_json::from_str(backend).unwrap();
        let template = template(backend, provider, json!({}));
        assert_eq!(shown(&template).trim_end(), expected, "{case}");
    }
}

#[test]
fn a_template_may_name_more_variables() {
    let template = template(
        json!({"type": "codex"}),
        "openai",
        json!({"passEnv": ["MY_*", "OPENAI_*", "HTTPS_PROXY"]}),
    );
    assert_eq!(
        shown(&template),
        "codex-acp | Acp | HTTPS_PROXY CODEX_* MY_* OPENAI_*"
    );
}

#[test]
fn copilot_is_told_where_its_servers_are_written() {
    let context = json!({"domainContext": {"mcpServers": [{"name": "time", "command": "uvx"}]}});
    let backend = json!({"type": "copilot", "config": {"extraArgs": ["--banner"]}});
    let template = template(backend, "custom", context);
    assert_eq!(
        shown(&template),
        "copilot --acp --additional-mcp-config=@/w/.mcp.json --banner | Acp | GH_TOKEN GITHUB_TOKEN COPILOT_*"
    );
}

#[test]
fn the_table_is_whole() {
    for (word, backend_type) in BackendType::ALL {
        let profile = backend_type.profile();
        assert_eq!(profile.word, word);
        assert_eq!(serde_json::to_value(backend_type).unwrap(), json!(word));
        assert_eq!(
            profile.program.is_some(),
            profile.install != Install::Nothing,
            "{word}"
        );
        for pattern in profile.environment {
            assert!(EnvironmentPattern::parse(pattern).is_some(), "{pattern}");
        }
    }
    for (word, provider_type) in ProviderType::ALL {
        assert_eq!(serde_json::to_value(provider_type).unwrap(), json!(word));
    }
    assert_eq!(
        BackendType::Codex.profile().install.remedy().as_deref(),
        Some("npm install -g @agentclientprotocol/codex-acp")
    );
}
