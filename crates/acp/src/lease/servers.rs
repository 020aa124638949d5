//! MCP servers that an editor brings: commands that the agent would run on this machine, so the policy decides on each.

use domain::{
    Name,
    turn::{ToolCall, ToolKind, ToolStatus},
};
use engine::Sessions;
use serde_json::{Value, json, value::RawValue};

use crate::{convert, members::Members};

/// Params of a request that opens a session, with only the servers that are allowed, and words about the others.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) params: Box<RawValue>,
    pub(super) refused: Vec<String>,
}

/// Lets the policy decide on every server. Nobody can be asked: the editor does not know the session yet.
pub(super) fn admit(sessions: &Sessions, agent: &Name, params: &RawValue) -> Admitted {
    let decide = |act| sessions.permits(agent, act);
    admit_by(decide, params)
}

fn admit_by(decide: impl Fn(ToolCall) -> Result<(), String>, params: &RawValue) -> Admitted {
    let mut members = Members::read(params.get()).unwrap_or_default();
    let brought: Vec<Value> = members
        .get("mcpServers")
        .and_then(|servers| serde_json::from_str(servers.get()).ok())
        .unwrap_or_default();
    let (mut allowed, mut refused) = (Vec::new(), Vec::new());
    for server in brought {
        let name = convert::text(&server, "name")
            .unwrap_or("without a name")
            .to_owned();
        match decide(act(&name, &server)) {
            Ok(()) => allowed.push(server),
            Err(why) => refused.push(format!(
                "the MCP server {name} of the editor is left out: {why}; a rule that allows what it runs lets it in"
            )),
        }
    }
    members.set("mcpServers", &allowed);
    Admitted {
        params: members.write(),
        refused,
    }
}

/// The act that a server is: a command that runs, or an address that is fetched from.
fn act(name: &str, server: &Value) -> ToolCall {
    let (kind, what, input) = match convert::text(server, "url") {
        Some(url) => (ToolKind::Fetch, url.to_owned(), json!({ "url": url })),
        None => {
            let line = command_line(server);
            let input = json!({ "command": line });
            (ToolKind::Execute, line, input)
        }
    };
    ToolCall {
        id: "mcp-server".to_owned(),
        title: format!("MCP server {name}: {what}"),
        name: None,
        kind,
        status: ToolStatus::Pending,
        locations: Vec::new(),
        content: Vec::new(),
        input: Some(input.to_string()),
        output: None,
    }
}

/// The command as a shell would be given it, which is how rules read commands.
fn command_line(server: &Value) -> String {
    let command = convert::text(server, "command").unwrap_or_default();
    let args = server["args"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let words = std::iter::once(command).chain(args.iter().filter_map(Value::as_str));
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn each_server_is_decided_on_and_the_others_stay_out_in_words() {
        let params = to_raw_value(&json!({ "cwd": "/p", "_meta": 1.50, "mcpServers": [
            { "name": "good", "command": "npx", "args": ["-y", "it's here"], "env": [] },
            { "name": "bad", "command": "rm", "args": ["-rf", "/"], "env": [] },
            { "type": "http", "name": "far", "url": "https://x.test/mcp", "headers": [] },
        ]}))
        .unwrap();
        let decide = |act: ToolCall| match (act.kind, act.input.unwrap().contains("npx")) {
            (ToolKind::Execute, true) => Ok(()),
            (kind, _) => Err(format!("no {}", kind.as_str())),
        };
        let admitted = admit_by(decide, &params);
        let told: Value = serde_json::from_str(admitted.params.get()).unwrap();
        assert_eq!(told["mcpServers"].as_array().unwrap().len(), 1);
        assert_eq!((&told["cwd"], &told["_meta"]), (&json!("/p"), &json!(1.50)));
        assert_eq!(admitted.refused.len(), 2, "{:?}", admitted.refused);
        assert!(admitted.refused[1].contains("far") && admitted.refused[1].contains("no fetch"));
    }

    #[test]
    fn a_command_is_read_as_the_words_it_has() {
        let server = json!({ "command": "/bin/sh", "args": ["-c", "a; b", ""] });
        assert_eq!(command_line(&server), "/bin/sh -c 'a; b' ''");
    }
}
