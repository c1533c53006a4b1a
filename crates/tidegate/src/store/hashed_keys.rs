//! A store that never sees an identifier: each is replaced by a keyed hash on the way in.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use siphasher::sip128::{Hasher128, SipHasher24};
use tidegate_core::{Decision, Timestamp};

use super::{
    KeyedLimit, LimitCharge, MultiCharge, RemoteStore, Replicas, ReserveReply, ReserveRequest,
    Scope, Store, StoreExtensions, StoreReply, StoreRequest, StoreResult,
};

/// `#` and 32 hexadecimal digits.
const HASHED_BYTES: usize = 33;

/// Hashes identifiers with a secret: 128 bits of SipHash-2-4. Whoever has the same secret gets the same hashes; without
/// it, nobody can tell whose they are, or try out guesses.
///
/// ```
/// use tidegate::KeyHasher;
///
/// let (one, other) = (KeyHasher::new([1; 16]), KeyHasher::new([2; 16]));
/// assert_eq!(one.hash("user-42").len(), 33); // `#` and 32 digits
/// assert_eq!(one.hash("user-42"), KeyHasher::new([1; 16]).hash("user-42"));
/// assert_ne!(one.hash("user-42"), one.hash("user-43"));
/// assert_ne!(one.hash("user-42"), other.hash("user-42"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct KeyHasher {
    secret: [u8; 16],
}

impl KeyHasher {
    /// With a secret, from a good source of randomness.
    pub const fn new(secret: [u8; 16]) -> Self {
        Self { secret }
    }

    /// The secret as people write it: 32 hexadecimal digits, as of `openssl rand -hex 16`.
    ///
    /// ```
    /// # use tidegate::KeyHasher;
    /// let secret = "000102030405060708090a0b0c0d0e0f";
    /// assert!(KeyHasher::from_hex(secret).is_some_and(|it| it == KeyHasher::new(std::array::from_fn(|n| n as u8))));
    /// for bad in ["", "00", "hunter2", "000102030405060708090a0b0c0d0e0g"] {
    ///     assert!(KeyHasher::from_hex(bad).is_none());
    /// }
    /// ```
    pub fn from_hex(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()?;
        Some(Self::new(number.to_be_bytes()))
    }

    /// The secret: for a store that hashes what it cannot keep as it is.
    ///
    /// ```
    /// # use tidegate::KeyHasher;
    /// assert_eq!(KeyHasher::new([7; 16]).secret(), [7; 16]);
    /// ```
    pub const fn secret(&self) -> [u8; 16] {
        self.secret
    }

    /// The hash of an identifier, as stores keep it.
    pub fn hash(&self, identifier: impl AsRef<[u8]>) -> String {
        String::from_utf8_lossy(&self.bytes(identifier.as_ref())).into_owned()
    }

    /// The first 64 bits of the hash.
    ///
    /// ```
    /// # use tidegate::KeyHasher;
    /// let hasher = KeyHasher::new([7; 16]);
    /// assert_eq!(hasher.hash("user-42")[1..17], format!("{:016x}", hasher.short_hash("user-42")));
    /// ```
    pub fn short_hash(&self, identifier: impl AsRef<[u8]>) -> u64 {
        u64::try_from(self.number(identifier.as_ref()) >> 64).unwrap_or(u64::MAX)
    }

    /// Whether a text is a hash, as [`hash`](Self::hash) writes it.
    ///
    /// ```
    /// # use tidegate::KeyHasher;
    /// assert!(KeyHasher::is_hash(KeyHasher::new([7; 16]).hash("user-42").as_bytes()));
    /// assert!(!KeyHasher::is_hash(b"#42") && !KeyHasher::is_hash(b"user-42"));
    /// ```
    pub fn is_hash(text: &[u8]) -> bool {
        let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.len() == HASHED_BYTES && text[0] == b'#' && text[1..].iter().all(digit)
    }

    pub(crate) fn bytes(&self, identifier: &[u8]) -> [u8; HASHED_BYTES] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let number = self.number(identifier);
        let digit =
            |place: usize| DIGITS[usize::try_from(number >> (4 * (32 - place)) & 15).unwrap_or(0)];
        std::array::from_fn(|place| if place == 0 { b'#' } else { digit(place) })
    }

    fn number(&self, identifier: &[u8]) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write(identifier);
        hasher.finish128().as_u128()
    }
}

impl fmt::Debug for KeyHasher {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").finish_non_exhaustive()
    }
}

/// A store around a store: identifiers reach the inner one as [hashes](KeyHasher) only. An [engine](crate::Engine) over
/// it keeps [overrides at run time](crate::RunTimeOverrides) under the hash of their key, too, except for networks.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{Engine, HashedKeys, KeyHasher, MemoryStore};
///
/// let store = HashedKeys::new(Arc::new(MemoryStore::default()), KeyHasher::new([7; 16]));
/// let engine = Engine::builder().store(store).policy("api", "5/h").build()?;
/// engine.overrides().set("api", "partner-7", "50/h", None).now()?;
/// assert_eq!(engine.check("api", "partner-7").now()?.decision.limit(), 50);
/// let stored = &engine.overrides().list().now()?[0];
/// assert_eq!(stored.key.len(), 33); // `#` and 32 digits
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HashedKeys {
    inner: Arc<dyn Store>,
    hasher: KeyHasher,
}

impl HashedKeys {
    /// Around a store.
    pub const fn new(inner: Arc<dyn Store>, hasher: KeyHasher) -> Self {
        Self { inner, hasher }
    }

    fn around(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Self { inner, hasher: self.hasher.clone() })
    }

    /// The hashes of some limits' keys, in order.
    fn hashes<'a>(
        &self,
        limits: impl Iterator<Item = &'a KeyedLimit<'a>>,
    ) -> Vec<[u8; HASHED_BYTES]> {
        limits.map(|keyed| self.hasher.bytes(keyed.key)).collect()
    }
}

impl Store for HashedKeys {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        if let [only] = request.limits {
            let key = &self.hasher.bytes(only.key);
            let limits = &[KeyedLimit { key, ..*only }];
            return self.inner.decide(&StoreRequest { limits, ..*request }, now);
        }
        let hashes = self.hashes(request.limits.iter());
        let hashed = request.limits.iter().zip(&hashes);
        let limits: Vec<_> = hashed.map(|(keyed, key)| KeyedLimit { key, ..*keyed }).collect();
        self.inner.decide(&StoreRequest { limits: &limits, ..*request }, now)
    }

    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        let hashes = self.hashes(charges.limits.iter().map(|charge| &charge.keyed));
        let hashed = charges.limits.iter().zip(&hashes);
        let limits: Vec<_> = hashed
            .map(|(charge, key)| LimitCharge {
                keyed: KeyedLimit { key, ..charge.keyed },
                cost: charge.cost,
            })
            .collect();
        self.inner.decide_each(&MultiCharge { limits: &limits, ..*charges }, now)
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        let key = &self.hasher.bytes(request.key);
        self.inner.reserve(&ReserveRequest { key, ..*request }, now)
    }

    fn prefetch(&self, scope: &Scope, key: &[u8]) {
        self.inner.prefetch(scope, &self.hasher.bytes(key));
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        let inner = self.inner.extensions();
        StoreExtensions {
            remote: inner.remote.map(|_| self as &dyn RemoteStore),
            key_hasher: Some(&self.hasher),
            ..inner
        }
    }
}

impl RemoteStore for HashedKeys {
    fn replicated(&self, replicas: Replicas) -> Option<Arc<dyn Store>> {
        let inner = self.inner.extensions().remote?.replicated(replicas)?;
        Some(self.around(inner))
    }

    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        let inner = self.inner.extensions().remote?.within(deadline)?;
        Some(self.around(inner))
    }

    fn deadline(&self) -> Option<Duration> {
        self.inner.extensions().remote?.deadline()
    }
}
