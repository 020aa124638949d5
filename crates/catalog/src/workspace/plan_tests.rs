//! Whole plans, byte for byte, and what happens when a component is missing.

use serde_json::{Value, json};

use super::*;
use crate::{Format, check_template, parse_mcp_server, parse_prompt, parse_skill, parse_workflow};

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn components() -> Components {
    let skills = [
        r#"{"name": "review", "description": "How to: review", "content": "Read the diff.\n"}"#,
        r#"{"name": "plain", "content": "Be brief."}"#,
    ];
    let prompt = r#"{"name": "role", "description": "Who you are", "content": "You are {{agent}} of {{team}}; ask {{nobody}}."}"#;
    let server = r#"{"name": "time", "description": "d", "command": "uvx", "args": ["mcp-time"]}"#;
    let workflow = r##"{"name": "flow", "content": "1. Look\n2. Act\n"}"##;
    let prompt = parse_prompt(prompt, Format::Json).value.unwrap();
    let server = parse_mcp_server(server, Format::Json).value.unwrap();
    let workflow = parse_workflow(workflow, Format::Json, "f").value.unwrap();
    Components {
        skills: skills
            .iter()
            .map(|text| parse_skill(text, Format::Json).value.unwrap())
            .map(|skill| (skill.name.clone(), skill))
            .collect(),
        prompts: BTreeMap::from([(prompt.name.clone(), prompt)]),
        mcp_servers: BTreeMap::from([(server.name.clone(), server)]),
        workflows: BTreeMap::from([(workflow.name.clone(), workflow)]),
        own: OwnProgram::default(),
    }
}

fn template(backend: &str, context: Value) -> Template {
    let value = json!({
        "name": "t", "version": "1.0.0", "backend": {"type": backend}, "provider": {"type": "custom"},
        "domainContext": context, "metadata": {"team": "core"},
    });
    check_template(&value).value.unwrap()
}

fn full_context() -> Value {
    json!({
        "skills": ["review", "plain"],
        "prompts": ["role"],
        "mcpServers": ["time", {"name": "files", "command": "fs", "env": {"ROOT": "."}}],
        "workflow": "flow",
    })
}

fn shown(plan: &WorkspacePlan) -> String {
    let files = plan.files.iter();
    files
        .map(|file| format!("=== {}\n{}", file.path, file.content))
        .collect()
}

const PLAIN_SKILL: &str = "---\nname: \"plain\"\ndescription: \"Be brief.\"\n---\n\nBe brief.\n";
const REVIEW_SKILL: &str =
    "---\nname: \"review\"\ndescription: \"How to: review\"\n---\n\nRead the diff.\n";
const WORKFLOW: &str = "1. Look\n2. Act\n";
const PROMPTS: &str =
    "# System Prompts\n\n## role\n> Who you are\n\nYou are a1 of core; ask {{nobody}}.\n";
const AGENTS: &str = "\
# Agent Skills

## review
> How to: review

Read the diff.

---

## plain
Be brief.

# System Prompts

## role
> Who you are

You are a1 of core; ask {{nobody}}.

# Workflow

1. Look
2. Act
";
const MCP: &str = r#"{
  "mcpServers": {
    "files": {
      "args": [],
      "command": "fs",
      "env": {
        "ROOT": "."
      }
    },
    "time": {
      "args": [
        "mcp-time"
      ],
      "command": "uvx"
    }
  }
}
"#;
const OPENCODE: &str = r#"{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "files": {
      "command": [
        "fs"
      ],
      "enabled": true,
      "environment": {
        "ROOT": "."
      },
      "type": "local"
    },
    "time": {
      "command": [
        "uvx",
        "mcp-time"
      ],
      "enabled": true,
      "type": "local"
    }
  },
  "permission": {
    "bash": "ask",
    "edit": "ask"
  }
}
"#;

/// The files every backend gets.
const COMMON: [(&str, &str); 9] = [
    (".agentcraft/workflow.md", WORKFLOW),
    (".agents/skills/plain/SKILL.md", PLAIN_SKILL),
    (".agents/skills/review/SKILL.md", REVIEW_SKILL),
    (".claude/skills/plain/SKILL.md", PLAIN_SKILL),
    (".claude/skills/review/SKILL.md", REVIEW_SKILL),
    (".mcp.json", MCP),
    ("AGENTS.md", AGENTS),
    ("CLAUDE.md", "@AGENTS.md\n"),
    ("prompts/system.md", PROMPTS),
];

#[test]
fn a_full_plan_has_the_layout_its_backend_reads() {
    let settings = "{\n  \"enableAllProjectMcpServers\": true\n}\n";
    let cases: [(&str, &[(&str, &str)]); 9] = [
        ("claude-code", &[(".claude/settings.local.json", settings)]),
        ("codex", &[]),
        (
            "gemini",
            &[
                (".gemini/settings.json", MCP),
                ("GEMINI.md", "@./AGENTS.md\n"),
            ],
        ),
        ("opencode", &[("opencode.json", OPENCODE)]),
        ("builtin", &[]),
        ("qwen", &[]),
        ("copilot", &[]),
        ("cursor", &[(".cursor/mcp.json", MCP)]),
        ("cursor-agent", &[(".cursor/mcp.json", MCP)]),
    ];
    for (backend, own) in cases {
        let expected: BTreeMap<&str, &str> = COMMON.iter().chain(own).copied().collect();
        let expected: String = expected
            .iter()
            .map(|(path, content)| format!("=== {path}\n{content}"))
            .collect();
        let template = template(backend, full_context());
        let planned = plan(&template, &components(), &name("a1")).unwrap();
        assert_eq!(shown(&planned), expected, "{backend}");
    }
}

#[test]
fn a_file_without_content_is_not_planned() {
    let paths = |backend: &str, context: Value| -> Vec<String> {
        let planned = plan(&template(backend, context), &components(), &name("a1")).unwrap();
        let files = planned.files.iter();
        files.map(|file| file.path.to_string()).collect()
    };
    assert_eq!(paths("claude-code", json!({})), Vec::<String>::new());
    assert_eq!(
        paths("gemini", json!({"workflow": "flow"})),
        [
            ".agentcraft/workflow.md",
            "AGENTS.md",
            "CLAUDE.md",
            "GEMINI.md"
        ]
    );
    assert_eq!(
        paths("opencode", json!({"mcpServers": ["time"]})),
        [".mcp.json", "opencode.json"]
    );
}

#[test]
fn no_plan_allows_a_tool() {
    for (backend, backend_type) in crate::BackendType::ALL {
        let mut value = json!({"type": backend});
        value["config"] = json!({"executablePath": "x"});
        if let Some((key, _)) = backend_type.needed_setting() {
            value["config"][key] = json!("x");
        }
        let mut template = template("builtin", full_context());
        template.backend = check_template(&json!({
            "name": "t", "version": "1.0.0", "backend": value, "provider": {"type": "none"}, "domainContext": {},
        }))
        .value
        .unwrap()
        .backend;
        let planned = plan(&template, &components(), &name("a1")).unwrap();
        assert!(!shown(&planned).contains("\"allow\""), "{backend}");
        assert!(!shown(&planned).contains("\"permissions\""), "{backend}");
    }
}

#[test]
fn metadata_wins_over_the_two_names() {
    let mut template = template("builtin", json!({"prompts": ["role"]}));
    template
        .metadata
        .insert("agent".to_owned(), "Ada".to_owned());
    let planned = plan(&template, &components(), &name("a1")).unwrap();
    assert!(
        shown(&planned).contains("You are Ada of core"),
        "{}",
        shown(&planned)
    );
}

#[test]
fn every_missing_component_is_named_with_its_place() {
    let context = json!({
        "skills": ["review", "reviwe"], "prompts": ["x"], "mcpServers": ["tyme"], "workflow": "gone",
    });
    let template = template("builtin", context);
    let missing = plan(&template, &components(), &name("a1")).unwrap_err();
    let lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "domainContext.skills[1]: no skill \"reviwe\" is loaded; did you mean \"review\"?",
            "domainContext.prompts[0]: no prompt \"x\" is loaded",
            "domainContext.mcpServers[0]: no MCP server \"tyme\" is loaded; did you mean \"time\"?",
            "domainContext.workflow: no workflow \"gone\" is loaded",
        ]
    );
    assert_eq!(mcp_servers(&template, &components()).unwrap_err().len(), 1);
}

#[test]
fn an_office_is_our_own_program_as_a_server() {
    let mut components = components();
    components.own = OwnProgram {
        program: "/opt/agentcraft".to_owned(),
        env: BTreeMap::from([("AGENTCRAFT_HOME".to_owned(), "/h".to_owned())]),
    };
    let context = json!({"mcpServers": [
        {"office": "studio"},
        {"office": "lab", "url": "https://x.example", "tokenFile": "/t"},
    ]});
    let servers = mcp_servers(&template("codex", context), &components).unwrap();
    let shown: Vec<String> = servers
        .iter()
        .map(|server| {
            format!(
                "{} {} {}",
                server.name,
                server.command,
                server.args.join(" ")
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "studio /opt/agentcraft mcp office node studio --shared",
            "lab /opt/agentcraft mcp office https://x.example lab --shared --token-file /t",
        ]
    );
    assert_eq!(servers[0].env["AGENTCRAFT_HOME"], "/h");
}

#[test]
fn the_servers_of_a_session_keep_the_order_of_the_template() {
    let servers = mcp_servers(&template("codex", full_context()), &components()).unwrap();
    let shown: Vec<String> = servers
        .iter()
        .map(|server| {
            format!(
                "{} {} {:?} {:?}",
                server.name, server.command, server.args, server.env
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "time uvx [\"mcp-time\"] {}",
            "files fs [] {\"ROOT\": \".\"}"
        ]
    );
}
