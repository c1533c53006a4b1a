//! Bytes in parts, each with its length before it: for stores that keep bytes.

/// Appends a part, with its length in 4 bytes before it. No store keeps parts of 4 GiB.
///
/// ```
/// use tidegate::store_kit::{PartReader, push_part};
///
/// let mut bytes = Vec::new();
/// push_part(&mut bytes, b"user-42");
/// let mut reader = PartReader::new(&bytes);
/// assert_eq!(reader.part(), Some(&b"user-42"[..]));
/// assert!(reader.is_empty() && reader.part().is_none());
/// ```
pub fn push_part(bytes: &mut Vec<u8>, part: &[u8]) {
    let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(part);
}

/// Reads from the front what [`push_part`] and plain appending wrote. `None` where there is not enough left.
///
/// ```
/// use tidegate::store_kit::{PartReader, push_part};
///
/// let mut bytes = vec![1];
/// bytes.extend_from_slice(&7_u64.to_le_bytes());
/// push_part(&mut bytes, b"db");
/// let mut reader = PartReader::new(&bytes);
/// assert_eq!((reader.byte(), reader.word(), reader.text()), (Some(1), Some(7), Some("db")));
/// assert!(reader.is_empty());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PartReader<'a>(&'a [u8]);

impl<'a> PartReader<'a> {
    /// Of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all was read.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// A word of 8 bytes, little-endian.
    pub fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    /// A part.
    pub fn part(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (part, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }

    /// A part that is text.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.part()?).ok()
    }
}
