//! Folders as archives: packed, checked, unpacked below one folder, and changes as deltas.
//!
//! Everything blocks; async callers use `platform::Tasks::spawn_blocking`. An archive is input from a stranger: what
//! leads outside, what is no file, folder or link, and what grows beyond its limits is refused before it is written.

mod apply;
mod checksum;
mod delta;
mod error;
mod folder;
mod journal;
mod kept_tree;
mod limits;
mod manifest;
mod object_pack;
mod overlay;
mod pack;
mod path;
mod plant;
mod stage;
mod tar_read;
mod unpack;
mod walk;
mod zip_pack;
mod zip_unpack;

#[cfg(test)]
mod tests;

pub use apply::{Applied, ApplyError, Conflict, apply, recover};
pub use checksum::Checksum;
pub use delta::{Change, Delta, pack_delta, unpack_delta};
pub use error::{ArchiveError, Problem};
pub use folder::Folder;
pub use journal::Journal;
pub use kept_tree::KeptTree;
pub use limits::{Case, Limits};
pub use manifest::{Content, Entry, Manifest, Mtime};
pub use object_pack::{ObjectId, ObjectPack};
pub use pack::{Packed, pack};
pub use path::{EntryPath, STAGE_NAME};
pub use unpack::{Unpacked, unpack};
pub use walk::{Kind, LeftOut, Why, everything};
pub use zip_pack::pack_zip;
pub use zip_unpack::unpack_zip;
