//! An answer with its body at hand.

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use tidegate::tower::Report;

/// What is said of the limit is kept apart: who writes lines has no use for a map of headers, which would cost as much
/// as the decision.
pub(super) struct Whole {
    pub(super) response: hyper::Response<Bytes>,
    pub(super) report: Option<Report>,
}

impl Whole {
    /// The answer with all of its headers.
    pub(super) fn finish(mut self) -> hyper::Response<Bytes> {
        if let Some(report) = self.report {
            report.write(self.response.headers_mut());
        }
        self.response
    }
}

impl From<hyper::Response<Bytes>> for Whole {
    fn from(response: hyper::Response<Bytes>) -> Self {
        Self { response, report: None }
    }
}

impl IntoResponse for Whole {
    fn into_response(self) -> Response {
        self.finish().map(Body::from)
    }
}
