//! Stores that this build may lack: their URLs are known, and name the feature to switch on.
#![allow(dead_code, reason = "each build lacks other stores, and most lack none")]

use tidegate::driver::{OpenStore, StoreDriver, StoreOptions};
use tidegate::{StoreError, StoreErrorKind};

pub(crate) const REDIS: MissingStore = MissingStore {
    schemes: &[
        "redis://",
        "rediss://",
        "redis+unix://",
        "redis+cluster://",
        "rediss+cluster://",
        "redis+sentinel://",
        "rediss+sentinel://",
    ],
    feature: "redis",
};

pub(crate) const POSTGRES: MissingStore =
    MissingStore { schemes: &["postgres://", "postgresql://"], feature: "postgres" };

pub(crate) const MEMCACHED: MissingStore =
    MissingStore { schemes: &["memcached://"], feature: "memcached" };

pub(crate) const DYNAMODB: MissingStore =
    MissingStore { schemes: &["dynamodb://"], feature: "dynamodb" };

pub(crate) const QUORUM: MissingStore =
    MissingStore { schemes: &["redis+quorum://", "rediss+quorum://"], feature: "quorum" };

/// A store that was not compiled in.
#[derive(Debug)]
pub(crate) struct MissingStore {
    schemes: &'static [&'static str],
    /// Of this package.
    feature: &'static str,
}

impl MissingStore {
    fn error(&self) -> StoreError {
        let feature = self.feature;
        let why = format!(
            "this tidegate was built without {feature}: `cargo install --path crates/cli --features {feature}` builds one with it"
        );
        StoreError::new(StoreErrorKind::BadRequest, why)
    }
}

impl StoreDriver for MissingStore {
    fn schemes(&self) -> &'static [&'static str] {
        self.schemes
    }

    fn check(&self, _: &str) -> Result<(), StoreError> {
        Err(self.error())
    }

    fn open(&self, _: &str, _: &StoreOptions) -> Result<OpenStore, StoreError> {
        Err(self.error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_store_names_its_feature_and_nothing_of_the_url() {
        for (store, feature) in [
            (REDIS, "redis"),
            (POSTGRES, "postgres"),
            (MEMCACHED, "memcached"),
            (DYNAMODB, "dynamodb"),
            (QUORUM, "quorum"),
        ] {
            let error = store.check("redis://:secret@h").unwrap_err().to_string();
            assert!(error.contains(&format!("--features {feature}")), "{error}");
            assert!(!error.contains("secret"), "{error}");
            assert!(store.open("redis://:secret@h", &StoreOptions::default()).is_err());
        }
    }

    #[cfg(all(
        feature = "dynamodb",
        feature = "memcached",
        feature = "postgres",
        feature = "quorum",
        feature = "redis"
    ))]
    #[test]
    fn the_schemes_are_those_of_the_stores() {
        assert_eq!(REDIS.schemes, tidegate_redis::RedisDriver.schemes());
        assert_eq!(POSTGRES.schemes, tidegate_postgres::PostgresDriver.schemes());
        assert_eq!(MEMCACHED.schemes, tidegate_memcached::MemcachedDriver.schemes());
        assert_eq!(QUORUM.schemes, tidegate_quorum::QuorumDriver.schemes());
        assert_eq!(DYNAMODB.schemes, tidegate_dynamodb::DynamoDbDriver.schemes());
    }
}
