//! MCP servers that somebody brings to a conversation with a model, beside those of its template.

use std::collections::BTreeMap;

use catalog::McpServer;
use domain::Name;
use engine::ToolServer;
use serde_json::Value;

/// The servers of a request of ACP that opens a session. What is none is left out.
pub(crate) fn brought(params: &str) -> Vec<ToolServer> {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    let servers = params["mcpServers"].as_array().into_iter().flatten();
    servers.filter_map(read).collect()
}

/// The template's, then those that were brought under other names.
pub(crate) fn all(own: Vec<ToolServer>, brought: Vec<ToolServer>) -> Vec<ToolServer> {
    let mut servers = own;
    for server in brought {
        if !servers.iter().any(|known| known.name() == server.name()) {
            servers.push(server);
        }
    }
    servers
}

fn read(server: &Value) -> Option<ToolServer> {
    let text = |key: &str| server[key].as_str().map(str::to_owned);
    // It becomes a part of the names of tools.
    let name = Name::parse(server["name"].as_str()?).ok()?;
    Some(match server["type"].as_str() {
        Some("http") => ToolServer::Http {
            name: name.to_string(),
            url: text("url")?,
            headers: pairs(&server["headers"]),
        },
        Some("sse") => ToolServer::Sse {
            name: name.to_string(),
            url: text("url")?,
            headers: pairs(&server["headers"]),
        },
        Some("stdio") | None => ToolServer::Stdio(McpServer {
            name,
            description: None,
            command: text("command")?,
            args: texts(&server["args"]),
            env: pairs(&server["env"]),
        }),
        Some(_) => return None,
    })
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn pairs(list: &Value) -> BTreeMap<String, String> {
    let pair = |item: &Value| {
        let text = |key: &str| item[key].as_str().map(str::to_owned);
        Some((text("name")?, text("value")?))
    };
    let items = list.as_array().into_iter().flatten();
    items.filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_of_every_kind_are_brought_and_the_templates_keep_their_names() {
        let brought = brought(
            &json!({ "mcpServers": [
                { "name": "files", "command": "/bin/b", "args": ["-x"], "env": [{ "name": "K", "value": "V" }] },
                { "type": "http", "name": "far", "url": "http://x", "headers": [{ "name": "H", "value": "V" }] },
                { "type": "sse", "name": "old", "url": "http://y", "headers": [] },
                { "type": "acp", "name": "odd", "id": "1" },
                { "name": "../evil", "command": "c" },
                { "name": "nothing" },
            ]})
            .to_string(),
        );
        let names = |servers: &[ToolServer]| -> Vec<String> {
            servers
                .iter()
                .map(|server| server.name().to_owned())
                .collect()
        };
        assert_eq!(names(&brought), ["files", "far", "old"]);
        let ToolServer::Stdio(files) = &brought[0] else {
            panic!("{brought:?}");
        };
        assert_eq!(
            (files.args[0].as_str(), files.env["K"].as_str()),
            ("-x", "V")
        );
        let own = ToolServer::Stdio(McpServer {
            command: "/bin/a".to_owned(),
            ..files.clone()
        });
        let all = all(vec![own.clone()], brought);
        assert_eq!(names(&all), ["files", "far", "old"]);
        assert_eq!(all[0], own);
    }
}
