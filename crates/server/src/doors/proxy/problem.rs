//! Error responses for requests that could not be forwarded.

use axum::http::StatusCode;

use crate::doors::shared::Problem;
use crate::upstreams::failure::Failure;

/// The detail does not name the upstream's address.
pub(super) fn gateway_problem(failure: &Failure) -> Problem {
    let (status, detail) = match failure {
        Failure::ConnectFailed(error) => (
            StatusCode::BAD_GATEWAY,
            format!("the upstream cannot be connected to: {}", error.kind()),
        ),
        Failure::ConnectTimeout => (
            StatusCode::GATEWAY_TIMEOUT,
            "the upstream did not accept the connection in time".to_owned(),
        ),
        Failure::ResponseTimeout => {
            (StatusCode::GATEWAY_TIMEOUT, "the upstream did not answer in time".to_owned())
        }
        Failure::Closed => (
            StatusCode::BAD_GATEWAY,
            "the upstream closed the connection without an answer".to_owned(),
        ),
        Failure::Broken(error) if error.is_parse() => {
            (StatusCode::BAD_GATEWAY, "the upstream did not answer in HTTP".to_owned())
        }
        Failure::Broken(_) => {
            (StatusCode::BAD_GATEWAY, "the connection to the upstream broke".to_owned())
        }
        Failure::UnknownCoding => (
            StatusCode::BAD_GATEWAY,
            "the upstream answered in a transfer coding other than `chunked`".to_owned(),
        ),
        Failure::ClientPaused => {
            (StatusCode::REQUEST_TIMEOUT, "the request body did not arrive in time".to_owned())
        }
        Failure::ClientGone => {
            return Problem::bad_input("the body ended early or has invalid framing");
        }
    };
    Problem::gateway(status, &detail)
}
