//! How an office is reached: address, name, token and certificates, from what was typed and what this home knows.

use std::path::PathBuf;

use smcp::{LinkConfig, LinkError};
use wire::smcp::Profile;

use super::tls::{self, Identity};
use crate::{
    args::{OfficeProfile, PlaceArgs},
    config::Config,
    error::CommandError,
    network::Address,
    node::token_of,
};

/// What an agent is called unless it says otherwise.
pub(crate) const AGENT: &str = "agentcraft";

/// Instead of an address: the node of this home.
const OWN_NODE: &str = "node";

/// Holds the token where no file is named.
const TOKEN_VARIABLE: &str = "AGENTCRAFT_OFFICE_TOKEN";

/// What a computer is called unless it says otherwise: the machine's name, as far as it goes.
pub(crate) fn computer_name() -> String {
    let host = platform::system::hostname();
    let short: String = host
        .split('.')
        .next()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(domain::NAME_MAX)
        .collect();
    match short.trim_matches('-') {
        "" => "computer".to_owned(),
        short => short.to_owned(),
    }
}

/// Where and as whom to join.
pub(crate) fn link(
    place: &PlaceArgs,
    default_name: &str,
    config: &Config,
) -> Result<LinkConfig, CommandError> {
    let own = own_node(place, config);
    let url = match (place.url.as_str(), &own) {
        (OWN_NODE, Some(own)) => own.url.clone(),
        (OWN_NODE, None) => {
            return Err(CommandError::Refused {
                message: "this node is no office server: it does not listen".to_owned(),
                hint: "start the daemon with [http] in config.toml, or name the address of an office server".to_owned(),
            });
        }
        (url, _) => url.to_owned(),
    };
    let token = match token_of(place.token_file.as_deref())? {
        Some(token) => token,
        None => match config.environment.get(std::ffi::OsStr::new(TOKEN_VARIABLE)) {
            Some(token) => token.to_string_lossy().trim().to_owned(),
            None => own_token(&own, config)?.unwrap_or_default(),
        },
    };
    let identity = match (&place.cert, &place.key) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (_, _) => None,
    };
    let own_roots = own
        .filter(|address| address.fingerprint.is_some())
        .map(|_| config.home.join("listener.pem"));
    let roots: Option<PathBuf> = place.ca.clone().or(own_roots);
    let connector = match roots {
        Some(roots) => Some(
            tls::connector(&roots, identity)
                .map_err(|error| CommandError::machine("read the certificates", error))?,
        ),
        None if identity.is_some() => {
            return Err(CommandError::Refused {
                message: "a certificate of our own needs to know whom it is shown to".to_owned(),
                hint: "name the certificates to trust with --ca FILE".to_owned(),
            });
        }
        None => None,
    };
    Ok(LinkConfig {
        url,
        token,
        profile: match place.profile {
            OfficeProfile::Released => Profile::Shipped,
            OfficeProfile::Specified => Profile::Seed,
        },
        office: place.office.clone(),
        name: place
            .name
            .clone()
            .unwrap_or_else(|| default_name.to_owned()),
        connector,
    })
}

/// The node of this home, if that is where the office is.
fn own_node(place: &PlaceArgs, config: &Config) -> Option<Address> {
    let address = Address::read(&config.home)?;
    let is_it = place.url == OWN_NODE
        || address.url.trim_end_matches('/') == place.url.trim_end_matches('/');
    is_it.then_some(address)
}

fn own_token(own: &Option<Address>, config: &Config) -> Result<Option<String>, CommandError> {
    match own {
        Some(_) => token_of(Some(&config.home.join(listener::OWNER_TOKEN_FILE))),
        None => Ok(None),
    }
}

/// Whether somebody else has the place that we want. Released servers have no code for it, only words.
pub(crate) fn is_taken(error: &LinkError) -> bool {
    matches!(error, LinkError::Refused(body) if body.message.to_lowercase().contains("already"))
}

/// Why we are not let in, and what can be done about it.
pub(crate) fn not_let_in(error: &LinkError, place: &PlaceArgs) -> CommandError {
    match error {
        LinkError::Refused(body) if body.code == 403 => CommandError::Refused {
            message: error.to_string(),
            hint: "check the token (--token-file), its role and its office; an office has one agent at a time".to_owned(),
        },
        error => refusal(error, place),
    }
}

/// What the office did not do for a member, and what can be done about it.
pub(crate) fn refusal(error: &LinkError, place: &PlaceArgs) -> CommandError {
    let hint = match error {
        LinkError::Refused(body) if body.code == 403 => {
            "the computer's configuration decides about its tools: `agentcraft office config` shows it".to_owned()
        }
        LinkError::Refused(body) if body.code == 404 => {
            format!("`agentcraft office rooms {} {}` shows who is there", place.url, place.office)
        }
        LinkError::Refused(body) if body.code == 4008 => {
            "the server speaks another version; --profile specified may be the one".to_owned()
        }
        LinkError::Unreachable(why) if why.contains("CaUsedAsEndEntity") => {
            "the server shows the certificate of an authority; make one for a server: openssl req -x509 -addext basicConstraints=CA:FALSE …".to_owned()
        }
        LinkError::Unreachable(_) | LinkError::NotAnOffice | LinkError::Lost | LinkError::TimedOut => {
            format!("check the address {}, and that its server runs", place.url)
        }
        LinkError::Refused(_) | LinkError::Unreadable { .. } => "docs/offices.md says how offices work".to_owned(),
    };
    CommandError::Refused {
        message: error.to_string(),
        hint,
    }
}
