//! Request bodies: reads them within bounds, and decodes them with errors that name the field.

use std::borrow::BorrowMut;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use serde::Deserialize;

use super::problem::Problem;
use super::request::Object;
use crate::net::ClientUsage;
use crate::net::body::{BodyReadError, Collected, RequestBody, collect};
use crate::net::timeout::within;
use crate::upstreams::upload::{Broken, ReadAheadError, Upload};

/// Room for one check with many long keys.
const QUESTION_BYTES_MAX: usize = 64 << 10;
/// Room for a thousand checks with keys of a kilobyte.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// The longest body of a proxied request that a key may be in.
const KEY_BODY_BYTES_MAX: usize = 64 << 10;
/// How much of a rejected body is read and discarded, so that the client can read the response instead of a connection
/// reset. A longer body closes the connection.
const DRAIN_BYTES_MAX: usize = 8 << 20;
/// A slow client holds its connection at most this long.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the body of one check.
pub(crate) fn read<B: Body<Data = Bytes> + Unpin>(
    body: impl BorrowMut<RequestBody<B>>,
) -> impl Future<Output = Result<Collected<'static>, Problem>> {
    read_within(body, QUESTION_BYTES_MAX)
}

/// Reads the body of a batch.
pub(crate) fn read_batch<B: Body<Data = Bytes> + Unpin>(
    body: impl BorrowMut<RequestBody<B>>,
) -> impl Future<Output = Result<Collected<'static>, Problem>> {
    read_within(body, BATCH_BYTES_MAX)
}

async fn read_within<B: Body<Data = Bytes> + Unpin>(
    mut body: impl BorrowMut<RequestBody<B>>,
    bytes_max: usize,
) -> Result<Collected<'static>, Problem> {
    let read = within(BODY_TIMEOUT, async {
        let RequestBody { body, activity } = body.borrow_mut();
        let collected = collect(activity.client(), body, bytes_max).await;
        if collected.is_err() {
            drain(body).await;
        }
        collected
    });
    let read = read.await.ok_or_else(|| Problem::body_timeout(BODY_TIMEOUT))?;
    read.map_err(|why| match why {
        BodyReadError::Broken => Problem::body_broken(),
        BodyReadError::TooLarge => Problem::body_too_large(bytes_max),
        BodyReadError::NoRoom => Problem::too_many_bodies(),
    })
}

/// Reads a body that a key is in, before it is forwarded. `None` if it is longer than a key may be looked for in; then it is
/// forwarded all the same.
pub(crate) async fn read_ahead(
    client: Option<&Arc<ClientUsage>>,
    body: &mut Upload,
) -> Result<Option<Bytes>, Problem> {
    let read = within(BODY_TIMEOUT, body.read_ahead(client, KEY_BODY_BYTES_MAX)).await;
    read.ok_or_else(|| Problem::body_timeout(BODY_TIMEOUT))?.map_err(|why| match why {
        ReadAheadError::Broken(Broken::Paused) => Problem::body_paused(),
        ReadAheadError::Broken(Broken::Sender(_)) => Problem::body_broken(),
        ReadAheadError::NoRoom => Problem::too_many_bodies(),
    })
}

/// Reads and discards up to the bound.
async fn drain(body: &mut (impl Body<Data = Bytes> + Unpin)) {
    let mut left = DRAIN_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let size = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(size) else { return };
        left = rest;
    }
}

/// Decodes a body. Only an invalid body is parsed a second time, to locate the error.
pub(crate) fn decode<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    let decoded = serde_json::from_slice(body);
    decoded.map(|Object(decoded)| decoded).map_err(|error| locate::<T>(body, &error.to_string()))
}

#[cold]
fn locate<'a, T: Deserialize<'a>>(body: &'a [u8], error: &str) -> Problem {
    if body.is_empty() {
        let example = "{\"policy\":\"api\",\"key\":\"user-42\"}";
        return Problem::bad_input(&format!("the body is empty: send JSON like {example}"));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let located = serde_path_to_error::deserialize::<_, Object<T>>(&mut reader).err();
    let path = located.map(|error| error.path().to_string()).unwrap_or_default();
    Problem::bad_json(&field(&path, error), error)
}

/// The field that an error is about. The path ends at the object if one of its fields is missing or duplicate, and in a
/// question mark if not even a field name could be read.
fn field(path: &str, error: &str) -> String {
    let object = path.trim_end_matches('?').trim_end_matches('.');
    let prefixes = ["missing field `", "duplicate field `"];
    let name = prefixes.iter().find_map(|words| error.strip_prefix(words)?.split('`').next());
    match (object, name) {
        ("", Some(name)) => name.to_owned(),
        (object, Some(name)) => format!("{object}.{name}"),
        (object, None) => object.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http::StatusCode;
    use hyper::body::Frame;
    use proptest::prelude::*;

    use super::super::request::{BatchRequest, Request};
    use super::*;
    use crate::net::http::Activity;
    use tidegate_testkit::fuzz::{self, Grammar};

    /// A body that never arrives.
    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_arrives_times_out() {
        let problem =
            read(RequestBody { body: Silent, activity: Activity::of(None) }).await.unwrap_err();
        assert_eq!(problem.status(), StatusCode::REQUEST_TIMEOUT);
    }

    #[test]
    fn errors_name_the_path_of_the_field() {
        for (path, error, expected) in [
            (".", "expected value", ""),
            ("?", "EOF", ""),
            ("checks[3].?", "EOF", "checks[3]"),
            ("checks[3].cost", "invalid type", "checks[3].cost"),
            (".", "missing field `checks` at line 1", "checks"),
            ("checks[3]", "duplicate field `key` at line 1", "checks[3].key"),
        ] {
            assert_eq!(field(path, error), expected, "{path}");
        }
    }

    /// Request bodies, complete and in parts, with invalid numbers and nesting.
    const GRAMMAR: Grammar = Grammar {
        whole: &[
            r#"{"policy":"api","key":"k","cost":3}"#,
            r#"{"policy":"api","keys":{"ip":"a","b":"c"}}"#,
            r#"{"atomic":true,"headers":true,"checks":[{"policy":"api","key":"k"},{"policy":"b","key":"\u00e9"}]}"#,
        ],
        words: &[
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"policy\"",
            "\"key\"",
            "\"keys\"",
            "\"cost\"",
            "\"checks\"",
            "\"atomic\"",
            "\"headers\"",
            "\"api\"",
            "\"policy\":\"api\"",
            "\"key\":\"k\"",
            "\"cost\":1",
            "\"checks\":[",
            "{\"policy\":\"api\",\"key\":\"k\"}",
            "1",
            "-1",
            "1e400",
            "9007199254740993",
            "0.5",
            "true",
            "null",
            "\"",
            "\\",
            "\\u0000",
            "\\ud800",
            " ",
            "\n",
            "NaN",
        ],
    };

    proptest! {
        #![proptest_config(fuzz::config(10_000))]

        #[test]
        fn any_body_is_a_question_or_a_problem(body in fuzz::bytes_like(GRAMMAR)) {
            let one = fuzz::held_to(100, &body, || decode::<Request<'_>>(&body).map(|it| it.question().is_ok()));
            let many = fuzz::held_to(300, &body, || decode::<BatchRequest<'_>>(&body).map(|it| it.questions().is_ok()));
            // No body is both: each has fields that the other rejects.
            prop_assert!(one.is_err() || many.is_err());
        }
    }
}
