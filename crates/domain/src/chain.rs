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

/// Digits of a UUID that stand for it behind a name.
const SHORT: usize = 8;

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
    /// Whether `id` means this node: its UUID, however that is written, or its name with the UUID's first eight digits.
    pub fn is(&self, id: &str) -> bool {
        let own = digits(&self.id);
        if id.eq_ignore_ascii_case(&self.id) || own.is_some() && digits(id) == own {
            return true;
        }
        let short = match &own {
            Some(digits) => &digits[..SHORT],
            None => self.id.split('-').next().unwrap_or_default(),
        };
        let rest = id.strip_prefix(self.name.as_str());
        let rest = rest.and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(short))
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

/// A chain as the lines of its header tell it. What cannot be read is refused: to leave it out would open a circle.
pub fn of_header<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<String>, Refusal> {
    let mut chain = Vec::new();
    for line in lines {
        let line = std::str::from_utf8(line).map_err(|_| Refusal::Malformed)?;
        let ids = line.split(',').map(str::trim).filter(|id| !id.is_empty());
        chain.extend(ids.map(str::to_owned));
    }
    Ok(chain)
}

/// The digits of a UUID, with or without hyphens.
fn digits(id: &str) -> Option<String> {
    let digits: String = id.chars().filter(|c| *c != '-').collect();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_uuid.then(|| digits.to_ascii_lowercase())
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
        let simple = OWN.replace('-', "");
        for id in [OWN, &simple] {
            let node = Ourselves {
                id: id.to_owned(),
                name: "nova9".to_owned(),
            };
            for source in [
                OWN,
                &simple,
                &OWN.to_uppercase(),
                "nova9-a797ca02",
                "nova9-A797CA02",
            ] {
                let refused = node.accept(Some(source), &[]).unwrap_err();
                let name = "nova9".to_owned();
                assert_eq!(refused, Refusal::SelfLoop { name }, "{id} {source}");
            }
            for other in ["nova9-a797ca03", "nova9-", "nova9a797ca02", "a797ca02"] {
                assert!(!node.is(other), "{other}");
            }
        }
    }

    #[test]
    fn a_header_is_read_whole_or_not_at_all() {
        let read = |lines: &[&str]| of_header(lines.iter().map(|line| line.as_bytes())).unwrap();
        assert_eq!(read(&[]), [""; 0]);
        assert_eq!(
            read(&["a, b,", "柠檬桌面-9169e2e8"]),
            ["a", "b", "柠檬桌面-9169e2e8"]
        );
        assert_eq!(of_header([&b"a,\xe9"[..]]), Err(Refusal::Malformed));
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
