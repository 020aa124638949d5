//! The last bytes of an output, as text that begins and ends between characters.

/// Keeps the end of what is pushed.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    max: usize,
    truncated: bool,
}

impl Tail {
    pub(super) fn new(max: usize) -> Tail {
        Tail {
            bytes: Vec::new(),
            max,
            truncated: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.truncated |= self.bytes.len() > self.max;
        // Cut at twice the size, so that each byte is moved about once.
        if self.bytes.len() > self.max.saturating_mul(2) {
            self.bytes.drain(..self.bytes.len() - self.max);
        }
    }

    /// The text so far, and whether something before it is missing. Of an output that goes on, a character that has
    /// arrived by half waits for its other half.
    pub(super) fn text(&self, complete: bool) -> (String, bool) {
        let start = self.bytes.len().saturating_sub(self.max);
        let mut kept = &self.bytes[start..];
        if self.truncated {
            let continued = kept.iter().take(3).take_while(|byte| is_inside(**byte));
            kept = &kept[continued.count()..];
        }
        if !complete
            && let Some(chunk) = kept.utf8_chunks().last()
            && is_half(chunk.invalid())
        {
            kept = &kept[..kept.len() - chunk.invalid().len()];
        }
        let mut text = String::from_utf8_lossy(kept).into_owned();
        if text.len() > self.max {
            // Bytes that are no text grow when they are shown.
            let start = text.ceil_char_boundary(text.len() - self.max);
            text.drain(..start);
            return (text, true);
        }
        (text, self.truncated)
    }
}

/// A byte that does not begin a character.
fn is_inside(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Whether these bytes may still become a character.
fn is_half(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(max: usize, chunks: &[&[u8]]) -> Tail {
        let mut tail = Tail::new(max);
        chunks.iter().for_each(|chunk| tail.push(chunk));
        tail
    }

    #[test]
    fn the_end_is_kept_and_begins_with_a_whole_character() {
        let cases: [(usize, &str, &str, bool); 6] = [
            (8, "short", "short", false),
            (5, "exact", "exact", false),
            (4, "longer", "nger", true),
            (3, "aéé", "é", true),
            (5, "x😀yz", "yz", true),
            (0, "any", "", true),
        ];
        for (max, pushed, text, truncated) in cases {
            let whole = tail(max, &[pushed.as_bytes()]).text(true);
            let bytes: Vec<&[u8]> = pushed.as_bytes().chunks(1).collect();
            assert_eq!(whole, (text.to_owned(), truncated), "{pushed}");
            assert_eq!(tail(max, &bytes).text(true), whole, "{pushed} by bytes");
        }
    }

    #[test]
    fn half_a_character_waits_for_its_other_half() {
        let half = tail(10, &[b"ab\xf0\x9f"]);
        assert_eq!(half.text(false).0, "ab");
        assert_eq!(half.text(true).0, "ab\u{fffd}");
        let other = tail(10, &[b"ab\xff"]);
        assert_eq!(other.text(false).0, "ab\u{fffd}");
    }

    #[test]
    fn bytes_that_are_no_text_stay_within_the_bound() {
        let (text, truncated) = tail(10, &[&[0xff; 10]]).text(true);
        assert!(text.len() <= 10 && truncated);
    }

    #[test]
    fn memory_is_bounded_by_twice_the_limit() {
        let mut tail = Tail::new(100);
        for _ in 0..1000 {
            tail.push(b"0123456789");
            assert!(tail.bytes.len() <= 200);
        }
        assert_eq!(tail.text(true), ("0123456789".repeat(10), true));
    }
}
