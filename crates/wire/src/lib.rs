//! Messages of each protocol, as types: what goes over a wire, and nothing about what it means.

pub mod daemon;
