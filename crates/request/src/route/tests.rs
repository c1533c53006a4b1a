use http::Request;

use super::*;
use crate::ClientIp;
use crate::Peer;

fn route(path: Option<&str>, methods: &[&str], host: Option<&str>, policy: &str) -> Route {
    Route::new(Match { path, methods, host, ..Match::default() }, policy, None, 1).unwrap()
}

#[test]
fn the_first_route_that_matches_wins() {
    let routes = Routes::new(
        vec![
            route(Some("/api/login"), &["POST", "PUT"], None, "login"),
            route(Some("/api/*"), &[], Some("*.shop.example"), "shop"),
            route(Some("/api/*"), &[], None, "api"),
            route(None, &["DELETE"], None, "delete"),
        ],
        BTreeMap::new(),
    );
    let check = |method: &str, host: &str, path: &str, expected: Option<(&str, &str)>| {
        let request = Request::builder().method(method).uri(path).header("host", host);
        let (request, ()) = request.body(()).unwrap().into_parts();
        let client_ip = ClientIp::new();
        let peer = Peer::Ip("192.0.2.7".parse().unwrap());
        let seen = ClientRequest::direct(&client_ip, peer, &request).unwrap();
        let found = routes.find(&seen, None).unwrap();
        let found = found.as_ref().map(|found| (found.policy, found.route.name.unwrap()));
        assert_eq!(found, expected, "{method} {host} {path}");
    };
    check("POST", "a", "/api/login", Some(("login", "POST,PUT /api/login")));
    check("PUT", "a", "/api//login/", Some(("login", "POST,PUT /api/login")));
    check("GET", "a", "/api/login", Some(("api", "/api/*")));
    check("GET", "www.shop.example:80", "/api", Some(("shop", "*.shop.example/api/*")));
    check("DELETE", "a", "/other", Some(("delete", "DELETE /*")));
    check("GET", "a", "/other", None);
}

#[test]
fn assets_are_told_by_method_and_path_and_never_by_headers() {
    let only = |assets| Match { assets: Some(assets), ..Match::default() };
    let routes = Routes::new(
        vec![
            Route::new(only(true), "assets", None, 1).unwrap(),
            Route::new(only(false), "pages", None, 1).unwrap(),
        ],
        BTreeMap::new(),
    );
    let client_ip = ClientIp::new();
    for (method, path, expected) in [
        ("GET", "/app.css", "assets"),
        ("HEAD", "/a/logo.SVG?v=2", "assets"),
        ("GET", "/", "pages"),
        ("GET", "/shop.html", "pages"),
        ("GET", "/login;x.css", "pages"),
        ("GET", "/login?x.css", "pages"),
        ("POST", "/app.css", "pages"),
        ("GET", "/api/chart.png", "pages"),
        ("GET", "/%61pi/chart.png", "pages"),
        ("GET", "/data.json", "pages"),
    ] {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("accept", "text/css").header("sec-fetch-dest", "style");
        let (request, ()) = request.body(()).unwrap().into_parts();
        let seen = ClientRequest::direct(&client_ip, Peer::Unix, &request).unwrap();
        let found = routes.find(&seen, None).unwrap().map(|found| found.policy);
        assert_eq!(found, Some(expected), "{method} {path}");
        let assets = routes.find_assets(&seen).unwrap().map(|found| found.policy);
        assert_eq!(assets, Some("assets"), "{method} {path}");
    }
}

#[test]
fn a_route_covers_one_that_it_matches_always() {
    let check = |one: Match<'_>, other: Match<'_>, expected: bool| {
        let route = |matched| Route::new(matched, "api", None, 1).unwrap();
        assert_eq!(route(one).covers(&route(other)), expected, "{one:?} {other:?}");
    };
    let path = |path| Match { path: Some(path), ..Match::default() };
    let any = Match::default();
    let small = ["10.1.0.0/16".parse().unwrap(), "192.0.2.0/24".parse().unwrap()];
    let wide = ["192.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
    for (one, other, expected) in [
        (any, path("/login"), true),
        (path("/login"), any, false),
        (path("/*"), any, true),
        (path("/api/*"), path("/api/v1/*"), true),
        (path("/api/*"), path("/api"), false),
        (path("/api/*"), path("/api/*"), true),
        (path("/api/v1"), path("/api/*"), false),
        (path("/a"), path("/b"), false),
        (any, Match { methods: &["POST"], ..any }, true),
        (Match { methods: &["POST"], ..any }, any, false),
        (Match { methods: &["GET", "POST"], ..any }, Match { methods: &["POST"], ..any }, true),
        (Match { host: Some("*.example"), ..any }, Match { host: Some("a.example"), ..any }, true),
        (Match { host: Some("a.example"), ..any }, any, false),
        (Match { assets: Some(true), ..any }, any, false),
        (any, Match { assets: Some(true), ..any }, true),
        (Match { case: Case::Insensitive, ..path("/A") }, path("/a"), true),
        (path("/a"), Match { case: Case::Insensitive, ..path("/a") }, false),
        (any, Match { headers: &[("x-plan", "pro")], ..any }, true),
        (Match { headers: &[("x-plan", "pro")], ..any }, any, false),
        (
            Match { headers: &[("x-plan", "*")], ..any },
            Match { headers: &[("X-Plan", "pro"), ("x-a", "b")], ..any },
            true,
        ),
        (
            Match { headers: &[("x-plan", "pro")], ..any },
            Match { headers: &[("x-plan", "*")], ..any },
            false,
        ),
        (Match { cookies: &[("a", "b")], ..any }, Match { query: &[("a", "b")], ..any }, false),
        (any, Match { networks: &small, ..any }, true),
        (Match { networks: &wide, ..any }, Match { networks: &small, ..any }, true),
        (Match { networks: &small, ..any }, Match { networks: &wide, ..any }, false),
        (Match { networks: &wide, ..any }, any, false),
    ] {
        check(one, other, expected);
    }
}

#[test]
fn letter_case_evades_no_route_whose_server_ignores_it() {
    let case = Case::Insensitive;
    let matched = |path, case| Match { path: Some(path), case, ..Match::default() };
    let by_path = || KeyParts::read(["path"]).ok();
    let routes = Routes::new(
        vec![
            Route::new(matched("/Api/Login", case), "login", by_path(), 1).unwrap(),
            Route::new(matched("/api/*", Case::Sensitive), "api", by_path(), 1).unwrap(),
        ],
        BTreeMap::new(),
    );
    let client_ip = ClientIp::new();
    for (path, expected) in [
        ("/api/login", Some(("login", "/api/login"))),
        ("/API/login/", Some(("login", "/api/login"))),
        ("/api/LOG%49N;x", Some(("login", "/api/login"))),
        ("/api/Other", Some(("api", "/api/Other"))),
        ("/Api/other", None),
    ] {
        let (request, ()) = Request::get(path).body(()).unwrap().into_parts();
        let seen = ClientRequest::direct(&client_ip, Peer::Unix, &request).unwrap();
        let found = routes.find(&seen, None).unwrap();
        let found = found.map(|found| (found.policy, found.key.into_label()));
        let expected = expected.map(|(policy, key)| (policy, key.as_bytes().to_vec()));
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
fn all_that_makes_no_sense_in_a_route_is_told() {
    let matched = Match {
        path: Some("api"),
        methods: &["PO ST", "get"],
        host: Some("a b"),
        headers: &[("x plan", "pro"), ("x-a", "1"), ("X-A", "2")],
        cookies: &[("a;b", "1"), ("plan", " ")],
        query: &[("", "1")],
        ..Match::default()
    };
    let bad = Route::new(matched, "api", None, 1).unwrap_err();
    let told: Vec<_> = bad.iter().map(|bad| (bad.field, bad.to_string())).collect();
    assert_eq!(
        told.iter().map(|(field, _)| *field).collect::<Vec<_>>(),
        ["path", "method", "method", "host", "header", "header", "cookie", "cookie", "query"]
    );
    assert_eq!(told[2].1, "`get` is not a method: expected one like POST");
    assert_eq!(told[4].1, "`x plan` is not a name: expected one like x-plan");
}

/// The policy that a request with these headers gets, or what is wrong with it.
fn found(
    routes: &Routes,
    client: &str,
    uri: &str,
    headers: &[(&str, &str)],
) -> Result<String, String> {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (request, ()) = request.body(()).unwrap().into_parts();
    let (client_ip, peer) = (ClientIp::new(), Peer::Ip(client.parse().unwrap()));
    let seen = ClientRequest::direct(&client_ip, peer, &request).unwrap();
    let found = routes.find(&seen, None).map_err(|doubt| doubt.to_string())?;
    Ok(found.map_or("none", |found| found.policy).to_owned())
}

#[test]
fn headers_cookies_parameters_and_networks_choose_a_route() {
    let networks = ["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    let any = Match::default();
    let route = |matched, policy| Route::new(matched, policy, None, 1).unwrap();
    let routes = Routes::new(
        vec![
            route(Match { headers: &[("X-Plan", "pro")], path: Some("/a/*"), ..any }, "header"),
            route(Match { cookies: &[("plan", "gold *")], ..any }, "cookie"),
            route(Match { query: &[("export", "*"), ("as", "a b")], ..any }, "query"),
            route(Match { networks: &networks, ..any }, "network"),
        ],
        BTreeMap::new(),
    );
    let repeated = |what: &str| {
        Err(format!(
            "the {what} is repeated, or in a spelling that servers read differently: send it once, as it is named here"
        ))
    };
    for (client, uri, headers, expected) in [
        ("192.0.2.1", "/a/x", &[("x-plan", "pro")][..], Ok("header".to_owned())),
        ("192.0.2.1", "/a/x", &[("x-plan", " pro ")], Ok("header".to_owned())),
        ("192.0.2.1", "/a/x", &[("x-plan", "PRO")], Ok("none".to_owned())),
        ("192.0.2.1", "/a/x", &[("x-plan", "")], Ok("none".to_owned())),
        (
            "192.0.2.1",
            "/a/x",
            &[("x-plan", "pro"), ("connection", "x-plan")],
            Ok("none".to_owned()),
        ),
        (
            "192.0.2.1",
            "/a/x",
            &[("x-plan", "pro"), ("x-plan", "free")],
            repeated("header `x-plan`"),
        ),
        (
            "192.0.2.1",
            "/a/x",
            &[("x-plan", "free"), ("x_plan", "pro")],
            repeated("header `x-plan`"),
        ),
        // Where the path does not match, nobody reads the header.
        ("192.0.2.1", "/b", &[("x-plan", "pro"), ("x-plan", "pro")], Ok("none".to_owned())),
        ("192.0.2.1", "/b", &[("cookie", "a=1; plan=\"gold%20x\"")], Ok("cookie".to_owned())),
        ("192.0.2.1", "/b", &[("cookie", "plan=gold"), ("cookie", "a=1")], Ok("none".to_owned())),
        (
            "192.0.2.1",
            "/b",
            &[("cookie", "plan=gold a"), ("cookie", "plan=x")],
            repeated("cookie `plan`"),
        ),
        ("192.0.2.1", "/b", &[("cookie", "plan=gold a; PLAN=x")], repeated("cookie `plan`")),
        ("192.0.2.1", "/b?export=1&as=a+b", &[], Ok("query".to_owned())),
        ("192.0.2.1", "/b?%65xport=1&as=a%20b", &[], Ok("query".to_owned())),
        ("192.0.2.1", "/b?export=&as=a+b", &[], Ok("none".to_owned())),
        ("192.0.2.1", "/b?as=a+b", &[], Ok("none".to_owned())),
        // One condition fails, and the other is still ambiguous.
        ("192.0.2.1", "/b?as=x&as=y", &[], repeated("query parameter `as`")),
        ("10.9.9.9", "/b", &[], Ok("network".to_owned())),
        ("::ffff:10.9.9.9", "/b", &[], Ok("network".to_owned())),
        ("2001:db8:1::1", "/b", &[], Ok("network".to_owned())),
        ("11.0.0.1", "/b", &[], Ok("none".to_owned())),
    ] {
        assert_eq!(self::found(&routes, client, uri, headers), expected, "{uri} {headers:?}");
    }
}

#[test]
fn a_route_with_conditions_has_a_name_of_its_own() {
    let (any, networks) = (Match::default(), ["10.0.0.0/8".parse().unwrap()]);
    let name = |matched| Route::new(matched, "api", None, 1).unwrap().name;
    assert_eq!(name(Match { headers: &[("x-plan", "pro")], ..any }), "/* header:x-plan=pro");
    let all = Match { cookies: &[("a", "1")], query: &[("b", "*")], networks: &networks, ..any };
    assert_eq!(name(all), "/* cookie:a=1 query:b=* network=10.0.0.0/8");
}

/// Every route reads the same cookie out of the largest head there can be: it is searched for once.
#[test]
fn many_routes_read_many_cookies_once() {
    let values: Vec<String> = (0..2000).map(|number| format!("plan-{number}")).collect();
    let route = |value: &String| {
        let cookies = &[("plan", value.as_str())];
        Route::new(Match { cookies, ..Match::default() }, value, None, 1).unwrap()
    };
    let routes = Routes::new(values.iter().map(route).collect(), BTreeMap::new());
    assert_eq!(routes.parts_matched(), 1);
    let cookies = format!("{}plan=plan-1999", "abcd=e; ".repeat(4000));
    let expected = Ok("plan-1999".to_owned());
    assert_eq!(self::found(&routes, "192.0.2.1", "/", &[("cookie", &cookies)]), expected);
    let (request, ()) = Request::get("/").header("cookie", &cookies).body(()).unwrap().into_parts();
    let client_ip = ClientIp::new();
    let seen = ClientRequest::direct(&client_ip, Peer::Unix, &request).unwrap();
    let mut values = Values::new(&seen);
    for route in &routes.in_order {
        route.conditions.hold(&mut values).unwrap();
    }
    assert_eq!(values.len(), 1);
}

#[test]
fn a_plan_counts_if_a_trusted_peer_names_it() {
    let by = |part: &str| {
        let own = |policy: &str| (policy.to_owned(), None);
        let named = [("pro".to_owned(), own("pro")), ("a b".to_owned(), own("spaced"))];
        Choice::by(part, named, own("free")).unwrap()
    };
    let priority = [("pro".to_owned(), Priority::Critical)];
    let priority = Choice::by("header:x-plan", priority, Priority::Batch).unwrap();
    let route = |path, part: &str| {
        let matched = Match { path: Some(path), ..Match::default() };
        Route::new(matched, "", None, 1).unwrap().choosing(by(part)).prioritized(priority.clone())
    };
    let keys = BTreeMap::from([("pro".to_owned(), CountedBy::One(KeyParts::path()))]);
    let routes = vec![route("/h", "header:x-plan"), route("/q", "query:plan")];
    let routes = Routes::new(routes, keys);
    let policies: Vec<_> = routes.policies().collect();
    assert_eq!(policies, ["pro", "spaced", "free", "pro", "spaced", "free"]);
    let client_ip = ClientIp::new().trust("127.0.0.1").unwrap();
    for (peer, uri, plans, expected) in [
        ("127.0.0.1", "/h", &["pro"][..], Some(("pro", "/h", Priority::Critical))),
        ("127.0.0.1", "/h", &[" pro "], Some(("pro", "/h", Priority::Critical))),
        ("127.0.0.1", "/h", &["Pro"], Some(("free", "127.0.0.1", Priority::Batch))),
        ("127.0.0.1", "/h", &[], Some(("free", "127.0.0.1", Priority::Batch))),
        ("127.0.0.1", "/h", &["pro", "pro"], None),
        ("127.0.0.1", "/q?plan=a+b", &[], Some(("spaced", "127.0.0.1", Priority::Batch))),
        ("192.0.2.1", "/h", &["pro"], Some(("free", "192.0.2.1", Priority::Batch))),
        ("192.0.2.1", "/h", &["pro", "pro"], Some(("free", "192.0.2.1", Priority::Batch))),
    ] {
        let mut request = Request::builder().uri(uri);
        for plan in plans {
            request = request.header("x-plan", *plan);
        }
        let (request, ()) = request.body(()).unwrap().into_parts();
        let peer = Peer::Ip(peer.parse().unwrap());
        let seen = ClientRequest::direct(&client_ip, peer, &request).unwrap();
        let found = routes.find(&seen, None).ok().flatten();
        let found = found.map(|it| {
            assert_eq!(policies[it.number.unwrap()], it.policy);
            (it.policy, String::from_utf8(it.key.into_label()).unwrap(), it.priority.unwrap())
        });
        let expected = expected.map(|(policy, key, priority)| (policy, key.to_owned(), priority));
        assert_eq!(found, expected, "{uri} {plans:?}");
    }
}

#[test]
fn a_signed_plan_is_believed_from_anybody_and_a_plan_in_a_header_is_not() {
    use crate::{TokenAlgorithm, TokenRules, TokenVerifier};
    use tidegate::{ManualClock, Timestamp};
    let golden = include_str!("../../../../testdata/jwt/golden.json");
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    let rules = TokenRules::new(vec![TokenAlgorithm::Es256], Vec::new(), Vec::new()).unwrap();
    let keys = golden["pem"]["p256"].as_str().unwrap();
    let verifier = TokenVerifier::with_keys(keys.as_bytes(), rules).unwrap();
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let plans = [("gold".to_owned(), ("gold".to_owned(), None))];
    let plan = Choice::by("jwt:plan", plans, ("other".to_owned(), None)).unwrap();
    let priorities = [("true".to_owned(), Priority::Critical)];
    let priority = Choice::by("jwt:admin", priorities, Priority::BestEffort).unwrap();
    let all = Route::new(Match::default(), "", None, 1).unwrap();
    let routes = Routes::new(vec![all.choosing(plan).prioritized(priority)], BTreeMap::new());
    let client_ip = ClientIp::new();
    let right = format!("Bearer {}", golden["tokens"]["ES256"].as_str().unwrap());
    for (token, expected) in [
        (right.clone(), ("gold", Some(Priority::Critical))),
        (format!("{right}A"), ("other", Some(Priority::BestEffort))),
        (String::new(), ("other", Some(Priority::BestEffort))),
    ] {
        let request = Request::get("/").header("authorization", &token);
        let request = request.header("plan", "gold").header("x-plan", "gold");
        let (request, ()) = request.body(()).unwrap().into_parts();
        let peer = Peer::Ip("192.0.2.7".parse().unwrap());
        let seen = ClientRequest::direct(&client_ip, peer, &request).unwrap();
        let seen = seen.verified_by(&verifier, &clock);
        let found = routes.find(&seen, None).unwrap().unwrap();
        assert_eq!((found.policy, found.priority), expected, "{token}");
    }
    assert!(Choice::by("json:/plan", [("a".to_owned(), 1)], 2).is_err());
    assert!(Choice::by("jwt:plan|header:x", [("a".to_owned(), 1)], 2).is_err());
    assert!(routes.read_tokens());
}

#[test]
fn only_the_route_whose_key_is_in_the_body_needs_it() {
    let to = |path, parts: &str| {
        let key = KeyParts::read([parts]).unwrap();
        Route::new(Match { path: Some(path), ..Match::default() }, "p", Some(key), 1).unwrap()
    };
    let own = KeyParts::read(["client_ip", "json:/user"]).unwrap();
    let each = vec![("json:/user".to_owned(), KeyParts::read(["json:/user"]).unwrap())];
    let keys = [("own", CountedBy::One(own)), ("each", CountedBy::Each(each))];
    let keys = keys.map(|(name, by)| (name.to_owned(), by));
    let routes = Routes::new(
        vec![
            to("/body", "client_ip|json:/user"),
            to("/head", "header:x-user"),
            route(Some("/own"), &[], None, "own"),
            route(Some("/each"), &[], None, "each"),
            route(Some("/none"), &[], None, "none"),
        ],
        keys.into(),
    );
    let (client_ip, peer) = (ClientIp::new(), Peer::Ip("192.0.2.7".parse().unwrap()));
    let needs = |routes: &Routes, path: &str, media: &str| {
        let request = Request::post(path).header("content-type", media);
        let (request, ()) = request.body(()).unwrap().into_parts();
        routes.need_body(&ClientRequest::direct(&client_ip, peer, &request).unwrap()).unwrap()
    };
    for (path, expected) in [
        ("/body", true),
        ("/own", true),
        ("/each", true),
        ("/head", false),
        ("/none", false),
        ("/elsewhere", false),
    ] {
        assert_eq!(needs(&routes, path, "application/json"), expected, "{path}");
        assert!(!needs(&routes, path, "text/plain"), "{path}");
    }
    let without = Routes::new(vec![to("/body", "client_ip")], BTreeMap::new());
    assert!(!needs(&without, "/body", "application/json"));
}
