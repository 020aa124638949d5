//! The MCP servers that the agents of a run are given: programs, and those behind an address.
//!
//! Who asks for a run may bring some. They are merged by their names, and theirs win.

use catalog::McpServer;
use domain::{
    Name,
    turn::{Dialect, Raw},
};
use engine::{Clash, NativeOpen};
use serde_json::{Value, json};

/// Servers with names of their own.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    pub(crate) programs: Vec<McpServer>,
    remote: Vec<Remote>,
}

/// One behind an address.
#[derive(Debug, Clone)]
struct Remote {
    name: Name,
    transport: Transport,
    /// In the words of ACP, with its headers, which may be secrets.
    words: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Http,
    Sse,
}

impl Transport {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "http" => Some(Self::Http),
            "sse" => Some(Self::Sse),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }
}

/// How an agent is told of servers behind an address.
#[derive(Debug, Clone)]
pub(crate) enum Takes {
    /// As ACP has it: those that its answer to `initialize` names.
    Declared(Raw),
    /// Its driver sorts out what the program can, and says what it cannot.
    Sorted,
    /// Not at all.
    None,
}

impl Servers {
    /// Those of a template or of the node.
    pub(crate) fn of_programs(programs: Vec<McpServer>) -> Self {
        Self {
            programs,
            remote: Vec::new(),
        }
    }

    /// Those of the request that opened a conversation, and words about those that cannot be used.
    pub(crate) fn brought(params: &str) -> (Self, Vec<String>) {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        let brought = params["mcpServers"].as_array().cloned().unwrap_or_default();
        let (mut servers, mut left_out) = (Self::default(), Vec::new());
        for server in brought {
            let name = server["name"].as_str().unwrap_or_default();
            let Ok(name) = Name::parse(name) else {
                left_out.push(format!(
                    "the MCP server {name:?} of the editor is left out: that is no name here"
                ));
                continue;
            };
            let kind = server["type"].as_str().unwrap_or("stdio");
            let transport = Transport::parse(kind).filter(|_| server["url"].is_string());
            match (server["command"].as_str(), transport) {
                (_, Some(transport)) => servers.remote.push(Remote {
                    name,
                    transport,
                    words: server,
                }),
                (Some(command), None) => servers.programs.push(McpServer {
                    name,
                    description: None,
                    command: command.to_owned(),
                    args: texts(&server["args"]),
                    env: pairs(&server["env"]),
                }),
                (None, None) => left_out.push(format!(
                    "the MCP server {name} of the editor is left out: it has neither a command nor an address that is known here ({kind})"
                )),
            }
        }
        (servers, left_out)
    }

    /// Both in one; who comes later wins over an earlier one of the same name.
    pub(crate) fn with(self, later: Self) -> Self {
        let is_free = |name: &Name| {
            !later.programs.iter().any(|other| other.name == *name)
                && !later.remote.iter().any(|other| other.name == *name)
        };
        let programs = self.programs.into_iter();
        let programs = programs.filter(|server| is_free(&server.name));
        let remote = self.remote.into_iter();
        let remote = remote.filter(|server| is_free(&server.name));
        Self {
            programs: programs.chain(later.programs.iter().cloned()).collect(),
            remote: remote.chain(later.remote.iter().cloned()).collect(),
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> {
        let programs = self.programs.iter().map(|server| &server.name);
        programs.chain(self.remote.iter().map(|server| &server.name))
    }

    /// The request in which an agent is told of those behind an address, if there are some for it, and words about the others.
    pub(crate) fn remote_for(
        &self,
        agent: &str,
        takes: &Takes,
    ) -> (Option<NativeOpen>, Vec<String>) {
        let (words, left_out) = self.sorted(agent, takes);
        (opening(words), left_out)
    }

    /// As [`Servers::remote_for`], with the programs too, for an agent whose driver is not given them otherwise.
    pub(crate) fn all_for(&self, agent: &str, takes: &Takes) -> (Option<NativeOpen>, Vec<String>) {
        let (remote, left_out) = self.sorted(agent, takes);
        let words = self.programs.iter().map(program).chain(remote);
        (opening(words.collect()), left_out)
    }

    fn sorted(&self, agent: &str, takes: &Takes) -> (Vec<Value>, Vec<String>) {
        let hello: Value = match takes {
            Takes::Declared(hello) => serde_json::from_str(&hello.frame).unwrap_or_default(),
            Takes::Sorted | Takes::None => Value::Null,
        };
        let is_taken = |server: &&Remote| match takes {
            Takes::Declared(_) => {
                let capabilities = &hello["agentCapabilities"]["mcpCapabilities"];
                capabilities[server.transport.word()] == true
            }
            Takes::Sorted => true,
            Takes::None => false,
        };
        let (taken, others): (Vec<&Remote>, Vec<&Remote>) = self.remote.iter().partition(is_taken);
        let left_out = others.into_iter().map(|server| {
            let (name, how) = (&server.name, server.transport.word());
            format!("{agent} does not get the MCP server {name}: it takes none over {how}")
        });
        let words = taken.into_iter().map(|server| server.words.clone());
        (words.collect(), left_out.collect())
    }
}

/// A program in the words of ACP.
fn program(server: &McpServer) -> Value {
    let env = server.env.iter();
    let env = env.map(|(name, value)| json!({ "name": name, "value": value }));
    json!({
        "name": server.name.as_str(),
        "command": server.command,
        "args": server.args,
        "env": env.collect::<Vec<_>>(),
    })
}

/// What an agent is told when its conversation is opened, if there is something to tell.
fn opening(servers: Vec<Value>) -> Option<NativeOpen> {
    let frame = (!servers.is_empty()).then(|| json!({ "mcpServers": servers }).to_string())?;
    Some(NativeOpen {
        method: "session/new".to_owned(),
        params: Raw {
            dialect: Dialect::Acp,
            frame: frame.into(),
        },
        clash: Clash::OpenerWins,
    })
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn pairs(list: &Value) -> std::collections::BTreeMap<String, String> {
    let items = list.as_array().into_iter().flatten();
    items
        .filter_map(|item| {
            let text = |key: &str| item[key].as_str().map(str::to_owned);
            Some((text("name")?, text("value")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brought() -> (Servers, Vec<String>) {
        let params = json!({ "mcpServers": [
            { "name": "files", "command": "/bin/b", "args": ["-x"], "env": [{ "name": "K", "value": "V" }] },
            { "type": "http", "name": "far", "url": "http://x", "headers": [{ "name": "H", "value": "V" }] },
            { "type": "sse", "name": "old", "url": "http://y", "headers": [] },
            { "type": "acp", "name": "odd", "id": "1" },
            { "name": "../evil", "command": "c" },
        ]});
        Servers::brought(&params.to_string())
    }

    fn own(name: &str, command: &str) -> McpServer {
        McpServer {
            name: Name::parse(name).unwrap(),
            description: None,
            command: command.to_owned(),
            args: Vec::new(),
            env: Default::default(),
        }
    }

    fn names(open: Option<NativeOpen>) -> Vec<String> {
        let Some(open) = open else {
            return Vec::new();
        };
        let params: Value = serde_json::from_str(&open.params.frame).unwrap();
        let servers = params["mcpServers"].as_array().unwrap().iter();
        servers
            .map(|server| server["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_editors_server_wins_over_one_of_the_same_name_whatever_its_kind() {
        let (servers, left_out) = brought();
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        let first = vec![own("files", "/bin/a"), own("git", "g"), own("far", "f")];
        let all = Servers::of_programs(first).with(servers);
        let commands: Vec<&str> = all
            .programs
            .iter()
            .map(|server| server.command.as_str())
            .collect();
        assert_eq!(commands, ["g", "/bin/b"]);
        assert_eq!(all.programs[1].env["K"], "V");
        let (open, _) = all.all_for("a", &Takes::Sorted);
        assert_eq!(names(open), ["git", "files", "far", "old"]);
    }

    #[test]
    fn an_agent_gets_those_that_it_declares_and_words_are_said_of_the_others() {
        let (servers, _) = brought();
        let hello = json!({ "agentCapabilities": { "mcpCapabilities": { "http": true } } });
        let declared = Takes::Declared(Raw {
            dialect: Dialect::Acp,
            frame: hello.to_string().into(),
        });
        let (open, left_out) = servers.remote_for("claude", &declared);
        let said = "claude does not get the MCP server old: it takes none over sse";
        assert_eq!(
            (names(open), left_out),
            (vec!["far".to_owned()], vec![said.to_owned()])
        );
        let (open, left_out) = servers.remote_for("codex", &Takes::Sorted);
        assert_eq!((names(open).len(), left_out.len()), (2, 0));
        let (open, left_out) = servers.remote_for("model", &Takes::None);
        assert_eq!((names(open).len(), left_out.len()), (0, 2));
    }

    #[test]
    fn the_words_of_a_server_stay_as_the_editor_wrote_them() {
        let (servers, _) = brought();
        let (open, _) = servers.remote_for("claude", &Takes::Sorted);
        let params: Value = serde_json::from_str(&open.unwrap().params.frame).unwrap();
        let far = json!({ "type": "http", "name": "far", "url": "http://x", "headers": [{ "name": "H", "value": "V" }] });
        assert_eq!(params["mcpServers"][0], far);
    }
}
