//! Finding the card of an A2A agent: at the address itself, below it, or at the root of its host; today's place and the
//! older one. And the ways to the agent that the card names, in the order in which they are tried.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, Url, header::ACCEPT};
use serde_json::Value;
use wire::a2a::{AgentCard, Binding, CARD_PATHS, Version, v03};

/// The largest card.
const CARD_MAX: usize = 1024 * 1024;

/// How often a card is asked for over connections that turn out to be dead: clients keep them, and a network that was away
/// takes all of them with it.
const CONNECTIONS_MAX: u32 = 4;

/// Why there is no card.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    #[error("{url:?} is not the address of an agent: {why}")]
    BadUrl { url: String, why: String },
    #[error("{url} has no agent card: {why}")]
    NoCard { url: String, why: String },
    #[error("{url} cannot be reached: {why}")]
    Unreachable { url: String, why: String },
}

/// How an agent is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    pub url: Url,
    pub binding: Binding,
    pub version: Version,
    pub tenant: Option<String>,
}

/// Reads the card of the agent at `url`, which is the agent's address or that of the card. Each place that is looked at has
/// so long to answer.
pub async fn read(
    http: &Client,
    url: &str,
    token: Option<&str>,
    within: Duration,
) -> Result<AgentCard, CardError> {
    let base = parse(url)?;
    let mut why = String::new();
    for place in places(&base) {
        let mut request = http
            .get(place.clone())
            .timeout(within)
            .header(ACCEPT, "application/json");
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = ask(&request).await;
        let response = response.map_err(|error| CardError::Unreachable {
            url: place.to_string(),
            why: words(&error),
        })?;
        if !response.status().is_success() {
            let status = response.status().as_u16();
            why = format!("{place} answered with status {status}");
            continue;
        }
        let card = body(response).await.and_then(|bytes| {
            let value: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
            v03::read_card(&value).map_err(|error| error.to_string())
        });
        match card {
            Ok(card) => return Ok(card),
            Err(error) => why = format!("{place}: {error}"),
        }
    }
    let url = url.to_owned();
    Err(CardError::NoCard { url, why })
}

/// Sends it. Over a connection that died while nobody used it, the same is asked again: a card is only read.
async fn ask(request: &RequestBuilder) -> Result<Response, reqwest::Error> {
    let mut asked = 1;
    loop {
        let again = request
            .try_clone()
            .expect("a request without a body can be repeated");
        match again.send().await {
            Err(error) if asked < CONNECTIONS_MAX && !error.is_connect() && !error.is_timeout() => {
                asked += 1;
            }
            answered => return answered,
        }
    }
}

/// An address that can be asked.
pub fn parse(url: &str) -> Result<Url, CardError> {
    let bad = |why: String| CardError::BadUrl {
        url: wire::address::masked(url).into_owned(),
        why,
    };
    let parsed = Url::parse(url).map_err(|error| bad(error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(bad("it begins with http:// or https://".to_owned()));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        let why =
            "it holds a name or a password, and addresses are told to others; a token opens it";
        return Err(bad(why.to_owned()));
    }
    Ok(parsed)
}

/// The ways on the card that are known here. HTTP+JSON of 0.3 comes last, since implementations of it disagree.
pub fn ways(card: &AgentCard) -> Vec<Way> {
    let mut ways: Vec<Way> = card
        .supported_interfaces
        .iter()
        .filter_map(|interface| {
            Some(Way {
                url: parse(&interface.url).ok()?,
                binding: Binding::parse(&interface.protocol_binding)?,
                version: Version::parse(&interface.protocol_version)?,
                tenant: interface.tenant.clone().filter(|it| !it.is_empty()),
            })
        })
        .collect();
    ways.sort_by_key(|way| (way.binding, way.version) == (Binding::HttpJson, Version::V03));
    ways
}

/// An error with its causes: the topmost one alone says little.
pub fn words(error: &reqwest::Error) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        words = format!("{words}: {source}");
        cause = source.source();
    }
    words
}

fn places(base: &Url) -> Vec<Url> {
    if base.path().ends_with(".json") {
        return vec![base.clone()];
    }
    let path = base.path().trim_end_matches('/').to_owned();
    let mut prefixes = vec![path.clone()];
    if !path.is_empty() {
        prefixes.push(String::new());
    }
    let at = |prefix: &str, card: &str| {
        let mut place = base.clone();
        place.set_path(&format!("{prefix}{card}"));
        place.set_query(None);
        place
    };
    prefixes
        .iter()
        .flat_map(|prefix| CARD_PATHS.map(|card| at(prefix, card)))
        .collect()
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| words(&error))? {
        if bytes.len() + piece.len() > CARD_MAX {
            return Err(format!("it has more than {CARD_MAX} bytes"));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use wire::a2a::AgentInterface;

    use super::*;

    #[test]
    fn a_card_is_looked_for_below_the_address_and_at_the_root() {
        let places = |url: &str| -> Vec<String> {
            let found = places(&parse(url).unwrap());
            found.iter().map(|url| url.path().to_owned()).collect()
        };
        let roots = ["/.well-known/agent-card.json", "/.well-known/agent.json"];
        assert_eq!(places("http://h:1"), roots);
        assert_eq!(places("http://h/x/card.json"), ["/x/card.json"]);
        assert_eq!(
            places("http://h/a2a/news/"),
            [
                "/a2a/news/.well-known/agent-card.json",
                "/a2a/news/.well-known/agent.json",
                roots[0],
                roots[1],
            ]
        );
        assert!(parse("file:///etc/passwd").is_err());
    }

    #[test]
    fn the_first_way_that_is_spoken_is_taken() {
        let way = |binding: &str, version: &str| AgentInterface {
            url: "http://h/".to_owned(),
            protocol_binding: binding.to_owned(),
            tenant: None,
            protocol_version: version.to_owned(),
        };
        let chosen = |interfaces: Vec<AgentInterface>| {
            let card = AgentCard {
                supported_interfaces: interfaces,
                ..AgentCard::default()
            };
            ways(&card).first().map(|way| (way.binding, way.version))
        };
        let (grpc, rest, rpc) = (
            way("GRPC", "1.0"),
            way("HTTP+JSON", "1.0"),
            way("JSONRPC", "0.3.0"),
        );
        assert_eq!(
            chosen(vec![grpc.clone(), rest, rpc.clone()]),
            Some((Binding::HttpJson, Version::V1))
        );
        assert_eq!(
            chosen(vec![way("HTTP+JSON", "0.3"), rpc]),
            Some((Binding::JsonRpc, Version::V03))
        );
        assert_eq!(chosen(vec![grpc]), None);
    }
}
