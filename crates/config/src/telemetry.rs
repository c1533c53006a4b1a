//! The OpenTelemetry collector.

use http::Uri;

use super::node::Cursor;
use super::text::Telemetry;

/// Checks the URL of the collector.
pub(crate) fn collector(text: Option<&Telemetry>, cursor: &Cursor<'_>) -> Option<String> {
    cursor.field("otlp").accept(url(&text?.otlp, cfg!(feature = "otlp")))
}

fn url(text: &str, is_built_in: bool) -> Result<String, &'static str> {
    if !is_built_in {
        return Err(
            "this binary was built without it: remove the key, or build with `cargo build --release \
                    -p tidegate-cli --features otlp`",
        );
    }
    let uri: Option<Uri> = text.parse().ok();
    let is_plain = |uri: &Uri| {
        uri.scheme_str() == Some("http")
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.path_and_query().is_none_or(|it| it.as_str() == "/")
            && !uri.authority().is_some_and(|it| it.as_str().contains('@'))
    };
    uri.filter(is_plain)
        .map(|_| text.to_owned())
        .ok_or("expected http://HOST:PORT, like http://127.0.0.1:4317: TLS is not supported")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_plain_url_and_wants_a_binary_that_can_send() {
        let good = "http://127.0.0.1:4317";
        assert_eq!(url(good, true).as_deref(), Ok(good));
        assert!(url(good, false).unwrap_err().contains("--features otlp"));
        for bad in [
            "",
            "127.0.0.1:4317",
            "https://collector:4317",
            "http://",
            "http://h:1/v1/traces",
            "http://a:b@h:1",
        ] {
            assert!(url(bad, true).unwrap_err().starts_with("expected http://HOST:PORT"), "{bad}");
        }
    }
}
