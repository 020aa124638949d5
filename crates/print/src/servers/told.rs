//! The words in which each program is told of servers.

use std::{collections::BTreeMap, ffi::OsString};

use serde_json::{Map, Value, json};

use super::{Reached, Server, Transport};
use crate::program::Request;

/// The variable in which OpenCode is given a configuration beside those in files.
pub(crate) const CONFIGURATION: &str = "OPENCODE_CONFIG_CONTENT";

/// How a file says what is spoken with a server behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// By its `type`.
    Typed,
    /// By the key that the address stands under.
    ByKey,
}

/// The file, which is otherwise the same for all programs that take one.
pub(super) fn document(servers: &[Server], form: Form) -> Value {
    let shape = |server: &Server| {
        let shape = match &server.reached {
            Reached::Program { command, args, env } => {
                let mut shape = json!({ "command": command, "args": args });
                if !env.is_empty() {
                    shape["env"] = json!(env);
                }
                shape
            }
            Reached::Address {
                transport,
                url,
                headers,
            } => {
                let mut shape = match (form, transport) {
                    (Form::Typed, transport) => json!({ "type": transport.word(), "url": url }),
                    (Form::ByKey, Transport::Http) => json!({ "httpUrl": url }),
                    (Form::ByKey, Transport::Sse) => json!({ "url": url }),
                };
                if !headers.is_empty() {
                    shape["headers"] = json!(headers);
                }
                shape
            }
        };
        (server.name.clone(), shape)
    };
    json!({"mcpServers": servers.iter().map(shape).collect::<Map<_, _>>()})
}

/// The configuration of OpenCode with the servers in it, and with what the variable holds already.
pub(crate) fn configuration(request: &Request<'_>) -> Option<OsString> {
    if request.servers.is_empty() {
        return None;
    }
    let there = request.environment.get(&OsString::from(CONFIGURATION));
    let mut whole = match there.map(|text| serde_json::from_str(&text.to_string_lossy())) {
        None => json!({}),
        Some(Ok(Value::Object(whole))) => Value::Object(whole),
        Some(_) => {
            tracing::warn!("{CONFIGURATION} is no JSON object, so no MCP server is added to it");
            return None;
        }
    };
    if !whole["mcp"].is_object() {
        whole["mcp"] = json!({});
    }
    for server in request.servers {
        whole["mcp"][&server.name] = match &server.reached {
            Reached::Program { command, args, env } => {
                let words: Vec<&String> = std::iter::once(command).chain(args).collect();
                json!({ "type": "local", "command": words, "environment": env, "enabled": true })
            }
            Reached::Address { url, headers, .. } => {
                json!({ "type": "remote", "url": url, "headers": headers, "enabled": true })
            }
        };
    }
    Some(whole.to_string().into())
}

/// A server as a setting of Codex, and the variables that it refers to.
pub(crate) fn setting(index: usize, server: &Server) -> (OsString, BTreeMap<OsString, OsString>) {
    let (words, variables) = match &server.reached {
        Reached::Program { command, args, env } => {
            program_setting(index, &server.name, (command, args, env))
        }
        Reached::Address { url, headers, .. } => address_setting(index, url, headers),
    };
    let setting = format!("mcp_servers.{}={{{words}}}", server.name);
    (setting.into(), variables)
}

type Variables = BTreeMap<OsString, OsString>;

fn address_setting(
    index: usize,
    url: &str,
    headers: &BTreeMap<String, String>,
) -> (String, Variables) {
    let mut variables = BTreeMap::new();
    let mut names = Vec::new();
    for (header, value) in headers {
        let variable = alias(index, names.len());
        variables.insert(OsString::from(&variable), OsString::from(value));
        names.push(format!("{}={}", quoted(header), quoted(&variable)));
    }
    let mut words = format!("url={}", quoted(url));
    if !names.is_empty() {
        words.push_str(&format!(",env_http_headers={{{}}}", names.join(",")));
    }
    (words, variables)
}

fn program_setting(
    index: usize,
    server: &str,
    (command, args, env): (&String, &[String], &BTreeMap<String, String>),
) -> (String, Variables) {
    let mut variables = BTreeMap::new();
    let mut names = Vec::new();
    let mut script = String::new();
    for (name, value) in env {
        if !is_variable(name) {
            tracing::warn!(server, variable = %name, "no shell can set this variable of an MCP server");
            continue;
        }
        // Codex passes variables on by their names alone, and its own may have the same.
        let alias = alias(index, names.len());
        script.push_str(&format!("export {name}=\"${alias}\"; unset {alias}; "));
        variables.insert(OsString::from(&alias), OsString::from(value));
        names.push(alias);
    }
    let mut words = vec![command.as_str()];
    words.extend(args.iter().map(String::as_str));
    let script = format!("{script}exec \"$@\"");
    if !names.is_empty() {
        words.splice(0..0, ["sh", "-c", &script, "sh"]);
    }
    let mut setting = format!(
        "command={},args={}",
        quoted(words[0]),
        list(words[1..].iter().copied())
    );
    if !names.is_empty() {
        let names = list(names.iter().map(String::as_str));
        setting.push_str(&format!(",env_vars={names}"));
    }
    (setting, variables)
}

/// The variable that holds one secret of a server.
fn alias(server: usize, number: usize) -> String {
    format!("AGENTCRAFT_MCP_{server}_{number}")
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
    use engine::TurnOptions;

    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    fn program(env: &[(&str, &str)]) -> Server {
        Server {
            name: "files".to_owned(),
            reached: Reached::Program {
                command: "fs".to_owned(),
                args: vec!["--root".to_owned(), "a \"b\"\n".to_owned()],
                env: pairs(env),
            },
        }
    }

    fn address(transport: Transport, headers: &[(&str, &str)]) -> Server {
        Server {
            name: "far".to_owned(),
            reached: Reached::Address {
                transport,
                url: "https://x.test/mcp".to_owned(),
                headers: pairs(headers),
            },
        }
    }

    #[test]
    fn a_setting_holds_no_value_of_a_variable() {
        let (plain, none) = setting(0, &program(&[]));
        let expected = r#"mcp_servers.files={command="fs",args=["--root","a \"b\"\n"]}"#;
        assert_eq!((plain.to_str().unwrap(), none.len()), (expected, 0));

        let (setting, variables) = setting(1, &program(&[("KEY", "secret"), ("a.b", "lost")]));
        let expected = r#"mcp_servers.files={command="sh",args=["-c","export KEY=\"$AGENTCRAFT_MCP_1_0\"; unset AGENTCRAFT_MCP_1_0; exec \"$@\"","sh","fs","--root","a \"b\"\n"],env_vars=["AGENTCRAFT_MCP_1_0"]}"#;
        assert_eq!(setting.to_str().unwrap(), expected);
        let variable = ("AGENTCRAFT_MCP_1_0".into(), "secret".into());
        assert_eq!(variables, BTreeMap::from([variable]));
    }

    #[test]
    fn a_setting_of_an_address_holds_no_value_of_a_header() {
        let (plain, none) = setting(0, &address(Transport::Http, &[]));
        let expected = r#"mcp_servers.far={url="https://x.test/mcp"}"#;
        assert_eq!((plain.to_str().unwrap(), none.len()), (expected, 0));

        let (setting, variables) = setting(2, &address(Transport::Http, &[("X-Key", "secret")]));
        let expected = r#"mcp_servers.far={url="https://x.test/mcp",env_http_headers={"X-Key"="AGENTCRAFT_MCP_2_0"}}"#;
        assert_eq!(setting.to_str().unwrap(), expected);
        let variable = ("AGENTCRAFT_MCP_2_0".into(), "secret".into());
        assert_eq!(variables, BTreeMap::from([variable]));
    }

    #[test]
    fn files_tell_addresses_by_a_type_or_by_their_key() {
        let of = |transport, form| {
            let servers = [address(transport, &[("H", "V")])];
            document(&servers, form)["mcpServers"]["far"].clone()
        };
        let (url, headers) = ("https://x.test/mcp", json!({"H": "V"}));
        let cases = [
            (
                Transport::Http,
                Form::Typed,
                json!({"type": "http", "url": url}),
            ),
            (
                Transport::Sse,
                Form::Typed,
                json!({"type": "sse", "url": url}),
            ),
            (Transport::Http, Form::ByKey, json!({"httpUrl": url})),
            (Transport::Sse, Form::ByKey, json!({"url": url})),
        ];
        for (transport, form, mut expected) in cases {
            expected["headers"] = headers.clone();
            assert_eq!(of(transport, form), expected);
        }
    }

    #[test]
    fn a_configuration_keeps_what_the_variable_held() {
        let servers = [program(&[("K", "V")]), address(Transport::Sse, &[])];
        let configure = |held: Option<&str>| {
            let held = held.map(|held| (OsString::from(CONFIGURATION), OsString::from(held)));
            let configuration = configuration(&Request {
                prompt: "",
                resume: None,
                options: &TurnOptions::default(),
                model: None,
                args: &[],
                servers: &servers,
                servers_file: None,
                environment: &held.into_iter().collect(),
            });
            configuration.map(|text| serde_json::from_str::<Value>(text.to_str().unwrap()).unwrap())
        };
        let told = configure(Some(r#"{"model":"m","mcp":{"other":{}}}"#)).unwrap();
        assert_eq!(
            (&told["model"], &told["mcp"]["other"]),
            (&json!("m"), &json!({}))
        );
        let local = json!({
            "type": "local", "command": ["fs", "--root", "a \"b\"\n"], "environment": {"K": "V"}, "enabled": true,
        });
        assert_eq!(told["mcp"]["files"], local);
        assert_eq!(told["mcp"]["far"]["url"], "https://x.test/mcp");
        assert_eq!(configure(None).unwrap()["mcp"]["files"], local);
        assert_eq!(configure(Some("no json")), None);
    }

    #[test]
    fn a_text_is_quoted_as_toml_reads_it() {
        assert_eq!(quoted("a\u{7f}\t\u{1}é\\"), r#""a\u007f\t\u0001é\\""#);
    }
}
