//! The MCP servers of a conversation, as programs take them: in a file, or as settings with variables.
//!
//! Everybody on a machine can read the arguments of a process, so the values of a server's variables, which are often
//! secrets, never become one: they stand in a file that only its owner reads, or in the program's environment.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use platform::{
    ConfinedDir, confined,
    files::{self, Durability, FileError, Mode},
};
use serde_json::{Map, Value, json};

use crate::sessions::FOLDER;

/// One server, a program that is started by the agent's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
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
    ) -> Result<Self, ServersError> {
        ConfinedDir::open(workspace)
            .and_then(|folder| folder.create_dir_all(FOLDER))
            .map_err(|source| ServersError::Folder { source })?;
        // A turn has its conversation for itself, so the name is its own; one that a crash left is replaced.
        let path = workspace.join(FOLDER).join(format!("mcp-{session}.json"));
        let text = document(servers).to_string();
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

/// The form that all programs which take a file have in common.
fn document(servers: &[Server]) -> Value {
    let shape = |server: &Server| {
        let mut shape = json!({"command": server.command, "args": server.args});
        if !server.env.is_empty() {
            shape["env"] = json!(server.env);
        }
        (server.name.clone(), shape)
    };
    json!({"mcpServers": servers.iter().map(shape).collect::<Map<_, _>>()})
}

/// A server as a setting of Codex, and the variables that it refers to.
pub(crate) fn setting(index: usize, server: &Server) -> (OsString, BTreeMap<OsString, OsString>) {
    let mut variables = BTreeMap::new();
    let mut names = Vec::new();
    let mut script = String::new();
    for (name, value) in &server.env {
        if !is_variable(name) {
            tracing::warn!(server = %server.name, variable = %name, "no shell can set this variable of an MCP server");
            continue;
        }
        // Codex passes variables on by their names alone, and its own may have the same.
        let alias = format!("AGENTCRAFT_MCP_{index}_{}", names.len());
        script.push_str(&format!("export {name}=\"${alias}\"; unset {alias}; "));
        variables.insert(OsString::from(&alias), OsString::from(value));
        names.push(alias);
    }
    let mut words = vec![server.command.as_str()];
    words.extend(server.args.iter().map(String::as_str));
    let script = format!("{script}exec \"$@\"");
    if !names.is_empty() {
        words.splice(0..0, ["sh", "-c", &script, "sh"]);
    }
    let mut setting = format!(
        "mcp_servers.{}={{command={},args={}",
        server.name,
        quoted(words[0]),
        list(words[1..].iter().copied())
    );
    if !names.is_empty() {
        let names = list(names.iter().map(String::as_str));
        setting.push_str(&format!(",env_vars={names}"));
    }
    setting.push('}');
    (setting.into(), variables)
}

fn is_variable(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(legal)
}

fn list<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.map(quoted).collect();
    format!("[{}]", texts.join(","))
}

/// A TOML string. JSON's escapes are TOML's, which also wants one for the last control character.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn server(env: &[(&str, &str)]) -> Server {
        Server {
            name: "files".to_owned(),
            command: "fs".to_owned(),
            args: vec!["--root".to_owned(), "a \"b\"\n".to_owned()],
            env: env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn the_file_is_for_its_owner_alone_and_goes_with_its_holder() {
        let workspace = tempfile::tempdir().unwrap();
        let servers = [server(&[("KEY", "secret")])];
        let file = ServersFile::write(workspace.path(), "print-1", &servers).unwrap();
        let path = file.path().to_owned();
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = json!({"mcpServers": {"files": {
            "command": "fs", "args": ["--root", "a \"b\"\n"], "env": {"KEY": "secret"},
        }}});
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_leads_outside_is_not_followed() {
        let (workspace, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), workspace.path().join(FOLDER)).unwrap();
        let refused = ServersFile::write(workspace.path(), "print-1", &[server(&[])]);
        assert!(matches!(refused, Err(ServersError::Folder { .. })));
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_setting_holds_no_value_of_a_variable() {
        let (plain, none) = setting(0, &server(&[]));
        let expected = r#"mcp_servers.files={command="fs",args=["--root","a \"b\"\n"]}"#;
        assert_eq!((plain.to_str().unwrap(), none.len()), (expected, 0));

        let (setting, variables) = setting(1, &server(&[("KEY", "secret"), ("a.b", "lost")]));
        let expected = r#"mcp_servers.files={command="sh",args=["-c","export KEY=\"$AGENTCRAFT_MCP_1_0\"; unset AGENTCRAFT_MCP_1_0; exec \"$@\"","sh","fs","--root","a \"b\"\n"],env_vars=["AGENTCRAFT_MCP_1_0"]}"#;
        assert_eq!(setting.to_str().unwrap(), expected);
        let variable = ("AGENTCRAFT_MCP_1_0".into(), "secret".into());
        assert_eq!(variables, BTreeMap::from([variable]));
    }

    #[test]
    fn a_text_is_quoted_as_toml_reads_it() {
        assert_eq!(quoted("a\u{7f}\t\u{1}é\\"), r#""a\u007f\t\u0001é\\""#);
    }
}
