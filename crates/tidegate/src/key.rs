//! What can be a key, and how it is spelled.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key",
    label = "expected text, bytes, a whole number, an address, or a tuple of these",
    note = "implement `tidegate::AsKey` for a type of your own"
)]
/// What can be a key: text, bytes, a whole number, an address, or several of these.
///
/// - Text and bytes are the key as they are.
/// - A number is the key that its digits are: `42_u64` and `"42"` are one key.
/// - An address is the key that its text is. One of IPv4 in an IPv6 address is that of IPv4. An IPv6 client has a whole
///   network of addresses: `tower::ClientIp` counts by the network.
/// - Several parts are each preceded by their length, so that no two tuples can collide by shifting bytes from one part to
///   the next: `("acme", 42)` is `4:acme,2:42,`. A `tower::Key` of several parts is spelled alike.
///
/// Text, bytes, numbers and addresses are not copied to the heap.
///
/// ```
/// use std::net::IpAddr;
/// use tidegate::Limiter;
///
/// let limiter = Limiter::new("100/h")?;
/// let (name, address) = (String::from("user-42"), IpAddr::from([203, 0, 113, 7]));
/// let _ = (limiter.check("user-42"), limiter.check(&name), limiter.check(name));
/// let _ = (limiter.check(42_u64), limiter.check(address), limiter.check(("acme", 42_u64)));
/// assert_eq!(limiter.peek("user-42", 0).remaining(), 97);
/// assert_eq!(limiter.peek("42", 0).remaining(), 99);
/// assert_eq!(limiter.peek("203.0.113.7", 0).remaining(), 99);
/// assert_eq!(limiter.peek("4:acme,2:42,", 0).remaining(), 99);
/// # Ok::<(), tidegate::LimitError>(())
/// ```
///
/// So can a type of your own:
///
/// ```
/// use tidegate::{AsKey, Limiter};
///
/// struct UserId(u64);
///
/// impl AsKey for UserId {
///     fn as_key(&self) -> impl AsRef<[u8]> {
///         self.0.as_key()
///     }
/// }
///
/// let limiter = Limiter::new("100/h")?;
/// assert!(limiter.check(UserId(42)).allowed());
/// assert_eq!(limiter.peek(42, 0).remaining(), 99);
/// # Ok::<(), tidegate::LimitError>(())
/// ```
pub trait AsKey {
    /// The bytes of the key.
    fn as_key(&self) -> impl AsRef<[u8]>;
}

impl<T: AsKey + ?Sized> AsKey for &T {
    #[inline]
    fn as_key(&self) -> impl AsRef<[u8]> {
        (**self).as_key()
    }
}

macro_rules! keys_as_they_are {
    ($($bytes:ty),*) => {$(
        impl AsKey for $bytes {
            #[inline]
            fn as_key(&self) -> impl AsRef<[u8]> {
                AsRef::<[u8]>::as_ref(self)
            }
        }
    )*};
}
keys_as_they_are!(str, String, [u8], Vec<u8>);

macro_rules! keys_behind_a_pointer {
    ($($pointer:ty),*) => {$(
        impl AsKey for $pointer {
            #[inline]
            fn as_key(&self) -> impl AsRef<[u8]> {
                (**self).as_key()
            }
        }
    )*};
}
keys_behind_a_pointer!(Box<str>, Box<[u8]>, Arc<str>, Arc<[u8]>, Cow<'_, str>, Cow<'_, [u8]>);

impl<const N: usize> AsKey for [u8; N] {
    #[inline]
    fn as_key(&self) -> impl AsRef<[u8]> {
        self.as_slice()
    }
}

macro_rules! keys_by_their_text {
    ($($value:ty),*) => {$(
        impl AsKey for $value {
            fn as_key(&self) -> impl AsRef<[u8]> {
                ShortText::new(self)
            }
        }
    )*};
}
keys_by_their_text!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, Ipv4Addr);

impl AsKey for IpAddr {
    fn as_key(&self) -> impl AsRef<[u8]> {
        ShortText::new(self.to_canonical())
    }
}

impl AsKey for Ipv6Addr {
    fn as_key(&self) -> impl AsRef<[u8]> {
        ShortText::new(self.to_canonical())
    }
}

macro_rules! keys_of_several_parts {
    ($(($($part:ident)*))*) => {$(
        #[expect(non_snake_case, reason = "a part is called like its type")]
        impl<$($part: AsKey),*> AsKey for ($($part,)*) {
            fn as_key(&self) -> impl AsRef<[u8]> {
                let ($($part,)*) = self;
                let mut key = Vec::new();
                $(append_part(&mut key, $part.as_key().as_ref());)*
                key
            }
        }
    )*};
}
keys_of_several_parts!((A B) (A B C) (A B C D));

/// Appends one of several parts of a key, preceded by its length.
pub(crate) fn append_part(key: &mut Vec<u8>, part: &[u8]) {
    key.extend_from_slice(part.len().as_key().as_ref());
    key.push(b':');
    key.extend_from_slice(part);
    key.push(b',');
}

/// A number or an address, on the stack.
struct ShortText {
    bytes: [u8; Self::BYTES],
    len: usize,
}

impl ShortText {
    /// The longest are `i128::MIN` with 40, and an address of IPv6 with 39.
    const BYTES: usize = 40;

    fn new(value: impl fmt::Display) -> Self {
        let mut text = Self { bytes: [0; Self::BYTES], len: 0 };
        let _ = write!(text, "{value}"); // it fits
        text
    }
}

impl fmt::Write for ShortText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = self.len + more.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(more.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl AsRef<[u8]> for ShortText {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}
