//! Objects as git keeps them, in one pack that is written front to back: no program runs for it, and a thousand files are
//! one.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
};

use flate2::{Compression, Crc, write::ZlibEncoder};
use sha1::{Digest, Sha1};

/// What goes to the disk at once.
const CHUNK: usize = 256 * 1024;

/// Offsets from here on stand in a table of their own.
const OFFSET_SMALL: u64 = 1 << 31;

/// The name of an object: the SHA-1 of what it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 20]);

impl ObjectId {
    /// Reads 40 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 20];
        if text.len() != 40 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What an object is, as a pack numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Commit = 1,
    Tree = 2,
    Blob = 3,
}

impl ObjectKind {
    fn word(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
        }
    }

    /// What is hashed before the content.
    pub(crate) fn begin(self, size: u64) -> Sha1 {
        Sha1::new_with_prefix(format!("{} {size}\0", self.word()))
    }
}

pub(crate) fn id(hasher: Sha1) -> ObjectId {
    ObjectId(hasher.finalize().into())
}

/// Where an object stands, and the sum of its bytes there.
struct Place {
    offset: u64,
    sum: u32,
}

/// A pack that is being written.
pub struct ObjectPack<W: Write> {
    sink: BufWriter<W>,
    at: u64,
    places: BTreeMap<ObjectId, Place>,
}

impl<W: Write> fmt::Debug for ObjectPack<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectPack")
            .field("objects", &self.places.len())
            .finish_non_exhaustive()
    }
}

impl<W: Read + Write + Seek> ObjectPack<W> {
    pub fn new(sink: W) -> io::Result<Self> {
        let mut sink = BufWriter::with_capacity(CHUNK, sink);
        // How many objects follow is written when it is known.
        sink.write_all(b"PACK\0\0\0\x02\0\0\0\0")?;
        Ok(Self {
            sink,
            at: 12,
            places: BTreeMap::new(),
        })
    }

    pub(crate) fn holds(&self, id: &ObjectId) -> bool {
        self.places.contains_key(id)
    }

    /// An object that is whole in memory.
    pub(crate) fn put(&mut self, kind: ObjectKind, content: &[u8]) -> io::Result<ObjectId> {
        let size = content.len() as u64;
        let id = id(kind.begin(size).chain_update(content));
        if !self.holds(&id) {
            self.put_new(kind, size, id, content)?;
        }
        Ok(id)
    }

    /// An object of that name which is not there yet. Its content is not checked.
    pub(crate) fn put_new(
        &mut self,
        kind: ObjectKind,
        size: u64,
        id: ObjectId,
        mut content: impl Read,
    ) -> io::Result<()> {
        let mut counting = Counting {
            sink: &mut self.sink,
            sum: Crc::new(),
            bytes: 0,
        };
        counting.write_all(&header(kind, size))?;
        let mut encoder = ZlibEncoder::new(counting, Compression::fast());
        io::copy(&mut content, &mut encoder)?;
        let counting = encoder.finish()?;
        let place = Place {
            offset: self.at,
            sum: counting.sum.sum(),
        };
        self.at += counting.bytes;
        self.places.insert(id, place);
        Ok(())
    }

    /// Ends the pack and gives the bytes of its index.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        let mut sink = self.sink.into_inner().map_err(io::Error::from)?;
        let count = u32::try_from(self.places.len()).map_err(io::Error::other)?;
        sink.seek(SeekFrom::Start(8))?;
        sink.write_all(&count.to_be_bytes())?;
        sink.rewind()?;
        let mut hasher = Sha1::new();
        let mut reader = BufReader::with_capacity(CHUNK, &mut sink);
        io::copy(&mut reader, &mut HashSink(&mut hasher))?;
        let sum: [u8; 20] = hasher.finalize().into();
        sink.seek(SeekFrom::End(0))?;
        sink.write_all(&sum)?;
        Ok(index(&self.places, sum))
    }
}

struct HashSink<'a>(&'a mut Sha1);

impl Write for HashSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Counting<W> {
    sink: W,
    sum: Crc,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.sink.write(bytes)?;
        self.sum.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Kind and size: four bits of the size in the first byte, seven in each that follows.
fn header(kind: ObjectKind, size: u64) -> Vec<u8> {
    let low = |bits: u64, mask: u64| u8::try_from(bits & mask).expect("the mask is a byte");
    let mut rest = size >> 4;
    let mut bytes = vec![(kind as u8) << 4 | low(size, 0x0f)];
    while rest > 0 {
        if let Some(last) = bytes.last_mut() {
            *last |= 0x80;
        }
        bytes.push(low(rest, 0x7f));
        rest >>= 7;
    }
    bytes
}

/// Where each object is found, by its name.
fn index(places: &BTreeMap<ObjectId, Place>, pack: [u8; 20]) -> Vec<u8> {
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    let mut counts = [0_u32; 256];
    for id in places.keys() {
        counts[usize::from(id.0[0])] += 1;
    }
    let mut until = 0;
    for count in counts {
        until += count;
        index.extend(until.to_be_bytes());
    }
    index.extend(places.keys().flat_map(|id| id.0));
    index.extend(places.values().flat_map(|place| place.sum.to_be_bytes()));
    let mut large = Vec::new();
    for place in places.values() {
        let offset = match u32::try_from(place.offset) {
            Ok(offset) if place.offset < OFFSET_SMALL => offset,
            _ => {
                let number = u32::try_from(large.len() / 8).unwrap_or(u32::MAX);
                large.extend(place.offset.to_be_bytes());
                number | 1 << 31
            }
        };
        index.extend(offset.to_be_bytes());
    }
    index.extend(large);
    index.extend(pack);
    let sum: [u8; 20] = Sha1::digest(&index).into();
    index.extend(sum);
    index
}
