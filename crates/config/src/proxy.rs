//! The reverse proxy: its upstreams and options.

mod settings;
mod target;

use std::time::Duration;

use http::StatusCode;
use http::uri::PathAndQuery;

pub use self::settings::{HealthCheck, Settings, Times};
pub use self::target::{Endpoint, Target};
use super::amount::span_within;
use super::door::Door;
use super::listen::Listeners;
use super::node::Cursor;
use super::problem::Problem;
use super::text::{self, Span};
pub use super::text::{Balance, HostHeader};

/// A bound on the label values in metrics.
const UPSTREAMS_MAX: usize = 64;

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// Checks the settings of the proxy.
pub fn proxy(
    file: &text::File,
    listen: &Listeners,
    top: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Settings> {
    let cursor = top.field("proxy");
    match (&file.proxy, listen.get(Door::Proxy)) {
        (None, None) => return None,
        (None, Some(_)) => {
            let why = "has no upstream: set `proxy.upstream`";
            problems.push(top.field("listen").field("proxy").problem(why));
        }
        (Some(_), None) => {
            let why = "has no address: set `listen.proxy`";
            problems.push(cursor.problem(why));
        }
        (Some(_), Some(_)) => {}
    }
    let text = file.proxy.as_ref()?;
    let mut settings = Settings::for_upstreams(upstreams(text, &cursor, problems));
    settings.times = times(text, &cursor, problems);
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
    match text.shed_status {
        None | Some(429) => {}
        Some(503) => settings.shed_status = StatusCode::SERVICE_UNAVAILABLE,
        Some(_) => problems.push(cursor.field("shed_status").problem("expected 429 or 503")),
    }
    settings.health =
        text.health.as_ref().and_then(|health| check(health, &cursor.field("health"), problems));
    Some(settings)
}

fn upstreams(text: &text::Proxy, cursor: &Cursor<'_>, problems: &mut Vec<Problem>) -> Vec<Target> {
    let (cursor, given) = (cursor.field("upstream"), text.upstream.as_slice());
    if given.is_empty() || given.len() > UPSTREAMS_MAX {
        problems.push(cursor.problem(format!("expected 1 to {UPSTREAMS_MAX} upstreams")));
    }
    let mut targets: Vec<Target> = Vec::new();
    for (index, url) in given.iter().enumerate() {
        let cursor = match &text.upstream {
            text::OneOrMany::One(_) => cursor.clone(),
            text::OneOrMany::Many(_) => cursor.item(index),
        };
        let Some(target) = cursor.accept(url.parse::<Target>(), problems) else { continue };
        if targets.contains(&target) {
            problems.push(cursor.problem("is given twice: give it once"));
        }
        targets.push(target);
    }
    targets
}

fn times(text: &text::Proxy, cursor: &Cursor<'_>, problems: &mut Vec<Problem>) -> Times {
    let usual = Times::default();
    let mut time = |name: &str, given: &Option<Span>, max: Duration, usual: Duration| {
        let given = given.as_ref().map(|given| span_within(given, MS, max));
        given.and_then(|given| cursor.field(name).accept(given, problems)).unwrap_or(usual)
    };
    Times {
        connect: time("connect_timeout", &text.connect_timeout, MINUTE, usual.connect),
        response: time("response_timeout", &text.response_timeout, HOUR, usual.response),
        idle: time("idle_timeout", &text.idle_timeout, HOUR, usual.idle),
        keep: time("keep_alive", &text.keep_alive, HOUR, usual.keep),
    }
}

fn check(
    text: &text::Health,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<HealthCheck> {
    let path = Some(text.path.as_str()).filter(|path| path.starts_with('/'));
    let path = path.and_then(|path| path.parse::<PathAndQuery>().ok());
    let path = path.ok_or("expected a path like /healthz");
    let mut time = |name: &str, given: &Option<Span>, (min, max), usual| {
        let given = given.as_ref().map(|given| span_within(given, min, max));
        given.map_or(Some(usual), |given| cursor.field(name).accept(given, problems))
    };
    let second = Duration::from_secs(1);
    let every = time("every", &text.every, (second, HOUR), 5 * second);
    let timeout = time("timeout", &text.timeout, (MS, MINUTE), 2 * second);
    let path = cursor.field("path").accept(path, problems);
    Some(HealthCheck { path: path?, every: every?, timeout: timeout? })
}
