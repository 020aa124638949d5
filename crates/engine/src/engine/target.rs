//! Agents by what they are made of: one target is one agent, made when it is first spoken to and kept.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use catalog::{BackendType, Template};
use domain::{
    Name,
    lifecycle::Force,
    target::{Maker, Target},
};

use super::{Create, Engine, Overrides};
use crate::{Caller, EngineError, further_right};

/// Where an agent says what it was made for.
const TARGET: &str = "target";

/// Whoever has it can have agents made of everything.
const MAKING_RIGHT: &str = "mcp";

impl Engine {
    /// The agent that a target means, ready to be spoken to. One that is called by its name is taken as it is.
    pub async fn agent_for(&self, target: &Target) -> Result<Name, EngineError> {
        let name = self.ensure(target).await?;
        let is_made = matches!(target, Target::Made(_));
        if is_made && self.sessions().via(&name)?.is_none() {
            self.start_or_join(&name).await?;
        }
        Ok(name)
    }

    /// The agent that a target means; it is made if it has to be, and not started.
    pub async fn ensure(&self, target: &Target) -> Result<Name, EngineError> {
        match target {
            Target::Agent(name) => Ok(name.clone()),
            Target::Made(maker) => match self.made_for(maker) {
                Some(name) => Ok(name),
                // Several may speak to it for the first time at once: one makes it, and the others find it made.
                None => self.alone(&maker.agent_name(), self.make_once(maker)).await,
            },
        }
    }

    /// The agent that a target means, if it is there; nothing is made.
    pub fn agent_of(&self, target: &Target) -> Result<Name, EngineError> {
        match target {
            Target::Agent(name) => Ok(name.clone()),
            Target::Made(maker) => {
                let made = self.made_for(maker);
                made.ok_or_else(|| EngineError::AgentNotFound {
                    name: maker.to_string(),
                })
            }
        }
    }

    /// The agent that somebody on the network names to the face of this right. One that is not there yet is made if the node
    /// offers its target by name. Where it offers everything, it is made for those alone who can have it made in another way.
    /// An error says why it could not be made; to all others there is nobody of that name.
    pub async fn called(
        &self,
        said: &str,
        caller: &Caller,
        right: &str,
        offered: Option<&BTreeSet<String>>,
    ) -> Result<Option<Name>, EngineError> {
        let Ok(target) = said.parse::<Target>() else {
            return Ok(None);
        };
        if let Ok(name) = self.agent_of(&target) {
            return Ok(Some(name));
        }
        let name = target.agent_name();
        let is_offered = match offered {
            Some(names) => names.contains(name.as_str()),
            None => caller.may(MAKING_RIGHT),
        };
        let made = match &target {
            Target::Agent(_) => None,
            Target::Made(maker) => Template::of(maker),
        };
        let backend = made.map(|template| template.backend.backend_type());
        let lacking = lacking(caller, right, name.as_str(), backend, offered);
        match is_offered && lacking.is_none() {
            true => self.ensure(&target).await.map(Some),
            false => Ok(None),
        }
    }

    /// The right that a caller of the face of `right` lacks to speak to an agent; nothing if it may. One that was made of a target
    /// and leads to other nodes needs the right to that as well, unless the owner offers it by its name.
    pub fn lacking(
        &self,
        caller: &Caller,
        right: &str,
        agent: &str,
        offered: Option<&BTreeSet<String>>,
    ) -> Option<String> {
        let backend = self.agent(agent).ok().and_then(|view| {
            // What is made of a target has no file of its template.
            let is_of_a_target = self.library().template(&view.template_name).is_err();
            is_of_a_target.then(|| BackendType::parse(&view.backend_type))?
        });
        lacking(caller, right, agent, backend, offered)
    }

    /// The same for whoever names a target, whether its agent is there or would be made.
    pub fn lacking_for(&self, caller: &Caller, right: &str, target: &Target) -> Option<String> {
        match (self.agent_of(target), target) {
            (Ok(name), _) => self.lacking(caller, right, name.as_str(), None),
            (Err(_), Target::Made(maker)) => lacking_to_make(caller, right, maker),
            (Err(_), Target::Agent(name)) => lacking(caller, right, name.as_str(), None, None),
        }
    }

    fn made_for(&self, maker: &Maker) -> Option<Name> {
        let written = maker.to_string();
        let agents = self.agents();
        let mut made = agents
            .iter()
            .filter(|agent| agent.metadata.get(TARGET) == Some(&written));
        Name::parse(&made.next()?.name).ok()
    }

    async fn make_once(&self, maker: &Maker) -> Result<Name, EngineError> {
        match self.made_for(maker) {
            Some(name) => Ok(name),
            None => self.make_for(maker).await,
        }
    }

    async fn make_for(&self, maker: &Maker) -> Result<Name, EngineError> {
        if let Maker::Workspace { dir, .. } = maker
            && !platform::files::is_folder(Path::new(dir))
        {
            return Err(EngineError::Nobody {
                target: maker.to_string(),
                reason: format!("there is no folder {dir}"),
            });
        }
        let metadata = [(TARGET.to_owned(), maker.to_string())];
        let name = maker.agent_name();
        let create = Create {
            name: name.clone(),
            template: maker.to_string(),
            overrides: Overrides {
                metadata: metadata.into(),
                ..Overrides::default()
            },
        };
        self.create(create).await?;
        self.reachable(maker, name).await
    }

    /// One that was just made stays only if there is somebody to speak to: a mistyped name leaves nothing.
    async fn reachable(&self, maker: &Maker, name: Name) -> Result<Name, EngineError> {
        let driver = match maker {
            Maker::Template(_) => return Ok(name),
            Maker::Workflow(_) | Maker::Peer { .. } | Maker::Workspace { .. } => {
                self.sessions().driver(&name)
            }
        };
        let nobody = |reason| EngineError::Nobody {
            target: maker.to_string(),
            reason,
        };
        let found = match driver {
            Ok(driver) => driver
                .is_there()
                .await
                .map_err(|error| nobody(error.to_string())),
            Err(EngineError::Launch { reason, .. }) => Err(nobody(reason)),
            Err(other) => Err(other),
        };
        match found {
            Ok(()) => Ok(name),
            Err(error) => {
                self.destroy(name.as_str(), Force::Yes).await?;
                Err(error)
            }
        }
    }

    /// One template by its name or by a target. A file that was written a moment ago may not have been noticed yet, so it
    /// is looked for once more.
    pub async fn template(&self, reference: &str) -> Result<Arc<Template>, EngineError> {
        let name = match reference.parse() {
            Ok(Target::Made(maker)) => match Template::of(&maker) {
                Some(template) => return Ok(Arc::new(template)),
                None => reference.trim_start_matches("template:"),
            },
            Ok(Target::Agent(_)) | Err(_) => reference,
        };
        match self.library().template(name) {
            Err(EngineError::TemplateNotFound { .. }) => {
                let library = self.inner.library.clone();
                self.blocking(move || library.reload()).await?;
                self.library().template(name)
            }
            found => found,
        }
    }
}

fn lacking_to_make(caller: &Caller, right: &str, maker: &Maker) -> Option<String> {
    let backend = Template::of(maker).map(|template| template.backend.backend_type());
    lacking(caller, right, maker.agent_name().as_str(), backend, None)
}

fn lacking(
    caller: &Caller,
    right: &str,
    agent: &str,
    backend: Option<BackendType>,
    offered: Option<&BTreeSet<String>>,
) -> Option<String> {
    let right = format!("{right}:{agent}");
    if !caller.may(&right) {
        return Some(right);
    }
    let further = further_right(backend?)?;
    let is_offered = offered.is_some_and(|names| names.contains(agent));
    (!is_offered && !caller.may(further)).then(|| further.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rights;

    #[test]
    fn whoever_has_agents_made_of_other_nodes_needs_the_right_to_them_beside_that_of_the_face() {
        let lacks = |rights: &[&str], target: &str| {
            let caller = Caller {
                name: "page".to_owned(),
                rights: Rights::Only(rights.iter().map(|right| (*right).to_owned()).collect()),
            };
            match target.parse() {
                Ok(Target::Made(maker)) => lacking_to_make(&caller, "dashboard", &maker),
                other => panic!("{other:?}"),
            }
        };
        let (far, lent) = ("peer:b/echo", "peer:b?workspace=/srv/private");
        assert_eq!(lacks(&["dashboard"], far).as_deref(), Some("peers"));
        assert_eq!(lacks(&["dashboard"], lent).as_deref(), Some("delegations"));
        assert_eq!(lacks(&["dashboard", "peers"], far), None);
        assert_eq!(lacks(&["dashboard", "delegations"], lent), None);
        assert_eq!(lacks(&["dashboard"], "workflow:build"), None);
        assert!(lacks(&["peers"], far).is_some());
    }
}
