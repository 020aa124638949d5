//! The tables `[http]`, `[lan]` and `[lending]` of `config.toml`, and the address that the environment may set: where the
//! node listens, whom it looks for, what it takes.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    num::NonZeroU64,
    path::PathBuf,
    time::Duration,
};

use awcp::AwcpConfig;
use domain::Name;
use serde::Deserialize;
use wire::address::{masked, user_info};

use super::{ConfigError, bad_value};

/// Where the node listens unless it is told otherwise: this machine only.
const LISTEN: &str = "127.0.0.1:7420";

/// The word that turns listening off.
const OFF: &str = "off";

/// What the file says; nothing where it is silent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HttpTable {
    listen: Option<String>,
    trust: Trust,
    tls: Option<bool>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    hosts: Vec<String>,
    origins: Vec<String>,
    name: Option<String>,
    public: Option<Vec<String>>,
    webhooks: Webhooks,
    url: Option<String>,
}

/// Other nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Lan {
    /// Whether other nodes are looked for; a node that other machines reach does so unless told otherwise.
    pub(crate) discovery: Option<bool>,
    /// Addresses of nodes, for networks without multicast.
    pub(crate) peers: Vec<String>,
    /// The agent that takes what is asked of the node and of no agent by name; the only public one unless set.
    pub(crate) agent: Option<String>,
    /// Answers that the owner gives once for all to what peers ask.
    pub(crate) answers: Vec<lan::AnswerRule>,
    /// The agent of this node that chooses who does an intent; the words decide without one.
    pub(crate) router: Option<Name>,
    /// The agent of this node that answers for the human what peers ask, where it is sure.
    pub(crate) answerer: Option<Name>,
    /// The agent of this node that writes what others read of what it can do; plain descriptions are told without one.
    pub(crate) describer: Option<Name>,
}

/// Workspaces of others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Lending {
    /// The agent or template that works in lent workspaces; without one none are taken.
    pub(crate) executor: Option<String>,
    /// Where mounts are served, such as `0.0.0.0:7422`; without it workspaces are lent as archives.
    pub(crate) sftp: Option<SocketAddr>,
    /// The name or address under which others reach that port.
    pub(crate) sftp_host: Option<String>,
    /// What holds the executor's processes; without the table nothing does.
    pub(crate) sandbox: Option<LendingSandbox>,
    /// Names and addresses that lent folders are fetched from, beside that of whoever lends them.
    pub(crate) sources: Vec<String>,
    /// The largest folder that is lent: all of it, how many files, one file.
    pub(crate) size_mib: Option<u64>,
    pub(crate) files: Option<u64>,
    pub(crate) file_mib: Option<u64>,
    /// By how much a lent folder may grow, unless its delegation says otherwise.
    pub(crate) quota_mib: Option<u64>,
    /// Folders that are taken at once.
    pub(crate) taken: Option<usize>,
    /// The longest lease that is taken.
    pub(crate) lease_minutes: Option<NonZeroU64>,
    /// How long a delegator of the released dialect may take until its next round; each task ends its delegation if it is 0.
    pub(crate) round_minutes: Option<u64>,
    /// For how long a result is kept at most that its delegator fetches later.
    pub(crate) result_hours: Option<u64>,
}

impl Lending {
    /// Puts what is set in the place of the usual limits.
    pub(crate) fn limit(&self, config: &mut AwcpConfig) {
        let size = &mut config.size_max;
        set(&mut size.bytes, self.size_mib.map(mib));
        set(&mut size.files, self.files);
        set(&mut size.file_bytes, self.file_mib.map(mib));
        set(&mut config.quota_bytes, self.quota_mib.map(mib));
        set(&mut config.taken_max, self.taken);
        let minutes = |count: NonZeroU64| seconds(count.get(), 60);
        set(&mut config.ttl_max, self.lease_minutes.map(minutes));
        let rounds = self.round_minutes.map(|count| seconds(count, 60));
        set(&mut config.round_silence_max, rounds);
        let hours = self.result_hours.map(|count| seconds(count, 60 * 60));
        set(&mut config.retention_max, hours);
    }
}

fn set<T>(limit: &mut T, chosen: Option<T>) {
    if let Some(chosen) = chosen {
        *limit = chosen;
    }
}

fn mib(count: u64) -> u64 {
    count.saturating_mul(1 << 20)
}

/// A year is as good as for ever, and moments beyond it can be reckoned with.
const TIME_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn seconds(count: u64, each: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(each)).min(TIME_MAX)
}

/// What the executor may touch beside the lent folder, its own and the system's files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LendingSandbox {
    pub(crate) network: bool,
    /// Whether its program may run others.
    pub(crate) exec: bool,
    /// Folders that it may read and run programs of.
    pub(crate) read: Vec<PathBuf>,
    /// Folders that it may write to.
    pub(crate) write: Vec<PathBuf>,
}

impl Default for LendingSandbox {
    fn default() -> Self {
        Self {
            network: false,
            exec: true,
            read: Vec::new(),
            write: Vec::new(),
        }
    }
}

/// Whom the node believes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Trust {
    #[default]
    Tokens,
    Open,
}

/// Where callers may have this node send what becomes of their tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Webhooks {
    Off,
    /// Addresses that the whole world can reach, so that nobody reaches into this network through us.
    #[default]
    Public,
    /// Loopback and this network too.
    Anywhere,
}

/// Which certificate is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Certificate {
    None,
    /// One of our own, kept in the home.
    Own,
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
}

/// How the node is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) listen: Listen,
    pub(crate) trust: Trust,
    pub(crate) certificate: Certificate,
    /// Names of this node beside its own.
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    /// What other nodes call it; the machine's name unless set.
    pub(crate) name: Option<String>,
    /// The address under which others reach it, where that is not the one it listens on.
    pub(crate) url: Option<String>,
    pub(crate) lan: Lan,
    pub(crate) lending: Lending,
    /// Agents, templates and workflows that callers from the network may use; `*` is all.
    pub(crate) public: Vec<String>,
    pub(crate) webhooks: Webhooks,
}

/// The address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listen {
    Off,
    /// Nobody chose it, so a port that is taken is no reason not to start.
    Default(SocketAddr),
    Chosen(SocketAddr),
}

/// Where others find a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UrlForOthers {
    pub(crate) text: String,
    /// Nobody on another machine reaches it.
    pub(crate) is_this_machine: bool,
}

/// An address that nobody has: the way to it is the way to everybody who is not here. Nothing is sent.
const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// Our own address on the way to others, if there is a way.
fn outward() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(ELSEWHERE).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

impl Network {
    /// Where others find the node that calls itself so on this machine.
    pub(crate) fn url_for_others(&self, local: &str) -> UrlForOthers {
        if let Some(url) = &self.url {
            return UrlForOthers {
                text: url.clone(),
                is_this_machine: false,
            };
        }
        let is_anywhere = match self.listen {
            Listen::Default(address) | Listen::Chosen(address) => address.ip().is_unspecified(),
            Listen::Off => false,
        };
        let Ok(mut url) = reqwest::Url::parse(local) else {
            return UrlForOthers {
                text: local.to_owned(),
                is_this_machine: true,
            };
        };
        if let Some(outward) = outward().filter(|_| is_anywhere) {
            let _ = url.set_ip_host(outward); // A URL of ours has a host.
        }
        let host: Option<IpAddr> = url
            .host_str()
            .and_then(|host| host.trim_matches(['[', ']']).parse().ok());
        UrlForOthers {
            text: url.as_str().trim_end_matches('/').to_owned(),
            is_this_machine: host.is_some_and(|ip| ip.is_loopback()),
        }
    }

    /// `chosen` is what the environment says, and wins.
    pub(super) fn resolve(
        table: HttpTable,
        lan: Lan,
        lending: Lending,
        chosen: Option<String>,
        at_home: impl Fn(PathBuf) -> PathBuf,
    ) -> Result<Self, ConfigError> {
        let listen = match chosen {
            Some(text) => parse("AGENTCRAFT_LISTEN", &text)?,
            None => match &table.listen {
                Some(text) => parse("http.listen", text)?,
                None => Listen::Default(LISTEN.parse().expect("it is an address")),
            },
        };
        let certificate = match (table.certificate, table.key) {
            (Some(certificate), Some(key)) => Certificate::Files {
                certificate: at_home(certificate),
                key: at_home(key),
            },
            (None, None) if table.tls.unwrap_or(is_remote(listen)) => Certificate::Own,
            (None, None) => Certificate::None,
            (Some(_), None) | (None, Some(_)) => {
                return Err(bad_value(
                    "http.certificate",
                    "",
                    "given together with http.key",
                ));
            }
        };
        // The plain model of one trusted network knows no certificates.
        let certificate = match (table.trust, table.tls, certificate) {
            (Trust::Open, None, Certificate::Own) => Certificate::None,
            (_, _, certificate) => certificate,
        };
        check_addresses(table.url.as_deref(), &lan, &lending)?;
        Ok(Self {
            listen,
            trust: table.trust,
            certificate,
            hosts: table.hosts,
            origins: table.origins,
            name: table.name,
            url: table.url,
            lan,
            lending,
            public: table.public.unwrap_or_else(|| vec!["*".to_owned()]),
            webhooks: table.webhooks,
        })
    }
}

/// Other nodes are told these, so nothing secret may stand in them.
fn check_addresses(url: Option<&str>, lan: &Lan, lending: &Lending) -> Result<(), ConfigError> {
    let peers = lan.peers.iter().map(|peer| ("lan.peers", peer.as_str()));
    for (name, url) in url.map(|url| ("http.url", url)).into_iter().chain(peers) {
        if lan::base_of(url).is_err() {
            let expected = "an address such as https://desk.example:7420, and not with a name or a password in it";
            return Err(bad_value(name, &masked(url), expected));
        }
    }
    for source in &lending.sources {
        if !is_host(source) {
            let expected = "a name or an address such as files.lan or 10.0.0.7, without a scheme, a port or a path";
            return Err(bad_value("lending.sources", &masked(source), expected));
        }
    }
    match lending.sftp_host.as_deref() {
        Some(host) if user_info(host).is_some() => {
            let expected = "a host, and not with a name or a password before it";
            Err(bad_value("lending.sftp_host", &masked(host), expected))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether a place that START names can be called so.
fn is_host(text: &str) -> bool {
    let is_named = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let host = text.trim_matches(['[', ']']);
    host.parse::<IpAddr>().is_ok() || (!text.is_empty() && text.chars().all(is_named))
}

fn is_remote(listen: Listen) -> bool {
    match listen {
        Listen::Off => false,
        Listen::Default(addr) | Listen::Chosen(addr) => !addr.ip().is_loopback(),
    }
}

fn parse(name: &str, text: &str) -> Result<Listen, ConfigError> {
    if text == OFF {
        return Ok(Listen::Off);
    }
    text.parse().map(Listen::Chosen).map_err(|_| {
        bad_value(
            name,
            text,
            "an address and a port such as 127.0.0.1:7420 or 0.0.0.0:7420, or off",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str, chosen: Option<&str>) -> Result<Network, String> {
        let table: HttpTable = toml::from_str(text).map_err(|error| error.to_string())?;
        Network::resolve(
            table,
            Lan::default(),
            Lending::default(),
            chosen.map(str::to_owned),
            |path| path,
        )
        .map_err(|error| error.to_string())
    }

    #[test]
    fn a_node_listens_on_this_machine_alone_unless_told_otherwise() {
        let network = resolve("", None).unwrap();
        assert_eq!(network.listen, Listen::Default(LISTEN.parse().unwrap()));
        assert_eq!(network.certificate, Certificate::None);
        assert_eq!(network.trust, Trust::Tokens);
    }

    #[test]
    fn others_find_a_node_where_it_says_or_where_it_faces_them() {
        let found = |text: &str, local: &str| {
            let url = resolve(text, None).unwrap().url_for_others(local);
            (url.text, url.is_this_machine)
        };
        let here = "http://127.0.0.1:7420";
        assert_eq!(found("", here), (here.to_owned(), true));
        let named = "url = \"https://desk.example\"\nlisten = \"0.0.0.0:7420\"";
        let expected = ("https://desk.example".to_owned(), false);
        assert_eq!(found(named, here), expected);
        let one = "https://192.168.1.4:7420";
        let listen = "listen = \"192.168.1.4:7420\"";
        assert_eq!(found(listen, one), (one.to_owned(), false));
        let (text, is_this_machine) = found("listen = \"0.0.0.0:7420\"", "https://127.0.0.1:7420");
        match outward() {
            Some(ip) => assert_eq!(
                (text, is_this_machine),
                (format!("https://{ip}:7420"), ip.is_loopback())
            ),
            None => assert!(is_this_machine, "{text}"),
        }
    }

    #[test]
    fn other_machines_get_encryption_unless_the_network_is_trusted() {
        let listen = "listen = \"0.0.0.0:7420\"\n";
        assert_eq!(resolve(listen, None).unwrap().certificate, Certificate::Own);
        let open = format!("{listen}trust = \"open\"");
        assert_eq!(resolve(&open, None).unwrap().certificate, Certificate::None);
        let both = format!("{listen}trust = \"open\"\ntls = true");
        assert_eq!(resolve(&both, None).unwrap().certificate, Certificate::Own);
    }

    #[test]
    fn a_password_in_an_address_that_others_are_told_is_refused_and_not_repeated() {
        let refused = |table: &str, lan: &str, lending: &str| {
            let table: HttpTable = toml::from_str(table).unwrap();
            let (lan, lending) = (toml::from_str(lan), toml::from_str(lending));
            let resolved =
                Network::resolve(table, lan.unwrap(), lending.unwrap(), None, |path| path);
            resolved.unwrap_err().to_string()
        };
        for (words, setting) in [
            (refused("url = \"http://me:hush@desk\"", "", ""), "http.url"),
            (refused("url = \"me:hush@desk\"", "", ""), "http.url"),
            (
                refused("", "peers = [\"http://me:hush@desk\"]", ""),
                "lan.peers",
            ),
            (
                refused("", "peers = [\"https://hush@desk\"]", ""),
                "lan.peers",
            ),
            (
                refused("", "", "sftp_host = \"me:hush@desk\""),
                "lending.sftp_host",
            ),
        ] {
            assert!(words.starts_with(setting), "{words}");
            assert!(words.contains("***") && !words.contains("hush"), "{words}");
            assert!(words.contains("password"), "{words}");
        }
    }

    #[test]
    fn sources_that_no_host_is_called_are_refused() {
        let resolve = |source: &str| {
            let lending = Lending {
                sources: vec![source.to_owned()],
                ..Lending::default()
            };
            let lan = Lan::default();
            Network::resolve(HttpTable::default(), lan, lending, None, |path| path)
        };
        for source in [
            "files.lan",
            "10.0.0.7",
            "fd00::7",
            "[fd00::7]",
            "my_box",
            "büro.lan",
        ] {
            assert!(resolve(source).is_ok(), "{source}");
        }
        for wrong in [
            "",
            " ",
            "[]",
            "http://x/",
            "desk:7420",
            "[fd00::7]:22",
            "a/b",
            "me:hush@desk",
            "*",
        ] {
            let words = resolve(wrong).unwrap_err().to_string();
            assert!(words.starts_with("lending.sources"), "{words}");
            assert!(!words.contains("hush"), "{words}");
        }
    }

    #[test]
    fn webhooks_stay_outside_unless_the_owner_says_otherwise() {
        assert_eq!(resolve("", None).unwrap().webhooks, Webhooks::Public);
        for (word, meant) in [("off", Webhooks::Off), ("anywhere", Webhooks::Anywhere)] {
            let network = resolve(&format!("webhooks = \"{word}\""), None).unwrap();
            assert_eq!(network.webhooks, meant);
        }
        let wrong = resolve("webhooks = \"everywhere\"", None).unwrap_err();
        assert!(wrong.contains("anywhere"), "{wrong}");
    }

    #[test]
    fn limits_of_lending_are_those_of_the_settings() {
        let usual = || AwcpConfig::new(PathBuf::from("/l"), PathBuf::from("/m"), "http://h");
        let mut config = usual();
        Lending::default().limit(&mut config);
        assert_eq!(format!("{config:?}"), format!("{:?}", usual()));
        let text = "size_mib = 2\nfiles = 3\nfile_mib = 1\nquota_mib = 0\ntaken = 4\n\
                    lease_minutes = 5\nround_minutes = 6\nresult_hours = 7\n";
        let settings: Lending = toml::from_str(text).unwrap();
        settings.limit(&mut config);
        let size = config.size_max;
        assert_eq!(
            (size.bytes, size.files, size.file_bytes),
            (2 << 20, 3, 1 << 20)
        );
        assert_eq!((config.quota_bytes, config.taken_max), (0, 4));
        assert_eq!(config.ttl_max, Duration::from_secs(300));
        assert_eq!(config.round_silence_max, Duration::from_secs(360));
        assert_eq!(config.retention_max, Duration::from_secs(7 * 3600));
        for wrong in ["lease_minutes = 0", "taken = -1", "size_mib = \"big\""] {
            assert!(toml::from_str::<Lending>(wrong).is_err(), "{wrong}");
        }
        let far: Lending = toml::from_str("lease_minutes = 9000000000000000000").unwrap();
        far.limit(&mut config);
        assert_eq!(config.ttl_max, TIME_MAX);
    }

    #[test]
    fn the_environment_wins_and_mistakes_are_told() {
        let off = resolve("listen = \"127.0.0.1:1\"", Some("off")).unwrap();
        assert_eq!(off.listen, Listen::Off);
        let wrong = resolve("listen = \"here\"", None).unwrap_err();
        assert!(wrong.contains("an address and a port"), "{wrong}");
        assert!(resolve("certificate = \"a\"", None).is_err());
        assert!(
            resolve("lisen = \"off\"", None)
                .unwrap_err()
                .contains("lisen")
        );
    }
}
