//! Clients that believe the machine's authorities, also where the machine has none.

use reqwest::{Client, ClientBuilder};

/// Whether there is anybody here who could vouch for others.
pub fn has_authorities() -> bool {
    Client::builder().build().is_ok()
}

/// A client that believes whoever the machine's authorities vouch for. A small container has no authorities: there it speaks plain
/// HTTP, and https is refused when it is used, for want of anybody who could vouch.
pub fn believing(builder: impl Fn() -> ClientBuilder) -> reqwest::Result<Client> {
    let with_authorities = builder().build();
    with_authorities.or_else(|_| builder().tls_certs_only([]).build())
}
