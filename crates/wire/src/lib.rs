//! Messages of each protocol, as types: what goes over a wire, and nothing about what it means.

pub mod a2a;
pub mod address;
pub mod awcp;
pub mod daemon;
mod hex;
pub mod runs;
pub mod shape;
pub mod smcp;
pub mod sse;

pub use hex::hex;
