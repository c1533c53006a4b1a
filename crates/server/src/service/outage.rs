//! Outages of the stores, as the dashboard and `/v1/status` show them.

use std::time::Duration;

use serde::Serialize;
use tidegate::{Clock, OnStoreError, SystemClock};

use super::AppState;
use crate::metrics::StoreRole;
use tidegate_core::text::{printable, rfc3339};

/// The most policies that are named for each fallback.
const NAMES_MAX: usize = 20;

/// The most policies that a log line names for each fallback.
const LOGGED_NAMES_MAX: usize = 10;

#[derive(Debug, Serialize)]
pub(crate) struct OutageView {
    /// `store` or `quorum`: which of the stores of the configuration.
    store: &'static str,
    /// Its URL without secrets.
    url: String,
    /// When the first check failed, or the first poll if there were no checks: in RFC 3339.
    since: String,
    duration_ms: u64,
    /// The kind of the last real error.
    kind: &'static str,
    /// The last real error: what the breaker's probes meet, not that the breaker is open.
    error: String,
    /// What the policies that it touches do meanwhile.
    policies: Fallbacks,
}

/// Policies by their `on_store_error`. A policy in shadow mode allows in any case.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Fallbacks {
    pub(crate) deny: Names,
    pub(crate) allow: Names,
    pub(crate) local: Names,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Names {
    pub(crate) count: usize,
    /// The first ones.
    pub(crate) names: Vec<String>,
}

impl Names {
    pub(crate) fn add(&mut self, name: &str) {
        self.count += 1;
        if self.names.len() < NAMES_MAX {
            self.names.push(printable(name));
        }
    }

    /// For a log line: `a, b and 3 more`; `None` if there are none.
    pub(crate) fn listed(&self) -> Option<String> {
        let shown = &self.names[..self.names.len().min(LOGGED_NAMES_MAX)];
        let more = self.count - shown.len();
        let names = shown.join(", ");
        match more {
            _ if self.count == 0 => None,
            0 => Some(names),
            more => Some(format!("{names} and {more} more")),
        }
    }
}

impl Fallbacks {
    /// The policies that a store counts, and whose states matter for at least this long.
    pub(crate) fn of_store(app: &AppState, role: StoreRole, lives_from: Duration) -> Self {
        let mut all = Self::default();
        let in_force = app.in_force();
        for policy in in_force.policies() {
            let is_elsewhere = app.metrics().role_of(policy.is_in_quorum()) != role;
            if is_elsewhere || policy.state_life_max() < lives_from {
                continue;
            }
            let these = match policy.on_store_error() {
                OnStoreError::Deny { .. } if !policy.is_shadow() => &mut all.deny,
                OnStoreError::Local => &mut all.local,
                _ => &mut all.allow,
            };
            these.add(policy.name());
        }
        all
    }
}

impl OutageView {
    /// One for each store that does not serve now.
    pub(crate) fn all(app: &AppState) -> Vec<Self> {
        StoreRole::ALL.iter().filter_map(|role| Self::now(app, *role)).collect()
    }

    fn now(app: &AppState, role: StoreRole) -> Option<Self> {
        let outage = app.metrics().outage(role)?;
        let lasting_us = SystemClock.now().as_micros().saturating_sub(outage.since.as_micros());
        Some(Self {
            store: role.as_str(),
            url: outage.url.to_string(),
            since: rfc3339(outage.since),
            duration_ms: lasting_us / 1000,
            kind: outage.kind().as_str(),
            error: outage.text(),
            policies: Fallbacks::of_store(app, role, outage.lives_from),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_ten_policies_and_counts_the_rest() {
        let listed = |count: usize| {
            let mut names = Names::default();
            (1..=count).for_each(|number| names.add(&format!("p{number}")));
            names.listed().unwrap_or_default()
        };
        assert_eq!([listed(0), listed(1), listed(2)], ["", "p1", "p1, p2"]);
        assert!(listed(10).ends_with("p9, p10"), "{}", listed(10));
        assert!(listed(11).ends_with("p9, p10 and 1 more"), "{}", listed(11));
        assert!(listed(2000).ends_with("p9, p10 and 1990 more"), "{}", listed(2000));
    }
}
