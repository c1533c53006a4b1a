use http::Request;

use super::*;
use tidegate_request::{ClientIp, Peer};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn refused(method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
    let request = Request::builder().method(method).uri(path);
    let add = |request: http::request::Builder, (name, value): &(&str, &str)| {
        request.header(*name, *value)
    };
    let (parts, ()) = headers.iter().fold(request, add).body(()).unwrap().into_parts();
    let client_ip = ClientIp::new();
    let peer = Peer::Ip("192.0.2.7".parse().unwrap());
    let seen = ClientRequest::direct(&client_ip, peer, &parts).unwrap();
    let retry_after = [(RETRY_AFTER, HeaderValue::from_static("17"))].into_iter().collect();
    response(&seen, Problem::shed(StatusCode::TOO_MANY_REQUESTS), retry_after)
}

#[test]
fn people_get_a_page_programs_the_accepted_type_and_assets_an_empty_body() {
    let kind = |method: &str, path: &str, headers: &[(&str, &str)]| {
        let response = refused(method, path, headers);
        let kind =
            response.headers().get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap().to_owned());
        let body = response.into_body();
        assert_eq!(kind.is_none(), body.is_empty(), "{method} {path} {headers:?}");
        kind.map_or("", |kind| if kind.contains("html") { "page" } else { "json" })
    };
    let (html, json, any) =
        (("accept", BROWSER), ("accept", "application/json"), ("accept", "*/*"));
    for (method, path, headers, expected) in [
        ("GET", "/", &[html][..], "page"),
        ("GET", "/shop/shoes", &[html], "page"),
        ("GET", "/shop", &[html, ("sec-fetch-mode", "navigate")], "page"),
        ("GET", "/shop", &[html, ("sec-fetch-mode", "cors")], ""),
        ("POST", "/shop", &[html], ""),
        ("HEAD", "/shop", &[html], ""),
        ("GET", "/shop", &[any], ""),
        ("GET", "/shop", &[], ""),
        ("GET", "/shop", &[json], "json"),
        ("POST", "/shop", &[("accept", "application/problem+json;q=0.5, text/plain")], "json"),
        ("GET", "/api/x", &[html], ""),
        ("GET", "/api/x", &[any], ""),
        ("GET", "/api/x", &[json], "json"),
        ("GET", "/apiary", &[html], "page"),
        ("GET", "/app.js", &[html], ""),
        ("GET", "/app.JS", &[any], ""),
        ("GET", "/a/logo.svg", &[html], ""),
        ("GET", "/data.json", &[json], "json"),
        ("GET", "/v1.2/shoes", &[html], "page"),
    ] {
        assert_eq!(kind(method, path, headers), expected, "{method} {path} {headers:?}");
    }
}

#[test]
fn the_page_counts_down_from_retry_after() {
    let response = refused("GET", "/", &[("accept", BROWSER)]);
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()[RETRY_AFTER], "17");
    assert_eq!(response.headers()[CACHE_CONTROL], "no-store, no-cache, must-revalidate, max-age=0");
    assert_eq!(
        (&response.headers()[PRAGMA], &response.headers()[EXPIRES]),
        (&"no-cache".parse().unwrap(), &"0".parse().unwrap())
    );
    let body = response.into_body();
    let page = String::from_utf8(body.to_vec()).unwrap();
    assert!(page.contains("<title>Whoa, Slow Down There!</title>"), "{page}");
    assert!(page.contains(r#"content="17""#) && !page.contains(SECONDS_PLACEHOLDER), "{page}");
    for elsewhere in ["http://", "https://", "src=", "href="] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}
