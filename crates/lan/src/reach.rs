//! Where this node is on its networks: the address that others are told, and the networks that are asked for others.

use std::net::{IpAddr, Ipv4Addr};

use if_addrs::{IfAddr, Interface};
use reqwest::Url;

/// How other machines reach the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// `http` or `https`.
    pub scheme: &'static str,
    pub port: u16,
    /// Where the settings, or the one address that it listens on, say it; otherwise it is looked up each time, since
    /// machines move between networks.
    pub url: Option<String>,
}

impl Reach {
    /// The address to be told; nothing while the machine is on no network.
    pub(crate) fn base(&self) -> Option<String> {
        self.url
            .clone()
            .or_else(|| base_at(&interfaces(), self.scheme, self.port))
    }
}

/// Where a broadcast reaches every machine of a network.
pub(crate) fn broadcasts() -> Vec<Ipv4Addr> {
    let found = interfaces()
        .into_iter()
        .filter_map(|interface| match interface.addr {
            IfAddr::V4(v4) if !v4.ip.is_loopback() => v4.broadcast,
            IfAddr::V4(_) | IfAddr::V6(_) => None,
        });
    let mut found: Vec<Ipv4Addr> = found.collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// What a node says of its address, as it is seen from here: one that listens everywhere may know itself only by an
/// address that means every machine itself.
pub(crate) fn seen_from(url: &str, from: Option<IpAddr>) -> String {
    let (Ok(mut parsed), Some(from)) = (Url::parse(url), from) else {
        return url.to_owned();
    };
    let said = parsed
        .host_str()
        .and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
    let means_itself = said.is_some_and(|said| said.is_loopback() || said.is_unspecified());
    let from = from.to_canonical();
    if !means_itself || from.is_loopback() || parsed.set_ip_host(from).is_err() {
        return url.to_owned();
    }
    parsed.as_str().trim_end_matches('/').to_owned()
}

/// Nothing where the system does not tell; then the node is only not announced.
fn interfaces() -> Vec<Interface> {
    if_addrs::get_if_addrs().unwrap_or_default()
}

/// The first network that is no tunnel to ourselves, and of its addresses the kind that every peer can use.
fn base_at(interfaces: &[Interface], scheme: &str, port: u16) -> Option<String> {
    let is_usable = |interface: &&Interface| match interface.ip() {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    };
    let best = interfaces
        .iter()
        .filter(is_usable)
        .min_by_key(|interface| (interface.ip().is_ipv6(), interface.index, interface.ip()))?;
    Some(match best.ip() {
        IpAddr::V4(v4) => format!("{scheme}://{v4}:{port}"),
        IpAddr::V6(v6) => format!("{scheme}://[{v6}]:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_listens_everywhere_is_reached_where_it_was_seen() {
        let from = Some(IpAddr::from([10, 0, 0, 7]));
        for (said, seen) in [
            ("https://127.0.0.1:7420", "https://10.0.0.7:7420"),
            ("https://0.0.0.0:7420", "https://10.0.0.7:7420"),
            ("http://[::1]:7420/acp", "http://10.0.0.7:7420/acp"),
            ("https://10.0.0.9:7420", "https://10.0.0.9:7420"),
            ("https://node.example:7420", "https://node.example:7420"),
        ] {
            assert_eq!(seen_from(said, from), seen, "{said}");
        }
        let here = Some(IpAddr::from([127, 0, 0, 1]));
        assert_eq!(seen_from("http://127.0.0.1:1", here), "http://127.0.0.1:1");
        assert_eq!(seen_from("http://127.0.0.1:1", None), "http://127.0.0.1:1");
    }

    #[test]
    fn the_address_of_the_settings_is_told_as_it_is() {
        let reach = Reach {
            scheme: "https",
            port: 1,
            url: Some("https://node.example".to_owned()),
        };
        assert_eq!(reach.base().as_deref(), Some("https://node.example"));
        assert_eq!(base_at(&[], "http", 80), None);
    }
}
