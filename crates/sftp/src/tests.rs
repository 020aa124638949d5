//! The server against the real clients and against a hostile one; everything that is mounted is unmounted again.

mod channels;
mod escape;
mod figures;
mod hostile;
mod openssh;
mod raw;
mod sshfs;
pub(crate) mod support;
