//! Which store, and how it is treated.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate::driver::{MemoryOptions, StoreDriver, StoreDrivers, normalized};
use tidegate::{BreakerOptions, KeyHasher, Policy, deadline};

use super::amount::{size, time};
use super::node::Cursor;
use super::secret::{Secret, SecretSource};
use super::text::{self, StoreOptions};

/// A store that can be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreChoice {
    pub url: SecretSource,
    /// The store of policies with `quorum: true`.
    pub quorum: Option<SecretSource>,
    pub deadline: Duration,
    /// None: it is asked however it fails.
    pub breaker: Option<BreakerOptions>,
    /// None: they are counted.
    pub nodes: Option<NonZeroU32>,
    /// Whether identifiers are hashed before the store has them.
    pub hash_keys: bool,
    /// The secret of the hashes.
    pub hash_key: Option<SecretSource>,
    /// For a store in memory.
    pub memory: MemoryOptions,
    /// How often the snapshot is written.
    pub snapshot_every: Duration,
}

/// How often a snapshot is written by default.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(30);
const SNAPSHOT_BOUNDS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);
/// The smallest cap that the store keeps to, and the largest whose directory is small.
const MAX_BYTES_BOUNDS: RangeInclusive<u64> = 1 << 20..=64 << 30;

/// The keys of a store in memory.
const MEMORY_KEYS: [&str; 3] = ["snapshot", "every", "max_bytes"];
const MEMORY_ONLY: &str = "only for the memory store: this one keeps its counters by itself";

impl StoreChoice {
    pub fn by_url(url: impl Into<String>) -> Self {
        Self {
            url: SecretSource::Given(Secret(url.into())),
            quorum: None,
            deadline: deadline::DEFAULT,
            breaker: Some(BreakerOptions::default()),
            nodes: None,
            hash_keys: false,
            hash_key: None,
            memory: MemoryOptions::default(),
            snapshot_every: SNAPSHOT_EVERY,
        }
    }

    /// The hash of identifiers, if there is a secret for it. Reads its file.
    pub fn hasher(&self) -> Result<Option<KeyHasher>, String> {
        let Some(source) = &self.hash_key else { return Ok(None) };
        let secret = source.read().map_err(|why| format!("store.hash_key_file: {why}"))?;
        let expected = "expected 32 hexadecimal digits, as `openssl rand -hex 16` prints them";
        let hasher = KeyHasher::from_hex(secret.0.trim());
        hasher.map(Some).ok_or_else(|| format!("store.hash_key_file: {source}: {expected}"))
    }

    /// Refuses the options of the memory store for another one: the URL may come from a file or the command line.
    pub fn check_memory(&self, stores: StoreDrivers, url: &str) -> Result<(), String> {
        if self.memory == MemoryOptions::default() || stores.is_local(url) {
            return Ok(());
        }
        Err(format!("store.snapshot, store.max_bytes: {MEMORY_ONLY}"))
    }

    /// Another place, treated the same.
    #[must_use]
    pub fn at(self, url: String) -> Self {
        Self { url: SecretSource::Given(Secret(url)), ..self }
    }
}

/// Checks the choice of a store; what is wrong is noted.
pub(crate) fn store(
    text: Option<&text::Store>,
    stores: StoreDrivers,
    cursor: &Cursor<'_>,
) -> StoreChoice {
    match text {
        None => StoreChoice::by_url("memory:"),
        Some(text::Store::Url(url)) => {
            let checked = cursor.accept(checked(&url.0, stores));
            StoreChoice::by_url(checked.unwrap_or_default())
        }
        Some(text::Store::Map(options)) => with_options(options, stores, cursor),
    }
}

fn with_options(options: &StoreOptions, stores: StoreDrivers, cursor: &Cursor<'_>) -> StoreChoice {
    let mut choice = StoreChoice::by_url("memory:");
    let (given, file) = (options.url.as_ref(), options.url_file.as_ref());
    match SecretSource::choose("url", given, file, cursor) {
        Some(SecretSource::Given(url)) => {
            let url = cursor.field("url").accept(checked(&url.0, stores));
            choice = choice.at(url.unwrap_or_default());
        }
        Some(file) => choice.url = file,
        None => {}
    }
    choice.quorum = quorum(options, stores, cursor);
    let is_local = matches!(&choice.url, SecretSource::Given(url) if stores.is_local(&url.0));
    if is_local && choice.quorum.is_none() {
        let message = "goes with a store over the network: memory answers at once and alone";
        cursor.report_given(&["deadline", "breaker", "nodes"], message);
    }
    let (given, bounds) = (options.deadline.as_ref(), deadline::MIN..=deadline::MAX);
    choice.deadline = time(cursor, "deadline", given, bounds, choice.deadline);
    choice.breaker = match &options.breaker {
        None | Some(text::Breaker::Switch(true)) => Some(BreakerOptions::default()),
        Some(text::Breaker::Switch(false)) => None,
        Some(text::Breaker::Map(options)) => Some(breaker(options, &cursor.field("breaker"))),
    };
    choice.nodes = options.nodes.and_then(NonZeroU32::new);
    choice.hash_keys = options.hash_keys == Some(true);
    let hash_key = options.hash_key_file.as_ref();
    choice.hash_key = SecretSource::in_file("hash_key_file", hash_key, cursor);
    if choice.hash_keys && hash_key.is_none() {
        cursor.field("hash_keys").report(
            "needs `hash_key_file`, a file with 32 hexadecimal digits: `openssl rand -hex 16` makes them",
        );
    }
    if matches!(&choice.url, SecretSource::Given(url) if !stores.is_local(&url.0)) {
        cursor.report_given(&MEMORY_KEYS, MEMORY_ONLY);
        return choice;
    }
    memory(options, cursor, &mut choice);
    choice
}

fn memory(options: &StoreOptions, cursor: &Cursor<'_>, choice: &mut StoreChoice) {
    choice.memory.snapshot = options.snapshot.as_ref().and_then(|file| {
        if file.trim().is_empty() || file.ends_with('/') {
            let expected = "expected a file, as in /var/lib/tidegate/counters";
            return cursor.field("snapshot").reject(expected);
        }
        Some(file.into())
    });
    if options.snapshot.is_none() {
        cursor.report_given(&["every"], "goes with `snapshot`, which names the file to write");
    }
    let (given, usual) = (options.every.as_ref(), choice.snapshot_every);
    choice.snapshot_every = time(cursor, "every", given, SNAPSHOT_BOUNDS, usual);
    let within = |bytes: u64| {
        let bytes = Some(bytes).filter(|bytes| MAX_BYTES_BOUNDS.contains(bytes));
        bytes.ok_or_else(|| "expected 1MiB to 64GiB".to_owned())
    };
    let max_bytes = options.max_bytes.as_ref().map(|given| size(given).and_then(within));
    let max_bytes = max_bytes.and_then(|bytes| cursor.field("max_bytes").accept(bytes));
    choice.memory.max_bytes = max_bytes.and_then(|bytes| usize::try_from(bytes).ok());
}

/// The second store.
fn quorum(
    options: &StoreOptions,
    stores: StoreDrivers,
    cursor: &Cursor<'_>,
) -> Option<SecretSource> {
    let (given, file) = (options.quorum.as_ref(), options.quorum_file.as_ref());
    match SecretSource::choose("quorum", given, file, cursor)? {
        SecretSource::Given(url) => {
            let cursor = cursor.field("quorum");
            let url = cursor.accept(checked(&url.0, stores))?;
            if !is_quorum(&url, stores) {
                return cursor.reject("expected redis+quorum:// with 3, 5, 7 or 9 servers");
            }
            Some(SecretSource::Given(Secret(url)))
        }
        file @ SecretSource::File(_) => Some(file),
    }
}

fn is_quorum(url: &str, stores: StoreDrivers) -> bool {
    stores.find(url).is_ok_and(StoreDriver::is_quorum)
}

fn breaker(text: &text::BreakerOptions, cursor: &Cursor<'_>) -> BreakerOptions {
    let mut options = BreakerOptions::default();
    let any = Duration::ZERO..=Duration::MAX;
    options.slow = time(cursor, "slow", text.slow.as_ref(), any.clone(), options.slow);
    options.window = time(cursor, "window", text.window.as_ref(), any, options.window);
    options.failures = text.failures.unwrap_or(options.failures);
    options.min_calls = text.min_calls.unwrap_or(options.min_calls);
    options.good_probes = text.good_probes.unwrap_or(options.good_probes);
    options
}

/// Reports policies that the store cannot count. A URL in a file is not read here: such a policy then fails at each check.
pub(crate) fn check_policies(
    store: &StoreChoice,
    stores: StoreDrivers,
    policies: &BTreeMap<String, Policy>,
    top: &Cursor<'_>,
) {
    let cursor = top.field("policies");
    if store.quorum.is_some() && !policies.values().any(Policy::is_in_quorum) {
        let unused = "no policy is counted there: write `quorum: true` in those that should be";
        top.field("store").field("quorum").warn(unused);
    }
    let given = |source: &SecretSource| match source {
        SecretSource::Given(url) => Some(url.0.clone()),
        SecretSource::File(_) => None,
    };
    let (main, second) = (given(&store.url), store.quorum.as_ref());
    let counts_one = |url: Option<&String>| {
        let driver = url.and_then(|url| stores.find(url).ok());
        driver.is_some_and(StoreDriver::counts_one_identifier_per_step)
    };
    for (name, policy) in policies {
        // A share is counted where the policy that it shares is.
        let shared = policy.share_of().and_then(|of| policies.get(of));
        let is_in_quorum = policy.is_in_quorum() || shared.is_some_and(Policy::is_in_quorum);
        let in_second = is_in_quorum && second.is_some();
        // A URL in a file may be a quorum's.
        if policy.is_in_quorum()
            && second.is_none()
            && main.as_ref().is_some_and(|url| !is_quorum(url, stores))
        {
            cursor.field(name).field("quorum").report(
                "needs a quorum: give its URL as `store.quorum`, as in redis+quorum://h1,h2,h3",
            );
        }
        // What `store.quorum` names is one, wherever it is written.
        let counts_one = in_second || counts_one(main.as_ref());
        if counts_one && policy.share_of().is_some() {
            cursor.field(name).field("share").report(
                "needs memory, Redis, PostgreSQL or DynamoDB: this store cannot charge a tenant and the limit that it \
                 shares in one step",
            );
        } else if counts_one && policy.counts_several_identifiers() {
            cursor.field(name).report(
                "has limits on several identifiers, which this store cannot change in one step: give them \
                 the same `key`, or use Redis, PostgreSQL or memory",
            );
        }
    }
}

/// The URL as stores know it. Nothing of a bad one is repeated: it may hold a password.
fn checked(url: &str, stores: StoreDrivers) -> Result<String, String> {
    stores.check(url).map(|()| normalized(url).to_owned())
}
