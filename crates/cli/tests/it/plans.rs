//! Options of policies, at every door: costs that a limit multiplies, policies that are enforced for a part of
//! their callers, and keys with a limit of their own in place of one of several.

use serde_json::{Value, json};

use crate::processes::RedisServer;
use crate::support::{Folder, Server};

const FILE: &str = "
policies:
  plan:
    all:
      - { name: requests, algorithm: fixed-window, limit: 100/day }
      - { name: units, algorithm: fixed-window, limit: 200/day, cost: 10 }
  pool:
    all:
      - { name: calls, algorithm: concurrency, limit: 9 }
      - { name: places, algorithm: concurrency, limit: 10, cost: 3 }
";

/// A server with these policies, in memory or over Redis.
fn server(redis: Option<&RedisServer>, file: &str) -> Server {
    let folder = Folder::new();
    let store = redis.map(|redis| format!("store: {}\n", redis.url())).unwrap_or_default();
    let path = folder.write("tidegate.yaml", store + file);
    let doors = ["--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0"];
    Server::start_with(&[&["serve", "-c", &path], &doors[..]].concat())
}

fn ask(server: &Server, path: &str, body: &Value) -> (u16, Value) {
    let reply = server.post(path, &body.to_string());
    (reply.status, reply.json())
}

#[test]
fn a_multiplied_cost_is_the_same_at_every_door() {
    let redis = RedisServer::start();
    for store in [None, Some(&redis)] {
        let server = server(store, FILE);
        let check = |path, cost| {
            let (_, answer) =
                ask(&server, path, &json!({"policy": "plan", "key": "ann", "cost": cost}));
            (answer["allowed"] == true, answer["binding"].clone(), answer["remaining"].clone())
        };
        assert_eq!(check("/v1/check", 3), (true, json!("units"), json!(170)));
        assert_eq!(check("/v1/peek", 17), (true, json!("units"), json!(0)));
        assert_eq!(check("/v1/refund", 1), (true, json!("units"), json!(180)));
        assert_eq!(check("/v1/check", 19), (false, json!("units"), json!(180)));
        assert_eq!(server.cell_reply("TG.CHECK plan ann 2")[..3], [0, 200, 160]);
        let checks =
            json!([{"policy": "plan", "key": "ann"}, {"policy": "plan", "key": "ann", "cost": 2}]);
        for (atomic, left) in [(true, [130, 130]), (false, [120, 100])] {
            let (_, answer) =
                ask(&server, "/v1/check/batch", &json!({"checks": checks, "atomic": atomic}));
            let left_now = [0, 1].map(|n| answer["decisions"][n]["remaining"].clone());
            assert_eq!(left_now, left.map(Value::from), "{answer}");
        }
        let entries = json!([{"key": "policy", "value": "plan"}, {"key": "user", "value": "ann"}]);
        for (hits, code, left) in [
            (0, "OK", 100),
            (4, "OK", 60),
            (7, "OVER_LIMIT", 60),
            (6, "OK", 0),
            (0, "OVER_LIMIT", 0),
        ] {
            let descriptors = json!([{"entries": entries, "hitsAddend": hits}]);
            let (_, answer) =
                ask(&server, "/json", &json!({"domain": "tidegate", "descriptors": descriptors}));
            let status = &answer["statuses"][0];
            let seen = (status["code"].clone(), status["limitRemaining"].as_u64().unwrap_or(0));
            assert_eq!(seen, (json!(code), left), "{hits} hits: {answer}");
        }
        assert_eq!(server.post("/v1/reset", r#"{"policy":"plan","key":"ann"}"#).status, 200);
        assert_eq!(server.remaining("plan", "ann"), 200);
    }
}

#[test]
fn a_product_above_2_to_the_53_is_the_callers_error_at_every_door() {
    let server = server(None, FILE);
    let cost_max = (1_u64 << 53) / 10;
    let too_high = format!(
        "policy `plan` multiplies costs: {} is too high, expected at most {cost_max}",
        cost_max + 1
    );
    let check = json!({"policy": "plan", "key": "ann", "cost": cost_max + 1});
    for path in ["/v1/check", "/v1/peek", "/v1/refund"] {
        let (status, problem) = ask(&server, path, &check);
        assert_eq!((status, &problem["field"]), (400, &json!("cost")), "{path}: {problem}");
        assert_eq!(problem["detail"], format!("`cost`: {too_high}"));
    }
    let fine = json!({"policy": "plan", "key": "ann"});
    for atomic in [true, false] {
        let batch = json!({"checks": [fine, check], "atomic": atomic});
        let (status, problem) = ask(&server, "/v1/check/batch", &batch);
        assert_eq!((status, &problem["field"]), (400, &json!("checks[1].cost")), "{problem}");
    }
    let reply = server.resp_line(&format!("TG.CHECK plan ann {}", cost_max + 1));
    assert_eq!(reply, format!("-ERR {too_high}\r\n"));
    assert_eq!(server.remaining("plan", "ann"), 200, "nothing was charged");
}

#[test]
fn a_permit_holds_its_multiple_of_places() {
    let redis = RedisServer::start();
    for store in [None, Some(&redis)] {
        let server = server(store, FILE);
        let acquire = json!({"policy": "pool", "key": "ann", "cost": 2});
        let (_, first) = ask(&server, "/v1/acquire", &acquire);
        assert_eq!((&first["binding"], &first["remaining"]), (&json!("places"), &json!(4)));
        assert_eq!(ask(&server, "/v1/acquire", &acquire).1["allowed"], false);
        let held = json!({"policy": "pool", "key": "ann", "permit": first["permit"]});
        assert_eq!(ask(&server, "/v1/renew", &held).1["renewed"], true);
        assert_eq!(ask(&server, "/v1/release", &held).1["released"], true);
        assert_eq!(server.remaining("pool", "ann"), 10);
    }
}

#[test]
fn policies_show_what_a_check_costs() {
    let policies = server(None, FILE).get("/v1/policies").json();
    let members = &policies["plan"]["members"];
    assert_eq!((&members[0]["cost"], &members[1]["cost"]), (&Value::Null, &json!(10)));
}

const PARTLY: &str = "
policies:
  api: { algorithm: fixed-window, limit: 1/day, enforce: 10% }
  export: { algorithm: leaky-bucket, limit: 1/h, max_wait: 1h, enforce: 10% }
routes:
  - { policy: api, key: 'header:x-user' }
";

/// One user that each of both policies is enforced for, and one that neither is.
fn one_of_each() -> [String; 2] {
    let tenth: tidegate::Percent = "10%".parse().unwrap();
    let is_in =
        |user: &str| ["api", "export"].map(|policy| tenth.includes(policy, user.as_bytes()));
    let find =
        |expected| (0..1000).map(|n| format!("user-{n}")).find(|user| is_in(user) == expected);
    [find([true; 2]).unwrap(), find([false; 2]).unwrap()]
}

#[test]
fn a_policy_is_enforced_for_the_same_callers_at_every_door() {
    let redis = RedisServer::start();
    let [inside, outside] = one_of_each();
    for store in [None, Some(&redis)] {
        let server = server(store, PARTLY);
        for (user, is_refused) in [(&inside, true), (&outside, false)] {
            let check = json!({"policy": "api", "key": user});
            assert_eq!(ask(&server, "/v1/check", &check).1["allowed"], true);
            for _ in 0..3 {
                assert_eq!(ask(&server, "/v1/check", &check).1["allowed"], !is_refused, "{user}");
            }
            let reply = server.cell_reply(&format!("TG.CHECK api {user}"));
            assert_eq!(reply[0], i64::from(is_refused), "{user}");
            let batch = json!({"checks": [check, {"policy": "api", "key": format!("{user}-b")}], "atomic": true});
            let (_, answer) = ask(&server, "/v1/check/batch", &batch);
            assert_eq!(answer["decisions"][0]["allowed"], !is_refused, "{answer}");
            let entries =
                json!([{"key": "policy", "value": "api"}, {"key": "user", "value": user}]);
            let rls = json!({"domain": "tidegate", "descriptors": [{"entries": entries}]});
            assert_eq!(ask(&server, "/json", &rls).0, if is_refused { 429 } else { 200 }, "{user}");
            let auth = server.send("GET", "/v1/auth", &[("x-user", user)], b"");
            assert_eq!(auth.status, if is_refused { 429 } else { 200 }, "{user}");
            let reserve = json!({"policy": "export", "key": user});
            let delays = [0; 3].map(|_| ask(&server, "/v1/reserve", &reserve).1);
            assert_eq!(delays[1]["delay_ms"].as_u64().unwrap() > 0, is_refused, "{delays:?}");
            assert_eq!(delays[2]["accepted"], !is_refused, "{delays:?}");
        }
        let count = |status| {
            let series = format!("rate_limit_requests_total{{policy=\"api\",status=\"{status}\"}}");
            server.metric(&series).unwrap()
        };
        assert!(count("denied") >= 6.0 && count("shadow_denied") >= 6.0);
        assert_eq!(server.get("/v1/policies").json()["api"]["enforce"], "10%");
    }
}

#[test]
fn a_file_that_enforces_more_says_that_counters_are_kept() {
    let folder = Folder::new();
    let old = folder.write("old.yaml", PARTLY);
    let new =
        folder.write("new.yaml", PARTLY.replace("1/day, enforce: 10%", "1/day, enforce: 50%"));
    let output = crate::support::run(&["validate", &new, "--against", &old]);
    assert!(output.stdout.contains("policies.api.enforce"), "{}", output.stdout);
    assert!(output.stdout.contains("10%") && output.stdout.contains("50%"), "{}", output.stdout);
}

#[test]
fn a_key_gets_a_limit_in_place_of_one_of_several() {
    let redis = RedisServer::start();
    for store in [None, Some(&redis)] {
        let server = server(store, FILE);
        let path = "/v1/overrides/plan/ann";
        let put = |body: &Value| {
            let reply = server.send("PUT", path, &[], body.to_string().as_bytes());
            let problem = if reply.body.is_empty() { Value::Null } else { reply.json() };
            (reply.status, problem["field"].clone(), problem["detail"].clone())
        };
        assert_eq!(put(&json!({"limit_name": "units", "limit": "50/day"})).0, 204);
        assert_eq!(
            put(&json!({"limit_name": "requests", "limit": "3/day", "ttl_ms": 3_600_000})).0,
            204
        );
        assert_eq!(server.remaining("plan", "ann"), 3);
        assert_eq!(server.remaining("plan", "ben"), 200);
        for (body, field, detail) in [
            (json!({"limit": "50/day"}), "limit_name", "one of requests, units"),
            (
                json!({"limit_name": "unit", "limit": "50/day"}),
                "limit_name",
                "did you mean `units`?",
            ),
            (
                json!({"limit_name": "units", "allow": true}),
                "limit_name",
                "are for the whole policy",
            ),
            (
                json!({"limit_name": "units", "limit": "9/day"}),
                "limit",
                "a check costs 10 of the limit `units`",
            ),
        ] {
            let (status, at, why) = put(&body);
            assert_eq!((status, at), (400, json!(field)), "{body}: {why}");
            assert!(why.as_str().unwrap().contains(detail), "{body}: {why}");
        }
        let shown = server.get(path).json();
        assert_eq!(shown["limits"][0]["limit_name"], "requests", "{shown}");
        let units = json!({"limit_name": "units", "limit": "50/day", "ttl_ms": null});
        assert_eq!(shown["limits"][1], units);
        for query in [
            "limit_name",
            "limit_name=",
            "limit=units",
            "limit_name=units&x=1",
            "x&limit_name=units",
        ] {
            for method in ["GET", "DELETE"] {
                let reply = server.send(method, &format!("{path}?{query}"), &[], b"");
                assert_eq!(
                    (reply.status, &reply.json()["field"]),
                    (400, &json!("limit_name")),
                    "{method} {query}"
                );
            }
        }
        let body = json!({"limit_name": "requests", "limit": "50/day"}).to_string();
        let reply = server.send("PUT", &format!("{path}?limit_name=units"), &[], body.as_bytes());
        assert_eq!((reply.status, &reply.json()["field"]), (400, &json!("limit_name")));
        assert!(reply.json()["detail"].as_str().unwrap().contains("belongs in the body"));
        let one = server.get(&format!("{path}?limit_name=units")).json();
        let expected = json!({"policy": "plan", "key": "ann", "limit_name": "units", "limit": "50/day", "ttl_ms": null});
        assert_eq!(one, expected);
        assert_eq!(server.get("/v1/overrides").json()["overrides"].as_array().unwrap().len(), 2);
        assert_eq!(server.send("DELETE", path, &[], b"").status, 404, "none of the whole policy");
        let delete = |name: &str| {
            server.send("DELETE", &format!("{path}?limit_name={name}"), &[], b"").status
        };
        assert_eq!((delete("units"), delete("units"), delete("requests")), (204, 404, 204));
        assert_eq!(server.remaining("plan", "ann"), 200);
    }
}

#[test]
fn a_missing_override_names_what_there_is() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, FILE);
    let path = "/v1/overrides/plan/ann";
    let answer = |method: &str, query: &str| {
        let reply = server.send(method, &format!("{path}{query}"), &[], b"");
        let problem = if reply.body.is_empty() { Value::Null } else { reply.json() };
        (reply.status, problem["detail"].as_str().unwrap_or_default().to_owned())
    };
    let none = "`ann` has no stored override of policy `plan`";
    let of_one = "`ann` has no stored override of limit `units` of policy `plan`";
    assert_eq!(answer("DELETE", ""), (404, none.to_owned()));
    assert_eq!(answer("DELETE", "?limit_name=units"), (404, of_one.to_owned()));
    for name in ["requests", "units"] {
        let body = json!({"limit_name": name, "limit": "50/day"}).to_string();
        assert_eq!(server.send("PUT", path, &[], body.as_bytes()).status, 204);
    }
    let (status, detail) = answer("DELETE", "");
    assert_eq!(status, 404);
    assert_eq!(
        detail,
        format!(
            "{none}: only of single limits, so add ?limit_name=NAME for one of requests, units"
        )
    );
    for method in ["GET", "DELETE"] {
        let (status, detail) = answer(method, "?limit_name=unit");
        assert_eq!(status, 404, "{method}");
        assert_eq!(
            detail,
            "`ann` has no stored override of limit `unit` of policy `plan`: its limits are requests, units"
        );
    }
    assert_eq!(answer("GET", "").0, 200, "nothing is deleted");
}
