//! Claims about archives: what goes in comes out, what is hostile stays out, and changes come home whole or not at all.

mod apply;
mod bench;
mod hostile_tar;
mod hostile_zip;
mod interop;
mod kept;
mod round;
mod scene;
