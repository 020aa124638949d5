//! The request that opens a session in the agent: our folder and servers, in the words of a client where it has some.

use std::path::PathBuf;

use agent_client_protocol_schema::v1::McpServer;
use engine::NativeOpen;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::{convert, members::Members};

/// What a session is opened with.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    /// The request of a client that speaks the protocol too.
    pub(crate) words: Option<&'a NativeOpen>,
    /// Those of the template.
    pub(crate) servers: Vec<McpServer>,
    pub(crate) cwd: PathBuf,
}

impl Opening<'_> {
    /// Whether a client asked for a session together with everything that was said in it.
    pub(crate) fn wants_history(&self) -> bool {
        self.words
            .is_some_and(|words| words.method == "session/load")
    }

    /// Whether a client asked for the session by the agent's own id of it.
    pub(crate) fn names(&self, id: &str) -> bool {
        let params = self
            .words
            .and_then(|words| Members::read(&words.params.frame));
        params
            .and_then(|params| params.text("sessionId"))
            .as_deref()
            == Some(id)
    }

    pub(crate) fn new_session(&self) -> Box<RawValue> {
        self.request(None)
    }

    pub(crate) fn earlier_session(&self, id: &str) -> Box<RawValue> {
        self.request(Some(id))
    }

    fn request(&self, id: Option<&str>) -> Box<RawValue> {
        let params = self.words.map_or("{}", |words| &words.params.frame);
        let mut members = Members::read(params).unwrap_or_default();
        match id {
            Some(id) => members.set("sessionId", id),
            None => members.remove("sessionId"),
        }
        members.set("cwd", &self.cwd);
        let brought = members.get("mcpServers").map(RawValue::get);
        let servers = self.all_servers(brought);
        members.set("mcpServers", &servers);
        members.write()
    }

    /// The template's, then those that the client brought under other names.
    fn all_servers(&self, brought: Option<&str>) -> Vec<Value> {
        let mut servers: Vec<Value> = self.servers.iter().map(plain).collect();
        let brought: Vec<Value> = brought
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        for server in brought {
            let name = convert::text(&server, "name");
            let known = servers.iter().any(|own| convert::text(own, "name") == name);
            if !known {
                servers.push(server);
            }
        }
        servers
    }
}

fn plain(server: &impl Serialize) -> Value {
    serde_json::to_value(server).unwrap_or_else(|_| json!({}))
}
