//! Which agents there are. Names are taken before anything is made, so two creations never meet.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use domain::Name;

use crate::{AgentView, agent::AgentHandle};

/// Every name that is taken, and the way to its agent once there is one.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    agents: RwLock<BTreeMap<Name, Option<AgentHandle>>>,
}

impl Registry {
    /// Takes a name; says whether it was free.
    pub(crate) fn take(&self, name: &Name) -> bool {
        let mut agents = self.agents.write().unwrap_or_else(PoisonError::into_inner);
        if agents.contains_key(name) {
            return false;
        }
        agents.insert(name.clone(), None);
        true
    }

    pub(crate) fn put(&self, name: Name, handle: AgentHandle) {
        self.agents
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, Some(handle));
    }

    /// Frees a name.
    pub(crate) fn remove(&self, name: &Name) {
        self.agents
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    pub(crate) fn get(&self, name: &str) -> Option<AgentHandle> {
        self.agents
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
            .flatten()
    }

    pub(crate) fn handles(&self) -> Vec<AgentHandle> {
        self.agents
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .flatten()
            .cloned()
            .collect()
    }

    pub(crate) fn views(&self) -> Vec<Arc<AgentView>> {
        let agents = self.agents.read().unwrap_or_else(PoisonError::into_inner);
        agents
            .values()
            .flatten()
            .filter_map(AgentHandle::view)
            .collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.agents
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}
