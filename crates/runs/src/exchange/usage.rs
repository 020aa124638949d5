//! How full the exchange is, and which objects are still meant by somebody.

use std::collections::{BTreeSet, HashMap};

use super::Resource;

/// What lies there: how often each object is meant, and how large all of them are.
#[derive(Debug, Default)]
pub(super) struct Usage {
    objects: HashMap<String, Object>,
    bytes: u64,
    /// On their way here, and not kept yet.
    coming: u64,
}

#[derive(Debug, Clone, Copy)]
struct Object {
    size: u64,
    meant: usize,
}

impl Usage {
    /// What lies there and what is on its way.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.coming
    }

    /// More bytes are on their way, or are there or given up.
    pub(super) fn comes(&mut self, size: u64) {
        self.coming += size;
    }

    pub(super) fn has_come(&mut self, size: u64) {
        self.coming -= size;
    }

    /// What is kept in its record counts, and nothing else is known of it.
    pub(super) fn add_inline(&mut self, size: u64) {
        self.bytes += size;
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

    /// One that means its object no more.
    pub(super) fn forget(&mut self, resource: &Resource) {
        if resource.inline.is_some() {
            self.bytes = self.bytes.saturating_sub(resource.size);
            return;
        }
        let Some(object) = self.objects.get_mut(&resource.hash) else {
            return;
        };
        object.meant -= 1;
        if object.meant == 0 {
            self.bytes -= object.size;
            self.objects.remove(&resource.hash);
        }
    }

    /// The objects that nobody would mean without these.
    pub(super) fn unmeant_without(&self, resources: &[Resource]) -> BTreeSet<String> {
        let mut by_hash: HashMap<&String, usize> = HashMap::new();
        let objects = resources.iter().filter(|it| it.inline.is_none());
        for resource in objects {
            *by_hash.entry(&resource.hash).or_default() += 1;
        }
        let is_last = |hash: &String, count| {
            let object = self.objects.get(hash);
            object.is_some_and(|object| object.meant <= count)
        };
        let hashes = by_hash.into_iter();
        let unmeant = hashes.filter(|(hash, count)| is_last(hash, *count));
        unmeant.map(|(hash, _)| hash.clone()).collect()
    }
}
