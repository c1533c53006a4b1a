//! The store: items spread over servers, each of which is a store of its own.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate::Decision;
use tidegate::driver::{OpenStore, StoreMonitor, StoreReport};
use tidegate::{
    Changed, Coordination, MultiCharge, OverrideChange, OverrideStore, OverrideTable,
    ReadingReport, RemoteStore, Reply, ReserveReply, ReserveRequest, Scope, StateUpdate, Store,
    StoreError, StoreErrorKind, StoreExtensions, StoreReply, StoreRequest, StoreResult,
    TickReadings, Timestamp,
};

use crate::ring::Ring;

/// State in memcached, shared by all processes that name the same servers with the same prefix.
///
/// memcached forgets: what it evicts and what was on a server that restarts is spent no more.
#[derive(Clone, Debug)]
pub struct MemcachedStore {
    servers: Arc<[OpenStore]>,
    /// The same servers with another deadline, if there is one.
    within: Option<Arc<[Arc<dyn Store>]>>,
    ring: Arc<Ring>,
}

/// Where overrides, readings and the count of nodes are.
pub(crate) const RECORDS: &[&[u8]] = &[b"records"];

impl MemcachedStore {
    pub(crate) fn new(servers: Vec<OpenStore>, ring: Ring) -> Self {
        Self { servers: servers.into(), within: None, ring: Arc::new(ring) }
    }

    fn server(&self, parts: &[&[u8]]) -> &dyn Store {
        let number = self.ring.server(parts);
        match &self.within {
            Some(within) => &*within[number],
            None => &*self.servers[number].store,
        }
    }

    /// The server that keeps a policy's limits on one identifier.
    fn server_of(&self, scope: &Scope, key: &[u8]) -> &dyn Store {
        self.server(&[scope.policy().as_bytes(), key])
    }

    fn records(&self) -> StoreExtensions<'_> {
        self.server(RECORDS).extensions()
    }
}

fn apart<T: Send>() -> StoreResult<T> {
    let why = "memcached changes one item in one step: all limits of a policy need the same key";
    Reply::failed(StoreError::new(StoreErrorKind::Apart, why))
}

impl Store for MemcachedStore {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        // Without a limit it makes no sense to any server.
        let Some(first) = request.limits.first() else {
            return self.server(RECORDS).decide(request, now);
        };
        if request.limits.iter().any(|other| other.key != first.key) {
            return apart();
        }
        self.server_of(first.scope, first.key).decide(request, now)
    }

    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        let Some(first) = charges.limits.first().map(|charge| charge.keyed) else {
            return self.server(RECORDS).decide_each(charges, now);
        };
        let is_apart = |keyed: tidegate::KeyedLimit<'_>| {
            keyed.key != first.key || keyed.scope.policy() != first.scope.policy()
        };
        if charges.limits.iter().any(|charge| is_apart(charge.keyed)) {
            return apart();
        }
        self.server_of(first.scope, first.key).decide_each(charges, now)
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.server_of(request.scope, request.key).reserve(request, now)
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions {
            overrides: Some(self),
            coordination: Some(self),
            remote: Some(self),
            key_hasher: None,
        }
    }
}

impl RemoteStore for MemcachedStore {
    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        let within = |server: &OpenStore| server.store.extensions().remote?.within(deadline);
        let within = self.servers.iter().map(within).collect::<Option<Arc<[_]>>>()?;
        Some(Arc::new(Self { within: Some(within), ..self.clone() }))
    }

    fn deadline(&self) -> Option<Duration> {
        self.server(RECORDS).extensions().remote?.deadline()
    }
}

impl OverrideStore for MemcachedStore {
    fn overrides(&self, known: u64, now: Timestamp) -> StoreResult<Option<OverrideTable>> {
        self.records().overrides(known, now)
    }

    fn change_override(&self, change: &OverrideChange<'_>, now: Timestamp) -> StoreResult<Changed> {
        self.records().change_override(change, now)
    }
}

impl Coordination for MemcachedStore {
    fn report_reading(
        &self,
        report: &ReadingReport<'_>,
        now: Timestamp,
    ) -> StoreResult<TickReadings> {
        self.records().report_reading(report, now)
    }

    fn keep_state(&self, update: &StateUpdate<'_>, now: Timestamp) -> StoreResult<bool> {
        self.records().keep_state(update, now)
    }

    fn nodes(&self) -> Option<NonZeroU32> {
        self.records().nodes()
    }
}

impl StoreMonitor for MemcachedStore {
    /// All servers together; of their breakers the worst.
    fn report(&self) -> StoreReport {
        let reports = self.servers.iter().map(OpenStore::report);
        reports.fold(StoreReport::default(), |all, one| all.plus(&one))
    }

    fn cause(&self) -> Option<StoreError> {
        self.servers.iter().find_map(OpenStore::cause)
    }
}
