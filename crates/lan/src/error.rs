//! Why something about peers was not done.

use engine::EngineError;

use crate::{client::ClientError, peer::PeerView};

#[derive(Debug, thiserror::Error)]
pub enum LanError {
    #[error("there is no peer {id}")]
    NoPeer { id: String },
    /// It stands in the settings, and has not said yet who it is.
    #[error("{} is in the settings and not known yet: {why}", peer.url)]
    NotMet { peer: Box<PeerView>, why: String },
    #[error("{url} tells nobody who it is before they are paired: `agentcraft peer pair {url}`")]
    Unpaired {
        url: String,
        /// The certificate that it made itself.
        shown: Option<String>,
    },
    #[error(
        "{url} signed its certificate itself, so no token was sent to it: if its owner knows it by {shown}, say so with --fingerprint {shown}, or pair: `agentcraft peer pair {url}`"
    )]
    Unproven { url: String, shown: String },
    #[error("{said} means more than one peer; name one by its id: {}", ids.join(", "))]
    Ambiguous { said: String, ids: Vec<String> },
    #[error("there is no intent {id}")]
    NoIntent { id: String },
    #[error("that is this node itself")]
    Ourselves,
    #[error(
        "it says that it is {name}, which is known at {url}; remove that one first, or pair with this one"
    )]
    KnownElsewhere { name: String, url: String },
    #[error("{what}")]
    Invalid { what: String },
    #[error("there are {max} peers already; remove some that nobody needs")]
    TooMany { max: usize },
    #[error("no peer that is there can do this: {text}")]
    NoFit { text: String },
    #[error("{peer} has been asked too often; wait a minute")]
    TooFast { peer: String },
    #[error("no pairing has this code; codes work for a few minutes")]
    NoPairing,
    #[error("too many pairings are asked for; wait a minute")]
    PairingBusy,
    #[error("could not make or end a token")]
    Tokens { why: String },
    #[error(transparent)]
    Peer(#[from] ClientError),
    #[error("could not keep or read what is known of peers")]
    Records { source: EngineError },
}

impl From<EngineError> for LanError {
    fn from(source: EngineError) -> Self {
        Self::Records { source }
    }
}
