//! What an agent or a node says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An agent, in the standard's fields; a node adds those of a local network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default = "everything")]
    pub input_content_types: Vec<String>,
    #[serde(default = "everything")]
    pub output_content_types: Vec<String>,
    #[serde(default)]
    pub metadata: ManifestMetadata,
    /// The node's UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Endpoints>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What the standard knows of an agent beside its name, and whatever else a node tells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ManifestMetadata {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<NamedCapability>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, Value>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A capability as the standard has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCapability {
    pub name: String,
    #[serde(default)]
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    #[serde(rename = "type")]
    pub kind: String,
    pub url: String,
}

/// A capability as a local network has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    pub id: String,
    #[serde(default)]
    pub description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_content_types: Vec<String>,
}

/// Where runs are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    pub inbox: String,
    pub runs: String,
    pub resume: String,
}

/// Where deliverables are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Any URI; a share that both sides can mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropbox: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_server: Option<String>,
}

fn everything() -> Vec<String> {
    vec!["*/*".to_owned()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_of_a_local_network_is_read_and_written_whole() {
        let value = json!({
            "agent_id": "a797ca02-11b5-3080-1263-a31d6d30cba7", "name": "nova9",
            "description": "a phone", "version": "0.2.1",
            "input_content_types": ["text/plain"], "output_content_types": ["text/plain"],
            "capabilities": [{ "id": "radio", "description": "plays", "output_content_types": ["application/json"] }],
            "metadata": { "device_type": "mobile", "locale": "zh-CN" },
            "endpoints": { "inbox": "http://h/runs", "runs": "http://h/runs/{run_id}", "resume": "http://h/runs/{run_id}/resume" },
            "exchange": { "dropbox": "smb://nas/x/", "resource_server": "http://h/resources/" },
        });
        let manifest: Manifest = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(manifest.metadata.extra["device_type"], "mobile");
        assert_eq!(serde_json::to_value(&manifest).unwrap(), value);
    }

    #[test]
    fn a_standard_manifest_with_nothing_but_a_name_takes_everything() {
        let manifest: Manifest = serde_json::from_value(json!({ "name": "echo" })).unwrap();
        assert_eq!(manifest.input_content_types, ["*/*"]);
    }
}
