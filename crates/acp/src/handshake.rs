//! `initialize`: what we say we can do, and what the agent says of itself.

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        ClientCapabilities, ElicitationCapabilities, ElicitationFormCapabilities,
        ElicitationUrlCapabilities, FileSystemCapabilities, Implementation, InitializeRequest,
    },
};
use engine::DriverError;
use serde_json::Value;

use crate::convert;

/// The version of the protocol that is spoken here.
const VERSION: u64 = 1;

/// What an agent can, as far as we use it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    pub(crate) load: bool,
    pub(crate) resume: bool,
    pub(crate) close: bool,
    /// It looks whether a file exists by reading it, and cannot tell a missing file from a failure.
    pub(crate) stumbles_over_missing_files: bool,
    /// It answers that a session is taken up before it has repeated what was said in it.
    pub(crate) repeats_late: bool,
    /// Names of the ways to sign in.
    pub(crate) sign_in: Vec<String>,
}

pub(crate) fn request() -> InitializeRequest {
    let files = FileSystemCapabilities::new()
        .read_text_file(true)
        .write_text_file(true);
    // Whether somebody is there who can open an address is known only when it is asked for.
    let questions = ElicitationCapabilities::new()
        .form(ElicitationFormCapabilities::default())
        .url(ElicitationUrlCapabilities::default());
    let capabilities = ClientCapabilities::new()
        .fs(files)
        .terminal(true)
        .elicitation(questions);
    let ourselves =
        Implementation::new("agentcraft", env!("CARGO_PKG_VERSION")).title("AgentCraft".to_owned());
    InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(capabilities)
        .client_info(ourselves)
}

/// Reads the answer; an agent that speaks another version cannot be understood.
pub(crate) fn abilities(answer: &Value) -> Result<Abilities, DriverError> {
    match &answer["protocolVersion"] {
        Value::Null => tracing::debug!("the agent names no version of its protocol"),
        version if version.as_u64() == Some(VERSION) => {}
        version => {
            return Err(DriverError::Protocol {
                what: format!(
                    "it speaks version {version} of ACP, and this program speaks version {VERSION}"
                ),
            });
        }
    }
    let capabilities = &answer["agentCapabilities"];
    let declares = |ability: &str| {
        // An object declares it; early agents said true.
        let value = &capabilities["sessionCapabilities"][ability];
        value.is_object() || value == &Value::Bool(true)
    };
    let name = convert::text(&answer["agentInfo"], "name").unwrap_or_default();
    let is_gemini = name.to_lowercase().contains("gemini");
    Ok(Abilities {
        load: capabilities["loadSession"] == true,
        resume: declares("resume"),
        close: declares("close"),
        stumbles_over_missing_files: is_gemini,
        repeats_late: is_gemini,
        sign_in: sign_in(&answer["authMethods"]),
    })
}

fn sign_in(methods: &Value) -> Vec<String> {
    let name = |method: &Value| {
        let name = convert::text(method, "name").or_else(|| convert::text(method, "id"))?;
        Some(name.to_owned())
    };
    let methods = methods.as_array().map(Vec::as_slice).unwrap_or_default();
    methods.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn we_say_what_we_can() {
        let written = serde_json::to_value(request()).unwrap();
        assert_eq!(written["protocolVersion"], 1);
        assert_eq!(written["clientInfo"]["name"], "agentcraft");
        let capabilities = &written["clientCapabilities"];
        assert_eq!(
            capabilities["fs"],
            json!({ "readTextFile": true, "writeTextFile": true })
        );
        assert_eq!(capabilities["terminal"], true);
        assert_eq!(
            capabilities["elicitation"],
            json!({ "form": {}, "url": {} })
        );
    }

    #[test]
    fn what_is_absent_or_strange_is_not_an_ability() {
        assert_eq!(
            abilities(&json!({ "protocolVersion": 1 })),
            Ok(Abilities::default())
        );
        assert_eq!(abilities(&json!({})), Ok(Abilities::default()));
        let strange = json!({ "agentCapabilities": { "loadSession": "yes", "sessionCapabilities": { "resume": null } } });
        assert_eq!(abilities(&strange), Ok(Abilities::default()));
        let full = json!({
            "protocolVersion": 1,
            "agentCapabilities": { "loadSession": true, "sessionCapabilities": { "resume": {}, "close": true } },
            "agentInfo": { "name": "gemini-cli" },
            "authMethods": [{ "id": "key", "name": "API key" }, { "id": "web" }, {}],
        });
        let expected = Abilities {
            load: true,
            resume: true,
            close: true,
            stumbles_over_missing_files: true,
            repeats_late: true,
            sign_in: vec!["API key".to_owned(), "web".to_owned()],
        };
        assert_eq!(abilities(&full), Ok(expected));
    }

    #[test]
    fn another_version_is_said() {
        for (version, word) in [(json!(2), "2"), (json!(0), "0"), (json!("1.0"), "1.0")] {
            let error = abilities(&json!({ "protocolVersion": version })).unwrap_err();
            let said = error.to_string();
            assert!(said.contains("speaks version 1"), "{said}");
            assert!(said.contains(word), "{said}");
        }
    }
}
