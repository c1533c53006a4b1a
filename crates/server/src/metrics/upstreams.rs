//! Metrics of the upstreams of the proxy.

use http::StatusCode;
use serde::Serialize;
use tidegate_core::adaptive::UrlSummary;

use super::catalog;
use super::histogram::{DurationHistogram, LONG_BOUNDS_NS};
use super::render::seconds;
use super::sink::Sink;
use super::striped::StripedCounters;

/// Classes of statuses, `1xx` to `5xx`.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Why an upstream gave no response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UpstreamError {
    Unreached,
    Timeout,
    /// The connection broke, or the response was invalid.
    Broken,
    /// The client disconnected.
    Abandoned,
}

impl UpstreamError {
    const ALL: [Self; 4] = [Self::Unreached, Self::Timeout, Self::Broken, Self::Abandoned];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Unreached => "unreached",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
            Self::Abandoned => "abandoned",
        }
    }
}

/// The counts of one upstream.
#[derive(Debug)]
pub(crate) struct UpstreamCounts {
    ended: StripedCounters<{ CLASSES.len() + UpstreamError::ALL.len() }>,
    times: DurationHistogram,
}

/// The bound on requests at the upstreams, `proxy.in_flight`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct InFlightFigures {
    pub(crate) max: u64,
    /// Whose requests count: `node` or `fleet`.
    pub(crate) scope: &'static str,
    pub(crate) in_use: u64,
    pub(crate) spare: u64,
    /// Whether this node goes by its share, because the store fails.
    #[serde(rename = "local")]
    pub(crate) is_local: bool,
}

/// One upstream at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpstreamView<'a> {
    pub(crate) name: &'a str,
    pub(crate) counts: &'a UpstreamCounts,
    pub(crate) is_up: bool,
    pub(crate) under_way: usize,
    pub(crate) idle_connections: usize,
}

impl Default for UpstreamCounts {
    fn default() -> Self {
        Self { ended: StripedCounters::default(), times: DurationHistogram::new(&LONG_BOUNDS_NS) }
    }
}

impl UpstreamCounts {
    pub(crate) fn answered(&self, status: StatusCode, took_us: u64) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        self.ended.add(class, 1);
        self.times.add(took_us.saturating_mul(1000), 1);
    }

    pub(crate) fn failed(&self, error: UpstreamError) {
        self.ended.add(CLASSES.len() + error as usize, 1);
    }
}

/// Each URL is a series.
pub(crate) const URLS_MAX: usize = 100;

pub(super) fn render_urls(to: &mut impl Sink, urls: &[(Option<String>, UrlSummary)]) {
    if urls.is_empty() {
        return;
    }
    // No path is called `other`: paths begin with a slash.
    let named = || urls.iter().map(|(url, summary)| ([url.as_deref().unwrap_or("other")], summary));
    to.samples(&catalog::URL_COUNT, named().map(|(name, summary)| (name, summary.count)));
    to.samples(&catalog::URL_MEAN, named().map(|(name, summary)| (name, summary.mean_ms)));
}

pub(super) fn render(to: &mut impl Sink, upstreams: &[UpstreamView<'_>]) {
    if upstreams.is_empty() {
        return;
    }
    to.family(&catalog::UPSTREAM_REQUESTS);
    for upstream in upstreams {
        let names = CLASSES.into_iter().chain(UpstreamError::ALL.map(UpstreamError::as_str));
        for (name, count) in names.zip(upstream.counts.ended.read()) {
            to.sample(&catalog::UPSTREAM_REQUESTS, &[upstream.name, name], count);
        }
    }
    to.family(&catalog::UPSTREAM_DURATION);
    let bounds_s = LONG_BOUNDS_NS.map(|ns| seconds(ns, 1e9));
    for upstream in upstreams {
        let times = upstream.counts.times.read();
        let (family, buckets) = (&catalog::UPSTREAM_DURATION, (&bounds_s[..], &times.counts()[..]));
        to.histogram(family, &[upstream.name], buckets, seconds(times.sum(), 1e9));
    }
    let samples = |figure: fn(&UpstreamView<'_>) -> usize| {
        upstreams.iter().map(move |upstream| ([upstream.name], figure(upstream)))
    };
    to.samples(&catalog::UPSTREAM_UP, samples(|upstream| usize::from(upstream.is_up)));
    to.samples(&catalog::UPSTREAM_UNDER_WAY, samples(|upstream| upstream.under_way));
    to.samples(&catalog::UPSTREAM_IDLE, samples(|upstream| upstream.idle_connections));
}
