//! Lines and the moments they came, kept to be read later: what is done with a line must not delay the next one.

use super::chunk::Moment;

#[derive(Debug, Default)]
pub(super) struct Arrivals {
    bytes: Vec<u8>,
    /// Where each line ends, and when it came.
    ends: Vec<(usize, Moment)>,
}

impl Arrivals {
    pub(super) fn push(&mut self, line: &[u8], moment: Moment) {
        self.bytes.extend_from_slice(line);
        self.ends.push((self.bytes.len(), moment));
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Moment)> {
        let mut start = 0;
        self.ends.iter().map(move |(end, moment)| {
            let line = &self.bytes[start..*end];
            start = *end;
            (line, *moment)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_as_they_came_in() {
        let mut arrivals = Arrivals::default();
        let now = Moment::now();
        arrivals.push(b"one\n", now);
        arrivals.push(b"three\n", now);
        let lines: Vec<&[u8]> = arrivals.iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [b"one\n".as_slice(), b"three\n"]);
        assert_eq!(arrivals.len(), 2);
    }
}
