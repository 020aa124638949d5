//! What this node says that it can do: `manifest.json` in the configs folder where the owner wrote one; otherwise its public
//! agents, and the skills that `agent-visibility.yaml` makes public, perhaps in words that an agent wrote.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use engine::Engine;
use platform::files;
use runs::Capabilities;
use serde::{Deserialize, de::DeserializeOwned};
use tracing::warn;
use wire::runs::Capability;

use super::wording::Wording;

/// The files of the configs folder; a few kilobytes each.
const MANIFEST_FILE: &str = "manifest.json";
const VISIBILITY_FILE: &str = "agent-visibility.yaml";
const FILE_MAX: u64 = 1024 * 1024;

/// Reads what the owner decided each time it is asked, so that an edit counts at once.
#[derive(Debug, Clone)]
pub(super) struct Said {
    configs: PathBuf,
    engine: Engine,
    /// Where an agent writes what others read of the capabilities.
    wording: Option<Wording>,
}

/// A manifest written by hand; what is not said is made from what is there.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Written {
    description: Option<String>,
    capabilities: Option<Vec<Capability>>,
}

/// Which skills, tools and agents others see. Tools are never shown by themselves; they may be listed all the same.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Visibility {
    skills: BTreeMap<String, Visible>,
    agents: BTreeMap<String, Visible>,
    tools: BTreeMap<String, Visible>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Visible {
    Public,
    Private,
}

impl Said {
    pub(super) fn new(configs: PathBuf, engine: Engine, wording: Option<Wording>) -> Self {
        Self {
            configs,
            engine,
            wording,
        }
    }

    /// As the owner wrote it.
    pub(super) fn description(&self) -> Option<String> {
        self.written().description
    }

    /// `shown` are the agents that callers see; all of them without it.
    pub(super) fn capabilities(&self, shown: Option<BTreeSet<String>>) -> Capabilities {
        let said = self.clone();
        Capabilities::new(move || {
            let written = said.written().capabilities;
            written.unwrap_or_else(|| {
                let made = said.made(shown.as_ref());
                match &said.wording {
                    Some(wording) => wording.of(made),
                    None => made,
                }
            })
        })
    }

    fn made(&self, shown: Option<&BTreeSet<String>>) -> Vec<Capability> {
        let text = self.read(VISIBILITY_FILE);
        let visibility: Visibility = text
            .and_then(|text| parsed(VISIBILITY_FILE, serde_saphyr::from_str(&text)))
            .unwrap_or_default();
        let library = self.engine.library();
        let agents = self.engine.public_agents();
        let agents = agents
            .iter()
            .filter(|agent| shown.is_none_or(|shown| shown.contains(&agent.name)))
            .map(|agent| {
                let template = library.template(&agent.template_name).ok();
                let described = template.and_then(|template| template.description.clone());
                let plain = || format!("an agent on {}", agent.backend_type);
                (agent.name.clone(), described.unwrap_or_else(plain))
            });
        let components = library.components();
        let skills = components.skills.values().map(|skill| {
            let description = skill.description.clone().unwrap_or_default();
            (skill.name.to_string(), description)
        });
        visibility.capabilities(agents.collect(), skills.collect())
    }

    fn written(&self) -> Written {
        let text = self.read(MANIFEST_FILE);
        text.and_then(|text| parsed(MANIFEST_FILE, serde_json::from_str(&text)))
            .unwrap_or_default()
    }

    fn read(&self, name: &str) -> Option<String> {
        let bytes = files::read_bounded(&self.configs.join(name), FILE_MAX).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A file that cannot be read says nothing. Who may be used is not decided here, but by `public` in the settings.
fn parsed<T: DeserializeOwned + Default, E: std::fmt::Display>(
    name: &str,
    parsed: Result<T, E>,
) -> Option<T> {
    match parsed {
        Ok(value) => Some(value),
        Err(error) => {
            warn!(name, %error, "what this node says of itself cannot be read");
            None
        }
    }
}

impl Visibility {
    /// Agents are public unless they are said to be private; skills are private unless they are said to be public.
    fn capabilities(
        &self,
        agents: Vec<(String, String)>,
        skills: Vec<(String, String)>,
    ) -> Vec<Capability> {
        let is = |list: &BTreeMap<String, Visible>, name: &str, visible| {
            list.get(name) == Some(&visible)
        };
        let agents = agents
            .into_iter()
            .filter(|(name, _)| !is(&self.agents, name, Visible::Private));
        let skills = skills
            .into_iter()
            .filter(|(name, _)| is(&self.skills, name, Visible::Public));
        let mut seen = BTreeSet::new();
        agents
            .chain(skills)
            .filter(|(name, _)| seen.insert(name.clone()))
            .map(|(id, description)| Capability {
                id,
                description,
                output_content_types: Vec::new(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(names: &[&str]) -> Vec<(String, String)> {
        let pair = |name: &&str| ((*name).to_owned(), format!("does {name}"));
        names.iter().map(pair).collect()
    }

    fn shown(visibility: &Visibility) -> Vec<String> {
        let capabilities =
            visibility.capabilities(pairs(&["nova", "secret"]), pairs(&["radio", "ocr", "news"]));
        capabilities.into_iter().map(|it| it.id).collect()
    }

    #[test]
    fn only_what_is_public_shows() {
        let text = "skills:\n  radio: public\n  ocr: private\nagents:\n  secret: private\ntools:\n  shell_exec: private\n";
        let visibility: Visibility = serde_saphyr::from_str(text).unwrap();
        assert_eq!(shown(&visibility), ["nova", "radio"]);
        assert_eq!(shown(&Visibility::default()), ["nova", "secret"]);
    }

    #[test]
    fn a_manifest_of_the_owner_says_what_it_says() {
        let text = r#"{"name": "nova9", "description": "柠檬叔的手机", "capabilities": [{"id": "radio", "description": "电台"}]}"#;
        let written: Written = serde_json::from_str(text).unwrap();
        assert_eq!(written.description.as_deref(), Some("柠檬叔的手机"));
        assert_eq!(written.capabilities.unwrap()[0].id, "radio");
        assert_eq!(
            serde_json::from_str::<Written>("{}").unwrap(),
            Written::default()
        );
    }
}
