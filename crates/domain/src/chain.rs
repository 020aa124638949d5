//! Who has called whom: the chain of nodes behind a run, and when it is a circle.
//!
//! A node that finds itself in the chain refuses, so any circle is caught when it closes. Standard hops drop what they do
//! not know, so a chain may be cut; the limit on its length is the second guard, and rate limits are the third.

/// Calls in a row, each node asking the next: more is a circle that somebody hides, or nothing a person would want.
pub const DEPTH_MAX: usize = 8;

/// The header that carries the chain between nodes, ids with commas between them.
pub const CHAIN_HEADER: &str = "x-agentcraft-call-chain";

/// An id in a chain is a UUID, or a name with the beginning of one.
const ID_MAX: usize = 128;

/// This node, as chains may call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ourselves {
    /// A UUID; what we write.
    pub id: String,
    pub name: String,
}

/// Why a call is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{name} was called by itself")]
    SelfLoop { name: String },
    #[error("{name} is already in the chain of calls; going on would be a circle")]
    Circle { name: String, chain: Vec<String> },
    #[error("{} nodes have called one another in a row; {DEPTH_MAX} is the limit", chain.len())]
    TooDeep { chain: Vec<String> },
    #[error("the chain of calls holds something that is no id")]
    Malformed,
}

impl Ourselves {
    /// Whether `id` means this node: its UUID, or its name with the UUID's first part.
    pub fn is(&self, id: &str) -> bool {
        let short = self.id.split('-').next().unwrap_or_default();
        let alias = format!("{}-{short}", self.name);
        id.eq_ignore_ascii_case(&self.id) || id == alias
    }

    /// Accepts a call that came through `chain`, lastly from `source`; gives the chain for the calls that follow from it.
    pub fn accept(&self, source: Option<&str>, chain: &[String]) -> Result<Vec<String>, Refusal> {
        let ids = chain.iter().map(String::as_str).chain(source);
        if ids.clone().any(|id| !is_id(id)) || chain.len() > DEPTH_MAX * 4 {
            return Err(Refusal::Malformed);
        }
        if source.is_some_and(|source| self.is(source)) {
            return Err(Refusal::SelfLoop {
                name: self.name.clone(),
            });
        }
        if chain.iter().any(|id| self.is(id)) {
            return Err(Refusal::Circle {
                name: self.name.clone(),
                chain: chain.to_vec(),
            });
        }
        let mut extended: Vec<String> = chain.to_vec();
        if let Some(source) = source
            && extended.last().map(String::as_str) != Some(source)
        {
            extended.push(source.to_owned());
        }
        if extended.len() >= DEPTH_MAX {
            return Err(Refusal::TooDeep { chain: extended });
        }
        extended.push(self.id.clone());
        Ok(extended)
    }

    /// The chain of a call that begins here.
    pub fn begin(&self) -> Vec<String> {
        vec![self.id.clone()]
    }
}

/// Two tellings of one chain, in the body and in a header: the longer one, for a hop may have dropped the other.
pub fn merge(one: Vec<String>, other: Vec<String>) -> Vec<String> {
    let (mut long, short) = if one.len() >= other.len() {
        (one, other)
    } else {
        (other, one)
    };
    for id in short {
        if !long.contains(&id) {
            long.push(id);
        }
    }
    long
}

fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= ID_MAX
        && id
            .chars()
            .all(|c| !c.is_control() && !c.is_whitespace() && c != ',')
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "a797ca02-11b5-3080-1263-a31d6d30cba7";

    fn ourselves() -> Ourselves {
        Ourselves {
            id: OWN.to_owned(),
            name: "nova9".to_owned(),
        }
    }

    fn chain(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn a_call_from_elsewhere_extends_the_chain() {
        let accept = |source, ids: &[&str]| ourselves().accept(source, &chain(ids)).unwrap();
        assert_eq!(accept(None, &[]), [OWN]);
        assert_eq!(accept(Some("desk"), &[]), ["desk", OWN]);
        assert_eq!(accept(Some("desk"), &["desk"]), ["desk", OWN]);
        assert_eq!(accept(Some("desk"), &["phone"]), ["phone", "desk", OWN]);
        assert_eq!(accept(None, &["nova9"]), ["nova9", OWN], "a name is no id");
    }

    #[test]
    fn a_call_from_ourselves_is_a_self_loop() {
        for source in [OWN, &OWN.to_uppercase(), "nova9-a797ca02"] {
            let refused = ourselves().accept(Some(source), &[]).unwrap_err();
            let name = "nova9".to_owned();
            assert_eq!(refused, Refusal::SelfLoop { name }, "{source}");
        }
    }

    #[test]
    fn a_circle_of_any_length_is_refused_with_its_chain() {
        for length in 1..DEPTH_MAX {
            let mut ids = vec!["nova9-a797ca02".to_owned()];
            ids.extend((1..length).map(|number| format!("node-{number}")));
            let refused = ourselves().accept(Some("last"), &ids).unwrap_err();
            let name = "nova9".to_owned();
            assert_eq!(refused, Refusal::Circle { name, chain: ids });
        }
    }

    #[test]
    fn nodes_that_call_one_another_in_turn_are_stopped_when_the_circle_closes() {
        let nodes: Vec<Ourselves> = (0..4)
            .map(|number| Ourselves {
                id: format!("id-{number}"),
                name: format!("node-{number}"),
            })
            .collect();
        let mut chain = nodes[0].begin();
        for (from, node) in [(0, 1), (1, 2), (2, 3)] {
            chain = nodes[node].accept(Some(&nodes[from].id), &chain).unwrap();
        }
        assert!(matches!(
            nodes[0].accept(Some("id-3"), &chain),
            Err(Refusal::Circle { .. })
        ));
    }

    #[test]
    fn a_chain_that_is_too_long_or_malformed_is_refused() {
        let ids: Vec<String> = (0..DEPTH_MAX).map(|n| format!("node-{n}")).collect();
        assert!(matches!(
            ourselves().accept(None, &ids),
            Err(Refusal::TooDeep { .. })
        ));
        ourselves().accept(None, &ids[1..]).unwrap();
        for bad in ["", "a b", "a,b", "a\n"] {
            assert_eq!(
                ourselves().accept(None, &chain(&[bad])),
                Err(Refusal::Malformed),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn the_header_fills_what_the_body_lost() {
        assert_eq!(merge(chain(&[]), chain(&["a", "b"])), ["a", "b"]);
        assert_eq!(merge(chain(&["a", "b"]), chain(&["a"])), ["a", "b"]);
        assert_eq!(merge(chain(&["c"]), chain(&["a", "b"])), ["a", "b", "c"]);
    }
}
