//! The pages that people see in place of the site: self-contained, because other requests of the same client may fail
//! as well.

use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::Bytes;

const PAGE: &str = include_str!("page.html");
const TIMER: &str = include_str!("timer.html");

/// Units of time in seconds, by which longer waits are told.
const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3600, "hours"), (60, "minutes")];

/// What a page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Notice {
    title: &'static str,
    message: &'static str,
}

/// For clients that may come back.
pub(super) const LIMITED: Notice = Notice {
    title: "Whoa, Slow Down There!",
    message: "Too many requests came from you or your network. Please wait: this page reloads automatically.",
};

/// For clients that did nothing wrong.
pub(super) const OVERLOADED: Notice = Notice {
    title: "Busy Right Now",
    message: "This site is receiving more requests than it can answer. Please wait: this page reloads automatically.",
};

/// For clients that are blocked.
pub(super) const BLOCKED: Notice = Notice {
    message: "This site does not accept this request. Trying again will not help.",
    ..LIMITED
};

/// For an upstream that does not answer.
pub(super) const UNREACHABLE: Notice = Notice {
    title: "Back Soon",
    message: "This site does not answer at the moment. Please wait: this page reloads automatically.",
};

/// A page that reloads after so many seconds, if that helps.
pub(super) fn response(
    status: StatusCode,
    notice: Notice,
    seconds: Option<u64>,
) -> Response<Bytes> {
    // A reload by the script can be announced, and one by the head cannot be stopped: it is for browsers without scripts.
    let refresh =
        |it| format!("<noscript><meta http-equiv=\"refresh\" content=\"{it}\"></noscript>\n");
    let body = PAGE
        .replace("{title}", notice.title)
        .replace("{message}", notice.message)
        .replace("{refresh}", &seconds.map(refresh).unwrap_or_default())
        .replace("{timer}", &seconds.map(timer).unwrap_or_default());
    let mut response = html(status, body);
    let csp = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(csp));
    response
}

/// A countdown, also for browsers without scripts.
fn timer(seconds: u64) -> String {
    let (left, unit) = wait(seconds);
    TIMER
        .replace("{seconds}", &seconds.to_string())
        .replace("{left}", &left.to_string())
        .replace("{unit}", unit)
        .replace("{units}", &serde_json::to_string(&UNITS).unwrap_or_default())
}

/// A wait in the largest unit of which it has more than two, rounded up, so that nobody comes back too early.
fn wait(seconds: u64) -> (u64, &'static str) {
    match UNITS.into_iter().find(|(unit, _)| seconds > 2 * unit) {
        Some((unit, name)) => (seconds.div_ceil(unit), name),
        None => (seconds, if seconds == 1 { "second" } else { "seconds" }),
    }
}

pub(super) fn html(status: StatusCode, body: String) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
