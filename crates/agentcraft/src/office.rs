//! Offices: what this program lends to one as a computer, what it takes from one as an agent, and who may come in.

mod asking;
pub(crate) mod hub;
mod inputs;
mod lending;
mod link;
mod servers;
mod source;
mod tls;
mod tokens;
mod watch;

pub(crate) use asking::Asking;
pub(crate) use hub::face;
pub(crate) use inputs::{Inputs, Kept};
pub(crate) use lending::{Absent, Lending, Replaced};
pub(crate) use link::{AGENT, computer_name, is_taken, link, not_let_in, refusal};
pub(crate) use servers::{Consent, Offer, origin, read_listing};
pub(crate) use source::OfficeTools;
pub(crate) use tls::{Identity, acceptor};
pub(crate) use tokens::{TOKEN_MIN, fresh_token, generated, is_same, read_guests};
pub(crate) use watch::Watch;
