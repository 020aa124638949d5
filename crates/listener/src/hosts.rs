//! Which names the node answers to, and which pages of a browser may speak to it.
//!
//! A page of another site that makes its name point at us sends that name as `Host`, so only names that are ours pass;
//! an address cannot be made to point elsewhere, so addresses pass.

use std::net::IpAddr;

/// The names of this node and the sites whose pages may call it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    names: Vec<String>,
    origins: Vec<String>,
}

impl Hosts {
    /// `names` beside the ones every node has; `origins` such as `https://example.org`.
    pub(crate) fn new(names: Vec<String>, origins: Vec<String>) -> Self {
        let own = platform::system::hostname().to_ascii_lowercase();
        let short = own.split('.').next().unwrap_or_default().to_owned();
        let mut all: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        all.push("localhost".to_owned());
        if !short.is_empty() {
            all.push(format!("{short}.local"));
            all.push(short);
        }
        if !own.is_empty() {
            all.push(own);
        }
        let origins = origins
            .iter()
            .map(|origin| origin.trim_end_matches('/').to_ascii_lowercase())
            .collect();
        Self {
            names: all,
            origins,
        }
    }

    /// Whether a `Host` header names this node.
    pub(crate) fn is_ours(&self, host: &str) -> bool {
        let name = without_port(host).to_ascii_lowercase();
        let name = name.trim_end_matches('.');
        let address = name.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok() || self.names.iter().any(|ours| ours == name)
    }

    /// Whether a page of this origin may call: our own pages, and those of the sites that were named.
    pub(crate) fn may_call(&self, origin: &str, scheme: &str, host: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let own = format!("{scheme}://{}", host.to_ascii_lowercase());
        origin == own || self.origins.contains(&origin)
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_and_plain_addresses_are_ours() {
        let hosts = Hosts::new(vec!["Node.example".to_owned()], Vec::new());
        for (host, ours) in [
            ("localhost", true),
            ("LOCALHOST:7420", true),
            ("127.0.0.1:7420", true),
            ("192.168.50.100", true),
            ("[::1]:7420", true),
            ("[::1]", true),
            ("node.example:80", true),
            ("node.example.", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:7420", false),
            ("", false),
            ("node.example:80:80", false),
        ] {
            assert_eq!(hosts.is_ours(host), ours, "{host}");
        }
    }

    #[test]
    fn only_our_own_pages_and_named_sites_may_call() {
        let hosts = Hosts::new(Vec::new(), vec!["https://tool.example/".to_owned()]);
        for (origin, may) in [
            ("http://localhost:7420", true),
            ("https://tool.example", true),
            ("https://localhost:7420", false),
            ("http://localhost:7421", false),
            ("null", false),
            ("https://evil.example", false),
        ] {
            assert_eq!(
                hosts.may_call(origin, "http", "localhost:7420"),
                may,
                "{origin}"
            );
        }
    }
}
