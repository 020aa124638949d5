//! A peer as it is kept, and as it is shown.

use std::collections::BTreeSet;

use domain::Name;
use serde::{Deserialize, Serialize};
use wire::runs::Manifest;

use crate::{
    client::{Address, Certificate, Seen},
    pairing::{Hours, Limits},
};

/// Whether somebody answers there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Online,
    Offline,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
        }
    }
}

/// How we came to know a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It announced itself on the network.
    Found,
    /// Somebody gave us its address.
    Added,
}

/// A peer with everything we keep of it; the document of kind `peer`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Peer {
    pub(crate) agent_id: String,
    /// How it is called here: of our alphabet, and no other peer's.
    pub(crate) alias: Name,
    /// What it called itself when it announced itself: to be shown, and never to be looked up by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) announced: Option<String>,
    pub(crate) origin: Origin,
    pub(crate) url: String,
    pub(crate) status: Status,
    /// Milliseconds since the Unix epoch.
    pub(crate) first_seen: i64,
    pub(crate) last_seen: Option<i64>,
    /// What it says of itself; nothing before it lets us see it.
    pub(crate) manifest: Option<Manifest>,
    /// Its agents, by the name under which a run asks for one.
    #[serde(default)]
    pub(crate) agents: Vec<String>,
    /// What we show it.
    pub(crate) token: Option<String>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) pairing: Option<Paired>,
    /// Why it is not used.
    pub(crate) trouble: Option<String>,
}

/// What the peer may do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Paired {
    /// Of the token that we gave it.
    pub(crate) token_id: String,
    pub(crate) rights: BTreeSet<String>,
    pub(crate) at: i64,
    #[serde(default)]
    pub(crate) limits: Limits,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer")
            .field("agent_id", &self.agent_id)
            .field("url", &self.url)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl Peer {
    pub(crate) fn version(&self) -> Option<&str> {
        self.manifest.as_ref()?.version.as_deref()
    }

    /// Its own name, or ours for it.
    pub(crate) fn name(&self) -> &str {
        self.manifest
            .as_ref()
            .map_or(self.alias.as_str(), |manifest| &manifest.name)
    }

    /// As [`Self::name`], and what it has announced before it says more.
    fn shown_name(&self) -> &str {
        match (&self.manifest, &self.announced) {
            (None, Some(announced)) => announced,
            (Some(_), _) | (None, None) => self.name(),
        }
    }

    pub(crate) fn address(&self) -> Address {
        let certificate = match (&self.fingerprint, self.origin) {
            (Some(fingerprint), _) => Certificate::Pinned(fingerprint.clone()),
            (None, Origin::Added) => Certificate::Roots,
            // There is no certificate to be learnt, and no secret to be kept from whoever answers.
            (None, Origin::Found) if self.token.is_none() && self.url.starts_with("http://") => {
                Certificate::Roots
            }
            (None, Origin::Found) => Certificate::Learn(Seen::default()),
        };
        Address {
            url: self.url.clone(),
            token: self.token.clone(),
            certificate,
        }
    }

    /// It announced itself, or somebody did in its name, and nobody has answered there yet.
    pub(crate) fn is_unmet(&self) -> bool {
        self.origin == Origin::Found
            && self.last_seen.is_none()
            && self.manifest.is_none()
            && !self.is_ours_to_keep()
    }

    /// Somebody chose it, or exchanged secrets with it.
    pub(crate) fn is_ours_to_keep(&self) -> bool {
        self.origin == Origin::Added || self.token.is_some() || self.pairing.is_some()
    }

    /// Whether an announcement may say where the peer is now. Anybody can announce anything: a peer that gets a secret
    /// from us, or may do something here, moves only if its certificate will prove who it is. So does one whose
    /// certificate we have merely seen, as long as it answers where it is.
    pub(crate) fn may_move_to(&self, url: &str) -> bool {
        let is_gone = self.status == Status::Offline && !self.is_ours_to_keep();
        match (&self.fingerprint, &self.token) {
            (Some(_), _) => url.starts_with("https://") || is_gone,
            (None, Some(_)) => false,
            (None, None) => self.origin == Origin::Found,
        }
    }

    pub(crate) fn view(&self) -> PeerView {
        let manifest = self.manifest.as_ref();
        let capabilities = manifest.map(|manifest| {
            let capabilities = manifest.capabilities.iter();
            capabilities
                .map(|capability| CapabilityView {
                    id: capability.id.clone(),
                    description: capability.description.clone(),
                })
                .collect()
        });
        let limits = self.pairing.as_ref().map(|paired| &paired.limits);
        PeerView {
            id: self.agent_id.clone(),
            alias: self.alias.to_string(),
            name: self.shown_name().to_owned(),
            description: manifest
                .map(|manifest| manifest.description.clone())
                .unwrap_or_default(),
            origin: self.origin,
            url: self.url.clone(),
            status: self.status,
            first_seen: moment(self.first_seen),
            last_seen: self.last_seen.map(moment),
            version: self.version().map(str::to_owned),
            capabilities: capabilities.unwrap_or_default(),
            paired: self.pairing.is_some() || self.token.is_some(),
            rights: self
                .pairing
                .as_ref()
                .map(|paired| paired.rights.clone())
                .unwrap_or_default(),
            per_minute: limits.and_then(|limits| limits.per_minute),
            hours: limits.and_then(|limits| limits.hours),
            until: limits.and_then(|limits| limits.until).map(moment),
            fingerprint: self.fingerprint.clone(),
            trouble: self.trouble.clone(),
        }
    }
}

/// A peer as lists show it; no secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerView {
    pub id: String,
    pub alias: String,
    pub name: String,
    pub description: String,
    pub origin: Origin,
    pub url: String,
    pub status: Status,
    pub first_seen: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub capabilities: Vec<CapabilityView>,
    /// Whether secrets were exchanged.
    pub paired: bool,
    /// What it may do here.
    pub rights: BTreeSet<String>,
    /// How often in a minute, at which hours, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_minute: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<Hours>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilityView {
    pub id: String,
    pub description: String,
}

pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// RFC 3339 in UTC.
pub(crate) fn moment(millis: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    format!("{moment:.0}")
}

/// A name of ours for whatever a peer calls itself: never a path, never empty.
pub(crate) fn alias(name: &str, agent_id: &str) -> Name {
    let mut text = String::new();
    for character in name.chars() {
        if character.is_ascii_alphanumeric() || character == '_' {
            text.push(character);
        } else if !text.ends_with('-') {
            text.push('-');
        }
    }
    let text: String = text
        .trim_matches(['-', '_'])
        .chars()
        .take(ALIAS_MAX)
        .collect();
    let text = text.trim_end_matches(['-', '_']);
    let parsed = Name::parse(text);
    parsed.unwrap_or_else(|_| {
        Name::parse(&format!("peer-{}", short(agent_id))).expect("letters and digits")
    })
}

/// The same, for a second peer with the same name.
pub(crate) fn longer_alias(alias: &Name, agent_id: &str) -> Name {
    Name::parse(&format!("{alias}-{}", short(agent_id))).expect("an alias leaves room for it")
}

/// The same, where that name is another's already: ids come from peers too, and may be made to look like one another.
pub(crate) fn counted_alias(alias: &Name, agent_id: &str, number: u16) -> Name {
    Name::parse(&format!("{alias}-{}-{number}", short(agent_id)))
        .expect("an alias leaves room for it")
}

/// A name that anybody may have announced, fit to be shown; nothing if nothing is left to see.
pub(crate) fn announced(name: &str) -> Option<String> {
    let is_harmful =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown = String::new();
    for character in name.trim().chars().take(ANNOUNCED_MAX) {
        match is_harmful(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    (!shown.is_empty()).then_some(shown)
}

/// Characters of a name that is shown; a label of DNS has no more.
const ANNOUNCED_MAX: usize = 63;

/// Leaves room in a name for the beginning of an id, and for a number.
const ALIAS_MAX: usize = 48;

/// What tells two peers with one name apart. An id comes from a peer as well, so only its letters and digits count.
fn short(agent_id: &str) -> String {
    let plain: String = agent_id
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(8)
        .collect();
    if plain.is_empty() {
        "x".to_owned()
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_peers_are_never_paths() {
        let id = "a797ca02-11b5-3080-1263-a31d6d30cba7";
        for (name, expected) in [
            ("lemon-nova9", "lemon-nova9"),
            ("../../etc/passwd", "etc-passwd"),
            ("柠檬叔的手机", "peer-a797ca02"),
            ("Bob's  phone!", "Bob-s-phone"),
            ("", "peer-a797ca02"),
            ("-rf", "rf"),
            ("a\0b\nc", "a-b-c"),
        ] {
            assert_eq!(alias(name, id).as_str(), expected, "{name:?}");
        }
        let long = alias(&"x".repeat(500), id);
        assert_eq!(long.as_str().len(), ALIAS_MAX);
        assert_eq!(longer_alias(&long, id).as_str().len(), ALIAS_MAX + 9);
        assert_eq!(alias("/", "../..").as_str(), "peer-x");
    }

    #[test]
    fn a_name_that_was_announced_is_shown_until_the_peer_says_more() {
        use crate::peers::stranger;
        let id = "a797ca02-11b5-3080-1263-a31d6d30cba7";
        let view = |name: &str, origin| stranger(id, name, "http://a".to_owned(), origin).view();
        let long = "长".repeat(500);
        for (name, shown) in [
            ("柠檬叔的手机", "柠檬叔的手机"),
            ("Bob\u{1b}[2J\u{202e}", "Bob\\u{1b}[2J\\u{202e}"),
            (" ", "peer-a797ca02"),
            (&long, &"长".repeat(ANNOUNCED_MAX)),
        ] {
            assert_eq!(view(name, Origin::Found).name, shown);
        }
        let view = view("Bob's phone", Origin::Added);
        assert_eq!((&*view.name, &*view.alias), ("Bob-s-phone", "Bob-s-phone"));
    }

    #[test]
    fn a_peer_that_gets_a_secret_moves_only_where_its_certificate_proves_it() {
        let mut peer = Peer {
            agent_id: "id".to_owned(),
            alias: Name::parse("p").unwrap(),
            announced: None,
            origin: Origin::Found,
            url: "http://a".to_owned(),
            status: Status::Online,
            first_seen: 0,
            last_seen: None,
            manifest: None,
            agents: Vec::new(),
            token: None,
            fingerprint: None,
            pairing: None,
            trouble: None,
        };
        assert!(peer.may_move_to("http://b"));
        peer.token = Some("secret".to_owned());
        assert!(!peer.may_move_to("http://b") && !peer.may_move_to("https://b"));
        peer.fingerprint = Some("sha256:…".to_owned());
        assert!(!peer.may_move_to("http://b") && peer.may_move_to("https://b"));
        peer.token = None;
        assert!(!peer.may_move_to("http://b"), "it answers where it is");
        peer.status = Status::Offline;
        assert!(peer.may_move_to("http://b"), "it has given encryption up");
        peer.token = Some("secret".to_owned());
        assert!(!peer.may_move_to("http://b"));
        assert!(!format!("{peer:?}").contains("secret"));
    }
}
