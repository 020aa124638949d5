//! How full the exchange is, and which objects are still meant by somebody.

use std::collections::HashMap;

/// What lies there: how often each object is meant, and how large all of them are.
#[derive(Debug, Default)]
pub(super) struct Usage {
    objects: HashMap<String, Object>,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Object {
    size: u64,
    meant: usize,
}

impl Usage {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is kept in its record counts, and nothing else is known of it.
    pub(super) fn add_inline(&mut self, size: u64) {
        self.bytes += size;
    }

    pub(super) fn remove_inline(&mut self, size: u64) {
        self.bytes = self.bytes.saturating_sub(size);
    }

    pub(super) fn has(&self, hash: &str) -> bool {
        self.objects.contains_key(hash)
    }

    pub(super) fn add(&mut self, hash: &str, size: u64) {
        let object = self
            .objects
            .entry(hash.to_owned())
            .or_insert(Object { size, meant: 0 });
        if object.meant == 0 {
            self.bytes += size;
        }
        object.meant += 1;
    }

    /// Says whether nobody means the object any more.
    pub(super) fn remove(&mut self, hash: &str) -> bool {
        let Some(object) = self.objects.get_mut(hash) else {
            return false;
        };
        object.meant -= 1;
        let is_last = object.meant == 0;
        if is_last {
            self.bytes -= object.size;
            self.objects.remove(hash);
        }
        is_last
    }
}
