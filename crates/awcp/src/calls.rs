//! Who has called whom, across delegations: an INVITE carries the chain of nodes behind it, and what is done for it at the
//! remote carries it on, so that no circle closes.

use std::{fmt, sync::Arc};

use domain::{
    Trace,
    chain::{Ourselves, Refusal},
};
use serde_json::Value;

/// Where the chain stands beside an INVITE.
pub const CHAIN_KEY: &str = "call_chain";

/// What the node's other faces know of calls in progress. Clones are the same.
#[derive(Clone)]
pub struct Calls {
    node: Ourselves,
    behind: Arc<Behind>,
    enter: Arc<Enter>,
}

/// The chain behind a turn, by its trace, the agent's name and the prompt.
type Behind = dyn Fn(Option<Trace>, &str, &str) -> Vec<String> + Send + Sync;

/// An agent takes a turn with this prompt for this chain until what this gives is dropped.
type Enter = dyn Fn(&str, &str, Vec<String>) -> Entered + Send + Sync;

/// A turn in progress; it is over when this is dropped.
pub type Entered = Box<dyn Send>;

impl Calls {
    /// Those of a node whose other faces are asked and told.
    pub fn new(
        node: Ourselves,
        behind: impl Fn(Option<Trace>, &str, &str) -> Vec<String> + Send + Sync + 'static,
        enter: impl Fn(&str, &str, Vec<String>) -> Entered + Send + Sync + 'static,
    ) -> Self {
        Self {
            node,
            behind: Arc::new(behind),
            enter: Arc::new(enter),
        }
    }

    /// Those of a node without other faces.
    pub fn alone(node: Ourselves) -> Self {
        let begun = node.begin();
        Self::new(node, move |_, _, _| begun.clone(), |_, _, _| Box::new(()))
    }

    /// The chain of a call that begins here.
    pub(crate) fn begin(&self) -> Vec<String> {
        self.node.begin()
    }

    pub(crate) fn behind(&self, trace: Option<Trace>, agent: &str, prompt: &str) -> Vec<String> {
        (self.behind)(trace, agent, prompt)
    }

    pub(crate) fn enter(&self, agent: &str, prompt: &str, chain: &[String]) -> Entered {
        (self.enter)(agent, prompt, chain.to_vec())
    }

    /// Accepts an INVITE that came through this chain; gives the chain for what follows from it. Somebody may lend to his
    /// own node, but that one does not lend on to itself.
    pub(crate) fn accept(&self, chain: &[String]) -> Result<Vec<String>, Refusal> {
        if chain == self.begin() {
            return Ok([self.begin(), self.begin()].concat());
        }
        self.node.accept(chain.last().map(String::as_str), chain)
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// The chain beside a message; one that nobody can read is none.
pub(crate) fn told(data: &Value) -> Vec<String> {
    let ids = data.get(CHAIN_KEY).and_then(Value::as_array);
    let ids = ids.into_iter().flatten().filter_map(Value::as_str);
    ids.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_from_itself_once_and_from_nobody_who_was_called_by_it() {
        let calls = Calls::alone(Ourselves {
            id: "own".to_owned(),
            name: "node".to_owned(),
        });
        let accept = |ids: &[&str]| {
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            calls.accept(&ids).map_err(|refused| refused.to_string())
        };
        assert_eq!(accept(&[]).unwrap(), ["own"]);
        assert_eq!(accept(&["desk"]).unwrap(), ["desk", "own"]);
        let again = accept(&["own"]).unwrap();
        assert_eq!(again, ["own", "own"]);
        assert!(calls.accept(&again).is_err());
        for (chain, word) in [
            (&["own", "desk"][..], "circle"),
            (&["desk", "own", "phone"], "circle"),
            (&["a", "b", "c", "d", "e", "f", "g", "h"], "limit"),
            (&["no id"], "no id"),
        ] {
            let refused = accept(chain).unwrap_err();
            assert!(refused.contains(word), "{chain:?}: {refused}");
        }
    }
}
