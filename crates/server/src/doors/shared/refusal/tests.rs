use http::Request;
use http::header::CONTENT_TYPE;

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
    let rules = RefusalRules::default();
    let why = Why { rules: &rules, cause: Cause::Client, policy: "", id: None };
    response(&seen, Problem::shed(StatusCode::TOO_MANY_REQUESTS), why, retry_after)
}

fn text(response: Response<Bytes>) -> String {
    String::from_utf8(response.into_body().to_vec()).unwrap()
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
        ("GET", "/shop", &[html, ("sec-fetch-dest", "document")], "page"),
        ("GET", "/shop", &[html, ("sec-fetch-dest", "iframe")], "page"),
        ("GET", "/logo", &[html, ("sec-fetch-dest", "image")], ""),
        ("GET", "/shop", &[html, json, ("sec-fetch-dest", "empty")], "json"),
        ("GET", "/shop", &[("accept", "text/html;q=0, */*")], ""),
        ("GET", "/shop", &[("accept", "application/json, text/html;q=0.5")], "json"),
        ("GET", "/shop", &[("accept", "application/json;q=0.5, text/html; q=0.9")], "page"),
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
    assert!(page.contains(r#"content="17""#) && page.contains("seconds</span>"), "{page}");
    assert!(!page.contains("{seconds}") && !page.contains("{t"), "{page}");
    for elsewhere in ["http://", "https://", "src=", "href="] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn long_waits_are_told_in_larger_units_and_reload_on_the_second() {
    for (seconds, shown) in [
        (0, "0</b> <span id=\"unit\">seconds"),
        (120, "120</b> <span id=\"unit\">seconds"),
        (121, "3</b> <span id=\"unit\">minutes"),
        (4043, "68</b> <span id=\"unit\">minutes"),
        (7200, "120</b> <span id=\"unit\">minutes"),
        (7201, "3</b> <span id=\"unit\">hours"),
        (172_800, "48</b> <span id=\"unit\">hours"),
        (172_801, "3</b> <span id=\"unit\">days"),
    ] {
        let page =
            text(page::response(StatusCode::TOO_MANY_REQUESTS, page::LIMITED, Some(seconds)));
        assert!(page.contains(&format!("<b id=\"left\">{shown}</span>")), "{seconds}: {page}");
        assert!(page.contains(&format!("content=\"{seconds}\"")), "{seconds}: {page}");
        assert!(page.contains(&format!("Date.now() + {seconds} * 1000")), "{seconds}: {page}");
    }
}

#[test]
fn one_second_is_no_seconds() {
    let page = text(page::response(StatusCode::TOO_MANY_REQUESTS, page::LIMITED, Some(1)));
    assert!(page.contains(r#"<b id="left">1</b> <span id="unit">second</span>"#), "{page}");
    let blocked = text(page::response(StatusCode::TOO_MANY_REQUESTS, page::BLOCKED, None));
    assert!(!blocked.contains("refresh") && !blocked.contains("script"), "{blocked}");
}

#[test]
fn people_get_a_page_about_an_upstream_that_is_down_and_programs_the_problem() {
    let down = || Problem::gateway(StatusCode::BAD_GATEWAY, "the upstream cannot be connected to");
    let response = unreachable(RefusalFormat::Page, down());
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(response.headers()[CACHE_CONTROL], "no-store, no-cache, must-revalidate, max-age=0");
    let seconds: u64 = response.headers()[RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((10..=12).contains(&seconds), "{seconds}");
    let page = text(response);
    assert!(page.contains("<title>Back Soon</title>"), "{page}");
    assert!(page.contains(&format!(r#"content="{seconds}""#)), "{page}");
    for format in [RefusalFormat::Json, RefusalFormat::Empty] {
        let problem = unreachable(format, down());
        let headers = problem.headers();
        assert_eq!(headers[CONTENT_TYPE], "application/problem+json");
        assert!(headers[CACHE_CONTROL].to_str().unwrap().starts_with("no-store"), "{headers:?}");
        assert!(headers.contains_key(RETRY_AFTER), "{headers:?}");
    }
    let own_fault = unreachable(RefusalFormat::Page, Problem::bad_input("the body ended early"));
    assert_eq!(own_fault.headers()[CONTENT_TYPE], "application/problem+json");
}
