//! The agent as a client sees it, over a pipe in memory.

#[cfg(test)]
mod cancel;
#[cfg(test)]
mod client_methods;
#[cfg(test)]
mod everyday;
#[cfg(test)]
mod files;
#[cfg(test)]
mod permission;
#[cfg(test)]
mod probes;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod support;
