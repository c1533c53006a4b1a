//! Keys as 64 bits: a keyed hash, so that nobody outside can choose keys that collide.

use std::hash::{BuildHasher, Hasher, RandomState};

use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};

use super::Scope;

#[derive(Debug)]
pub(crate) struct Fingerprints {
    pub(crate) seed: u64,
    secrets: RapidSecrets,
}

impl Fingerprints {
    /// With a seed of its own, from the operating system's randomness.
    pub(crate) fn random() -> Self {
        Self::from_seed(RandomState::new().hash_one(0_u64))
    }

    pub(crate) fn from_seed(seed: u64) -> Self {
        Self { seed, secrets: RapidSecrets::seed(seed) }
    }

    #[inline]
    pub(crate) fn hash(&self, scope: &Scope, key: &[u8]) -> u64 {
        self.hash_key(key) ^ scope.hash
    }

    /// A key that belongs to no scope.
    #[inline]
    pub(crate) fn hash_key(&self, key: &[u8]) -> u64 {
        // rapidhash V3 is a published function that stays as it is, so that a snapshot can be read by a later
        // version. The `true`s: full avalanche, and its variant against chosen inputs.
        rapidhash_v3_nano_inline::<true, true>(key, &self.secrets)
    }
}

/// For tables whose keys are fingerprints already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
