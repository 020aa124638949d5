//! `initialize`: the editor learns what the real agent can, and we learn what the editor can.

use domain::Name;
use domain::turn::Raw;
use jsonrpc::ErrorObject;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::error;
use crate::{convert, members::Members, requests::parsed};

/// The version of the protocol that is spoken here.
const VERSION: u64 = 1;

/// What the daemon can with any agent's sessions, whatever the agent itself can.
const SESSION_ABILITIES: [&str; 3] = ["list", "resume", "close"];

/// Letters of the name of an editor: it is kept with every turn.
const NAME_MAX: usize = 80;

/// What is not passed on: the agent would open a conversation that nobody here knows.
const FORK: &str = "fork";

/// What an editor says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Abilities {
    pub(super) name: String,
    pub(super) reads_files: bool,
    pub(super) writes_files: bool,
    pub(super) terminals: bool,
    /// It shows questions with a form.
    pub(super) forms: bool,
    /// It opens addresses that a question names.
    pub(super) addresses: bool,
    pub(super) notices: bool,
}

impl Abilities {
    /// The methods that the editor carries out for the agent where both work in the same folder.
    pub(super) fn acts(&self) -> Vec<&'static str> {
        crate::relay::OWN
            .into_iter()
            .filter(|method| match *method {
                "fs/read_text_file" => self.reads_files,
                "fs/write_text_file" => self.writes_files,
                _ => self.terminals,
            })
            .collect()
    }
}

/// Reads what the editor says; a later version of the protocol that is not this one is refused in words.
pub(super) fn read(params: Option<&RawValue>) -> Result<Abilities, ErrorObject> {
    let said = parsed(params);
    let capabilities = &said["clientCapabilities"];
    let later = said["protocolVersion"]
        .as_u64()
        .is_some_and(|version| version > VERSION);
    // An editor that also speaks version 1 says so in its words, and is answered with 1 as the protocol wants it.
    if later
        && capabilities.is_null()
        && (said["capabilities"].is_object() || said["info"].is_object())
    {
        return Err(error::unsupported_version(format!(
            "version {} of ACP is not spoken here, only version {VERSION}: initialize with \"protocolVersion\": \
             {VERSION}, or let `agentcraft proxy NAME` without --lease start an agent that speaks it",
            said["protocolVersion"]
        )));
    }
    let is = |value: &Value| value.as_bool() == Some(true);
    Ok(Abilities {
        name: name(convert::text(&said["clientInfo"], "name")),
        reads_files: is(&capabilities["fs"]["readTextFile"]),
        writes_files: is(&capabilities["fs"]["writeTextFile"]),
        terminals: is(&capabilities["terminal"]),
        forms: capabilities["elicitation"]["form"].is_object(),
        addresses: capabilities["elicitation"]["url"].is_object(),
        notices: capabilities["session"]["notices"].is_object(),
    })
}

/// What an editor calls itself, or the beginning of it.
fn name(said: Option<&str>) -> String {
    let said = said.unwrap_or("editor");
    said.chars().take(NAME_MAX).collect()
}

/// The agent's own answer with what the daemon adds; one made up for an agent that speaks another protocol.
pub(super) fn answer(agent: &Name, said: Option<&Raw>) -> Box<RawValue> {
    let made_up = json!({
        "protocolVersion": VERSION,
        "agentCapabilities": {},
        "agentInfo": { "name": agent.as_str(), "version": env!("CARGO_PKG_VERSION") },
        "authMethods": [],
    })
    .to_string();
    let text = said.map_or(made_up.as_str(), |said| &said.frame);
    let mut answer = Members::read(text).unwrap_or_default();
    answer.set("protocolVersion", &VERSION);
    let capabilities = answer
        .get("agentCapabilities")
        .map_or("{}", RawValue::get)
        .to_owned();
    let mut capabilities = Members::read(&capabilities).unwrap_or_default();
    capabilities.set("loadSession", &true);
    let sessions = capabilities
        .get("sessionCapabilities")
        .map_or("{}", RawValue::get)
        .to_owned();
    let mut sessions = Members::read(&sessions).unwrap_or_default();
    sessions.remove(FORK);
    for ability in SESSION_ABILITIES {
        if !sessions
            .get(ability)
            .is_some_and(|known| known.get().starts_with('{'))
        {
            sessions.set(ability, &json!({}));
        }
    }
    capabilities.set("sessionCapabilities", &sessions);
    answer.set("agentCapabilities", &capabilities);
    to_raw_value(&answer).expect("values that were read can be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        to_raw_value(value).unwrap()
    }

    #[test]
    fn the_agents_own_words_stay_and_what_the_daemon_can_is_added() {
        let said = convert::raw(&raw(&json!({
            "protocolVersion": 1,
            "_new": 1.50,
            "agentCapabilities": { "promptCapabilities": { "image": true }, "sessionCapabilities": { "fork": {}, "list": true } },
            "authMethods": [{ "id": "key", "name": "Key" }],
        })));
        let name = Name::parse("a1").unwrap();
        let told: Value = serde_json::from_str(answer(&name, Some(&said)).get()).unwrap();
        assert_eq!(told["_new"], 1.50);
        assert_eq!(told["authMethods"][0]["id"], "key");
        let capabilities = &told["agentCapabilities"];
        assert_eq!(capabilities["promptCapabilities"]["image"], true);
        assert_eq!(capabilities["loadSession"], true);
        assert_eq!(
            capabilities["sessionCapabilities"],
            json!({ "list": {}, "resume": {}, "close": {} })
        );
        let other: Value = serde_json::from_str(answer(&name, None).get()).unwrap();
        assert_eq!(other["agentInfo"]["name"], "a1");
    }

    #[test]
    fn the_next_version_is_refused_in_words_unless_the_editor_speaks_this_one_too() {
        let next = json!({ "protocolVersion": 2, "info": { "name": "x" }, "capabilities": {} });
        let refused = read(Some(&raw(&next))).unwrap_err();
        assert!(refused.message.contains("only version 1"), "{refused}");
        let both = json!({ "protocolVersion": 2, "clientCapabilities": { "terminal": true } });
        assert!(read(Some(&raw(&both))).unwrap().terminals);
        let long = json!({ "protocolVersion": 1, "clientInfo": { "name": "é".repeat(5000) } });
        assert_eq!(read(Some(&raw(&long))).unwrap().name, "é".repeat(80));
        let acts = read(Some(&raw(&both))).unwrap().acts();
        assert_eq!(acts.len(), 5, "{acts:?}");
    }
}
