//! What the computers of an office show, as MCP resources: each under an address that names its computer, since two
//! computers may show the same.

use std::fmt::Write as _;

use engine::{ServerStatus, ToolSource};
use rmcp::{
    ErrorData,
    model::{Resource, ResourceContents},
};
use serde_json::{Value, json};

const SCHEME: &str = "office://";

/// Everything that can be read now. A computer that does not say has nothing to show.
pub(super) async fn list(source: &dyn ToolSource) -> Vec<Resource> {
    let mut resources = Vec::new();
    for server in source.servers() {
        if server.status != ServerStatus::Ready {
            continue;
        }
        let shown = source.resources(&server.name).await.unwrap_or_default();
        let described = shown
            .into_iter()
            .filter_map(|raw| describe(&server.name, raw));
        resources.extend(described);
    }
    resources
}

pub(super) async fn read(
    source: &dyn ToolSource,
    uri: &str,
) -> Result<Vec<ResourceContents>, ErrorData> {
    let nothing = || ErrorData::resource_not_found(format!("there is no resource {uri}"), None);
    let (computer, own) = split(uri).ok_or_else(nothing)?;
    let contents = source.read(&computer, own).await;
    let contents = contents.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let contents: Vec<ResourceContents> = contents
        .into_iter()
        .filter_map(|mut raw| {
            raw["uri"] = json!(uri);
            serde_json::from_value(raw).ok()
        })
        .collect();
    match contents.is_empty() {
        true => Err(nothing()),
        false => Ok(contents),
    }
}

fn describe(computer: &str, mut raw: Value) -> Option<Resource> {
    let own = raw["uri"].as_str()?;
    let name = raw["name"].as_str().unwrap_or(own);
    let (uri, name) = (address(computer, own), format!("{computer}: {name}"));
    raw["uri"] = json!(uri);
    raw["name"] = json!(name);
    serde_json::from_value(raw).ok()
}

/// `office://COMPUTER/ADDRESS`, the address as the computer writes it.
fn address(computer: &str, own: &str) -> String {
    let mut address = SCHEME.to_owned();
    for byte in computer.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                address.push(char::from(byte));
            }
            _ => {
                let _ = write!(address, "%{byte:02X}"); // A string takes everything.
            }
        }
    }
    address.push('/');
    address.push_str(own);
    address
}

/// Whose resource an address names.
pub(super) fn server_of(uri: &str) -> Option<String> {
    split(uri).map(|(server, _)| server)
}

fn split(uri: &str) -> Option<(String, &str)> {
    let (computer, own) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    let mut bytes = Vec::new();
    let mut rest = computer.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    Some((String::from_utf8(bytes).ok()?, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_computer_whatever_that_is_called() {
        for (computer, written) in [("nova", "nova"), ("Ana's/pc é", "Ana%27s%2Fpc%20%C3%A9")] {
            let uri = address(computer, "window://one/low?x=/");
            assert_eq!(uri, format!("office://{written}/window://one/low?x=/"));
            let own = "window://one/low?x=/";
            assert_eq!(split(&uri), Some((computer.to_owned(), own)));
        }
        for wrong in [
            "window://one",
            "office://nova",
            "office://%zz/x",
            "office://%2/x",
        ] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
