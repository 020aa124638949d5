//! Calls in progress: which chain of nodes stands behind the turn that an agent takes now, so that a call to another node
//! made for that turn carries it on. Every face enters its turns here, and every driver that leaves the node asks here.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{Trace, chain::Ourselves};

/// The calls of a node. Clones are the same; there are as many as the faces have turns at work.
#[derive(Debug, Clone)]
pub struct Calls {
    node: Ourselves,
    active: Arc<Mutex<Active>>,
}

/// A turn as a driver is told of it.
#[derive(Debug, Clone, Copy)]
pub struct TurnOf<'a> {
    pub trace: Option<Trace>,
    pub agent: &'a str,
    pub prompt: &'a str,
}

/// Several turns may look the same.
type Active = HashMap<Key, Vec<Vec<String>>>;

/// What a turn is known by: a driver may be told either.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Trace(Trace),
    Words { agent: String, prompt: String },
}

impl TurnOf<'_> {
    fn keys(&self) -> Vec<Key> {
        let words = Key::Words {
            agent: self.agent.to_owned(),
            prompt: self.prompt.to_owned(),
        };
        let trace = self.trace.map(Key::Trace);
        trace.into_iter().chain([words]).collect()
    }
}

impl Calls {
    pub fn new(node: Ourselves) -> Self {
        Self {
            node,
            active: Arc::default(),
        }
    }

    /// Who this node is in a chain.
    pub fn node(&self) -> &Ourselves {
        &self.node
    }

    /// A turn is taken for this chain until the guard is dropped.
    pub fn enter(&self, turn: TurnOf<'_>, chain: Vec<String>) -> CallGuard {
        let keys = turn.keys();
        let mut active = self.lock();
        for key in &keys {
            active.entry(key.clone()).or_default().push(chain.clone());
        }
        drop(active);
        CallGuard {
            calls: self.clone(),
            keys,
            chain,
        }
    }

    /// The chain of a call that is made in a turn. Of those that look the same the longest counts: it refuses most.
    pub fn chain(&self, turn: TurnOf<'_>) -> Vec<String> {
        let active = self.lock();
        let keys = turn.keys();
        let chains = keys.iter().filter_map(|key| active.get(key)).flatten();
        let longest = chains.max_by_key(|chain| chain.len()).cloned();
        longest.unwrap_or_else(|| self.node.begin())
    }

    fn lock(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in progress.
#[derive(Debug)]
pub struct CallGuard {
    calls: Calls,
    keys: Vec<Key>,
    chain: Vec<String>,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut active = self.calls.lock();
        for key in &self.keys {
            let Some(chains) = active.get_mut(key) else {
                continue;
            };
            if let Some(index) = chains.iter().position(|chain| *chain == self.chain) {
                chains.swap_remove(index);
            }
            if chains.is_empty() {
                active.remove(key);
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
        let turn = |trace: Option<u128>, prompt: &'static str| TurnOf {
            trace: trace.map(Trace::new),
            agent: "a",
            prompt,
        };
        let long = vec!["desk".to_owned(), "own".to_owned()];
        let guard = calls.enter(turn(Some(7), "hi"), long.clone());
        let short = calls.enter(turn(None, "hi"), vec!["own".to_owned()]);
        assert_eq!(calls.chain(turn(None, "hi")), long, "by its words");
        assert_eq!(calls.chain(turn(Some(7), "other")), long, "by its trace");
        assert_eq!(calls.chain(turn(Some(8), "other")), ["own"]);
        drop(guard);
        assert_eq!(calls.chain(turn(Some(7), "hi")), ["own"]);
        drop(short);
        assert!(calls.lock().is_empty());
    }
}
