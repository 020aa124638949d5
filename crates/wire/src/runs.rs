//! Messages of the runs API: the standard ones of the Agent Communication Protocol and the extensions for agents on a
//! local network, in one set of types.
//!
//! Where the two dialects name a thing differently both names are written and either is read. Absent fields are left
//! out. What we do not know in a message or a part is kept.

mod event;
mod manifest;
mod message;
mod run;

pub use event::{Event, RunEvent};
pub use manifest::{
    Capability, Endpoints, Exchange, Link, Manifest, ManifestMetadata, NamedCapability,
};
pub use message::{ContentEncoding, Message, Part};
pub use run::{
    Await, AwaitMetadata, AwaitRequest, AwaitResume, ErrorBody, ErrorDetail, Mode, Resume, Run,
    RunCreate, RunError, RunMetadata, SessionDescriptor, SessionInline,
};
