//! The reverse proxy: its upstreams and options.

mod settings;
mod target;

use std::time::Duration;

use http::uri::PathAndQuery;
use tidegate::driver::StoreDrivers;
use tidegate_core::text::printable;
use tidegate_request::{Case, PathPattern};

pub use self::settings::{HealthCheck, InFlightMax, RefusalSettings, Settings, Times};
pub use self::target::{Endpoint, Target};
use super::amount::{shed_status, time};
use super::node::Cursor;
use super::secret::SecretSource;
use super::store::StoreChoice;
use super::text::{self, Span};
pub use super::text::{Balance, HostHeader, InFlightScope};

/// A bound on the label values in metrics.
const UPSTREAMS_MAX: usize = 64;

/// More than a site needs: each is compared with the path of a refused request.
const REFUSAL_LIST_MAX: usize = 64;

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// Checks the settings of the proxy, whose door is open or not.
pub fn proxy(file: &text::File, is_open: bool, top: &Cursor<'_>) -> Option<Settings> {
    let cursor = top.field("proxy");
    match (&file.proxy, is_open) {
        (None, true) => {
            top.field("listen").field("proxy").report("has no upstream: set `proxy.upstream`");
        }
        (Some(_), false) => cursor.report("has no address: set `listen.proxy`"),
        (None, false) | (Some(_), true) => {}
    }
    let text = file.proxy.as_ref()?;
    let mut settings = Settings::for_upstreams(upstreams(text, &cursor));
    settings.times = times(text, &cursor);
    settings.writes_forwarded =
        file.client_ip.as_ref().is_some_and(|client_ip| client_ip.forwarded == Some(true));
    settings.ca_file = text.ca_file.as_ref().map(Into::into);
    settings.balance = text.balance.unwrap_or(settings.balance);
    settings.host = text.host.unwrap_or(settings.host);
    for (field, given) in [
        (&mut settings.idle_connections_max, text.max_idle_connections),
        (&mut settings.requests_max, text.max_requests),
        (&mut settings.waiting_max, text.max_waiting),
    ] {
        *field = given.and_then(|given| usize::try_from(given).ok()).unwrap_or(*field);
    }
    settings.in_flight = text.in_flight.map(|it| InFlightMax {
        max: it.max.into(),
        scope: it.scope.unwrap_or(InFlightScope::Node),
    });
    settings.per_client = text.per_client.into();
    settings.shed_status = shed_status(text.shed_status.map(Into::into), &cursor);
    settings.health =
        text.health.as_ref().and_then(|health| check(health, &cursor.field("health")));
    if let Some(text) = &text.refusal {
        settings.refusal = refusal(text, &cursor.field("refusal"));
    }
    Some(settings)
}

/// Warns of a bound that does not mean what it seems to.
pub(crate) fn check_in_flight(
    settings: Option<&Settings>,
    store: &StoreChoice,
    stores: StoreDrivers,
    top: &Cursor<'_>,
) {
    let Some(settings) = settings else { return };
    let Some(InFlightMax { max, scope }) = settings.in_flight else { return };
    let cursor = top.field("proxy").field("in_flight");
    if usize::try_from(max).is_ok_and(|max| max > settings.requests_max) {
        let requests_max = settings.requests_max;
        cursor.field("max").warn(format!(
            "is never reached: `max_requests` lets {requests_max} in. Raise it, or lower this one"
        ));
    }
    let SecretSource::Given(url) = &store.url else { return };
    if scope != InFlightScope::Fleet {
        return;
    }
    if let Some(nodes) = store.nodes.filter(|nodes| max < u64::from(nodes.get())) {
        cursor.field("max").warn(format!(
            "is less than `store.nodes`: while the store fails each of {nodes} proxies has one place at least"
        ));
    }
    if stores.is_local(&url.0) {
        cursor.field("scope").warn(
            "counts this process alone: the store is in memory. Set `store:` to one that all proxies share, or write \
             `scope: node`",
        );
    } else if url.0.starts_with("memcached:") {
        cursor.field("scope").warn(
            "memcached may forget places under memory pressure and when it restarts, and then more than `max` requests \
             pass: use Redis or PostgreSQL, or keep `max` below what the upstream can bear",
        );
    }
    let own = settings.upstreams.iter().find(|upstream| upstream.is_of_this_machine());
    if let Some(own) = own.filter(|_| !stores.is_local(&url.0)) {
        cursor.field("scope").warn(format!(
            "counts all proxies together whose upstream is written `{own}`, also for another app on another machine: \
             write the name by which all proxies reach the app, a `key_prefix` for each app, or `scope: node`"
        ));
    }
}

fn refusal(text: &text::Refusal, cursor: &Cursor<'_>) -> RefusalSettings {
    let list = |name: &str, given: Option<&Vec<String>>| {
        let cursor = cursor.field(name);
        let count = given.map_or(0, Vec::len);
        if count > REFUSAL_LIST_MAX {
            cursor.report(format!("expected at most {REFUSAL_LIST_MAX}"));
        }
        let given = given.cloned().unwrap_or_default().into_iter().enumerate();
        given.map(|(index, text)| (cursor.item(index), text)).collect::<Vec<_>>()
    };
    let assets = list("assets", text.assets.as_ref()).into_iter();
    let assets = assets.filter_map(|(cursor, text)| cursor.accept(extension(&text)));
    let api = list("api", text.api.as_ref()).into_iter().filter_map(|(cursor, text)| {
        let pattern = PathPattern::read(&text, Case::Sensitive);
        let shown = printable(&text);
        cursor.accept(pattern.map_err(|expected| format!("`{shown}`: expected {expected}")))
    });
    if text.page.as_ref().is_some_and(String::is_empty) {
        let empty =
            "is empty: name the file with the page, or leave `page` out for the built-in one";
        cursor.field("page").report(empty);
    }
    RefusalSettings {
        page: text.page.as_ref().map(Into::into),
        assets: text.assets.is_some().then(|| assets.collect()),
        api: api.collect(),
    }
}

fn extension(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix('.').unwrap_or(text).to_ascii_lowercase();
    let is_extension =
        (1..=16).contains(&bare.len()) && bare.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_extension
        .then_some(bare)
        .ok_or_else(|| format!("`{}`: expected a file extension like css", printable(text)))
}

fn upstreams(text: &text::Proxy, cursor: &Cursor<'_>) -> Vec<Target> {
    let (cursor, given) = (cursor.field("upstream"), text.upstream.as_slice());
    if given.is_empty() || given.len() > UPSTREAMS_MAX {
        cursor.report(format!("expected 1 to {UPSTREAMS_MAX} upstreams"));
    }
    let mut targets: Vec<Target> = Vec::new();
    for (index, url) in given.iter().enumerate() {
        let cursor = match &text.upstream {
            text::OneOrMany::One(_) => cursor.clone(),
            text::OneOrMany::Many(_) => cursor.item(index),
        };
        let Some(target) = cursor.accept(url.parse::<Target>()) else { continue };
        if targets.contains(&target) {
            cursor.report("is given twice: give it once");
        }
        targets.push(target);
    }
    targets
}

fn times(text: &text::Proxy, cursor: &Cursor<'_>) -> Times {
    let usual = Times::default();
    let time = |name: &str, given: &Option<Span>, max: Duration, usual: Duration| {
        time(cursor, name, given.as_ref(), MS..=max, usual)
    };
    Times {
        connect: time("connect_timeout", &text.connect_timeout, MINUTE, usual.connect),
        response: time("response_timeout", &text.response_timeout, HOUR, usual.response),
        idle: time("idle_timeout", &text.idle_timeout, HOUR, usual.idle),
        keep: time("keep_alive", &text.keep_alive, HOUR, usual.keep),
    }
}

fn check(text: &text::Health, cursor: &Cursor<'_>) -> Option<HealthCheck> {
    let path = Some(text.path.as_str()).filter(|path| path.starts_with('/'));
    let path = path.and_then(|path| path.parse::<PathAndQuery>().ok());
    let path = path.ok_or("expected a path like /healthz");
    let second = Duration::from_secs(1);
    let every = time(cursor, "every", text.every.as_ref(), second..=HOUR, 5 * second);
    let timeout = time(cursor, "timeout", text.timeout.as_ref(), MS..=MINUTE, 2 * second);
    Some(HealthCheck { path: cursor.field("path").accept(path)?, every, timeout })
}
