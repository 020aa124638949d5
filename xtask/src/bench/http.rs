//! HTTP as small as it can be: a blocking client, a responder that is the floor under every server, and a load of both.

mod client;
mod face;
mod load;
mod node;
mod reference;
mod responder;

pub(super) use client::{Http, post};
pub(super) use face::{Face, Other};
pub(super) use load::{CONNECTIONS, Effort, Load, Target};
pub(super) use node::{Node, one_word};
pub(super) use reference::{Reference, python};
pub(super) use responder::{Responder, serve as serve_responder};
