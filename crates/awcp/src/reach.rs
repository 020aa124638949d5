//! Where START leads: a remote goes nowhere but to the host that it took the invitation from, and sees whether it gets there
//! before it says that it has begun.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use domain::delegation::{Code, Failure};
use tokio::net::{TcpStream, lookup_host};
use wire::awcp::seed;

use crate::{node::Node, remote::way_home_urls};

/// How long a host may take to be reached: it has just sent START, so whoever waits longer waits for ever.
const REACH_MAX: Duration = Duration::from_secs(5);

/// Between two attempts at a host that refuses connections: it may be coming up again.
const REACH_AGAIN: Duration = Duration::from_millis(200);

/// What stands before a peer's name in what the node calls it.
const PEER: &str = "peer:";

/// Where a message of a host came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From this address, over a connection of its own.
    Address(IpAddr),
    /// From the owner of this node, who says it on the host's behalf and may name any place.
    Owner,
    /// From nobody knows where, so nowhere follows from it.
    Unknown,
}

impl From<Option<IpAddr>> for Origin {
    fn from(from: Option<IpAddr>) -> Self {
        from.map_or(Self::Unknown, |ip| Self::Address(ip.to_canonical()))
    }
}

/// A place that START names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    host: String,
    port: u16,
}

impl Place {
    fn of_url(url: &str) -> Result<Self, Failure> {
        let refused = |why: String| {
            let words = format!("START names an address that is none: {why}");
            Failure::new(Code::MountFailed, words)
        };
        let parsed = cards::parse(url).map_err(|error| refused(error.to_string()))?;
        let host = parsed.host_str().unwrap_or_default();
        let port = parsed.port_or_known_default();
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: port.ok_or_else(|| refused(format!("{url:?} has no port")))?,
        })
    }

    fn shown(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let looking = lookup_host((self.host.as_str(), self.port));
        let found = tokio::time::timeout(REACH_MAX, looking).await??;
        Ok(found.collect())
    }
}

/// Whence a delegation came, as far as it says where it may lead.
pub(crate) struct Whence<'a> {
    pub(crate) node: &'a Node,
    /// Under which name the host is known here.
    pub(crate) caller: &'a str,
    pub(crate) origin: Origin,
}

impl Whence<'_> {
    /// Refuses a way in that leads to somebody else; gives the place that the workspace itself is at, if it is at one.
    async fn check(
        &self,
        mount: &seed::Mount,
    ) -> Result<Option<(Place, Vec<SocketAddr>)>, Failure> {
        let data = match &mount.endpoint {
            Some(endpoint) => Some(Place {
                host: endpoint.host.clone(),
                port: endpoint.port,
            }),
            // What came with START is fetched from nowhere.
            None if mount.export_locator.is_empty() => None,
            None => Some(Place::of_url(&mount.export_locator)?),
        };
        for url in way_home_urls(mount) {
            let place = Place::of_url(&url)?;
            self.check_place(&place).await?;
        }
        match data {
            None => Ok(None),
            Some(place) => {
                let addresses = self.check_place(&place).await?;
                Ok(Some((place, addresses)))
            }
        }
    }

    async fn check_place(&self, place: &Place) -> Result<Vec<SocketAddr>, Failure> {
        let found = place.addresses().await;
        let addresses = found.map_err(|error| unreached(place, &error.to_string()))?;
        if addresses.is_empty() {
            return Err(unreached(place, "nobody is called that"));
        }
        let is_named = self.is_named(&place.host);
        let is_right = |address: &SocketAddr| is_named || self.is_source(address.ip());
        match addresses.iter().all(is_right) {
            true => Ok(addresses),
            false => Err(Failure::with_hint(
                Code::Declined,
                format!(
                    "START leads to {}, which is not where the invitation came from",
                    place.shown()
                ),
                "let the host lend at its own address, or name that one under `sources` in the table [lending] of the remote",
            )),
        }
    }

    /// The owner named it, or this node is paired with the host at it.
    fn is_named(&self, host: &str) -> bool {
        let config = self.node.config();
        let is = |known: &str| known.trim_matches(['[', ']']).eq_ignore_ascii_case(host);
        let peer = self.caller.strip_prefix(PEER);
        let peer = peer.and_then(|name| config.known_peers.find(name).url);
        let paired = peer.and_then(|url| cards::parse(&url).ok());
        self.origin == Origin::Owner
            || config.sources.iter().any(|known| is(known))
            || paired.is_some_and(|url| url.host_str().is_some_and(is))
    }

    /// The message came from that address. A program of this machine may mean any of the machine's addresses.
    fn is_source(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        match self.origin {
            Origin::Address(from) => from == ip || (is_here(from) && is_here(ip)),
            Origin::Owner => true,
            Origin::Unknown => false,
        }
    }

    /// The way in as it may be gone: to the host alone, and to where it was just reached.
    pub(crate) async fn admit(&self, mut mount: seed::Mount) -> Result<seed::Mount, Failure> {
        let Some((place, addresses)) = self.check(&mount).await? else {
            return Ok(mount);
        };
        let reached = reach(&place, &addresses).await?;
        if let Some(endpoint) = &mut mount.endpoint {
            // A name that meant the host a moment ago is not asked for again.
            endpoint.host = reached.ip().to_string();
        }
        Ok(mount)
    }

    /// The same without going there: it is under way already, or over.
    pub(crate) async fn look_at(&self, mount: &seed::Mount) -> Result<(), Failure> {
        self.check(mount).await.map(drop)
    }
}

/// Whether this machine has the address.
fn is_here(ip: IpAddr) -> bool {
    ip.is_loopback()
        || ip.is_unspecified() // The way to it leads here.
        || if_addrs::get_if_addrs()
            .unwrap_or_default()
            .iter()
            .any(|interface| interface.ip() == ip)
}

/// The first of the addresses at which somebody answers.
async fn reach(place: &Place, addresses: &[SocketAddr]) -> Result<SocketAddr, Failure> {
    let trying = async {
        let mut why = io::Error::from(io::ErrorKind::TimedOut);
        let began = tokio::time::Instant::now();
        while began.elapsed() < REACH_MAX {
            for address in addresses {
                match TcpStream::connect(address).await {
                    Ok(_) => return Ok(*address),
                    Err(error) => why = error,
                }
            }
            tokio::time::sleep(REACH_AGAIN).await;
        }
        Err(why)
    };
    let reached = tokio::time::timeout(REACH_MAX, trying).await;
    let seconds = REACH_MAX.as_secs();
    match reached {
        Ok(Ok(address)) => Ok(address),
        Ok(Err(error)) => Err(unreached(place, &error.to_string())),
        Err(_) => Err(unreached(place, &format!("no answer within {seconds} s"))),
    }
}

fn unreached(place: &Place, why: &str) -> Failure {
    Failure::with_hint(
        Code::MountFailed,
        format!("the remote could not reach {}: {why}", place.shown()),
        "see that the host's `url`, `listen` and `sftp` name an address that the remote reaches, and that no firewall is between",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_this_machine_where_an_interface_has_it() {
        for here in ["127.0.0.1", "127.3.4.5", "::1", "0.0.0.0"] {
            assert!(is_here(here.parse().unwrap()), "{here}");
        }
        for interface in if_addrs::get_if_addrs().unwrap() {
            assert!(is_here(interface.ip()), "{interface:?}");
        }
        // Of those that nobody has.
        for elsewhere in ["192.0.2.1", "2001:db8::1"] {
            assert!(!is_here(elsewhere.parse().unwrap()), "{elsewhere}");
        }
    }
}
