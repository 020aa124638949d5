//! How many requests were answered, by the kind of their answer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use axum::http::StatusCode;

/// The kinds, in the order of their first digit.
const KINDS: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counts since the start. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Traffic(Arc<[AtomicU64; KINDS.len()]>);

impl Traffic {
    pub(crate) fn count(&self, status: StatusCode) {
        let digit = usize::from(status.as_u16() / 100);
        if let Some(kind) = digit.checked_sub(1).and_then(|index| self.0.get(index)) {
            kind.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Each kind of answer with how often it was given.
    pub fn answered(&self) -> [(&'static str, u64); KINDS.len()] {
        std::array::from_fn(|index| (KINDS[index], self.0[index].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_their_first_digit() {
        let traffic = Traffic::default();
        for status in [200, 201, 404, 500, 999] {
            traffic.count(StatusCode::from_u16(status).unwrap());
        }
        let expected = [("1xx", 0), ("2xx", 2), ("3xx", 0), ("4xx", 1), ("5xx", 1)];
        assert_eq!(traffic.answered(), expected);
    }
}
