//! Multicast DNS: announces this node, and watches for others. Trouble with it is told in the log and hurts nothing.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use domain::chain::Ourselves;
use mdns_sd::{
    DaemonEvent, IfKind, Receiver, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo,
};
use platform::Tasks;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    announcement::{self, SERVICES, Sightings},
    client::cut,
    peers::{Peers, Sighting},
    reach::Reach,
};

/// How long somebody who does not answer is given to say that they are there.
const VERIFY_WITHIN: Duration = Duration::from_secs(2);

/// Peers whose presence is doubted at once.
const DOUBTS_MAX: usize = 64;

/// How long the goodbyes may take.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// How often the machine's addresses are looked at, in seconds: a cable that was plugged in is noticed before one wonders.
const ADDRESSES_EVERY: u32 = 2;

/// Whether the network is asked for others, and told of us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discovery {
    #[default]
    Off,
    /// Looks, and tells of the node if others can reach it.
    On,
}

/// What discovery is given.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) node: Ourselves,
    /// Nothing: it looks and is not seen, for a node that others cannot reach has nothing to announce.
    pub(crate) reach: Option<Reach>,
    pub(crate) version: watch::Receiver<String>,
}

/// Begins; gives up with a line in the log where multicast cannot be used.
pub(crate) fn start(start: Start, peers: &Peers, tasks: &Tasks) {
    let watching = match Watching::new(start, peers.clone(), tasks.clone()) {
        Ok(watching) => watching,
        Err(error) => {
            warn!(%error, "peers are not looked for: multicast cannot be used");
            return;
        }
    };
    let (sender, doubts) = mpsc::channel(DOUBTS_MAX);
    peers.verify_through(sender);
    tasks.spawn(|stop| watching.run(doubts, stop));
}

struct Watching {
    start: Start,
    daemon: ServiceDaemon,
    found: [Receiver<ServiceEvent>; 2],
    happens: Receiver<DaemonEvent>,
    /// The address that was told last.
    announced: Option<String>,
    sightings: Sightings,
    peers: Peers,
    tasks: Tasks,
}

impl Watching {
    fn new(start: Start, peers: Peers, tasks: Tasks) -> Result<Self, mdns_sd::Error> {
        let daemon = ServiceDaemon::new()?;
        // Nobody else is found there.
        daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
        daemon.set_ip_check_interval(ADDRESSES_EVERY)?;
        let happens = daemon.monitor()?;
        let found = [daemon.browse(SERVICES[0])?, daemon.browse(SERVICES[1])?];
        let mut watching = Self {
            start,
            daemon,
            found,
            happens,
            announced: None,
            sightings: Sightings::default(),
            peers,
            tasks,
        };
        watching.announce();
        Ok(watching)
    }

    fn announce(&mut self) {
        let Some(reach) = &self.start.reach else {
            return;
        };
        self.announced = reach.base();
        let Some(base) = &self.announced else {
            info!("this node is on no network yet, so it is not announced");
            return;
        };
        let version = self.start.version.borrow().clone();
        let node = &self.start.node;
        let Some(txt) = announcement::txt(node, &version, &format!("{base}/manifest")) else {
            warn!(
                url = base,
                "this node is not announced: its address is too long"
            );
            return;
        };
        for service in SERVICES {
            let (instance, host) = (announcement::instance(node), announcement::host(node));
            let info = ServiceInfo::new(service, &instance, &host, "", reach.port, &txt[..]);
            let registered = info.and_then(|info| self.daemon.register(info.enable_addr_auto()));
            match registered {
                Ok(()) => info!(service, instance, base, "this node is announced"),
                Err(error) => warn!(%error, service, "this node is not announced"),
            }
        }
    }

    async fn run(mut self, mut doubts: mpsc::Receiver<String>, stop: CancellationToken) {
        let [first, second] = self.found.clone();
        let happens = self.happens.clone();
        let mut version = self.start.version.clone();
        loop {
            let next = self.sightings.next();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                event = first.recv_async() => match event {
                    Ok(event) => self.take(event),
                    Err(_) => break,
                },
                event = second.recv_async() => match event {
                    Ok(event) => self.take(event),
                    Err(_) => break,
                },
                event = happens.recv_async() => match event {
                    Ok(event) => self.notice(&event),
                    Err(_) => break,
                },
                Some(agent_id) = doubts.recv() => self.doubt(&agent_id),
                Ok(()) = version.changed() => self.announce(),
                () = until(next) => self.pass_on(),
            }
        }
        self.goodbye().await;
    }

    fn take(&mut self, event: ServiceEvent) {
        match event {
            ServiceEvent::ServiceResolved(service) => {
                if let Some(sighting) = sighting(&service)
                    && !self.start.node.is(&sighting.agent_id)
                {
                    self.sightings
                        .resolved(&service.fullname, sighting, Instant::now());
                }
            }
            ServiceEvent::ServiceRemoved(_, full_name) => {
                if let Some(agent_id) = self.sightings.removed(&full_name) {
                    info!(peer = %agent_id, "a peer has gone");
                    let peers = self.peers.clone();
                    self.tasks
                        .spawn(|_| async move { peers.gone(&agent_id).await });
                }
            }
            other => debug!(?other, "multicast DNS"),
        }
    }

    /// The machine has moved: what is announced moves with it.
    fn notice(&mut self, event: &DaemonEvent) {
        let is_move = matches!(event, DaemonEvent::IpAdd(_) | DaemonEvent::IpDel(_));
        let now = self.start.reach.as_ref().and_then(Reach::base);
        if is_move && now.is_some() && now != self.announced {
            self.announce();
        }
    }

    /// In a task of its own, since the peer is asked what it can do; the registry asks few at a time.
    fn pass_on(&mut self) {
        for sighting in self.sightings.settled(Instant::now()) {
            let peers = self.peers.clone();
            self.tasks.spawn(|stop| async move {
                let _ = stop.run_until_cancelled(peers.sighted(sighting)).await; // Cancelled: nobody waits.
            });
        }
    }

    fn doubt(&self, agent_id: &str) {
        for full_name in self.sightings.names_of(agent_id) {
            if let Err(error) = self.daemon.verify(full_name, VERIFY_WITHIN) {
                debug!(%error, "a peer that does not answer is not asked for");
            }
        }
    }

    /// The daemon takes back everything that it announced.
    async fn goodbye(&self) {
        match self.daemon.shutdown() {
            Ok(done) => {
                let _ = tokio::time::timeout(GOODBYE_WITHIN, done.recv_async()).await; // The announcements run out anyway.
            }
            Err(error) => debug!(%error, "no goodbye was said"),
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Who announced; nobody without an id in the record, or that cannot be reached.
fn sighting(service: &ResolvedService) -> Option<Sighting> {
    let said = |key| {
        service
            .get_property_val_str(key)
            .filter(|value| !value.is_empty())
    };
    let agent_id = said("agent_id")?.to_owned();
    let addresses: Vec<IpAddr> = service
        .addresses
        .iter()
        .map(mdns_sd::ScopedIp::to_ip_addr)
        .collect();
    let url = announcement::reachable(said("manifest_url")?, &addresses)?;
    let instance = service
        .fullname
        .strip_suffix(&service.ty_domain)
        .unwrap_or(&service.fullname);
    let name = instance.trim_end_matches('.').split_once('.');
    let name = name.map_or(agent_id.as_str(), |(_, name)| name);
    Some(Sighting {
        name: cut(name, 64),
        version: said("version").map(|version| cut(version, 128)),
        agent_id,
        url,
    })
}
