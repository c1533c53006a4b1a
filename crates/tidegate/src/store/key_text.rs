//! Identifiers and names as parts of a key that people can read.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// Identifiers and names longer than this are hashed.
const PLAIN_MAX: usize = 64;

/// Writes identifiers and names as parts of a key: printable ASCII, and no two spell the same key.
///
/// What comes from outside has its length before it; what is long or not plain text is hashed, with the same secret on
/// every node of a fleet.
///
/// ```
/// use tidegate::store_kit::KeyText;
///
/// let (text, mut key) = (KeyText::new([7; 16]), Vec::new());
/// text.identifier(&mut key, b"user-42");
/// assert_eq!(key, b"7:user-42");
/// key.clear();
/// text.identifier(&mut key, b"line\nfeed");
/// assert!(key.starts_with(b"#") && key.len() == 33); // hashed
///
/// let (mut name, mut hash) = (Vec::new(), Vec::new());
/// text.name(&mut name, "line\nfeed");
/// text.hash(&mut hash, b"line\nfeed");
/// assert_eq!(name, hash);
/// ```
#[derive(Clone)]
pub struct KeyText {
    secret: [u8; 16],
}

impl fmt::Debug for KeyText {
    /// Without the secret: with it, one could make identifiers that share a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyText").finish_non_exhaustive()
    }
}

impl KeyText {
    /// With the secret of the hash.
    pub const fn new(secret: [u8; 16]) -> Self {
        Self { secret }
    }

    /// `7:user-42`, or `#` and a hash: no length begins so.
    pub fn identifier(&self, key: &mut Vec<u8>, identifier: &[u8]) {
        if identifier.len() <= PLAIN_MAX && identifier.iter().all(|byte| is_plain(*byte)) {
            key.extend_from_slice(identifier.len().to_string().as_bytes());
            key.push(b':');
            key.extend_from_slice(identifier);
        } else {
            self.hash(key, identifier);
        }
    }

    /// A policy's or limit's name, which an operator chose: itself, or `#` and a hash. It never holds a colon.
    pub fn name(&self, key: &mut Vec<u8>, name: &str) {
        let plain = |byte: u8| is_plain(byte) && !matches!(byte, b':' | b'#' | b'=');
        if name.len() <= PLAIN_MAX && name.bytes().all(plain) {
            key.extend_from_slice(name.as_bytes());
        } else {
            self.hash(key, name.as_bytes());
        }
    }

    /// `#` and a hash of 128 bits.
    pub fn hash(&self, key: &mut Vec<u8>, bytes: &[u8]) {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        hasher.write(bytes);
        key.extend_from_slice(format!("#{:032x}", hasher.finish128().as_u128()).as_bytes());
    }
}

/// Printable ASCII without what means something to Redis Cluster or to a shell's eye.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}' | b'"' | b'\\')
}
