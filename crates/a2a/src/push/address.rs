//! Which addresses a webhook may have. A client must not make this node speak to what only this node can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

use crate::PushPolicy;

/// Refuses, in words, an address that is never called.
pub(super) fn check(url: &str, policy: PushPolicy) -> Result<(), String> {
    let url = Url::parse(url).map_err(|error| format!("it is not an address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only http and https are called".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("put credentials in `authentication`, not in the address".to_owned());
    }
    let Some(host) = url.host_str() else {
        return Err("it names no host".to_owned());
    };
    if policy == PushPolicy::Anywhere {
        return Ok(());
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let private = match bare.parse::<IpAddr>() {
        Ok(address) => !is_public(address),
        Err(_) => {
            let host = bare.trim_end_matches('.').to_ascii_lowercase();
            host == "localhost" || host.ends_with(".localhost") || host.ends_with(".local")
        }
    };
    if private {
        return Err("webhooks on loopback or in a private network are not called".to_owned());
    }
    Ok(())
}

/// Whether the whole world can reach it.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast();
    // This network, carriers' own, protocol assignments, benchmarks, reserved.
    let assigned = a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !special && !assigned
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // NAT64 and 6to4 lead to an address of version 4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        [0x2001, 0xdb8, ..] | [0x2001, 0, ..] => false,
        // Only 2000::/3 is given out.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_world_are_public() {
        for (address, public) in [
            ("8.8.8.8", true),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("fe80::1", false),
            ("fd00::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("2606:4700::1111", true),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }

    #[test]
    fn an_address_that_leads_inside_is_refused_unless_allowed() {
        for (url, ok) in [
            ("https://example.org/hook", true),
            ("http://127.0.0.1:1/", false),
            ("http://127.1/", false),
            ("http://0x7f000001/", false),
            ("http://[::1]/", false),
            ("http://localhost:80/", false),
            ("http://a.localhost./", false),
            ("ftp://example.org/", false),
            ("https://user:secret@example.org/", false),
            ("nonsense", false),
        ] {
            assert_eq!(check(url, PushPolicy::Public).is_ok(), ok, "{url}");
        }
        assert!(check("http://127.0.0.1:1/", PushPolicy::Anywhere).is_ok());
        assert!(check("ftp://127.0.0.1:1/", PushPolicy::Anywhere).is_err());
    }
}
