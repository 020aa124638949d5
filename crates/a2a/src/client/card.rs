//! Finding a card: at the address itself, below it, or at the root of its host; today's place and the older one.

use reqwest::{Client as Http, Url, header::ACCEPT};
use serde_json::Value;
use wire::a2a::{AgentCard, Binding, CARD_PATHS, Version, v03};

use super::{
    ClientError,
    connection::{Way, read_body},
};

/// The largest card.
const CARD_MAX: usize = 1024 * 1024;

/// Reads the card of the agent at `url`, which is the agent's address or that of the card.
pub(super) async fn resolve(
    http: &Http,
    url: &str,
    token: Option<&str>,
) -> Result<AgentCard, ClientError> {
    let base = parse(url)?;
    let mut why = String::new();
    for place in places(&base) {
        let mut request = http.get(place.clone()).header(ACCEPT, "application/json");
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request
            .send()
            .await
            .map_err(|error| ClientError::Unreachable {
                url: place.to_string(),
                why: words(&error),
            })?;
        if !response.status().is_success() {
            why = format!(
                "{place} answered with status {}",
                response.status().as_u16()
            );
            continue;
        }
        let body = read_body(response, CARD_MAX, place.as_str()).await?;
        let card = serde_json::from_slice::<Value>(&body)
            .map_err(|error| error.to_string())
            .and_then(|value| v03::read_card(&value).map_err(|error| error.to_string()));
        match card {
            Ok(card) => return Ok(card),
            Err(error) => why = format!("{place}: {error}"),
        }
    }
    let url = url.to_owned();
    Err(ClientError::NoCard { url, why })
}

pub(super) fn parse(url: &str) -> Result<Url, ClientError> {
    let bad = |why: String| ClientError::BadUrl {
        url: url.to_owned(),
        why,
    };
    let parsed = Url::parse(url).map_err(|error| bad(error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(bad("it begins with http:// or https://".to_owned()));
    }
    Ok(parsed)
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

/// The first way on the card that we speak. HTTP+JSON of 0.3 comes last, since implementations of it disagree.
pub(super) fn choose(card: &AgentCard) -> Option<Way> {
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
    ways.into_iter().next()
}

/// An error with its causes: the topmost one alone says little.
pub(super) fn words(error: &reqwest::Error) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        words = format!("{words}: {source}");
        cause = source.source();
    }
    words
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
            choose(&card).map(|way| (way.binding, way.version))
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
