//! The one port of the node: tokens, TLS, guards and the audit of who asked for what.
//!
//! Faces are routers that are mounted here. Each request they see carries an [`engine::Caller`] whose token was checked;
//! a face whose tokens do not come in a header names its path with [`Listener::open_path`] and asks the
//! [`engine::Authenticator`] itself.

mod audit;
mod body;
mod connection;
mod guard;
mod hosts;
mod listener;
mod login;
mod rate;
mod refusal;
mod routes;
mod secret;
mod tls;
mod tokens;
mod traffic;
mod welcome;

#[cfg(test)]
mod listener_tests;

pub use connection::serve_router;
pub use listener::{Listener, ListenerConfig, ListenerError, Trust};
pub use refusal::Refusal;
pub use tls::{Tls, TlsError};
pub use tokens::{NewToken, OWNER_TOKEN_FILE, TokenError, TokenView, Tokens};
pub use traffic::{Answered, Traffic};
