//! Templates: the table of all and the detail of one. They come as their file format says, so every key may be missing.

use serde_json::Value;

use super::{
    fields::Fields,
    style::{Style, Tone},
    table::{Cell, Column, Table},
};

pub(crate) fn template_table(templates: &[Value]) -> Table {
    let columns = [
        Column::whole("NAME"),
        Column::shortened("VERSION"),
        Column::shortened("BACKEND"),
        Column::shortened("PROVIDER"),
        Column::shortened("DESCRIPTION"),
    ];
    let row = |template: &Value| {
        [
            Cell::toned(Tone::Strong, text(template, "/name")),
            Cell::new(text(template, "/version")),
            Cell::new(text(template, "/backend/type")),
            Cell::new(text(template, "/provider/type")),
            Cell::new(text(template, "/description")),
        ]
    };
    Table::new(columns, templates.iter().map(row))
}

pub(crate) fn template_detail(template: &Value, style: Style) -> String {
    let mut fields = Fields::new(
        style,
        text(template, "/name"),
        (Tone::Faint, text(template, "/version")),
    );
    fields
        .field("about", text(template, "/description"))
        .field("backend", text(template, "/backend/type"))
        .field("provider", text(template, "/provider/type"))
        .field("mode", text(template, "/launchMode"))
        .field("policy", text(template, "/workspacePolicy"))
        .field("skills", &names(template, "/domainContext/skills"))
        .field("prompts", &names(template, "/domainContext/prompts"))
        .field("mcp", &names(template, "/domainContext/mcpServers"))
        .field("workflow", text(template, "/domainContext/workflow"))
        .field("sub-agents", &names(template, "/domainContext/subAgents"))
        .list("metadata", pairs(template, "/metadata"));
    fields.finish()
}

pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The names in a list of names or of things that have one.
pub(super) fn names(value: &Value, pointer: &str) -> String {
    let items = value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let names: Vec<&str> = items
        .filter_map(|item| item.as_str().or_else(|| item.get("name")?.as_str()))
        .collect();
    names.join(", ")
}

fn pairs(value: &Value, pointer: &str) -> Vec<String> {
    let map = value
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    map.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_detail_names_what_a_template_is_made_of() {
        let template = json!({
            "name": "review", "version": "1.0.0", "description": "Reads changes",
            "backend": { "type": "claude-code" }, "provider": { "type": "anthropic" },
            "domainContext": {
                "skills": ["careful", "short"], "prompts": [],
                "mcpServers": [{ "name": "files", "command": "x" }, "search"], "workflow": "w",
            },
            "metadata": { "team": "core" },
        });
        assert_eq!(
            template_detail(&template, Style::Plain),
            "review  1.0.0
  about       Reads changes
  backend     claude-code
  provider    anthropic
  skills      careful, short
  mcp         files, search
  workflow    w
  metadata    team=core
"
        );
    }

    #[test]
    fn a_template_without_anything_does_not_break_the_table() {
        let table = template_table(&[json!({ "name": "x" })]);
        assert_eq!(
            table.render(Style::Plain, Some(80)),
            "NAME  VERSION  BACKEND  PROVIDER  DESCRIPTION\nx\n"
        );
    }
}
