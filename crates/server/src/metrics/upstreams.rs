//! What is counted of those behind the proxy.

use axum::http::StatusCode;
use tidegate_core::adaptive::UrlSummary;

use super::catalog as the;
use super::histogram::{Histogram, LONG_BOUNDS_NS};
use super::render::seconds;
use super::sink::Sink;
use super::striped::Striped;

/// Classes of statuses, `1xx` to `5xx`.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Why no answer came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UpstreamTrouble {
    /// It could not be connected to.
    Unreached,
    Timeout,
    /// The connection broke, or what came was no answer.
    Broken,
    /// Nobody waited for it any more.
    Abandoned,
}

impl UpstreamTrouble {
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
    ended: Striped<{ CLASSES.len() + UpstreamTrouble::ALL.len() }>,
    times: Histogram,
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
        Self { ended: Striped::default(), times: Histogram::within(&LONG_BOUNDS_NS) }
    }
}

impl UpstreamCounts {
    pub(crate) fn answered(&self, status: StatusCode, took_us: u64) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        self.ended.add(class, 1);
        self.times.add(took_us.saturating_mul(1000), 1);
    }

    pub(crate) fn failed(&self, trouble: UpstreamTrouble) {
        self.ended.add(CLASSES.len() + trouble as usize, 1);
    }
}

/// How many URLs are told: each is a series.
pub(crate) const URLS_MAX: usize = 100;

/// Writes what is known of URLs, the busiest first.
pub(super) fn render_urls(to: &mut impl Sink, urls: &[(Option<String>, UrlSummary)]) {
    if urls.is_empty() {
        return;
    }
    // No path is called that: paths begin with a slash.
    let name = |url: &Option<String>| url.clone().unwrap_or_else(|| "other".to_owned());
    to.family(&the::URL_COUNT);
    for (url, summary) in urls {
        to.sample(&the::URL_COUNT, &[&name(url)], summary.count);
    }
    to.family(&the::URL_MEAN);
    for (url, summary) in urls {
        to.sample(&the::URL_MEAN, &[&name(url)], summary.mean_ms);
    }
}

/// Writes all of it.
pub(super) fn render(to: &mut impl Sink, upstreams: &[UpstreamView<'_>]) {
    if upstreams.is_empty() {
        return;
    }
    to.family(&the::UPSTREAM_REQUESTS);
    for upstream in upstreams {
        let names = CLASSES.into_iter().chain(UpstreamTrouble::ALL.map(UpstreamTrouble::as_str));
        for (name, count) in names.zip(upstream.counts.ended.read()) {
            to.sample(&the::UPSTREAM_REQUESTS, &[upstream.name, name], count);
        }
    }
    to.family(&the::UPSTREAM_DURATION);
    let bounds_s = LONG_BOUNDS_NS.map(|ns| seconds(ns, 1e9));
    for upstream in upstreams {
        let (counts, sum_ns) = upstream.counts.times.read();
        let sum_s = seconds(sum_ns, 1e9);
        to.histogram(&the::UPSTREAM_DURATION, &[upstream.name], (&bounds_s, &counts), sum_s);
    }
    to.family(&the::UPSTREAM_UP);
    for upstream in upstreams {
        to.sample(&the::UPSTREAM_UP, &[upstream.name], u64::from(upstream.is_up));
    }
    to.family(&the::UPSTREAM_UNDER_WAY);
    for upstream in upstreams {
        to.sample(&the::UPSTREAM_UNDER_WAY, &[upstream.name], upstream.under_way);
    }
    to.family(&the::UPSTREAM_IDLE);
    for upstream in upstreams {
        to.sample(&the::UPSTREAM_IDLE, &[upstream.name], upstream.idle_connections);
    }
}
