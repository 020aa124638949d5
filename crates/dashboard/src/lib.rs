//! The node's page in a browser, and the small API that it uses.
//!
//! The page is plain JavaScript in `web/`, part of the binary as it is. It reads lists, posts acts, and follows one
//! stream of events that goes on where it broke off. The listener in front of it knows who is asking.

mod agents;
mod answer;
mod form;
mod glance;
mod journal;
mod log;
mod offices;
mod page;
mod reach;
mod records;
mod router;
mod sent;
mod sessions;
mod stream;
mod watchers;

pub use glance::{Around, Lent, Surroundings};
pub use log::logs;
pub use offices::{OfficeAct, OfficeAsk, Offices, Seat, SeatRole, offices};
pub use records::state_of;
pub use router::{Config, Workflows, router};
