//! Where spans and figures are sent.

use http::Uri;

use super::node::Spot;
use super::problem::Problem;
use super::text::Telemetry;

/// The URL of a collector; what is wrong is noted.
pub(crate) fn collector(
    text: Option<&Telemetry>,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<String> {
    spot.of("otlp").note(url(&text?.otlp, cfg!(feature = "otlp")), found)
}

fn url(text: &str, is_built_in: bool) -> Result<String, &'static str> {
    if !is_built_in {
        return Err(
            "this tidegate was built without it: leave it out, or build one with `cargo build --release \
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
    uri.filter(is_plain).map(|_| text.to_owned()).ok_or(
        "expected http://HOST:PORT, like http://127.0.0.1:4317: a collector nearby, without TLS",
    )
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
