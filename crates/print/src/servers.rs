//! The MCP servers of a conversation, as programs take them: in a file, as settings with variables, or in one variable.
//!
//! Everybody on a machine can read the arguments of a process, so the values of a server's variables and headers, which are
//! often secrets, never become one: they stand in a file that only its owner reads, or in the program's environment.

mod told;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use platform::{
    ConfinedDir, confined,
    files::{self, Durability, FileError, Mode},
};
use serde_json::Value;

pub(crate) use told::{CONFIGURATION, Form, configuration, setting};

use crate::sessions::FOLDER;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) reached: Reached,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reached {
    /// A program that the agent's program starts.
    Program {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
    },
    /// One that runs already.
    Address {
        transport: Transport,
        url: String,
        headers: BTreeMap<String, String>,
    },
}

/// What is spoken with a server behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    /// The transport before streamable HTTP.
    Sse,
}

impl Transport {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }
}

impl Server {
    /// The servers of a request of ACP that opens a session. What is none is left out.
    pub(crate) fn brought(params: &str) -> Vec<Self> {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        let servers = params["mcpServers"].as_array().into_iter().flatten();
        servers.filter_map(Self::read).collect()
    }

    fn read(server: &Value) -> Option<Self> {
        let text = |key: &str| server[key].as_str().map(str::to_owned);
        let address = |transport| {
            Some(Reached::Address {
                transport,
                url: text("url")?,
                headers: pairs(&server["headers"]),
            })
        };
        let reached = match server["type"].as_str() {
            Some("http") => address(Transport::Http)?,
            Some("sse") => address(Transport::Sse)?,
            Some(_) | None => Reached::Program {
                command: text("command")?,
                args: texts(&server["args"]),
                env: pairs(&server["env"]),
            },
        };
        // It becomes part of a setting, where only these need no quotes.
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let name = text("name").filter(|name| !name.is_empty() && name.bytes().all(legal))?;
        Some(Self { name, reached })
    }
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

/// Why the servers could not be written down.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServersError {
    #[error("could not prepare the folder {FOLDER} of the workspace")]
    Folder { source: confined::ConfinedError },
    #[error("could not write the file for the program")]
    File { source: FileError },
}

/// A file with servers that goes when the program that reads it has ended.
#[derive(Debug)]
pub(crate) struct ServersFile {
    path: PathBuf,
}

impl ServersFile {
    /// Writes the servers of a conversation. Blocks.
    pub(crate) fn write(
        workspace: &Path,
        session: &str,
        servers: &[Server],
        form: Form,
    ) -> Result<Self, ServersError> {
        ConfinedDir::open(workspace)
            .and_then(|folder| folder.create_dir_all(FOLDER))
            .map_err(|source| ServersError::Folder { source })?;
        // A turn has its conversation for itself, so the name is its own; one that a crash left is replaced.
        let path = workspace.join(FOLDER).join(format!("mcp-{session}.json"));
        let text = told::document(servers, form).to_string();
        files::write_atomic(
            &path,
            text.as_bytes(),
            Mode::PRIVATE,
            Durability::ProcessDeath,
        )
        .map_err(|source| ServersError::File { source })?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ServersFile {
    fn drop(&mut self) {
        if let Err(error) = files::remove_file_if_there(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a file with MCP servers is left");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn server() -> Server {
        Server {
            name: "files".to_owned(),
            reached: Reached::Program {
                command: "fs".to_owned(),
                args: vec!["--root".to_owned()],
                env: BTreeMap::from([("KEY".to_owned(), "secret".to_owned())]),
            },
        }
    }

    #[test]
    fn the_file_is_for_its_owner_alone_and_goes_with_its_holder() {
        let workspace = tempfile::tempdir().unwrap();
        let write = |form| ServersFile::write(workspace.path(), "print-1", &[server()], form);
        let file = write(Form::Typed).unwrap();
        let path = file.path().to_owned();
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = json!({"mcpServers": {"files": {
            "command": "fs", "args": ["--root"], "env": {"KEY": "secret"},
        }}});
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_leads_outside_is_not_followed() {
        let (workspace, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), workspace.path().join(FOLDER)).unwrap();
        let servers = [server()];
        let refused = ServersFile::write(workspace.path(), "print-1", &servers, Form::Typed);
        assert!(matches!(refused, Err(ServersError::Folder { .. })));
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn servers_of_an_editor_are_read_whatever_their_kind_and_odd_ones_are_left_out() {
        let params = json!({ "mcpServers": [
            { "name": "files", "command": "fs", "args": ["--root"], "env": [{ "name": "KEY", "value": "secret" }] },
            { "type": "http", "name": "far", "url": "http://x", "headers": [{ "name": "H", "value": "V" }] },
            { "type": "sse", "name": "old", "url": "http://y", "headers": [] },
            { "type": "http", "name": "nowhere" },
            { "name": "a.b={", "command": "c" },
        ]});
        let address = |transport, url: &str, headers| Reached::Address {
            transport,
            url: url.to_owned(),
            headers,
        };
        let named = |name: &str, reached| Server {
            name: name.to_owned(),
            reached,
        };
        let header = BTreeMap::from([("H".to_owned(), "V".to_owned())]);
        let expected = [
            server(),
            named("far", address(Transport::Http, "http://x", header)),
            named("old", address(Transport::Sse, "http://y", BTreeMap::new())),
        ];
        assert_eq!(Server::brought(&params.to_string()), expected);
    }
}
