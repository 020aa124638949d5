//! MCP servers that an editor brings: commands that the agent would run on this machine, so the policy decides on each.

use domain::{
    Name,
    turn::{ToolCall, ToolKind, ToolStatus},
};
use engine::Sessions;
use serde_json::{Value, json, value::RawValue};

use crate::{
    command::{self, quoted},
    convert,
    members::Members,
};

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
        match acts(&name, &server).into_iter().try_for_each(&decide) {
            Ok(()) => allowed.push(server),
            Err(why) => refused.push(format!(
                "the MCP server {name} of the editor is left out: {why}; a rule that allows what it runs lets it in"
            )),
        }
    }
    members.set("mcpServers", &allowed);
    if let Some((meta, why)) = without_options(&members, &decide) {
        members.set("_meta", &meta);
        refused.push(why);
    }
    Admitted {
        params: members.write(),
        refused,
    }
}

/// What a server is, whichever of its members the agent goes by: a command that runs, an address that is fetched from.
fn acts(name: &str, server: &Value) -> Vec<ToolCall> {
    let url = convert::text(server, "url").map(|url| {
        let input = json!({ "url": url });
        act(
            &format!("MCP server {name}: {url}"),
            ToolKind::Fetch,
            &input,
        )
    });
    let command = (url.is_none() || server.get("command").is_some()).then(|| {
        let line = command_line(server);
        let input = json!({ "command": line });
        act(
            &format!("MCP server {name}: {line}"),
            ToolKind::Execute,
            &input,
        )
    });
    url.into_iter().chain(command).collect()
}

/// Claude Code takes settings from here that name servers, hooks and arguments: commands, every one of them.
fn without_options(
    members: &Members<'_>,
    decide: impl Fn(ToolCall) -> Result<(), String>,
) -> Option<(Value, String)> {
    let mut meta: Value = serde_json::from_str(members.get("_meta")?.get()).ok()?;
    let claude = meta.get_mut("claudeCode")?.as_object_mut()?;
    let input = json!({ "command": claude.get("options")?.to_string() });
    let why = decide(act(
        "options of the editor for Claude Code",
        ToolKind::Execute,
        &input,
    ));
    let why = why.err()?;
    claude.remove("options");
    let words = format!("the options of the editor for Claude Code are left out: {why}");
    Some((meta, words))
}

fn act(title: &str, kind: ToolKind, input: &Value) -> ToolCall {
    ToolCall {
        id: "mcp-server".to_owned(),
        title: title.to_owned(),
        name: None,
        kind,
        status: ToolStatus::Pending,
        locations: Vec::new(),
        content: Vec::new(),
        input: Some(input.to_string()),
        output: None,
    }
}

/// The command with what decides what it runs: variables, and a folder of its own.
fn command_line(server: &Value) -> String {
    let folder = convert::text(server, "cwd").map(|folder| format!("cd {} && ", quoted(folder)));
    format!("{}{}", folder.unwrap_or_default(), command::line(server))
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
        let line = |server: Value| command_line(&server);
        let variables = json!([{ "name": "TOKEN", "value": "secret" }, { "name": "LD_PRELOAD", "value": "/x.so" }]);
        let server = json!({ "command": "npx", "args": ["a"], "env": variables, "cwd": "/e" });
        assert_eq!(line(server), "cd /e && LD_PRELOAD=/x.so npx a");
        assert!(admitted.refused[1].contains("far") && admitted.refused[1].contains("no fetch"));
    }

    #[test]
    fn no_second_name_and_no_second_kind_leads_around_the_policy() {
        let fetches = |act: ToolCall| match act.kind {
            ToolKind::Fetch => Ok(()),
            kind => Err(format!("no {}", kind.as_str())),
        };
        let evil = r#"{"name":"evil","command":"/bin/evil","args":[],"url":"https://ok.test/"}"#;
        let params = format!(
            r#"{{"cwd":"/p","mcpServers":[],"mcpServers":[{evil}],"_meta":{{"x":1,"claudeCode":{{"y":2,"options":{{"hooks":[]}}}}}}}}"#
        );
        let params = RawValue::from_string(params).unwrap();
        let admitted = admit_by(fetches, &params);
        assert_eq!(
            admitted.params.get(),
            r#"{"cwd":"/p","mcpServers":[],"_meta":{"x":1,"claudeCode":{"y":2}}}"#
        );
        assert_eq!(admitted.refused.len(), 2, "{:?}", admitted.refused);
    }
}
