//! What a node says of itself over multicast DNS, and what is made of what others say. Nothing here speaks to the network.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use domain::chain::Ourselves;
use reqwest::Url;

use crate::peers::Sighting;

/// The service of the network's own dialect, and the one on which a standard is forming.
pub(crate) const SERVICES: [&str; 2] = ["_acp-agent._tcp.local.", "_agent._tcp.local."];

/// The longest label of DNS. A longer one is announced by nobody and refused by nobody.
const LABEL_MAX: usize = 63;

/// The longest text of a TXT record, with its key.
const TXT_MAX: usize = 255;

/// Announcements of one node come in several: by address family, by interface.
const SETTLE: Duration = Duration::from_millis(300);

/// Instances that are watched; beyond it somebody makes them up.
const INSTANCES_MAX: usize = 4096;

/// `{agent_id}.{name}`, in one label.
pub(crate) fn instance(node: &Ourselves) -> String {
    let mut label = format!("{}.{}", node.id, node.name);
    if label.len() > LABEL_MAX {
        let end = (0..=LABEL_MAX)
            .rev()
            .find(|end| label.is_char_boundary(*end));
        label.truncate(end.unwrap_or(0));
    }
    label
}

/// A name of this host that nobody else has: two nodes with one host name would be mixed up.
pub(crate) fn host(node: &Ourselves) -> String {
    let plain = node
        .id
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-');
    let label: String = plain.take(LABEL_MAX).collect();
    format!("{label}.local.")
}

/// What stands in the TXT record; nothing if it would not fit.
pub(crate) fn txt(
    node: &Ourselves,
    version: &str,
    manifest_url: &str,
) -> Option<[(&'static str, String); 3]> {
    let pairs = [
        ("agent_id", node.id.clone()),
        ("version", version.to_owned()),
        ("manifest_url", manifest_url.to_owned()),
    ];
    let fits = |(key, value): &(&str, String)| key.len() + 1 + value.len() <= TXT_MAX;
    pairs.iter().all(fits).then_some(pairs)
}

/// Where the peer is: its address as the network told it, with the scheme, port and path that it says. An announcement
/// must not send us to somebody else.
pub(crate) fn reachable(manifest_url: &str, addresses: &[IpAddr]) -> Option<String> {
    let url = Url::parse(manifest_url).ok()?;
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let port = url.port_or_known_default()?;
    let is_usable = |address: &&IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_loopback(),
        // A link-local address needs the interface beside it, which an address in a URL cannot say.
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback(),
    };
    let mut usable: Vec<IpAddr> = addresses.iter().filter(is_usable).copied().collect();
    usable.sort_by_key(|address| (address.is_ipv6(), *address));
    let said = url
        .host_str()
        .map(|host| host.trim_matches(['[', ']']).parse::<IpAddr>());
    let said = said
        .and_then(Result::ok)
        .filter(|said| usable.contains(said));
    let host = match said.or(usable.first().copied())? {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    };
    let path = url.path().strip_suffix("/manifest").unwrap_or_default();
    let default_port = if url.scheme() == "http" { 80 } else { 443 };
    let port = if port == default_port {
        String::new()
    } else {
        format!(":{port}")
    };
    Some(format!("{}://{host}{port}{path}", url.scheme()))
}

/// What is seen now, by the id in the TXT record: names of instances say nothing reliable.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    /// By full name: whose it is.
    instances: BTreeMap<String, String>,
    /// Those that have been told something lately, and when it is passed on.
    settling: BTreeMap<String, (Sighting, Instant)>,
}

impl Sightings {
    pub(crate) fn resolved(&mut self, full_name: &str, sighting: Sighting, now: Instant) {
        if self.instances.len() >= INSTANCES_MAX && !self.instances.contains_key(full_name) {
            return;
        }
        let id = sighting.agent_id.clone();
        self.instances.insert(full_name.to_owned(), id.clone());
        self.settling.insert(id, (sighting, now + SETTLE));
    }

    /// Who is gone with this name: nobody, while they are there under another.
    pub(crate) fn removed(&mut self, full_name: &str) -> Option<String> {
        let id = self.instances.remove(full_name)?;
        if self.instances.values().any(|other| *other == id) {
            return None;
        }
        self.settling.remove(&id);
        Some(id)
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.settling.values().map(|(_, at)| *at).min()
    }

    /// Those of whom nothing new has come for a while.
    pub(crate) fn settled(&mut self, now: Instant) -> Vec<Sighting> {
        let due: Vec<String> = self
            .settling
            .iter()
            .filter(|(_, (_, at))| *at <= now)
            .map(|(id, _)| id.clone())
            .collect();
        let taken = due.iter().filter_map(|id| self.settling.remove(id));
        taken.map(|(sighting, _)| sighting).collect()
    }

    pub(crate) fn names_of(&self, agent_id: &str) -> BTreeSet<String> {
        let own = self.instances.iter().filter(|(_, id)| *id == agent_id);
        own.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Ourselves {
        Ourselves {
            id: "a797ca02-11b5-3080-1263-a31d6d30cba7".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn the_instance_fits_a_label_whatever_the_name() {
        assert_eq!(
            instance(&node("nova9")),
            "a797ca02-11b5-3080-1263-a31d6d30cba7.nova9"
        );
        for name in ["x".repeat(100), "柠檬叔的华为手机和平板".to_owned()] {
            let label = instance(&node(&name));
            assert!(
                label.len() <= LABEL_MAX && label.len() > LABEL_MAX - 4,
                "{label}"
            );
        }
    }

    #[test]
    fn a_text_that_does_not_fit_is_not_announced() {
        assert!(txt(&node("n"), "1", "http://10.0.0.1:7420/manifest").is_some());
        assert!(txt(&node("n"), "1", &format!("http://h/{}", "x".repeat(250))).is_none());
    }

    #[test]
    fn an_announcement_sends_us_to_nobody_but_who_announced() {
        let v4: IpAddr = "10.0.0.5".parse().unwrap();
        let other: IpAddr = "192.168.1.5".parse().unwrap();
        let v6: IpAddr = "2001:db8::5".parse().unwrap();
        let local: IpAddr = "fe80::5".parse().unwrap();
        let home: IpAddr = "127.0.0.1".parse().unwrap();
        let at = |url, addresses: &[IpAddr]| reachable(url, addresses);
        let url = "http://192.168.1.5:8080/manifest";
        assert_eq!(
            at(url, &[v4, other]).as_deref(),
            Some("http://192.168.1.5:8080")
        );
        assert_eq!(
            at(url, &[v4, local]).as_deref(),
            Some("http://10.0.0.5:8080")
        );
        assert_eq!(
            at("https://nova.local/x/manifest", &[v4]).as_deref(),
            Some("https://10.0.0.5/x")
        );
        assert_eq!(
            at("http://169.254.169.254/latest", &[v6]).as_deref(),
            Some("http://[2001:db8::5]")
        );
        assert_eq!(at("http://127.0.0.1:9/manifest", &[home, local]), None);
        assert_eq!(at("file:///etc/passwd", &[v4]), None);
    }

    #[test]
    fn many_announcements_of_one_node_are_told_once_when_they_have_settled() {
        let sighting = |version: &str| Sighting {
            agent_id: "id".to_owned(),
            name: "n".to_owned(),
            version: Some(version.to_owned()),
            url: "http://h".to_owned(),
        };
        let (mut seen, start) = (Sightings::default(), Instant::now());
        seen.resolved("a", sighting("1"), start);
        seen.resolved("b", sighting("2"), start + SETTLE / 2);
        assert_eq!(seen.settled(start + SETTLE), []);
        assert_eq!(seen.next(), Some(start + SETTLE / 2 + SETTLE));
        assert_eq!(seen.settled(start + SETTLE * 2), [sighting("2")]);
        assert_eq!(seen.next(), None);
        assert_eq!(seen.names_of("id").len(), 2);
        assert_eq!(seen.removed("a"), None, "it is there under another name");
        assert_eq!(seen.removed("b").as_deref(), Some("id"));
        assert_eq!(seen.removed("b"), None);
    }

    #[test]
    fn who_goes_before_they_settled_was_never_there() {
        let sighting = Sighting {
            agent_id: "id".to_owned(),
            name: String::new(),
            version: None,
            url: String::new(),
        };
        let (mut seen, start) = (Sightings::default(), Instant::now());
        seen.resolved("a", sighting, start);
        seen.removed("a");
        assert_eq!(seen.settled(start + SETTLE), []);
    }
}
