//! The connection as its users see it, over in-memory pipes and real sockets.

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod end;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod random_bytes;
#[cfg(test)]
mod support;
