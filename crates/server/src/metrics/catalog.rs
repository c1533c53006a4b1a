//! Every metric there is, once: its name, what kind it is, its labels and what it says. The page and docs/metrics.md are
//! both written from here.

/// Samples of one name.
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
        "Checks by policy and how they ended: allowed, denied, shadow_denied (allowed, because the policy is only tried out) or error (no answer, or the store failed and the policy then admits nothing).";
    DECISIONS: Counter "tidegate_decisions_total" ["policy", "source"]
        "Checks by policy and who decided: store, lease, deny-cache, or while the store fails local, fail-open, fail-closed.";
    CHECK_DURATION: Histogram "tidegate_check_duration_seconds" ["door"]
        "Time from a request that was read to its answer, by door.";
    CONNECTIONS: Gauge "tidegate_connections" ["door"]
        "Connections that are open, by door.";
    CONNECTIONS_TOTAL: Counter "tidegate_connections_total" ["door"]
        "Connections that were accepted, by door.";
    STORE_ERRORS: Counter "tidegate_store_errors_total" ["kind"]
        "Checks that the store should have decided and did not, by what was wrong.";
    UPSTREAM_REQUESTS: Counter "tidegate_upstream_requests_total" ["upstream", "status"]
        "Requests that the proxy passed on, by upstream and how they ended: 1xx to 5xx, or without an answer unreached, timeout, broken, or abandoned by the client.";
    UPSTREAM_DURATION: Histogram "tidegate_upstream_duration_seconds" ["upstream"]
        "Time from a request that was passed on to the head of its answer, by upstream.";
    UPSTREAM_UP: Gauge "tidegate_upstream_up" ["upstream"]
        "Whether an upstream gets requests: 0 while it is left alone.";
    UPSTREAM_UNDER_WAY: Gauge "tidegate_upstream_under_way" ["upstream"]
        "Requests that an upstream has not finished.";
    UPSTREAM_IDLE: Gauge "tidegate_upstream_idle_connections" ["upstream"]
        "Connections to an upstream that are kept for later.";
    SHED: Counter "tidegate_proxy_shed_total" ["reason"]
        "Requests that the proxy turned away because there was too much to do, by the setting that bounds it: in_flight, max_requests or max_waiting.";
    URL_COUNT: Gauge "request_count_by_url" ["url"]
        "Requests that the proxy passed on in the last minute, by path, for the hundred that were asked for most; paths beyond ten thousand are other.";
    URL_MEAN: Gauge "request_resp_avg_by_url" ["url"]
        "Mean time in milliseconds from such a request to the head of its answer; those that still wait count with their age.";
    BREAKER_STATE: Gauge "tidegate_breaker_state" []
        "Whether the store is asked: 0 closed (as ever), 1 probing, 2 open (left alone).";
    BREAKER_OPENED: Counter "tidegate_breaker_opened_total" []
        "How often the breaker has opened.";
    LUA_DURATION: Histogram "redis_lua_duration_seconds" []
        "Time of a script call, from when it left until its reply was read. Several checks may share a call.";
    NOSCRIPT: Counter "tidegate_noscript_total" []
        "Script calls that found the script gone from Redis, and went again with its source.";
    UNREPLICATED: Counter "tidegate_unreplicated_total" []
        "Charges that too few replicas had confirmed in time.";
    REDIS_QUESTIONS: Counter "tidegate_redis_questions_total" []
        "Questions that were written to Redis.";
    REDIS_CALLS: Counter "tidegate_redis_calls_total" []
        "Script calls that they left in.";
    REDIS_RETRIES: Counter "tidegate_redis_retries_total" []
        "Questions that went again, because they had certainly not run.";
    REDIS_TIMEOUTS: Counter "tidegate_redis_timeouts_total" []
        "Questions whose deadline passed: after they were written, or before.";
    REDIS_CONNECTS: Counter "tidegate_redis_connects_total" ["result"]
        "Attempts to connect to Redis.";
    REDIS_DISCONNECTS: Counter "tidegate_redis_disconnects_total" []
        "Connections to Redis that were lost or given up.";
    REDIS_REFRESHES: Counter "tidegate_redis_refreshes_total" []
        "Times that a cluster or a sentinel was asked who serves.";
    KEYS: Gauge "tidegate_keys" []
        "Keys with a state in memory, one per limit. Only where the store is in memory.";
    MEMORY_BYTES: Gauge "tidegate_memory_bytes" []
        "Memory that those keys take.";
    GIVEN_UP: Counter "tidegate_keys_given_up_total" []
        "Keys dropped before they were idle, because the byte cap left no other choice.";
    LEASES_KEYS: Gauge "tidegate_leases_keys" []
        "Keys that units are taken ahead for.";
    LEASES_REQUESTS: Counter "tidegate_leases_requests_total" []
        "Requests for units.";
    LEASES_GRANTED: Counter "tidegate_leases_granted_units_total" []
        "Units that the store has granted.";
    LEASES_RETURNED: Counter "tidegate_leases_returned_units_total" []
        "Units that were given back.";
    LEASES_DECIDED: Counter "tidegate_leases_decided_total" []
        "Checks decided by what was taken ahead.";
    PRESSURE: Gauge "rate_limit_pressure_factor" ["target"]
        "How much too much it is for what limits follow, from 0 (well) to 1; or what an operator has said. At most 900 targets of the configuration, and 256 of operators.";
    EFFECTIVE: Gauge "rate_limit_effective_limit" ["policy"]
        "What is in force of limits that follow the load, in their own unit; of those that follow URLs, for the slowest one. One of several limits of a policy is told as policy/limit.";
    DOWNSTREAM_P99: Gauge "downstream_latency_p99" ["target"]
        "Seconds within which 99 of 100 responses of a target came in the last minute, at most a quarter too much. At most 256 targets.";
    RELOADS: Counter "tidegate_config_reload_total" ["result"]
        "Times that the configuration was read again: ok if it is in force, error if it was refused whole.";
    RELOAD_REFUSED: Gauge "tidegate_config_refused" []
        "1 while the file is one that was refused, and an older configuration is in force; else 0.";
    LOG_LINES_DROPPED: Counter "tidegate_log_unsaid_total" ["event"]
        "Lines that were not written, because there were too many of their kind: refused, or decided without the store.";
    BUILD: Gauge "tidegate_build_info" ["version"]
        "Always 1; the label says what runs.";
    CPU: Counter "process_cpu_seconds_total" []
        "Processor time of user and system.";
    RESIDENT: Gauge "process_resident_memory_bytes" []
        "Memory that is in use.";
    OPEN_FDS: Gauge "process_open_fds" []
        "File descriptors that are open.";
    MAX_FDS: Gauge "process_max_fds" []
        "File descriptors that may be open.";
    START: Gauge "process_start_time_seconds" []
        "When the process started, since 1970.";
    THREADS: Gauge "process_threads" []
        "Threads of the process.";
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use super::*;

    /// Set to write the page anew instead of comparing it.
    const UPDATE: &str = "UPDATE_DOCS";

    fn page() -> String {
        let mut page = String::from(
            "# Metrics\n\n\
             What `GET /metrics` tells Prometheus. This page is written from the code: \
             `UPDATE_DOCS=1 cargo test -p tidegate-server docs`.\n\n\
             Labels are bounded: `policy` is a name of the configuration, `(unknown)` for all that are none, \
             `(request)` where the limit came with a command of the Redis protocol, or `DOMAIN//override` where Envoy \
             sent it; never a key. Peeks, refunds and resets decide nothing, and are not counted; but for a descriptor \
             of Envoy that only looks, and refuses the whole request.\n\n\
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
    fn the_page_in_docs_is_what_the_code_says() {
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
    fn names_are_as_prometheus_wants_them() {
        for Family { name, kind, help, .. } in ALL {
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert!(help.ends_with('.') && !help.contains(['\n', '\\', '|']), "{help}");
            assert_eq!(ALL.iter().filter(|other| other.name == *name).count(), 1, "{name}");
        }
    }
}
