//! What the node and its agents say of themselves, made from what is there now.

use engine::{Caller, Rights};
use serde_json::json;
use sha2::{Digest, Sha256};
use wire::{
    hex,
    runs::{Capability, Endpoints, Exchange, Manifest, ManifestMetadata, NamedCapability},
};

use crate::{error::RunsError, node::Runs};

/// What every agent takes and gives: words, and anything by its address.
const INPUT: [&str; 2] = ["text/plain", "application/json"];
const OUTPUT: [&str; 3] = ["text/plain", "text/markdown", "application/octet-stream"];

/// The rights to ask an agent for something.
const ASKING: [&str; 2] = ["runs", "a2a"];

/// Whether a caller has the right, or one for something below it.
fn has_some(caller: &Caller, right: &str) -> bool {
    match &caller.rights {
        Rights::All => true,
        Rights::Only(granted) => granted.iter().any(|granted| {
            let rest = granted.strip_prefix(right);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        }),
    }
}

impl Runs {
    /// The node as one agent, for a caller that reached it at `base`.
    pub fn manifest(&self, base: &str) -> Manifest {
        let config = self.config();
        let node = config.calls.node();
        let mut capabilities = config.capabilities.now();
        if capabilities.is_empty() {
            capabilities = self.agents_as_capabilities();
        }
        let exchange = config.exchange.dropbox.as_ref();
        let mut manifest = Manifest {
            name: node.name.clone(),
            description: config.description.clone(),
            input_content_types: words(&INPUT),
            output_content_types: words(&OUTPUT),
            metadata: metadata(&capabilities),
            agent_id: Some(node.id.clone()),
            version: None,
            capabilities,
            endpoints: Some(Endpoints {
                inbox: format!("{base}/runs"),
                runs: format!("{base}/runs/{{run_id}}"),
                resume: format!("{base}/runs/{{run_id}}/resume"),
            }),
            exchange: Some(Exchange {
                dropbox: exchange.and_then(|dropbox| dropbox.uri.clone()),
                resource_server: Some(format!("{base}/resources/")),
            }),
            ..Manifest::default()
        };
        manifest.version = Some(self.manifest_version(&manifest));
        manifest
    }

    /// What this caller may see of it. The version is that of the whole: it says whether something has changed.
    pub(crate) fn manifest_for(&self, caller: &Caller, base: &str) -> Result<Manifest, RunsError> {
        if !ASKING.iter().any(|right| has_some(caller, right)) {
            return Err(RunsError::Forbidden {
                right: ASKING[0].to_owned(),
            });
        }
        let (engine, offered) = (self.engine(), self.config().public.named());
        let may_ask = |name: &str| {
            ASKING
                .iter()
                .any(|right| engine.lacking(caller, right, name, offered).is_none())
        };
        let is_seen = |name: &str| may_ask(name) || self.public_agent(name).is_none();
        let mut manifest = self.manifest(base);
        manifest
            .capabilities
            .retain(|capability| is_seen(&capability.id));
        let named = &mut manifest.metadata.capabilities;
        named.retain(|capability| is_seen(&capability.name));
        Ok(manifest)
    }

    /// Changes with what the node can do, and not with how it is reached.
    fn manifest_version(&self, manifest: &Manifest) -> String {
        let told = json!([
            manifest.name,
            manifest.description,
            manifest.capabilities,
            manifest.input_content_types,
            manifest.output_content_types,
        ]);
        let hash = hex(&Sha256::digest(told.to_string().as_bytes()));
        format!("{}+{}", env!("CARGO_PKG_VERSION"), &hash[..12])
    }

    fn agents_as_capabilities(&self) -> Vec<Capability> {
        let manifests = self.agent_manifests();
        manifests
            .into_iter()
            .map(|agent| Capability {
                id: agent.name,
                description: agent.description,
                output_content_types: words(&OUTPUT),
            })
            .collect()
    }

    /// Every agent that callers may see, by name.
    pub(crate) fn agent_manifests(&self) -> Vec<Manifest> {
        let agents = self.engine().public_agents();
        agents
            .iter()
            .filter_map(|agent| self.agent_manifest(&agent.name))
            .collect()
    }

    pub(crate) fn agent_manifest(&self, name: &str) -> Option<Manifest> {
        let name = self.public_agent(name)?;
        let agent = self.engine().agent(name.as_str()).ok()?;
        let template = self.engine().library().template(&agent.template_name).ok();
        let described = template.and_then(|template| template.description.clone());
        let description =
            described.unwrap_or_else(|| format!("an agent on {}", agent.backend_type));
        let mut metadata = metadata(&[]);
        metadata.created_at = Some(agent.created_at.clone());
        metadata.updated_at = Some(agent.updated_at.clone());
        Some(Manifest {
            name: name.to_string(),
            description,
            input_content_types: words(&INPUT),
            output_content_types: words(&OUTPUT),
            metadata,
            ..Manifest::default()
        })
    }
}

fn metadata(capabilities: &[Capability]) -> ManifestMetadata {
    let named = capabilities.iter().map(|capability| NamedCapability {
        name: capability.id.clone(),
        description: capability.description.clone(),
    });
    ManifestMetadata {
        capabilities: named.collect(),
        ..ManifestMetadata::default()
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
