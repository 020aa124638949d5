//! SHA-256 of what passes by.

use std::{
    fmt,
    io::{self, Read, Write},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// A SHA-256, in hexadecimal where it is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum([u8; 32]);

impl Checksum {
    /// Stands in until the content has been seen.
    pub(crate) const UNSEEN: Self = Self([0; 32]);

    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of everything that is read.
    pub fn of_reader(reader: impl Read) -> io::Result<Self> {
        let mut summing = Summing::new(reader);
        io::copy(&mut summing, &mut io::sink())?;
        Ok(summing.finish().1)
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = str::from_utf8(digits).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Checksum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a SHA-256 has 64 digits"))
    }
}

/// Adds up what is read or written through it.
pub(crate) struct Summing<T> {
    pub(crate) inner: T,
    hasher: Sha256,
    pub(crate) bytes: u64,
}

impl<T> Summing<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self {
            inner,
            hasher: Sha256::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn finish(self) -> (T, Checksum, u64) {
        (
            self.inner,
            Checksum(self.hasher.finalize().into()),
            self.bytes,
        )
    }
}

impl<R: Read> Read for Summing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.add(&buffer[..count]);
        Ok(count)
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.add(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_shown_and_read_in_hexadecimal() {
        let sum = Checksum::of(b"hello world");
        let text = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9";
        assert_eq!(sum.to_string(), text);
        assert_eq!(Checksum::of_reader(&b"hello world"[..]).unwrap(), sum);
        assert_eq!(Checksum::parse(text), Some(sum));
        assert_eq!(Checksum::parse(&text.to_uppercase()), Some(sum));
        for wrong in [
            "",
            "b9",
            &text[1..],
            &text.replace('b', "g"),
            &text.replace("b9", "+9"),
        ] {
            assert_eq!(Checksum::parse(wrong), None, "{wrong}");
        }
    }
}
