//! From a signal source in a file to one that can be read.

use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;

use super::super::amount::span_within;
use super::super::node::Cursor;
use super::super::problem::Problem;
use super::super::text::{AdaptiveSource, RampWord, SourceOptions, SourceWord};
use super::ramp::Unit;
use crate::plan::{ALL, AnswerKind, Ask};
use tidegate_core::text::printable;

/// The longest name of a target.
const TARGET_BYTES_MAX: usize = 100;

/// A source whose ramp is not known yet.
pub(super) struct Checked {
    pub(super) kind: Kind,
    pub(super) target: String,
    /// The default name of its signal.
    pub(super) name: &'static str,
}

pub(super) enum Kind {
    Latency,
    Cpu,
    Pool,
    Fixed(f64),
    Asked(Ask),
}

impl Kind {
    pub(super) const fn unit(&self) -> Unit {
        match self {
            Self::Latency => Unit::Time,
            Self::Cpu | Self::Pool | Self::Fixed(_) => Unit::Share,
            Self::Asked(_) => Unit::Any,
        }
    }

    /// The default ramp; a query has none.
    pub(super) const fn default_ramp(&self, by_url: bool) -> Option<RampWord> {
        match self {
            Self::Latency if by_url => Some(RampWord::Latency),
            Self::Latency => Some(RampWord::Default),
            Self::Cpu => Some(RampWord::Cpu),
            Self::Asked(Ask { answer: AnswerKind::Prometheus, .. }) => None,
            Self::Pool | Self::Fixed(_) | Self::Asked(_) => Some(RampWord::Pressure),
        }
    }
}

/// Checks a source. `policy` is the default name of its target; this many `failures` in a row are a signal.
pub(super) fn source(
    text: &AdaptiveSource,
    policy: &str,
    failures: u32,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Checked> {
    let options = match text {
        AdaptiveSource::Word(SourceWord::Latency) => {
            return Some(Checked { kind: Kind::Latency, target: ALL.to_owned(), name: "latency" });
        }
        AdaptiveSource::Word(SourceWord::Cpu) => {
            return Some(Checked { kind: Kind::Cpu, target: "cpu".to_owned(), name: "cpu" });
        }
        AdaptiveSource::Map(options) => options,
    };
    let count_before = problems.len();
    let [name] = given(options)[..] else {
        let message = "expected one of `probe`, `latency`, `pool`, `prometheus` and `fixed`";
        return cursor.reject(message, problems);
    };
    misplaced(options, name, cursor, problems);
    let kind = match name {
        "latency" => Some(Kind::Latency),
        "pool" => Some(Kind::Pool),
        "fixed" => cursor.field("fixed").accept(pressure(options.fixed), problems).map(Kind::Fixed),
        _ => asked(options, failures, cursor, problems).map(Kind::Asked),
    };
    let own = [&options.latency, &options.pool, &options.target].into_iter().flatten().next();
    let target = own.map_or(policy, String::as_str);
    let is_plain = !target.chars().any(char::is_control);
    if !(1..=TARGET_BYTES_MAX).contains(&target.len()) || !is_plain {
        let message = "expected a target of 1 to 100 bytes without control characters";
        problems.push(cursor.field("target").problem(message));
    }
    let kind = kind.filter(|_| problems.len() == count_before)?;
    Some(Checked { kind, target: target.to_owned(), name })
}

fn given(options: &SourceOptions) -> Vec<&'static str> {
    let fields = [
        ("probe", options.probe.is_some()),
        ("latency", options.latency.is_some()),
        ("pool", options.pool.is_some()),
        ("prometheus", options.prometheus.is_some()),
        ("fixed", options.fixed.is_some()),
    ];
    fields.into_iter().filter(|(_, is_given)| *is_given).map(|(field, _)| field).collect()
}

/// Reports options of other sources.
fn misplaced(
    options: &SourceOptions,
    name: &str,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) {
    const ASKED: &[&str] = &["probe", "prometheus"];
    let fields = [
        ("pointer", options.pointer.is_some(), &["probe"][..]),
        ("query", options.query.is_some(), &["prometheus"]),
        ("every", options.every.is_some(), ASKED),
        ("timeout", options.timeout.is_some(), ASKED),
        ("target", options.target.is_some(), &["probe", "prometheus", "fixed"]),
    ];
    for (field, is_given, goes_with) in fields {
        if is_given && !goes_with.contains(&name) {
            let message = format!("belongs to `{}`, not to `{name}`", goes_with.join("` or `"));
            problems.push(cursor.field(field).problem(message));
        }
    }
}

fn pressure(given: Option<f64>) -> Result<f64, &'static str> {
    given.filter(|it| (0.0..=1.0).contains(it)).ok_or("expected a number from 0 to 1")
}

fn asked(
    options: &SourceOptions,
    failures: u32,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Ask> {
    let is_probe = options.probe.is_some();
    let (usual_every_s, usual_timeout_ms) = if is_probe { (1, 500) } else { (5, 2000) };
    let (uri, answer) = match (&options.probe, &options.prometheus) {
        (Some(url), _) => {
            let pointer = options.pointer.clone().unwrap_or_else(|| "/pressure".to_owned());
            if !pointer.is_empty() && !pointer.starts_with('/') {
                problems.push(
                    cursor.field("pointer").problem("expected a JSON pointer like /pools/0/used"),
                );
            }
            (cursor.field("probe").accept(http_url(url), problems), AnswerKind::Pointer(pointer))
        }
        (None, base) => {
            let base = base.as_deref().unwrap_or_default();
            let base = cursor.field("prometheus").accept(http_url(base), problems);
            let Some(query) = options.query.as_deref().filter(|query| !query.trim().is_empty())
            else {
                return cursor.reject("`query` is missing: the PromQL expression", problems);
            };
            (base.and_then(|base| query_of(&base, query)), AnswerKind::Prometheus)
        }
    };
    let mut time = |field, text: Option<&_>, usual: Duration, min, max| match text {
        Some(text) => cursor.field(field).accept(span_within(text, min, max), problems),
        None => Some(usual),
    };
    let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
    let every = Duration::from_secs(usual_every_s);
    let every = time("every", options.every.as_ref(), every, second, 5 * minute);
    let timeout = Duration::from_millis(usual_timeout_ms);
    let shortest = Duration::from_millis(10);
    let timeout = time("timeout", options.timeout.as_ref(), timeout, shortest, minute);
    Some(Ask { uri: uri?, answer, every: every?, timeout: timeout?, failures })
}

fn http_url(text: &str) -> Result<Uri, String> {
    let expected =
        || format!("`{}`: expected a URL like http://db-health:9000/pressure", printable(text));
    let uri: Uri = text.parse().map_err(|_| expected())?;
    match uri.scheme_str() {
        Some("http") if uri.host().is_some_and(|host| !host.is_empty()) => {}
        Some("https") => return Err("expected http://: https is not supported yet".into()),
        _ => return Err(expected()),
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("expected a URL without a user and a password".into());
    }
    Ok(uri)
}

/// The instant query of Prometheus' API.
fn query_of(base: &Uri, query: &str) -> Option<Uri> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let escaped = query.trim().bytes().fold(String::new(), |text, byte| {
        if plain(byte) {
            text + char::from(byte).encode_utf8(&mut [0; 4])
        } else {
            text + &format!("%{byte:02X}")
        }
    });
    let path = base.path().trim_end_matches('/');
    let path: PathAndQuery = format!("{path}/api/v1/query?query={escaped}").parse().ok()?;
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).ok()
}
