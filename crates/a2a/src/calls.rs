//! Calls in progress: which chain of nodes stands behind a turn, so that a call made for that turn carries it on, and a
//! circle is refused where it closes.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{
    Trace,
    chain::{self, Ourselves},
};
use serde_json::Value;
use wire::a2a::Message;

use crate::error::Refusal;

/// Where messages carry the chain, beside the header: a hop may drop either.
pub(crate) const CHAIN_KEY: &str = "call_chain";
pub(crate) const SOURCE_KEY: &str = "source_agent_id";

/// What another face knows of the chain behind a turn, by the agent's name and the prompt.
pub type OtherCalls = Arc<dyn Fn(&str, &str) -> Vec<String> + Send + Sync>;

/// Turns of one trace, of which there may be several here at once.
type Active = HashMap<Trace, Vec<Vec<String>>>;

/// The calls of a node over this protocol. Clones are the same.
#[derive(Clone)]
pub struct Calls {
    node: Ourselves,
    others: Option<OtherCalls>,
    active: Arc<Mutex<Active>>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl Calls {
    pub fn new(node: Ourselves) -> Self {
        Self {
            node,
            others: None,
            active: Arc::default(),
        }
    }

    /// Turns that came through another face carry their chain on, too.
    #[must_use]
    pub fn beside(self, others: OtherCalls) -> Self {
        Self {
            others: Some(others),
            ..self
        }
    }

    /// Accepts a message with the chain that it and the header tell; gives the chain for what follows from it.
    pub(crate) fn accept(
        &self,
        message: &Message,
        header: Vec<String>,
    ) -> Result<Vec<String>, Refusal> {
        let told = |key: &str| message.metadata.as_ref().and_then(|it| it.get(key));
        let ids = told(CHAIN_KEY).and_then(Value::as_array);
        let ids = ids.into_iter().flatten().filter_map(Value::as_str);
        let told_chain = chain::merge(ids.map(str::to_owned).collect(), header);
        let source = told(SOURCE_KEY).and_then(Value::as_str);
        let source = source.or(told_chain.last().map(String::as_str));
        let accepted = self.node.accept(source, &told_chain);
        accepted.map_err(|refused| Refusal::from(refused).with("callChain", &told_chain.join(",")))
    }

    /// A turn is taken for this chain until the guard is dropped.
    pub(crate) fn enter(&self, trace: Trace, chain: Vec<String>) -> CallGuard {
        let mut active = self.lock();
        active.entry(trace).or_default().push(chain.clone());
        CallGuard {
            calls: self.clone(),
            trace,
            chain,
        }
    }

    /// The chain of a call that is made in a turn; the longest that is known of it, for that refuses most.
    pub fn chain(&self, trace: Option<Trace>, agent: &str, prompt: &str) -> Vec<String> {
        let known = trace.and_then(|trace| {
            let active = self.lock();
            let chains = active.get(&trace)?.iter();
            chains.max_by_key(|chain| chain.len()).cloned()
        });
        let others = self.others.as_ref().map(|others| others(agent, prompt));
        let known = [known, others].into_iter().flatten();
        let longest = known.max_by_key(Vec::len);
        longest.unwrap_or_else(|| self.node.begin())
    }

    fn lock(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in progress.
#[derive(Debug)]
pub(crate) struct CallGuard {
    calls: Calls,
    trace: Trace,
    chain: Vec<String>,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut active = self.calls.lock();
        if let Some(chains) = active.get_mut(&self.trace) {
            if let Some(index) = chains.iter().position(|chain| *chain == self.chain) {
                chains.swap_remove(index);
            }
            if chains.is_empty() {
                active.remove(&self.trace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::a2a::{Part, Role};

    use super::*;

    fn calls() -> Calls {
        Calls::new(Ourselves {
            id: "own".to_owned(),
            name: "node".to_owned(),
        })
    }

    fn message(chain: &[&str]) -> Message {
        let mut message = Message::new("m".to_owned(), Role::User, vec![Part::text("hi")]);
        if !chain.is_empty() {
            let metadata = json!({ CHAIN_KEY: chain, SOURCE_KEY: chain.last() });
            message.metadata = metadata.as_object().cloned();
        }
        message
    }

    #[test]
    fn a_turn_carries_its_chain_on_and_forgets_it_at_its_end() {
        let calls = calls();
        let trace = Trace::new(7);
        let guard = calls.enter(trace, vec!["desk".to_owned(), "own".to_owned()]);
        assert_eq!(calls.chain(Some(trace), "a", "hi"), ["desk", "own"]);
        assert_eq!(calls.chain(Some(Trace::new(8)), "a", "hi"), ["own"]);
        assert_eq!(calls.chain(None, "a", "hi"), ["own"]);
        drop(guard);
        assert_eq!(calls.chain(Some(trace), "a", "hi"), ["own"]);
        let beside = calls.beside(Arc::new(|agent, _| {
            vec!["x".to_owned(), agent.to_owned(), "own".to_owned()]
        }));
        assert_eq!(beside.chain(Some(trace), "a", "hi"), ["x", "a", "own"]);
    }

    #[test]
    fn a_circle_is_refused_whether_the_message_tells_of_it_or_the_header() {
        let calls = calls();
        let header = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        let accepted = calls.accept(&message(&["desk"]), Vec::new()).unwrap();
        assert_eq!(accepted, ["desk", "own"]);
        assert_eq!(calls.accept(&message(&[]), Vec::new()).unwrap(), ["own"]);
        for (told, by_header, word) in [
            (&["own", "desk"][..], &[][..], "circular_call_detected"),
            (
                &["desk"][..],
                &["own", "desk"][..],
                "circular_call_detected",
            ),
            (&["own"][..], &[][..], "self_loop_rejected"),
            (&[][..], &["own"][..], "self_loop_rejected"),
            (
                &["a", "b", "c", "d", "e", "f", "g", "h"][..],
                &[][..],
                "call_chain_too_long",
            ),
            (&["an id\nthat is none"][..], &[][..], "invalid_call_chain"),
        ] {
            let refused = calls.accept(&message(told), header(by_header)).unwrap_err();
            assert!(
                refused.message.contains(word),
                "{told:?}: {}",
                refused.message
            );
        }
    }
}
