//! The limits of `tidegate proxy`: one per client for documents, one per client for assets, one per URL.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::{Policy, SlidingWindow};
use tidegate_config::plan::{Plan, UNCAPPED_UNITS, UrlCap};
use tidegate_config::{limit_from_line, limit_from_line_times};
use tidegate_core::{LimitOrShaper, read_rate};
use tidegate_request::{CountedBy, KeyParts, Match, Resource, Route};

use super::{OrNone, ProxyArgs, notes};

/// The names of the policies in headers and metrics.
pub(super) const POLICY: &str = "limit";
pub(super) const ASSETS: &str = "limit-assets";

/// The requests per minute from which a URL without a cap falls at least while its responses are slow; and the cap of
/// `--adaptive` alone.
const LEAST_UNITS: u64 = 240;

/// What the arguments limit.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) policies: BTreeMap<String, Policy>,
    pub(super) keys: BTreeMap<String, CountedBy>,
    pub(super) plans: Vec<Plan>,
    pub(super) routes: Vec<Route>,
    /// For the log: what is in force, and what may surprise.
    pub(super) notes: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// The limit of each URL.
#[derive(Clone, Copy)]
pub(super) struct UrlLimit {
    pub(super) units: u64,
    pub(super) cap: UrlCap,
}

pub(super) fn from_args(args: &ProxyArgs) -> Result<Limits, String> {
    let url = url_limit(args)?;
    let named = |option: &'static str| move |error: String| format!("{option}: {error}");
    let documents = args.limit.as_deref().map(limit_from_line).transpose();
    let documents = documents.map_err(named("--limit"))?;
    let assets = match (&args.limit, &args.asset_limit) {
        (_, Some(OrNone::Limit(line))) => {
            Some(limit_from_line(line).map_err(named("--asset-limit"))?)
        }
        (None, _) | (_, Some(OrNone::None)) => None,
        (Some(line), None) => {
            let tenfold = limit_from_line_times(line, Resource::PER_DOCUMENT);
            let advice = |error| format!("{error}; ten times --limit is too much: give one");
            Some(tenfold.map_err(|error| named("--asset-limit")(advice(error)))?)
        }
    };
    let mut limits = Limits {
        notes: notes::in_force(args, documents.as_ref(), url),
        warnings: notes::warning([documents.as_ref(), assets.as_ref()], url).into_iter().collect(),
        ..Limits::default()
    };
    if args.limit.is_none() {
        limits.add(POLICY, None, None, url)?;
        return Ok(limits);
    }
    limits.add(ASSETS, Some(true), assets, url).map_err(named("--asset-limit"))?;
    limits.add(POLICY, Some(false), documents, url).map_err(named("--limit"))?;
    Ok(limits)
}

impl Limits {
    /// Adds a policy and the route of its requests. Both of its limits are one atomic step: a request that one of them
    /// refuses is not charged to the other.
    fn add(
        &mut self,
        name: &str,
        assets: Option<bool>,
        client: Option<LimitOrShaper>,
        url: Option<UrlLimit>,
    ) -> Result<(), String> {
        let by_client = ("client_ip".to_owned(), KeyParts::default());
        let by_url = ("url".to_owned(), KeyParts::path());
        let (policy, keys) = match (client, url) {
            (None, None) => return Ok(()),
            (Some(LimitOrShaper::Limit(limit)), None) => (Policy::from(limit), None),
            (Some(LimitOrShaper::Shaper(shaper)), None) => (Policy::shaper(shaper), None),
            (None, Some(url)) => {
                (Policy::all().limit_by("url", "url", url.window()?), Some(vec![by_url]))
            }
            (Some(LimitOrShaper::Limit(limit)), Some(url)) => {
                let policy = Policy::all().limit_by("client", "client_ip", limit);
                (policy.limit_by("url", "url", url.window()?), Some(vec![by_client, by_url]))
            }
            (Some(LimitOrShaper::Shaper(_)), Some(_)) => {
                return Err("a leaky bucket delays, and cannot stand beside --adaptive".to_owned());
            }
        };
        let matched = Match { assets, ..Match::default() };
        self.routes.extend(Route::new(matched, name, None, 1));
        self.plans.extend(url.map(|url| Plan::by_url(name, "url", url.units, url.cap)));
        self.keys.extend(keys.map(|keys| (name.to_owned(), CountedBy::Each(keys))));
        self.policies.insert(name.to_owned(), policy);
        Ok(())
    }
}

impl UrlLimit {
    /// The limit of each URL while its responses are fast.
    fn window(self) -> Result<SlidingWindow, String> {
        let buckets = SlidingWindow::DEFAULT_BUCKETS;
        SlidingWindow::new(self.units, Duration::from_mins(1), buckets).map_err(|it| it.to_string())
    }
}

/// The limit of each URL, per minute. Beside `--limit` none is the default: the clients are limited one by one already,
/// and a cap that they share would let one of them use up a healthy URL.
fn url_limit(args: &ProxyArgs) -> Result<Option<UrlLimit>, String> {
    let units = match (&args.adaptive_max, args.adaptive) {
        (None, false) => return Ok(None),
        (Some(_), false) => {
            return Err("--adaptive-max is the cap of --adaptive: add --adaptive".to_owned());
        }
        (Some(OrNone::Limit(text)), true) => per_minute(text)?,
        (None, true) if args.limit.is_none() => LEAST_UNITS,
        (None | Some(OrNone::None), true) => {
            let cap = UrlCap::None { least: LEAST_UNITS };
            return Ok(Some(UrlLimit { units: UNCAPPED_UNITS, cap }));
        }
    };
    Ok(Some(UrlLimit { units, cap: UrlCap::Units }))
}

fn per_minute(text: &str) -> Result<u64, String> {
    let error = |error: String| format!("--adaptive-max: {error}");
    let units = text.split('/').next().unwrap_or_default().trim();
    if !units.is_empty() && units.bytes().all(|digit| digit == b'0') {
        let advice = "would refuse every request: write none for no cap while a URL is healthy, or a rate like 600/min";
        return Err(error(format!("`{text}` {advice}")));
    }
    let (units, period) = read_rate(text).map_err(|it| error(it.problem()))?;
    let period = period.length().map_err(|it| error(it.problem()))?;
    let minute = Duration::from_mins(1).as_micros();
    let units = u128::from(units) * minute / period.as_micros().max(1);
    match u64::try_from(units) {
        Ok(units @ 1..UNCAPPED_UNITS) => Ok(units),
        _ => Err(error(format!("expected 1/min to {UNCAPPED_UNITS}/min, or none"))),
    }
}
