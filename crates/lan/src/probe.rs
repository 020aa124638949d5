//! Broadcasts that find peers where multicast is filtered: a node says who it is to everybody on its networks, and whoever
//! hears it answers with the same. One packet each way; trouble with it is told in the log and hurts nothing.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use domain::chain::Ourselves;
use platform::Tasks;
use serde::{Deserialize, Serialize};
use tokio::{net::UdpSocket, sync::watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::{
    announcement::reachable,
    client::cut,
    discovery::Start,
    peers::{Peers, Sighting},
    reach::{Reach, broadcasts},
};

/// The port of the broadcasts, of which every node knows.
pub const PROBE_PORT: u16 = 7420;

/// How often everybody is asked: a node that starts asks by itself, so this finds only what was lost.
const ASK_EVERY: Duration = Duration::from_secs(60);

/// A packet; longer ones are somebody else's.
const PACKET_MAX: usize = 1200;

/// Packets that are looked at in a second, whoever sends them.
const PER_SECOND_MAX: u32 = 50;

/// What tells our packets from others'.
const WORD: &str = "agentcraft-probe-1";

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Packet {
    word: String,
    /// Whoever hears it says the same of themselves.
    ask: bool,
    /// It is about to end.
    #[serde(default)]
    bye: bool,
    agent_id: String,
    name: String,
    version: String,
    /// Absent from a node that others cannot reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    manifest_url: Option<String>,
}

/// Begins to ask and to answer.
pub(crate) fn start(port: u16, start: &Start, peers: &Peers, tasks: &Tasks) {
    let probing = Probing {
        node: start.node.clone(),
        reach: start.reach.clone(),
        version: start.version.clone(),
        peers: peers.clone(),
        tasks: tasks.clone(),
        port,
    };
    tasks.spawn(|stop| probing.run(stop));
}

struct Probing {
    node: Ourselves,
    reach: Option<Reach>,
    version: watch::Receiver<String>,
    peers: Peers,
    tasks: Tasks,
    port: u16,
}

impl Probing {
    async fn run(self, stop: CancellationToken) {
        let socket = match self.bind().await {
            Ok(socket) => socket,
            Err(error) => {
                info!(%error, "peers are not looked for by broadcast");
                return;
            }
        };
        let mut bytes = [0; PACKET_MAX + 1];
        let mut next = tokio::time::Instant::now();
        let mut window = (Instant::now(), 0);
        loop {
            tokio::select! { biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(next) => {
                    self.tell_all(&self.packet(true), &socket).await;
                    next = tokio::time::Instant::now() + ASK_EVERY;
                }
                received = socket.recv_from(&mut bytes) => {
                    let Ok((length, from)) = received else { continue };
                    if is_within(&mut window, Instant::now()) && length <= PACKET_MAX {
                        self.hear(&bytes[..length], from, &socket).await;
                    }
                }
            }
        }
        let goodbye = Packet {
            bye: true,
            ..self.packet(false)
        };
        self.tell_all(&goodbye, &socket).await;
    }

    /// The port that everybody knows; a second node of a machine can only ask.
    async fn bind(&self) -> std::io::Result<UdpSocket> {
        let at = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let socket = match UdpSocket::bind(at(self.port)).await {
            Ok(socket) => socket,
            Err(_) => UdpSocket::bind(at(0)).await?,
        };
        socket.set_broadcast(true)?;
        Ok(socket)
    }

    async fn tell_all(&self, packet: &Packet, socket: &UdpSocket) {
        for address in broadcasts() {
            self.send(packet, (address, self.port).into(), socket).await;
        }
    }

    async fn hear(&self, bytes: &[u8], from: SocketAddr, socket: &UdpSocket) {
        let Some(packet) = read(bytes) else {
            return;
        };
        if self.node.is(&packet.agent_id) {
            return;
        }
        let (answer, bye) = (packet.ask && self.reach.is_some(), packet.bye);
        if let Some(sighting) = sighting(packet, from) {
            let peers = self.peers.clone();
            self.tasks.spawn(|stop| async move {
                let heard = async {
                    if bye {
                        peers.left(&sighting).await;
                    } else {
                        peers.sighted(sighting).await;
                    }
                };
                let _ = stop.run_until_cancelled(heard).await; // Cancelled: nobody waits.
            });
        }
        if answer {
            self.send(&self.packet(false), from, socket).await;
        }
    }

    fn packet(&self, ask: bool) -> Packet {
        let base = self.reach.as_ref().and_then(Reach::base);
        Packet {
            word: WORD.to_owned(),
            ask,
            bye: false,
            agent_id: self.node.id.clone(),
            name: cut(&self.node.name, 64),
            version: self.version.borrow().clone(),
            manifest_url: base.map(|base| format!("{base}/manifest")),
        }
    }

    async fn send(&self, packet: &Packet, to: SocketAddr, socket: &UdpSocket) {
        let bytes = serde_json::to_vec(packet).unwrap_or_default(); // Texts can be written.
        if bytes.is_empty() || bytes.len() > PACKET_MAX {
            return;
        }
        if let Err(error) = socket.send_to(&bytes, to).await {
            debug!(%error, %to, "a broadcast was not sent");
        }
    }
}

fn read(bytes: &[u8]) -> Option<Packet> {
    let packet: Packet = serde_json::from_slice(bytes).ok()?;
    (packet.word == WORD).then_some(packet)
}

/// Whoever sent it, at the address it came from: a packet must not send us to somebody else.
fn sighting(packet: Packet, from: SocketAddr) -> Option<Sighting> {
    let url = reachable(&packet.manifest_url?, &[from.ip()])?;
    Some(Sighting {
        agent_id: packet.agent_id,
        name: cut(&packet.name, 64),
        version: Some(cut(&packet.version, 128)),
        url,
    })
}

fn is_within(window: &mut (Instant, u32), now: Instant) -> bool {
    if now.duration_since(window.0) >= Duration::from_secs(1) {
        *window = (now, 0);
    }
    window.1 += 1;
    window.1 <= PER_SECOND_MAX
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_packet_sends_us_to_nobody_but_who_sent_it() {
        let from: SocketAddr = "10.0.0.7:7420".parse().unwrap();
        let said = json!({"word": WORD, "ask": true, "agent_id": "x", "name": "柠檬", "version": "1",
            "manifest_url": "https://10.9.9.9:8443/manifest"});
        let packet = read(said.to_string().as_bytes()).unwrap();
        let seen = sighting(packet.clone(), from).unwrap();
        assert_eq!(
            (seen.url.as_str(), seen.name.as_str()),
            ("https://10.0.0.7:8443", "柠檬")
        );
        let unreachable = Packet {
            manifest_url: None,
            ..packet
        };
        assert_eq!(sighting(unreachable, from), None);
    }

    #[test]
    fn what_others_send_is_passed_over_and_a_flood_is_not_read() {
        for other in [
            "",
            "{}",
            "\u{1}\u{2}",
            r#"{"word":"other","ask":true,"agent_id":"x","name":"","version":""}"#,
        ] {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
        let start = Instant::now();
        let mut window = (start, 0);
        let heard = (0..1000).filter(|_| is_within(&mut window, start)).count();
        assert_eq!(heard, PER_SECOND_MAX as usize);
        assert!(is_within(&mut window, start + Duration::from_secs(1)));
    }
}
