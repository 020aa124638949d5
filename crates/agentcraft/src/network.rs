//! The node on the network: one port, and every face behind it.

mod adviser;
mod census;
mod faces;
mod grants;
mod lender;
mod lending;
mod metrics;
mod offices;
mod said;
mod wording;

use std::path::{Path, PathBuf};

use anyhow::Context;
use engine::Engine;
use listener::{Listener, ListenerConfig, ListenerError, Tls, Tokens};
use platform::{
    Tasks,
    files::{self, Durability, Mode},
};
use serde::{Deserialize, Serialize};
use tracing::warn;

use faces::Faces;
pub(crate) use faces::{Children, described, node_name};
pub(crate) use lender::lender;

use crate::config::{Certificate, Config, Listen, Network, Trust};
use crate::endpoints::Endpoints;

/// Where commands on this machine find the node's address.
const ADDRESS_FILE: &str = "listener.json";

/// A few hundred bytes.
const ADDRESS_FILE_MAX: u64 = 64 * 1024;

/// How the node is reached from this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    pub(crate) url: String,
    /// Of the certificate, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint: Option<String>,
}

impl Address {
    fn path(home: &Path) -> PathBuf {
        home.join(ADDRESS_FILE)
    }

    /// The address of the node that runs in this home, as it was last announced.
    pub(crate) fn read(home: &Path) -> Option<Self> {
        let bytes = files::read_bounded(&Self::path(home), ADDRESS_FILE_MAX).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn announce(&self, home: &Path) -> anyhow::Result<()> {
        let bytes = serde_json::to_vec(self).context("could not write down the address")?;
        files::write_atomic(
            &Self::path(home),
            &bytes,
            Mode::PRIVATE,
            Durability::ProcessDeath,
        )?;
        Ok(())
    }

    /// Why a node that runs is reached by its socket alone although it should listen; nothing if it listens, or is not meant to.
    pub(crate) fn why_none(config: &Config) -> Option<String> {
        let addr = match config.network.listen {
            Listen::Off => return None,
            Listen::Default(addr) | Listen::Chosen(addr) => addr,
        };
        Self::read(&config.home).is_none().then(|| {
            format!(
                "the node does not listen: another program has {addr}; set `listen` in the [http] table of config.toml"
            )
        })
    }

    /// Nobody is reached there any more.
    pub(crate) fn forget(home: &Path) -> anyhow::Result<()> {
        Ok(files::remove_file_if_there(&Self::path(home))?)
    }
}

/// Takes the port and serves every face, or says why a node without one must do.
pub(crate) async fn open(
    config: &Config,
    engine: &Engine,
    endpoints: &Endpoints,
    children: &Children,
    tasks: &Tasks,
) -> anyhow::Result<Option<Address>> {
    Address::forget(&config.home)?;
    let network = &config.network;
    let (addr, is_chosen) = match network.listen {
        Listen::Off => return Ok(None),
        Listen::Default(addr) => (addr, false),
        Listen::Chosen(addr) => (addr, true),
    };
    let tokens = Tokens::open(&config.home, engine.records()).await?;
    let bound = Listener::bind(
        ListenerConfig {
            addr,
            trust: match network.trust {
                Trust::Tokens => listener::Trust::Tokens,
                Trust::Open => listener::Trust::Open,
            },
            hosts: network.hosts.clone(),
            origins: network.origins.clone(),
            tls: tls(network, &config.home),
        },
        tokens.clone(),
        engine.records(),
    );
    let mut listener = match bound.await {
        Ok(listener) => listener,
        Err(ListenerError::Bind { source, .. }) if !is_chosen => {
            warn!(%addr, error = %source, "not listening: set listen in the [http] table of config.toml");
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let address = Address {
        url: listener.local_url(),
        fingerprint: listener.fingerprint().map(str::to_owned),
    };
    let faces = Faces {
        config,
        engine,
        tasks,
        tokens,
        calls: endpoints.calls().clone(),
        node: endpoints.node().clone(),
        children,
        endpoints,
    };
    faces.mount(&mut listener).await?;
    listener.serve(tasks);
    address.announce(&config.home)?;
    Ok(Some(address))
}

fn tls(network: &Network, home: &Path) -> Tls {
    match &network.certificate {
        Certificate::None => Tls::Off,
        Certificate::Own => Tls::SelfSigned {
            home: home.to_owned(),
        },
        Certificate::Files { certificate, key } => Tls::Files {
            certificate: certificate.clone(),
            key: key.clone(),
        },
    }
}
