//! Calls in progress: which chain of nodes stands behind the turn that an agent takes now, so that a call to a peer
//! made for that turn carries it on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::chain::Ourselves;

/// The calls of a node. Clones are the same.
#[derive(Debug, Clone)]
pub struct Calls {
    node: Ourselves,
    active: Arc<Mutex<Active>>,
}

/// By agent and prompt: what a driver is told of a turn.
type Active = HashMap<(String, String), Vec<Vec<String>>>;

impl Calls {
    pub fn new(node: Ourselves) -> Self {
        Self {
            node,
            active: Arc::default(),
        }
    }

    pub(crate) fn node(&self) -> &Ourselves {
        &self.node
    }

    /// The agent takes a turn for this chain until the guard is dropped.
    pub fn enter(&self, agent: &str, prompt: &str, chain: Vec<String>) -> CallGuard {
        let key = (agent.to_owned(), prompt.to_owned());
        let mut active = self.lock();
        active.entry(key.clone()).or_default().push(chain.clone());
        CallGuard {
            calls: self.clone(),
            key,
            chain,
        }
    }

    /// The chain of a call that the agent makes in its turn. Of two turns with the same words the longer chain counts:
    /// it refuses more.
    pub fn chain(&self, agent: &str, prompt: &str) -> Vec<String> {
        let key = (agent.to_owned(), prompt.to_owned());
        let active = self.lock();
        let found = active
            .get(&key)
            .and_then(|chains| chains.iter().max_by_key(|chain| chain.len()).cloned());
        found.unwrap_or_else(|| self.node.begin())
    }

    fn lock(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in progress.
#[derive(Debug)]
pub struct CallGuard {
    calls: Calls,
    key: (String, String),
    chain: Vec<String>,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut active = self.calls.lock();
        if let Some(chains) = active.get_mut(&self.key) {
            if let Some(index) = chains.iter().position(|chain| *chain == self.chain) {
                chains.swap_remove(index);
            }
            if chains.is_empty() {
                active.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_carries_its_chain_on_and_forgets_it_at_its_end() {
        let calls = Calls::new(Ourselves {
            id: "own".to_owned(),
            name: "node".to_owned(),
        });
        let long = vec!["desk".to_owned(), "own".to_owned()];
        let guard = calls.enter("a", "hi", long.clone());
        let short = calls.enter("a", "hi", vec!["own".to_owned()]);
        assert_eq!(calls.chain("a", "hi"), long);
        assert_eq!(calls.chain("a", "other"), ["own"]);
        drop(guard);
        assert_eq!(calls.chain("a", "hi"), ["own"]);
        drop(short);
        assert!(calls.lock().is_empty());
    }
}
