//! The page at `/`: one file, nothing loaded from elsewhere.

use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::IntoResponse;

const PAGE: &str = include_str!("../../../web/index.html");

/// Script and style are inline, and may call this server only; no other site may frame the page, so that its
/// buttons are pressed by those who see them.
const ALLOWED: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                       img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                       frame-ancestors 'none'";

pub(super) async fn page() -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, ALLOWED),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, PAGE)
}
