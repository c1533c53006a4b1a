//! The store's outage, as the dashboard and `/v1/status` show it.

use serde::Serialize;
use tidegate::OnStoreError;

use super::AppState;
use tidegate_core::text::printable;

/// The most policies that are named for each fallback.
const NAMES_MAX: usize = 20;

#[derive(Debug, Serialize)]
pub(crate) struct OutageView {
    /// In milliseconds since 1970.
    since_ms: u64,
    /// The kind of the last real error.
    kind: &'static str,
    /// The last real error: what the breaker's probes meet, not that the breaker is open.
    error: String,
    /// What policies do meanwhile.
    policies: Fallbacks,
}

/// The policies by their `on_store_error`. A policy in shadow mode allows in any case.
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
    fn add(&mut self, name: &str) {
        self.count += 1;
        if self.names.len() < NAMES_MAX {
            self.names.push(printable(name));
        }
    }
}

impl Fallbacks {
    pub(crate) fn in_force(app: &AppState) -> Self {
        let mut all = Self::default();
        for policy in app.in_force().policies() {
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
    /// `None` while the store serves.
    pub(crate) fn now(app: &AppState) -> Option<Self> {
        let outage = app.metrics().outage()?;
        Some(Self {
            since_ms: outage.since.as_micros() / 1000,
            kind: outage.kind().as_str(),
            error: outage.text(),
            policies: Fallbacks::in_force(app),
        })
    }
}
