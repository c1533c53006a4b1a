//! From a signal source in a file to one that can be read.

use std::net::IpAddr;
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;

use super::super::amount::{span, time};
use super::super::node::Cursor;
use super::super::secret::SecretSource;
use super::super::text::{AdaptiveSource, Measure, RampWord, SourceOptions, SourceWord, Span};
use super::ramp::Unit;
use crate::plan::{ALL, AnswerKind, Ask, LatencyScale};

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
    Asked(Box<Ask>),
}

impl Kind {
    pub(super) fn unit(&self) -> Unit {
        match self {
            Self::Latency => Unit::Time,
            Self::Asked(ask) if !matches!(ask.answer, AnswerKind::Timed(_)) => Unit::Any,
            Self::Cpu | Self::Pool | Self::Fixed(_) | Self::Asked(_) => Unit::Share,
        }
    }

    /// The default ramp; a query has none.
    pub(super) fn default_ramp(&self, by_url: bool) -> Option<RampWord> {
        match self {
            Self::Latency if by_url => Some(RampWord::Latency),
            Self::Latency => Some(RampWord::Default),
            Self::Cpu => Some(RampWord::Cpu),
            Self::Asked(ask) if ask.answer == AnswerKind::Prometheus => None,
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
) -> Option<Checked> {
    let options = match text {
        AdaptiveSource::Word(SourceWord::Latency) => {
            return Some(Checked { kind: Kind::Latency, target: ALL.to_owned(), name: "latency" });
        }
        AdaptiveSource::Word(SourceWord::Cpu) => {
            return Some(Checked { kind: Kind::Cpu, target: "cpu".to_owned(), name: "cpu" });
        }
        AdaptiveSource::Word(SourceWord::Manual) => {
            // As `{ fixed: 0 }`: an operator's pressure replaces a constant one.
            let (kind, target) = (Kind::Fixed(0.0), policy.to_owned());
            return Some(Checked { kind, target, name: "fixed" });
        }
        AdaptiveSource::Map(options) => options,
    };
    let count_before = cursor.problem_count();
    let sources = ["probe", "latency", "observe", "pool", "prometheus", "fixed"];
    let [name] = cursor.given(&sources)[..] else {
        let message =
            "expected one of `probe`, `latency`, `observe`, `pool`, `prometheus` and `fixed`";
        return cursor.reject(message);
    };
    misplaced(name, cursor);
    // Two words for one source have one name: nodes agree by it.
    let name = if name == "observe" { "latency" } else { name };
    let kind = match name {
        "latency" => Some(Kind::Latency),
        "pool" => Some(Kind::Pool),
        "fixed" => cursor.field("fixed").accept(pressure(options.fixed)).map(Kind::Fixed),
        _ => asked(options, failures, cursor).map(Box::new).map(Kind::Asked),
    };
    let own = [&options.latency, &options.observe, &options.pool, &options.target];
    let target = own.into_iter().flatten().next().map_or(policy, String::as_str);
    let is_plain = !target.chars().any(char::is_control);
    if !(1..=TARGET_BYTES_MAX).contains(&target.len()) || !is_plain {
        let message = "expected a target of 1 to 100 bytes without control characters";
        cursor.field("target").report(message);
    }
    let kind = kind.filter(|_| cursor.problem_count() == count_before)?;
    Some(Checked { kind, target: target.to_owned(), name })
}

/// Reports options of other sources.
fn misplaced(name: &str, cursor: &Cursor<'_>) {
    const ASKED: &[&str] = &["probe", "prometheus"];
    let fields = [
        ("pointer", &["probe"][..]),
        ("measure", &["probe"]),
        ("healthy", &["probe"]),
        ("overloaded", &["probe"]),
        ("query", &["prometheus"]),
        ("every", ASKED),
        ("timeout", ASKED),
        ("ca_file", ASKED),
        ("token_file", ASKED),
        ("target", &["probe", "prometheus", "fixed"]),
    ];
    for (field, goes_with) in fields.into_iter().filter(|(_, with)| !with.contains(&name)) {
        let message = format!("belongs to `{}`, not to `{name}`", goes_with.join("` or `"));
        cursor.report_given(&[field], &message);
    }
}

fn pressure(given: Option<f64>) -> Result<f64, &'static str> {
    given.filter(|it| (0.0..=1.0).contains(it)).ok_or("expected a number from 0 to 1")
}

fn asked(options: &SourceOptions, failures: u32, cursor: &Cursor<'_>) -> Option<Ask> {
    let (uri, answer) = match (&options.probe, &options.prometheus) {
        (Some(url), _) => {
            let answer = match options.measure {
                Some(Measure::Latency) => timed(options, cursor),
                None => pointer(options, cursor),
            };
            (cursor.field("probe").accept(http_url(url)), answer?)
        }
        (None, base) => {
            let base = base.as_deref().unwrap_or_default();
            let base = cursor.field("prometheus").accept(http_url(base));
            let Some(query) = options.query.as_deref().filter(|query| !query.trim().is_empty())
            else {
                return cursor.reject("`query` is missing: the PromQL expression");
            };
            (base.and_then(|base| query_of(&base, query)), AnswerKind::Prometheus)
        }
    };
    let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
    let (every, timeout) = if options.probe.is_some() { (1, 500) } else { (5, 2000) };
    let (every, mut timeout) = (Duration::from_secs(every), Duration::from_millis(timeout));
    if let AnswerKind::Timed(scale) = &answer {
        timeout = timeout.max(2 * scale.overloaded);
    }
    let bounds = second..=5 * minute;
    let every = time(cursor, "every", options.every.as_ref(), bounds, every);
    let bounds = Duration::from_millis(10)..=minute;
    let timeout = time(cursor, "timeout", options.timeout.as_ref(), bounds, timeout);
    if matches!(&answer, AnswerKind::Timed(scale) if timeout <= scale.overloaded) {
        let message = "must be above `overloaded`: a probe that reaches its timeout is a failure";
        cursor.field("timeout").report(message);
    }
    let uri = uri?;
    if uri.scheme_str() == Some("http") {
        cursor.report_given(&["ca_file"], "belongs to URLs with https://");
        if !uri.host().is_some_and(is_this_machine) {
            let message = "would be sent in clear text to another machine: use https://";
            cursor.report_given(&["token_file"], message);
        }
    }
    let ca_file = options.ca_file.as_ref().map(Into::into);
    let token = SecretSource::in_file("token_file", options.token_file.as_ref(), cursor);
    Some(Ask { uri, answer, every, timeout, failures, ca_file, token })
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    address.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), is_loopback)
}

fn pointer(options: &SourceOptions, cursor: &Cursor<'_>) -> Option<AnswerKind> {
    cursor.report_given(&["healthy", "overloaded"], "needs `measure: latency` beside it");
    let pointer = options.pointer.clone().unwrap_or_else(|| "/pressure".to_owned());
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return cursor.field("pointer").reject("expected a JSON pointer like /pools/0/used");
    }
    Some(AnswerKind::Pointer(pointer))
}

fn timed(options: &SourceOptions, cursor: &Cursor<'_>) -> Option<AnswerKind> {
    let message = "does not belong to `measure: latency`, which reads no number";
    cursor.report_given(&["pointer"], message);
    let healthy = scale_end("healthy", options.healthy.as_ref(), "50ms", cursor);
    let overloaded = scale_end("overloaded", options.overloaded.as_ref(), "500ms", cursor);
    let scale = LatencyScale { healthy: healthy?, overloaded: overloaded? };
    if scale.overloaded <= scale.healthy {
        return cursor.field("overloaded").reject("must be above `healthy`");
    }
    Some(AnswerKind::Timed(scale))
}

/// One of the two times of a probe that is timed.
fn scale_end(
    field: &str,
    given: Option<&Span>,
    example: &str,
    cursor: &Cursor<'_>,
) -> Option<Duration> {
    let bounds = Duration::from_millis(1)..=Duration::from_secs(30);
    let Some(given) = given else {
        let message =
            format!("`{field}` is missing: a time like {example}, for `measure: latency`");
        return cursor.reject(message);
    };
    let within = |time: Duration| {
        Some(time).filter(|it| bounds.contains(it)).ok_or_else(|| "expected 1ms to 30s".to_owned())
    };
    cursor.field(field).accept(span(given).and_then(within))
}

fn http_url(text: &str) -> Result<Uri, String> {
    // The URL is not repeated: it may hold a secret of the environment.
    let expected = || "expected a URL like http://db-health:9000/pressure".to_owned();
    let uri: Uri = text.parse().map_err(|_| expected())?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => {}
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
