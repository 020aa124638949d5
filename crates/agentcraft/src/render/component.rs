//! Skills, prompts, MCP servers and workflows: one table and one detail for all kinds, by the keys they have.

use serde_json::Value;

use super::{
    fields::Fields,
    style::{Style, Tone, many_lines},
    table::{Cell, Column, Table},
    template::{names, text},
};

pub(crate) fn component_table(components: &[Value]) -> Table {
    let columns = [
        Column::whole("NAME"),
        Column::shortened("DESCRIPTION"),
        Column::shortened("DETAIL"),
    ];
    let row = |component: &Value| {
        [
            Cell::toned(Tone::Strong, text(component, "/name")),
            Cell::new(text(component, "/description")),
            Cell::new(&gist(component)),
        ]
    };
    Table::new(columns, components.iter().map(row))
}

/// The one thing that tells components of a kind apart beside their description.
fn gist(component: &Value) -> String {
    if component.get("command").is_some() {
        return command_line(component);
    }
    let tags = names(component, "/tags");
    if tags.is_empty() {
        names(component, "/variables")
    } else {
        tags
    }
}

pub(crate) fn component_detail(component: &Value, style: Style) -> String {
    let mut fields = Fields::new(style, text(component, "/name"), (Tone::Normal, ""));
    let variables = component
        .get("env")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    fields
        .field("about", text(component, "/description"))
        .field("tags", &names(component, "/tags"))
        .field("variables", &names(component, "/variables"))
        .field("command", &command_line(component))
        // Values may be secrets; whoever needs them asks for JSON.
        .list("variable", variables.map(|(name, _)| name.clone()));
    let mut detail = fields.finish();
    let content = text(component, "/content").trim_end();
    if !content.is_empty() {
        detail.push('\n');
        detail.push_str(&many_lines(content));
        detail.push('\n');
    }
    detail
}

fn command_line(component: &Value) -> String {
    let arguments = component
        .get("args")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let words =
        std::iter::once(text(component, "/command")).chain(arguments.filter_map(Value::as_str));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_prompt_shows_its_text_and_a_server_its_command() {
        let prompt = json!({ "name": "p", "description": "d", "content": "Hello {{x}}\n\n", "variables": ["x"] });
        assert_eq!(
            component_detail(&prompt, Style::Plain),
            "p\n  about       d\n  variables   x\n\nHello {{x}}\n"
        );
        let server = json!({ "name": "m", "command": "npx", "args": ["-y", "srv"], "env": { "TOKEN": "secret" } });
        assert_eq!(
            component_detail(&server, Style::Plain),
            "m\n  command     npx -y srv\n  variable    TOKEN\n"
        );
    }
}
