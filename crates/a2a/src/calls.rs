//! The chain of calls beside a message: a circle is refused where it closes.

use domain::chain::{self, Ourselves};
use serde_json::Value;
use wire::a2a::Message;

use crate::error::Refusal;

/// Where messages carry the chain, beside the header: a hop may drop either.
pub(crate) const CHAIN_KEY: &str = "call_chain";
pub(crate) const SOURCE_KEY: &str = "source_agent_id";

/// Accepts a message with the chain that it and the header tell; gives the chain for what follows from it.
pub(crate) fn accept(
    node: &Ourselves,
    message: &Message,
    header: Vec<String>,
) -> Result<Vec<String>, Refusal> {
    let told = |key: &str| message.metadata.as_ref().and_then(|it| it.get(key));
    let ids = told(CHAIN_KEY).and_then(Value::as_array);
    let ids = ids.into_iter().flatten().filter_map(Value::as_str);
    let told_chain = chain::merge(ids.map(str::to_owned).collect(), header);
    let source = told(SOURCE_KEY).and_then(Value::as_str);
    let source = source.or(told_chain.last().map(String::as_str));
    let accepted = node.accept(source, &told_chain);
    accepted.map_err(|refused| Refusal::from(refused).with("callChain", &told_chain.join(",")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::a2a::{Part, Role};

    use super::*;

    fn message(chain: &[&str]) -> Message {
        let mut message = Message::new("m".to_owned(), Role::User, vec![Part::text("hi")]);
        if !chain.is_empty() {
            let metadata = json!({ CHAIN_KEY: chain, SOURCE_KEY: chain.last() });
            message.metadata = metadata.as_object().cloned();
        }
        message
    }

    #[test]
    fn a_circle_is_refused_whether_the_message_tells_of_it_or_the_header() {
        let node = Ourselves {
            id: "own".to_owned(),
            name: "node".to_owned(),
        };
        let accept = |message: &Message, header| accept(&node, message, header);
        let header = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        let accepted = accept(&message(&["desk"]), Vec::new()).unwrap();
        assert_eq!(accepted, ["desk", "own"]);
        assert_eq!(accept(&message(&[]), Vec::new()).unwrap(), ["own"]);
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
            let refused = accept(&message(told), header(by_header)).unwrap_err();
            assert!(
                refused.message.contains(word),
                "{told:?}: {}",
                refused.message
            );
        }
    }
}
