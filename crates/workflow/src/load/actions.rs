//! What steps do, as files write it: commands, agents, operations, calls of workflows.

use crate::document::{Node, Yaml};
use crate::plan::{
    Agent, Capture, Command, ConversationMode, KNOWN_PROVIDERS, Operation, OutputFormat, Prompt,
    Provider, Script, SessionTracking, Skill, ToolProxy, UNSUPPORTED_PROVIDER, WorkflowCall,
};
use crate::problem::{Code, Severity, nearest, quoted};
use crate::reader::Mapping;
use crate::template;

use super::{Loader, Mentioned, Purpose};

/// What the runner offers.
const OPERATIONS: [&str; 2] = ["http.request", "notify.send"];

/// Options of agents that the runner passes on, or says something about.
const OPTIONS: [&str; 10] = [
    "api_key",
    "api_key_env",
    "base_url",
    "executable",
    "max_completion_tokens",
    "max_tokens",
    "max_turns",
    "model",
    "temperature",
    "top_p",
];

impl Loader<'_> {
    pub(super) fn command(&self, map: &Mapping<'_>, step: &str) -> Option<Command> {
        let inline = map.get("command");
        let file = map.get("script_file");
        let script = match (inline, file) {
            (Some(node), None) => Script::Inline(self.template(node, step, Purpose::Command)?),
            (None, Some(node)) => Script::File(self.template(node, step, Purpose::Other)?),
            (Some(_), Some(node)) => {
                let message = "a step has either command or script_file, not both";
                self.findings.error(node.place, Code::InvalidValue, message);
                return None;
            }
            (None, None) => {
                map.missing(&format!("command or script_file of step {}", quoted(step)));
                return None;
            }
        };
        let capture = map
            .get("capture")
            .and_then(|node| node.mapping(self.findings));
        Some(Command {
            script,
            dir: self.optional_template(map, "dir", step),
            capture: capture.map(|map| self.capture(&map)).unwrap_or_default(),
        })
    }

    fn capture(&self, map: &Mapping<'_>) -> Capture {
        let max_size = map.get("max_size").and_then(|node| {
            let written = node.text(self.findings)?;
            let size = bytes(&written);
            if size.is_none() {
                let message = format!("{written:?} is not a size; write bytes or 10MB");
                self.findings.error(node.place, Code::InvalidValue, message);
            }
            size
        });
        let capture = Capture {
            stdout: map.text("stdout"),
            stderr: map.text("stderr"),
            max_size,
            encoding: map.text("encoding"),
        };
        map.warn_of_unknown("capture", Severity::Warning, Code::UnknownField);
        capture
    }

    pub(super) fn agent(&self, map: &Mapping<'_>, step: &str) -> Option<Agent> {
        let provider = map.get("provider").map(|node| self.provider(node, step));
        if provider.is_none() {
            map.missing(&format!("provider of step {}", quoted(step)));
        }
        let modes = [
            ("single", ConversationMode::Single),
            ("conversation", ConversationMode::Conversation),
        ];
        let mode = map
            .get("mode")
            .and_then(|node| node.choice(self.findings, &modes));
        let mode = mode.unwrap_or_default();
        let prompt = match (map.get("prompt"), map.get("prompt_file")) {
            (Some(node), None) => self
                .template(node, step, Purpose::Other)
                .map(Prompt::Inline),
            (None, Some(node)) => self.template(node, step, Purpose::Other).map(Prompt::File),
            (Some(_), Some(node)) => {
                let message = "a step has either prompt or prompt_file, not both";
                self.findings.error(node.place, Code::InvalidValue, message);
                None
            }
            (None, None) => {
                if mode == ConversationMode::Single {
                    map.missing(&format!("prompt or prompt_file of step {}", quoted(step)));
                }
                None
            }
        };
        let formats = [
            ("json", OutputFormat::Json),
            ("text", OutputFormat::Text),
            ("raw", OutputFormat::Raw),
        ];
        let format = map
            .get("output_format")
            .and_then(|node| node.choice(self.findings, &formats));
        let options = map.get("options");
        options.iter().for_each(|node| {
            self.note_texts_within(node, step);
            self.check_options(node);
        });
        Some(Agent {
            provider: provider??,
            prompt,
            system_prompt: self.optional_template(map, "system_prompt", step),
            role: self.role(map, step),
            skills: map
                .get("skills")
                .map(|node| self.skills(node, step))
                .unwrap_or_default(),
            options: options
                .map(|node| node.object(self.findings))
                .unwrap_or_default(),
            output_format: format.unwrap_or_default(),
            mode,
            tracking: self.tracking(map),
            tool_proxy: map.get("mcp_proxy").and_then(|node| self.tool_proxy(node)),
            dir: self.optional_template(map, "dir", step),
        })
    }

    fn provider(&self, node: &Node, step: &str) -> Option<String> {
        let written = self.template(node, step, Purpose::Other)?;
        if template::is_template(&written) {
            return Some(written);
        }
        match Provider::parse(&written) {
            Err(words) => self.findings.error(node.place, Code::InvalidValue, words),
            Ok(Provider::Named(name)) => {
                let hint = nearest(&name, KNOWN_PROVIDERS.into_iter())
                    .map(|known| format!("did you mean {known}? For an agent of yours write agent:{name} or template:{name}"));
                if hint.is_some() {
                    let message =
                        format!("{} is not a provider that is known by name", quoted(&name));
                    self.findings.add(
                        node.place,
                        Code::InvalidValue,
                        Severity::Warning,
                        message,
                        hint,
                    );
                }
            }
            Ok(Provider::Known(name)) if name == UNSUPPORTED_PROVIDER => {
                let message = format!("the provider {} is not supported", quoted(&name));
                self.findings
                    .warning(node.place, Code::InvalidValue, message);
            }
            Ok(
                Provider::Known(_) | Provider::Template(_) | Provider::Agent(_) | Provider::Acp(_),
            ) => {}
        }
        Some(written)
    }

    fn role(&self, map: &Mapping<'_>, step: &str) -> Option<String> {
        let node = map.get("role")?;
        let role = self.template(node, step, Purpose::Other)?;
        self.note_mention(node.place, Mentioned::Role, &role);
        Some(role)
    }

    fn skills(&self, node: &Node, step: &str) -> Vec<Skill> {
        let mut skills = Vec::new();
        for item in node.list(self.findings).unwrap_or_default() {
            if let Yaml::Map(_) = item.value {
                let Some(map) = item.mapping(self.findings) else {
                    continue;
                };
                match map.get("path") {
                    Some(path) => {
                        skills.extend(self.template(path, step, Purpose::Other).map(Skill::Path))
                    }
                    None => map.missing("the path of a skill"),
                }
            } else {
                let name = self.template(item, step, Purpose::Other);
                if let Some(name) = &name {
                    self.note_mention(item.place, Mentioned::Skill, name);
                }
                skills.extend(name.map(Skill::Name));
            }
        }
        skills
    }

    fn tracking(&self, map: &Mapping<'_>) -> SessionTracking {
        // `conversation:` without a value opts in as well, so absence is judged by the key.
        map.get("conversation");
        let entry = map.entries.iter().find(|entry| entry.key == "conversation");
        let Some(entry) = entry else {
            return SessionTracking::None;
        };
        if entry.value.is_null() {
            return SessionTracking::Track;
        }
        let Some(conversation) = entry.value.mapping(self.findings) else {
            return SessionTracking::Track;
        };
        let from = conversation.text("continue_from");
        conversation.warn_of_unknown("conversation", Severity::Warning, Code::UnknownField);
        from.map_or(SessionTracking::Track, SessionTracking::ContinueFrom)
    }

    fn tool_proxy(&self, node: &Node) -> Option<ToolProxy> {
        let map = node.mapping(self.findings)?;
        let is_enabled = self.flag(&map, "enable");
        let intercept = map
            .get("intercept_builtins")
            .and_then(|node| node.boolean(self.findings));
        let mut plugin_tools = Vec::new();
        for item in map
            .get("plugin_tools")
            .and_then(|node| node.list(self.findings))
            .unwrap_or_default()
        {
            let Some(tool) = item.mapping(self.findings) else {
                continue;
            };
            let expose = tool
                .get("expose")
                .map(|node| node.texts(self.findings))
                .unwrap_or_default();
            let expose = expose.into_iter().map(|(_, text)| text).collect();
            match tool.text("plugin") {
                Some(plugin) => plugin_tools.push((plugin, expose)),
                None => tool.missing("the plugin"),
            }
        }
        map.warn_of_unknown("mcp_proxy", Severity::Error, Code::McpProxyUnknownKey);
        if !is_enabled {
            return None;
        }
        let proxy = ToolProxy {
            intercept_builtins: intercept.unwrap_or(true),
            plugin_tools,
        };
        if !proxy.intercept_builtins && proxy.plugin_tools.is_empty() {
            let message = "the proxy is enabled and offers nothing";
            self.findings
                .error(node.place, Code::McpProxyEmpty, message);
        }
        let message = match (proxy.intercept_builtins, proxy.plugin_tools.is_empty()) {
            (true, _) => "agents cannot be kept from their own tools here, so the step will fail",
            (false, false) => "there are no plugins here, so the agent gets none of their tools",
            (false, true) => return Some(proxy),
        };
        let code = Code::McpProxyUnsupported;
        let hint = "remove mcp_proxy; permission rules say what an agent may do".to_owned();
        self.findings.add(
            node.place,
            code,
            Severity::Warning,
            message.to_owned(),
            Some(hint),
        );
        Some(proxy)
    }

    /// Options that no agent here is told of: a file may rely on one of them to keep an agent from something. A key in a file is
    /// read by everybody who has the file.
    fn check_options(&self, node: &Node) {
        let Yaml::Map(options) = &node.value else {
            return;
        };
        for option in options {
            if option.key == "api_key" {
                let hint = "write api_key_env: NAME instead, with the name of the variable that holds the key; without it OPENAI_API_KEY is used";
                self.findings.add(
                    option.value.place,
                    Code::InvalidValue,
                    Severity::Error,
                    "a key does not belong into a file".to_owned(),
                    Some(hint.to_owned()),
                );
            }
            if OPTIONS.contains(&option.key.as_str()) {
                continue;
            }
            let message = format!("the option {} has no effect here", quoted(&option.key));
            let hint = nearest(&option.key, OPTIONS.into_iter());
            self.findings.add(
                option.value.place,
                Code::UnknownField,
                Severity::Warning,
                message,
                hint.map(|known| format!("did you mean {known}?")),
            );
        }
    }

    pub(super) fn operation(&self, map: &Mapping<'_>, step: &str) -> Option<Operation> {
        let Some(name) = map.text("operation") else {
            map.missing(&format!("operation of step {}", quoted(step)));
            return None;
        };
        if !OPERATIONS.contains(&name.as_str()) {
            let message = format!(
                "there is no operation {} here, so the step will fail; there are {}",
                quoted(&name),
                OPERATIONS.join(" and ")
            );
            if let Some(node) = map.get("operation") {
                self.findings.add(
                    node.place,
                    Code::InvalidValue,
                    Severity::Warning,
                    message,
                    None,
                );
            }
        }
        let inputs = map.get("inputs").or_else(|| map.get("operation_inputs"));
        map.get("operation_inputs");
        inputs
            .iter()
            .for_each(|node| self.note_texts_within(node, step));
        Some(Operation {
            name,
            inputs: inputs
                .map(|node| node.object(self.findings))
                .unwrap_or_default(),
        })
    }

    /// `type: database.query` with its parameters below `config`.
    pub(super) fn custom_operation(&self, map: &Mapping<'_>, step: &str, name: &str) -> Operation {
        let config = map.get("config");
        let inputs = map.get("inputs").or(config);
        inputs
            .iter()
            .for_each(|node| self.note_texts_within(node, step));
        Operation {
            name: name.trim().to_owned(),
            inputs: inputs
                .map(|node| node.object(self.findings))
                .unwrap_or_default(),
        }
    }

    /// The keys stand beside `type`, or in a mapping of their own.
    pub(super) fn workflow_call(&self, map: &Mapping<'_>, step: &str) -> Option<WorkflowCall> {
        let nested = map
            .get("call_workflow")
            .and_then(|node| node.mapping(self.findings));
        let source = nested.as_ref().unwrap_or(map);
        let workflow = source.get("workflow").or_else(|| source.get("name"));
        let Some(workflow) = workflow else {
            source.missing(&format!("workflow of step {}", quoted(step)));
            return None;
        };
        let inputs = source.get("inputs");
        inputs
            .iter()
            .for_each(|node| self.note_texts_within(node, step));
        let outputs = source
            .get("outputs")
            .map(|node| node.object(self.findings))
            .unwrap_or_default();
        let outputs = outputs
            .into_iter()
            .filter_map(|(output, name)| Some((output, name.as_str()?.to_owned())));
        let call = WorkflowCall {
            workflow: self.template(workflow, step, Purpose::Other)?,
            inputs: inputs
                .map(|node| node.object(self.findings))
                .unwrap_or_default(),
            outputs: outputs.collect(),
        };
        if let Some(nested) = &nested {
            nested.warn_of_unknown("call_workflow", Severity::Warning, Code::UnknownField);
        }
        Some(call)
    }
}

/// `1024`, `64KB`, `10MB`.
fn bytes(written: &str) -> Option<u64> {
    let text = written.trim().to_ascii_uppercase();
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1024,
        "M" | "MB" | "MIB" => 1024 * 1024,
        "G" | "GB" | "GIB" => 1024 * 1024 * 1024,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}
