//! What a client is told when its request could not be passed on.

use axum::http::StatusCode;

use crate::doors::shared::Problem;
use crate::upstreams::failure::Failure;

/// What happened, and not where.
pub(super) fn problem(failure: &Failure) -> Problem {
    let (status, detail) = match failure {
        Failure::Unreached(error) => (
            StatusCode::BAD_GATEWAY,
            format!("what is behind this proxy cannot be connected to: {}", error.kind()),
        ),
        Failure::Unheard => (
            StatusCode::GATEWAY_TIMEOUT,
            "what is behind this proxy did not take the connection in time".to_owned(),
        ),
        Failure::Silent => (
            StatusCode::GATEWAY_TIMEOUT,
            "what is behind this proxy did not answer in time".to_owned(),
        ),
        Failure::Closed => (
            StatusCode::BAD_GATEWAY,
            "what is behind this proxy closed the connection without an answer".to_owned(),
        ),
        Failure::Broken(error) if error.is_parse() => {
            (StatusCode::BAD_GATEWAY, "what is behind this proxy did not answer in HTTP".to_owned())
        }
        Failure::Broken(_) => (
            StatusCode::BAD_GATEWAY,
            "the connection to what is behind this proxy broke".to_owned(),
        ),
        Failure::Coded => (
            StatusCode::BAD_GATEWAY,
            "what is behind this proxy answered in a transfer coding other than `chunked`"
                .to_owned(),
        ),
        Failure::Paused => {
            (StatusCode::REQUEST_TIMEOUT, "the body of the request did not come in time".to_owned())
        }
        Failure::Gone => {
            return Problem::bad_input("the body ended early or was not well framed");
        }
    };
    Problem::gateway(status, &detail)
}
