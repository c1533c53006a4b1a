//! The list of all metrics: name, kind, labels and help. The page and docs/metrics.md are generated from it.

/// The samples of one name.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

macro_rules! families {
    ($($id:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $id: Family =
            Family { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*

        #[cfg(any(test, feature = "otlp"))]
        pub(super) const ALL: &[Family] = &[$($id),*];
    };
}

families! {
    REQUESTS: Counter "rate_limit_requests_total" ["policy", "status"]
        "Checks by policy and outcome: allowed, denied, shadow_denied (over the limit, allowed because the policy is in shadow mode) or error (no decision, or the store failed and the policy denies then).";
    DECISIONS: Counter "tidegate_decisions_total" ["policy", "source"]
        "Checks by policy and what decided: store, lease, deny-cache; local, fail-open or fail-closed while the store fails.";
    CHECK_DURATION: Histogram "tidegate_check_duration_seconds" ["door"]
        "Time from reading a request to its answer, by door.";
    CONNECTIONS: Gauge "tidegate_connections" ["door"]
        "Open connections, by door.";
    CONNECTIONS_TOTAL: Counter "tidegate_connections_total" ["door"]
        "Accepted connections, by door.";
    CONNECTIONS_REFUSED: Counter "tidegate_connections_refused_total" ["door"]
        "Connections closed because their client had as many as per_client allows.";
    AUTH_FAILURES: Counter "tidegate_auth_failures_total" ["door"]
        "Wrong passwords (resp) and wrong tokens of admin calls (http).";
    BAD_TOKENS: Counter "tidegate_jwt_rejected_total" ["reason"]
        "JSON Web Tokens of requests that counted as none: too_long (above 8 KiB), malformed, algorithm (not among jwt.algorithms, or none), unknown_key (no key of that name for the algorithm), signature, expired, not_yet_valid, issuer or audience. Only those that a key or a plan asks for are looked at.";
    STORE_ERRORS: Counter "tidegate_store_errors_total" ["kind"]
        "Checks that the store failed to decide, by kind of error.";
    STORE_OUTAGE: Gauge "tidegate_store_outage" ["store", "kind"]
        "1 while a store does not serve, for the kind of its last real error; breaker-open here means that it is too slow, recovering that too many servers of a quorum have lost their data for some policies. Otherwise 0. The store is store or, if the configuration has a second one, quorum.";
    QUORUM_SERVERS: Gauge "tidegate_quorum_servers" ["state"]
        "Servers of the quorum by state, as this instance sees them: serving; recovering (it has lost its data, and does not count for every policy yet) or away (it does not answer). Only with a quorum.";
    UPSTREAM_REQUESTS: Counter "tidegate_upstream_requests_total" ["upstream", "status"]
        "Requests forwarded by the proxy, by upstream and outcome: status class 1xx to 5xx; without a response unreached (no connection), timeout, broken (connection or response), or abandoned (client disconnected).";
    UPSTREAM_DURATION: Histogram "tidegate_upstream_duration_seconds" ["upstream"]
        "Time from forwarding a request to the head of its response, by upstream.";
    UPSTREAM_UP: Gauge "tidegate_upstream_up" ["upstream"]
        "1 if the upstream gets requests, 0 while it is ejected.";
    UPSTREAM_UNDER_WAY: Gauge "tidegate_upstream_under_way" ["upstream"]
        "Requests in flight to an upstream.";
    UPSTREAM_IDLE: Gauge "tidegate_upstream_idle_connections" ["upstream"]
        "Idle connections to an upstream.";
    SHED: Counter "tidegate_proxy_shed_total" ["reason"]
        "Requests refused by the proxy because of overload, by the bound that was reached: in_flight (of an adaptive policy), proxy.in_flight, max_requests, max_waiting or per_client.";
    PLACES: Gauge "tidegate_proxy_places" ["state"]
        "Places of proxy.in_flight that this node holds: in_use by requests at the upstreams, and spare for a moment.";
    PLACES_MAX: Gauge "tidegate_proxy_places_max" []
        "The max of proxy.in_flight: of this node, or with scope fleet of all nodes together.";
    PLACES_LOCAL: Gauge "tidegate_proxy_places_local" []
        "1 while the store fails and this node goes by its share of proxy.in_flight, otherwise 0.";
    URL_COUNT: Gauge "request_count_by_url" ["url"]
        "Requests forwarded by the proxy in the last minute, by path, for the 100 busiest paths; paths beyond 10,000 count as other.";
    URL_MEAN: Gauge "request_resp_avg_by_url" ["url"]
        "Mean time in milliseconds from such a request to the head of its response; requests still waiting count with their age.";
    BREAKER_STATE: Gauge "tidegate_breaker_state" []
        "State of the store's circuit breaker: 0 closed (normal), 1 probing, 2 open (the store is not called).";
    BREAKER_OPENED: Counter "tidegate_breaker_opened_total" []
        "Times that the breaker opened.";
    LUA_DURATION: Histogram "redis_lua_duration_seconds" []
        "Time of a Redis script call, from sending it to reading its reply. Several checks may share a call.";
    NOSCRIPT: Counter "tidegate_noscript_total" []
        "Script calls repeated with the source, because Redis no longer had the script.";
    UNREPLICATED: Counter "tidegate_unreplicated_total" []
        "Charges that too few replicas confirmed in time.";
    REDIS_QUESTIONS: Counter "tidegate_redis_questions_total" []
        "Store requests written to Redis.";
    REDIS_CALLS: Counter "tidegate_redis_calls_total" []
        "Script calls that carried those requests.";
    REDIS_RETRIES: Counter "tidegate_redis_retries_total" []
        "Store requests retried because they certainly had not run.";
    REDIS_TIMEOUTS: Counter "tidegate_redis_timeouts_total" []
        "Store requests whose deadline passed, before or after they were written.";
    REDIS_CONNECTS: Counter "tidegate_redis_connects_total" ["result"]
        "Attempts to connect to Redis.";
    REDIS_DISCONNECTS: Counter "tidegate_redis_disconnects_total" []
        "Connections to Redis that were lost or closed after a failure.";
    REDIS_REFRESHES: Counter "tidegate_redis_refreshes_total" []
        "Topology refreshes from a cluster or a sentinel.";
    STORE_DURATION: Histogram "tidegate_store_call_duration_seconds" []
        "Time of a call to PostgreSQL, memcached or DynamoDB: a read or a write of a batch. Several checks may share a call.";
    STORE_QUESTIONS: Counter "tidegate_store_questions_total" []
        "Store requests to PostgreSQL, memcached or DynamoDB.";
    STORE_CALLS: Counter "tidegate_store_calls_total" []
        "Calls that carried those requests: a read and, if something changed, a write per batch.";
    STORE_CONFLICTS: Counter "tidegate_store_conflicts_total" []
        "Decisions made again because another node had changed the key meanwhile.";
    STORE_TIMEOUTS: Counter "tidegate_store_timeouts_total" []
        "Store requests whose deadline passed.";
    STORE_CONNECTS: Counter "tidegate_store_connects_total" ["result"]
        "Attempts to connect to PostgreSQL, memcached or DynamoDB.";
    STORE_DISCONNECTS: Counter "tidegate_store_disconnects_total" []
        "Connections to PostgreSQL, memcached or DynamoDB that were lost or closed after a failure.";
    KEYS: Gauge "tidegate_keys" []
        "Keys in the memory store, one per limit. Only with the memory store.";
    MEMORY_BYTES: Gauge "tidegate_memory_bytes" []
        "Memory used by those keys.";
    GIVEN_UP: Counter "tidegate_keys_given_up_total" []
        "Keys evicted before they were idle, because the byte cap was reached.";
    SNAPSHOTS: Counter "tidegate_snapshots_total" ["result"]
        "Snapshots of the memory store: ok if written, error if not (the one before stays), unreadable if the file of the start was renamed and every counter began at zero. Only with store.snapshot.";
    SNAPSHOT_TIME: Gauge "tidegate_snapshot_timestamp_seconds" []
        "When the last snapshot was written, in seconds since 1970; 0 before the first.";
    LEASES_KEYS: Gauge "tidegate_leases_keys" []
        "Keys with a lease.";
    LEASES_REQUESTS: Counter "tidegate_leases_requests_total" []
        "Lease requests to the store.";
    LEASES_GRANTED: Counter "tidegate_leases_granted_units_total" []
        "Units granted to leases.";
    LEASES_RETURNED: Counter "tidegate_leases_returned_units_total" []
        "Units returned from leases.";
    LEASES_DECIDED: Counter "tidegate_leases_decided_total" []
        "Checks decided from a lease.";
    PRESSURE: Gauge "rate_limit_pressure_factor" ["target"]
        "Load pressure of each target: 0 healthy, 1 overloaded; or the value set by an operator. At most 900 targets of the configuration and 256 of operators.";
    SIGNAL_FAILING: Gauge "tidegate_signal_failing" ["target", "signal"]
        "1 while a probe or query that an adaptive limit follows has no usable answer, otherwise 0. The signal is the name of its chain.";
    EFFECTIVE: Gauge "rate_limit_effective_limit" ["policy"]
        "Units in force of each adaptive limit; for limits by URL, of the slowest URL. The label is policy/limit if the policy has several limits.";
    SHARE_TENANTS: Gauge "tidegate_share_tenants" ["policy"]
        "Tenants that asked this instance within the last second and are told apart, for each policy with a share. At most 1,000.";
    SHARE_CONTENDED: Gauge "tidegate_share_contended" ["policy"]
        "1 while the tenants of a share ask for more than the limit that they share, otherwise 0.";
    SHARE_LEVEL: Gauge "tidegate_share_level" ["policy"]
        "The part of a shared limit that a tenant of weight 1 may use: 1 unless tenants contend for it.";
    DOWNSTREAM_P99: Gauge "downstream_latency_p99" ["target"]
        "99th percentile latency of a target over the last minute in seconds, at most a quarter too high. At most 256 targets.";
    RELOADS: Counter "tidegate_config_reload_total" ["result"]
        "Configuration reloads: ok if the new configuration is in force, error if it was refused.";
    RELOAD_REFUSED: Gauge "tidegate_config_refused" []
        "1 while the configuration file was refused and an older configuration is in force, otherwise 0.";
    LOG_LINES_DROPPED: Counter "tidegate_log_lines_dropped_total" ["event"]
        "Log lines dropped by the rate limit of their kind: refused, without-store (decided without the store), wrong-secret, per-client, fast-url (refused although its responses are fast) or loop (a request that came back to the proxy).";
    BUILD: Gauge "tidegate_build_info" ["version"]
        "Always 1; the label is the running version.";
    CPU: Counter "process_cpu_seconds_total" []
        "User and system CPU time.";
    RESIDENT: Gauge "process_resident_memory_bytes" []
        "Resident memory.";
    OPEN_FDS: Gauge "process_open_fds" []
        "Open file descriptors.";
    MAX_FDS: Gauge "process_max_fds" []
        "Limit of open file descriptors.";
    START: Gauge "process_start_time_seconds" []
        "Start time of the process, in seconds since 1970.";
    THREADS: Gauge "process_threads" []
        "Threads of the process.";
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use super::*;

    /// If set, the page is written instead of compared.
    const UPDATE: &str = "UPDATE_DOCS";

    fn page() -> String {
        let mut page = String::from(
            "# Metrics\n\n\
             The metrics of `GET /metrics`. This page is generated from the code: \
             `UPDATE_DOCS=1 cargo test -p tidegate-server docs`.\n\n\
             Labels are bounded and never contain a key: `policy` is a name of the configuration, `(unknown)` for all \
             other names, `(request)` if the limit came with a command of the Redis protocol, or `DOMAIN//override` if \
             Envoy sent it. Peeks, refunds and resets are not counted, except a peek of an Envoy descriptor that \
             refuses the whole request.\n\n\
             | name | kind | labels | |\n|---|---|---|---|\n",
        );
        for Family { name, kind, labels, help } in ALL {
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            let (kind, labels) = (kind.as_str(), labels.join(", "));
            let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {help} |");
        }
        page
    }

    #[test]
    fn the_docs_page_matches_the_code() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == page(),
            "docs/metrics.md is stale: set {UPDATE}=1 and run this test again"
        );
    }

    #[test]
    fn names_follow_prometheus_conventions() {
        for Family { name, kind, help, .. } in ALL {
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert!(help.ends_with('.') && !help.contains(['\n', '\\', '|']), "{help}");
            assert_eq!(ALL.iter().filter(|other| other.name == *name).count(), 1, "{name}");
        }
    }
}
