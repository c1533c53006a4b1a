//! Rules of envoyproxy/ratelimit: matching, answers and errors. Requests are sent as JSON, which shares its code with
//! gRPC.

use serde_json::{Value, json};

use crate::processes::{DEADLINE, wait_until};
use crate::support::{Folder, Server, run};

/// Every kind of rule.
pub(crate) const RULES: &str = include_str!("rls/rules.yaml");

/// A folder of rules, removed when dropped.
pub(crate) struct Rules {
    _folder: Folder,
    path: String,
}

impl Rules {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = Folder::new();
        for (file, text) in files {
            folder.write(&format!("rules/{file}"), text);
        }
        let path = folder.path("rules");
        Self { _folder: folder, path }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn serve(&self, more: &[&str]) -> Server {
        let args = ["serve", "--listen", "127.0.0.1:0", "--envoy-config", self.path()];
        Server::start_with(&[&args, more].concat())
    }
}

/// `tier=gold,api_key=k`, as a descriptor.
pub(crate) fn descriptor(text: &str) -> Value {
    let entry = |entry: &str| {
        let (key, value) = entry.split_once('=').unwrap();
        json!({"key": key, "value": value})
    };
    let entries: Vec<_> = text.split(',').map(entry).collect();
    json!({ "entries": entries })
}

/// Sends a request with descriptors, separated by blanks, of the domain `edge`.
pub(crate) fn ask(server: &Server, descriptors: &str) -> (u16, Value) {
    let descriptors: Vec<_> = descriptors.split(' ').map(descriptor).collect();
    ask_for(server, &json!({"domain": "edge", "descriptors": descriptors}))
}

pub(crate) fn ask_for(server: &Server, request: &Value) -> (u16, Value) {
    let reply = server.post("/json", &request.to_string());
    (reply.status, serde_json::from_str(&reply.body).unwrap_or(Value::String(reply.body)))
}

/// The code and the remaining units of every descriptor.
pub(crate) fn seen(answer: &Value) -> Vec<(&str, u64)> {
    let statuses = answer["statuses"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let seen = |status: &'_ Value| status["limitRemaining"].as_u64().unwrap_or(0);
    statuses.iter().map(|status| (status["code"].as_str().unwrap(), seen(status))).collect()
}

#[test]
fn descriptors_match_rules_as_in_envoyproxy_ratelimit() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let server = rules.serve(&[]);
    // The remaining units show which rule has matched: each has a different limit.
    for (asked, left) in [
        ("exact=a", Some(9)),
        ("exact=b", None),
        ("bare=anything", Some(19)),
        ("bare=", Some(19)),
        // An exact value comes before patterns, patterns in the order of the file, and the key alone last.
        ("order=exact", Some(29)),
        ("order=exactly", Some(30)),
        ("order=exotic", Some(31)),
        ("order=other", Some(32)),
        // The star of a pattern may be anywhere.
        ("path=/api/7/users", Some(39)),
        ("path=/api//users", Some(39)),
        ("path=/api/7/users/", None),
        // A descriptor matches only a rule of the same depth.
        ("deep=a", None),
        ("deep=a,deeper=b", Some(49)),
        ("deep=a,deeper=b,deepest=c", None),
        ("deep=b,deeper=b", None),
        ("both=a", Some(59)),
        ("both=a,inner=b", Some(60)),
        // An entry may match a rule whose key is `key_value`.
        ("spelt=together", Some(69)),
        ("allowed=anything", None),
        ("unknown=anything", None),
    ] {
        let (status, answer) = ask(&server, asked);
        assert_eq!((status, &answer["overallCode"]), (200, &json!("OK")), "{asked}");
        let limited = answer["statuses"][0]["currentLimit"].is_object();
        assert_eq!(limited.then(|| seen(&answer)[0].1), left, "{asked}: {answer}");
    }
}

#[test]
fn counters_are_per_value_or_shared() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let server = rules.serve(&[]);
    for (asked, left) in [
        ("bare=x", 19),
        ("bare=y", 19),
        ("bare=x", 18),
        ("order=exotic", 31),
        ("order=exogenous", 31),
        ("shared=/a/1", 79),
        ("shared=/a/2", 78),
        ("pair=a,second=bc", 89),
        ("pair=ab,second=c", 89),
        ("pair=a,second=bc", 88),
    ] {
        assert_eq!(seen(&ask(&server, asked).1), [("OK", left)], "{asked}");
    }
    // Only configured policies are listed, no placeholders for limits in a request.
    let policies = server.get("/v1/policies").json();
    let names: Vec<_> = policies.as_object().unwrap().keys().collect();
    assert!(names.iter().any(|name| *name == "edge/bare"), "{names:?}");
    assert!(names.iter().all(|name| !name.contains("//")), "{names:?}");
    assert_eq!(server.get("/v1/status").json()["policies"], names.len());
    // HTTP can use the same counters by name.
    assert_eq!(server.remaining("edge/bare", "x"), 18);
    assert_eq!(server.remaining("edge/exact_a", "global"), 10);
    assert_eq!(server.remaining("edge/shared_%2Fa%2F*", "global"), 78);
    assert_eq!(server.remaining("edge/pair/second", "1:a2:bc"), 88);
}

#[test]
fn every_kind_of_rule_answers_as_documented() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let server = rules.serve(&[]);
    let ok = |answer: &Value| answer["overallCode"] == "OK";
    let (_, unlimited) = ask(&server, "free=x");
    assert_eq!(unlimited["statuses"][0], json!({"code": "OK", "limitRemaining": u32::MAX}));
    let (status, never) = ask(&server, "never=x bare=never");
    assert_eq!((status, seen(&never)), (429, vec![("OVER_LIMIT", 0), ("OK", 20)]));
    // A shadow rule counts and reports the remaining units, and refuses nothing.
    for left in [0, 0, 0] {
        assert_eq!(seen(&ask(&server, "shadow=x").1), [("OK", left)]);
    }
    assert_eq!(ask(&server, "shadownever=x").0, 200);
    // Of two matching rules, the replaced one is not charged.
    let (_, replaced) = ask(&server, "special=x general=x");
    assert_eq!(seen(&replaced), [("OK", 4), ("OK", 0)]);
    assert!(replaced["statuses"][1]["currentLimit"].is_null());
    assert_eq!(seen(&ask(&server, "general=x").1), [("OK", 2)]);
    // A request is refused only if all quotas refuse, and quotas of a refused request are refunded.
    assert!(ok(&ask(&server, "quota=a").1));
    assert_eq!(seen(&ask(&server, "quota=a otherquota=b").1), [("OVER_LIMIT", 0), ("OK", 1)]);
    assert!(ok(&ask(&server, "quota=a otherquota=b").1));
    assert_eq!(ask(&server, "quota=a otherquota=b").0, 429);
    assert_eq!(seen(&ask(&server, "otherquota=c never=x").1), [("OK", 2), ("OVER_LIMIT", 0)]);
    assert_eq!(seen(&ask(&server, "otherquota=c").1), [("OK", 1)]);
    // A rule with a name, another algorithm, and a burst.
    let (_, burst) = ask(&server, "burst=x");
    let limit = json!({"name": "bursty", "requestsPerUnit": 100, "unit": "MINUTE"});
    assert_eq!((&burst["statuses"][0]["currentLimit"], seen(&burst)[0].1), (&limit, 6));
}

#[test]
fn an_unlimited_rule_cannot_be_replaced() {
    let text = "{ domain: edge, descriptors: [
        { key: free, rate_limit: { name: free, unlimited: true } },
        { key: special, rate_limit: { unit: day, requests_per_unit: 5, replaces: [{ name: free }] } } ] }";
    let rules = Rules::new(&[("edge.yaml", text)]);
    let (_, answer) = ask(&rules.serve(&[]), "special=x free=x");
    assert_eq!(seen(&answer), [("OK", 4), ("OK", u32::MAX.into())]);
}

#[test]
fn shadow_mode_of_the_file_applies_to_envoys_rules() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let folder = Folder::new();
    for (text, status) in [
        ("mode: shadow", 200),
        ("{ mode: shadow, envoy: { headers: true } }", 200),
        ("envoy: { mode: shadow }", 200),
        ("mode: enforce", 429),
    ] {
        let file = folder.write("t.yaml", text);
        let server = rules.serve(&["-c", &file]);
        let (got, answer) = ask(&server, "never=x");
        assert_eq!((got, seen(&answer)), (status, vec![("OVER_LIMIT", 0)]), "{text}");
    }
}

#[test]
fn a_rule_with_the_name_of_a_policy_is_an_error() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let folder = Folder::new();
    let same = "policies: { edge/bare: 1/day }";
    let why = "policy `edge/bare` is also the name of a rule";
    let file = folder.write("t.yaml", same);
    let args = ["serve", "--listen", "127.0.0.1:0", "--envoy-config", rules.path(), "-c", &file];
    let output = run(&args);
    assert!(output.code == Some(1) && output.stderr.contains(why), "{}", output.stderr);

    folder.write("t.yaml", "policies: { api: 1/day }");
    let log = folder.path("log");
    let server = Server::start_logged(&args, &log);
    folder.write("t.yaml", same);
    let read = format!(r#""file":"{file}, {}""#, rules.path());
    let output = || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.contains(why) && log.lines().any(|it| it.contains("refused, the") && it.contains(&read))
    };
    wait_until("the file is refused", DEADLINE, output);
    assert_eq!(server.remaining("edge/bare", "x"), 20);
}

#[test]
fn rules_without_a_grpc_door_are_logged() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let folder = Folder::new();
    let args = ["serve", "--listen", "127.0.0.1:0", "--envoy-config", rules.path()];
    for (more, is_logged) in [(&[][..], true), (&["--grpc", "127.0.0.1:0"], false)] {
        let log = folder.path("log");
        let mut server = Server::start_logged(&[&args[..], more].concat(), &log);
        assert_eq!(server.stop("TERM").code(), Some(0));
        let output = std::fs::read_to_string(&log).unwrap();
        assert_eq!(output.contains("no gRPC door is open: pass --grpc"), is_logged, "{output}");
    }
}

#[test]
fn a_refusal_charges_nothing_and_has_a_retry_time() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let server = rules.serve(&["--envoy-headers"]);
    assert_eq!(seen(&ask(&server, "bare=x tight=x").1), [("OK", 19), ("OK", 0)]);
    for _ in 0..2 {
        let (status, answer) = ask(&server, "bare=x tight=x");
        assert_eq!((status, seen(&answer)), (429, vec![("OK", 19), ("OVER_LIMIT", 0)]));
        let header = |name: &str| -> u64 {
            let headers = answer["responseHeadersToAdd"].as_array().unwrap();
            let found = headers.iter().find(|header| header["key"] == name).unwrap();
            found["value"].as_str().unwrap().parse().unwrap()
        };
        assert_eq!((header("ratelimit-limit"), header("ratelimit-remaining")), (1, 0));
        // With up to a fifth more, so that not all come back together.
        let reset = header("ratelimit-reset");
        assert!((1..=86_400).contains(&reset), "{answer}");
        assert!((reset..=reset + (reset / 5).max(1)).contains(&header("retry-after")), "{answer}");
    }
    // As in envoyproxy/ratelimit, if configured: a refusing limit is emptied, and the others are charged.
    let drains = rules.serve(&["--envoy-atomic", "false"]);
    assert_eq!(ask(&drains, "bare=x tight=x").0, 200);
    assert_eq!(seen(&ask(&drains, "bare=x tight=x").1), [("OK", 18), ("OVER_LIMIT", 0)]);
    let three =
        json!({"domain": "edge", "descriptors": [descriptor("special=x")], "hitsAddend": 3});
    assert_eq!(ask_for(&drains, &three).0, 200);
    assert_eq!(ask_for(&drains, &three).0, 429);
    assert_eq!(ask(&drains, "special=x").0, 429);
    // A shadow rule does the same, so that it shows what enforcing would do.
    let text = "{ domain: edge, descriptors: [{ key: tried, shadow_mode: true,
        rate_limit: { unit: day, requests_per_unit: 3 } }] }";
    let tried = Rules::new(&[("edge.yaml", text)]);
    let drains = tried.serve(&["--envoy-atomic", "false"]);
    let two = json!({"domain": "edge", "descriptors": [descriptor("tried=x")], "hitsAddend": 2});
    for left in [1, 0] {
        assert_eq!(seen(&ask_for(&drains, &two).1), [("OK", left)]);
    }
    assert_eq!(drains.remaining("edge/tried", "x"), 0);
    // Global shadow mode changes only the overall code.
    let shadow = rules.serve(&["--envoy-shadow"]);
    let (status, answer) = ask(&shadow, "never=x");
    assert_eq!((status, seen(&answer)), (200, vec![("OVER_LIMIT", 0)]));
}

#[test]
fn hits_and_limits_may_come_with_the_request() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let server = rules.serve(&[]);
    let with = |more: Value, hits: u64| {
        let mut one = descriptor("bare=x");
        for (key, value) in more.as_object().unwrap() {
            one[key] = value.clone();
        }
        let request = json!({"domain": "edge", "descriptors": [one], "hitsAddend": hits});
        let (status, answer) = ask_for(&server, &request);
        (status, answer["statuses"][0]["limitRemaining"].as_u64().unwrap_or(0))
    };
    for (more, hits, expected) in [
        (json!({}), 0, (200, 19)),
        (json!({}), 4, (200, 15)),
        (json!({"hitsAddend": "5"}), 4, (200, 10)),
        (json!({"hits_addend": 0}), 4, (200, 10)),
        (json!({"hits_addend": 0.0}), 4, (200, 10)),
        (json!({"hitsAddend": "0.0"}), 4, (200, 10)),
        (json!({"hitsAddend": 11}), 1, (429, 10)),
        (json!({"hitsAddend": 3, "isNegativeHits": true}), 1, (200, 13)),
        (json!({"hitsAddend": 13}), 1, (200, 0)),
        // Nothing is left, so one more hit would be refused.
        (json!({"hitsAddend": 0}), 1, (429, 0)),
        (json!({"limit": {"requestsPerUnit": 42, "unit": "HOUR"}}), 2, (200, 40)),
        (json!({"limit": {"requests_per_unit": 42, "unit": 3}}), 1, (200, 39)),
        (json!({"limit": {"requestsPerUnit": 42, "unit": "WEEK"}}), 1, (200, 41)),
        (json!({"limit": {"requestsPerUnit": 0, "unit": "DAY"}}), 1, (429, 0)),
    ] {
        assert_eq!(with(more.clone(), hits), expected, "{more} {hits}");
    }
    // A peek reports the current reset time, not that after one more hit.
    let reset = |hits: u64| {
        let mut one = descriptor("burst=look");
        one["hitsAddend"] = json!(hits);
        let (_, answer) = ask_for(&server, &json!({"domain": "edge", "descriptors": [one]}));
        let left = answer["statuses"][0]["limitRemaining"].as_u64().unwrap_or(0);
        (answer["statuses"][0]["durationUntilReset"].clone(), left)
    };
    assert_eq!(reset(0), (json!("0s"), 7));
    assert_eq!(reset(1), (json!("1s"), 6));
    let own = json!({"domain": "other", "descriptors": [{"limit": {"requestsPerUnit": 0, "unit": "DAY"}}]});
    assert_eq!(ask_for(&server, &own).0, 200, "a domain that does not exist limits nothing");
    // A counter that occurs twice is charged twice.
    assert_eq!(seen(&ask(&server, "exact=a exact=a").1), [("OK", 8), ("OK", 8)]);
}

const GIVES_BACK_TO_ITS_OWN: &str = r#"{"domain":"edge","descriptors":[
    {"entries":[{"key":"bare","value":"x"}]},
    {"entries":[{"key":"bare","value":"x"}],"limit":{"requestsPerUnit":5,"unit":"DAY"},"isNegativeHits":true}]}"#;

#[test]
fn invalid_requests_are_400_and_health_is_200() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let server = rules.serve(&[]);
    let descriptors = |count: usize| vec!["{}"; count].join(",");
    for (body, why) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("[]", "expected an object"),
        (r#"["edge",[[[["bare","x"]],null,null,null]],null]"#, "expected an object"),
        (r#"{"domain":"edge","descriptors":[[[["bare","x"]]]]}"#, "expected an object"),
        (r#"{"domain":"edge","descriptors":[{"entries":[["bare","x"]]}]}"#, "expected an object"),
        (r#"{"domain":"edge","descriptors":[{"limit":[5,"DAY"]}]}"#, "expected an object"),
        (
            r#"{"domain":"edge","descriptors":[{}],"hitsAddend":-1}"#,
            "hitsAddend: `-1` is not a whole",
        ),
        (
            r#"{"domain":"edge","descriptors":[{"hitsAddend":1.5}]}"#,
            "hitsAddend: `1.5` is not a whole",
        ),
        (
            r#"{"domain":"edge","descriptors":[{"hitsAddend":true}]}"#,
            "expected a number or a string",
        ),
        (
            r#"{"domain":"edge","descriptors":[{"limit":{"unit":"EON"}}]}"#,
            "unit: `EON` is not a unit",
        ),
        (r#"{"domain":"edge","descriptors":[{"limit":{"unit":-1}}]}"#, "unit: `-1` is not a unit"),
        ("{}", "domain must not be empty"),
        (r#"{"domain":"edge"}"#, "descriptor list must not be empty"),
        (r#"{"domain":"edge","descriptors":[{"x":1}]}"#, "unknown field `x`"),
        (r#"{"domain":"edge","descriptors":[{}],"hitsAddend":"x"}"#, "not a whole number"),
        (r#"{"domain":"edge","descriptors":[{"hitsAddend":18446744073709551615}]}"#, "is above"),
        (r#"{"domain":"edge","descriptors":[{"limit":{}}]}"#, "no unit"),
        (GIVES_BACK_TO_ITS_OWN, "is_negative_hits does not go with a limit"),
        (&format!(r#"{{"domain":"edge","descriptors":[{}]}}"#, descriptors(65)), "at most 64"),
    ] {
        let reply = server.post("/json", body);
        assert_eq!(reply.status, 400, "{body}");
        assert!(reply.body.contains(why), "{} instead of {why}", reply.body);
    }
    assert_eq!(
        server.remaining("edge/bare", "x"),
        20,
        "a request with a bad descriptor was charged"
    );
    let most = format!(r#"{{"domain":"edge","descriptors":[{}]}}"#, descriptors(64));
    assert_eq!(server.post("/json", &most).status, 200);
    assert_eq!(server.get("/healthcheck").status, 200);
}

#[test]
fn native_policies_are_checked_by_name() {
    let server = Server::start();
    let ask = |descriptor_text: &str| {
        let request = json!({"domain": "tidegate", "descriptors": [descriptor(descriptor_text)]});
        ask_for(&server, &request)
    };
    let limit = json!({"name": "api", "requestsPerUnit": 100, "unit": "MINUTE"});
    let (_, answer) = ask("policy=api,user=ann");
    assert_eq!((&answer["statuses"][0]["currentLimit"], seen(&answer)[0].1), (&limit, 19));
    assert_eq!(server.remaining("login", "ann"), 5);
    assert_eq!(seen(&ask("policy=login,user=ann").1), [("OK", 4)]);
    assert_eq!(server.remaining("login", "ann"), 4);
    assert_eq!(seen(&ask("policy=login,user=ann,device=7").1), [("OK", 4)]);
    assert_eq!(server.remaining("login", "3:ann1:7"), 4);
    let (_, both) = ask("policy=signup,ip=192.0.2.1,email_domain=example.com");
    assert_eq!(seen(&both), [("OK", 2)]);
    assert_eq!(both["statuses"][0]["currentLimit"]["name"], "ip");
    assert_eq!(seen(&ask("user=ann").1), [("OK", 0)]);
    for (asked, why) in [
        ("policy=apj,user=ann", "no policy is called `apj`"),
        ("policy=export,user=ann", "leaky bucket"),
        ("policy=signup,ip=192.0.2.1", "`email_domain`, which was not given"),
        ("policy=login,user=", "descriptors[0].entries[1].value: `user` is empty"),
        ("policy=login,user=ann,device=", "entries[2].value: `device` is empty"),
    ] {
        let (status, output) = ask(asked);
        assert_eq!(status, 400, "{asked}");
        assert!(output.to_string().contains(why), "{output} instead of {why}");
    }
    let mut own = descriptor("policy=login,user=ann");
    own["limit"] = json!({"requestsPerUnit": 1, "unit": "DAY"});
    let (status, output) = ask_for(&server, &json!({"domain": "tidegate", "descriptors": [own]}));
    assert!(
        status == 400 && output.to_string().contains("descriptors[0].limit: this domain"),
        "{output}"
    );
    assert_eq!(server.remaining("login", "ann"), 4, "none of these was charged");
}

#[test]
fn no_value_shares_the_counter_of_other_values() {
    let server = Server::start();
    let ask = |descriptor_text: &str| {
        let request = json!({"domain": "tidegate", "descriptors": [descriptor(descriptor_text)]});
        seen(&ask_for(&server, &request).1)[0].1
    };
    for asked in [
        "policy=login,user=ann,device=7",
        "policy=login,user=3:ann1:7",
        "policy=login,user=8:3:ann1:7",
        "policy=login,user=3:ann,device=1:7",
        "policy=login",
        "policy=login,user=global",
        "policy=login,user=6:global",
        "policy=login,user=3:ann",
        "policy=login,user=ann",
        "policy=login,user=:ann",
        "policy=login,user=192.0.2.1",
        "policy=login,user=2001",
    ] {
        assert_eq!(ask(asked), 4, "{asked}");
    }
    // Policies that name their identifiers take every value as it is.
    assert_eq!(ask("policy=signup,ip=3:ann1:7,email_domain=global"), 2);
    assert_eq!(ask("policy=signup,ip=3:ann1:7,email_domain=global"), 1);
}

#[test]
fn a_request_with_one_bad_descriptor_charges_none_of_the_others() {
    for atomic in ["true", "false"] {
        let args = ["serve", "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
        let server = Server::start_with(&[&args[..], &["--envoy-atomic", atomic]].concat());
        let good = descriptor("policy=login,user=ann");
        for (bad, hits) in [
            ("policy=nope,user=ann", json!({})),
            ("policy=nope,user=ann", json!({"hitsAddend": 1, "isNegativeHits": true})),
            ("policy=nope,user=ann", json!({"hitsAddend": 0})),
            ("policy=export,user=ann", json!({})),
            ("policy=export,user=ann", json!({"hitsAddend": 1, "isNegativeHits": true})),
            ("policy=report,user=ann", json!({})),
            ("policy=signup,ip=192.0.2.1", json!({"hitsAddend": 1, "isNegativeHits": true})),
        ] {
            let mut bad = descriptor(bad);
            bad.as_object_mut().unwrap().extend(hits.as_object().unwrap().clone());
            let request = json!({"domain": "tidegate", "descriptors": [good, bad]});
            assert_eq!(ask_for(&server, &request).0, 400, "{bad}");
            assert_eq!(server.remaining("login", "ann"), 5, "{atomic}: {bad}");
        }
        let request = json!({"domain": "tidegate", "descriptors": [good, good]});
        assert_eq!(ask_for(&server, &request).0, 200);
        assert_eq!(server.remaining("login", "ann"), 3, "a valid request is charged");
    }
}

/// The error of a start with these files.
fn refused(files: &[(&str, &str)]) -> String {
    let rules = Rules::new(files);
    let output = run(&["serve", "--listen", "127.0.0.1:0", "--envoy-config", rules.path()]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{}", output.stderr);
    output.stderr.replace(rules.path(), "")
}

#[test]
fn problems_in_rules_are_reported_with_their_position() {
    let descriptor = |text: &str| format!("domain: d\ndescriptors:\n  - {text}\n");
    let limit = |text: &str| descriptor(&format!("{{ key: k, rate_limit: {{ {text} }} }}"));
    let requests = "/f.yaml:3:59: requests_per_unit: expected a whole number from 0 to 4294967295";
    for (text, expected) in [
        (String::new(), "/f.yaml: is empty"),
        ("descriptors: []".to_owned(), "/f.yaml: config file cannot have empty domain"),
        ("domain: ''".to_owned(), "/f.yaml: config file cannot have empty domain"),
        ("domain: d\nfoo: 1".to_owned(), "/f.yaml:2:1: unknown field `foo`"),
        ("domain: [".to_owned(), "/f.yaml:"),
        ("domain: d\ndescriptors: 5".to_owned(), "/f.yaml:2:14:"),
        ("domain: d\ndescriptors: [a]".to_owned(), "/f.yaml:2:15:"),
        (descriptor("{ value: v }"), "/f.yaml:3:5: descriptor has empty key"),
        (descriptor("{ key: '' }"), "/f.yaml:3:5: descriptor has empty key"),
        (descriptor("{ key: k, ratelimit: 1 }"), "/f.yaml:3:15: unknown field `ratelimit`"),
        (
            descriptor("{ key: k, value: v }\n  - { key: k_v }"),
            "/f.yaml:4:12: duplicate descriptor composite key 'd/k_v'",
        ),
        (
            descriptor("{ key: k, descriptors: [ { key: a }, { key: a } ] }"),
            "/f.yaml:3:49: duplicate descriptor composite key 'd/k/a'",
        ),
        (limit("requests_per_unit: 1"), "invalid rate limit unit ''"),
        (limit("unit: fortnight, requests_per_unit: 1"), "invalid rate limit unit 'fortnight'"),
        (limit("unit: unknown, requests_per_unit: 1"), "invalid rate limit unit 'unknown'"),
        (limit("unit: day, unlimited: true"), "should not specify rate limit unit when unlimited"),
        (limit("unit: day, requests_per_unit: -1"), requests),
        (limit("unit: day, requests_per_unit: 4294967296"), requests),
        (limit("unit: day, requests_per_unit: 5.0"), requests),
        (limit("unit: day, requests_per_unit: 1, burst: x"), "burst: expected a whole number"),
        (limit("unit: day, requests_per_unit: 1, unlimited: perhaps"), "expected true or false"),
        (limit("unit: day, requests_per_unit: 1, algorithm: ''"), "algorithm is empty"),
        ("domain: d\n---\ndomain: e".to_owned(), "/f.yaml:2:1: a second document begins here"),
        ("domain: d\ndomain: e".to_owned(), "/f.yaml:2:1: `domain` is given twice"),
        ("domain: d\nmetadata: {}\nfoo: 1".to_owned(), "/f.yaml:3:1: unknown field `foo`"),
        (limit("unit: day, replaces: [ { name: '' } ]"), "should not have an empty replaces entry"),
        (
            limit("unit: day, name: n, replaces: [ { name: n } ]"),
            "replaces should not contain name of same descriptor",
        ),
        (limit("unit: day, requests_per_unit: 1, algorithm: magic"), "unknown algorithm `magic`"),
        (limit("unit: day, requests_per_unit: 1, burst: 5"), "burst"),
        (limit("unit: day, requests_per_unit: 1, on_store_error: maybe"), "`maybe`"),
        (
            descriptor("{ key: k, value: v, share_threshold: true }"),
            "share_threshold needs a '*' in the value of 'd/k_v'",
        ),
    ] {
        let output = refused(&[("f.yaml", &text)]);
        assert!(output.contains(expected), "{output} instead of {expected}");
    }
}

#[test]
fn keys_of_envoyproxy_ratelimit_load_anywhere_and_those_without_effect_are_logged() {
    let text = "domain: edge
metadata: { owner: us }
name: whole
descriptors:
  - key: bare
    unit: hour
    rate_limit: { unit: day, requests_per_unit: 20, value: x, replaces: [{ name: y, metadata: z }] }
";
    let (rules, folder) = (Rules::new(&[("f.yaml", text)]), Folder::new());
    let log = folder.path("log");
    let args = ["serve", "--listen", "127.0.0.1:0", "--envoy-config", rules.path()];
    let mut server = Server::start_logged(&args, &log);
    assert_eq!(seen(&ask(&server, "bare=x").1), [("OK", 19)]);
    assert_eq!(server.stop("TERM").code(), Some(0));
    let output = std::fs::read_to_string(&log).unwrap();
    for what in
        ["2:11: `metadata`", "3:7: `name`", "6:11: `unit`", "7:60: `value`", "7:95: `metadata`"]
    {
        assert!(output.contains(&format!("/f.yaml:{what} does nothing here")), "{output}");
    }
}

#[test]
fn a_folder_is_read_recursively_and_all_problems_are_reported() {
    let domain = |name: &str| {
        format!(
            "domain: {name}\ndescriptors: [{{ key: k, rate_limit: {{ unit: Day, requests_per_unit: 2 }} }}]\n"
        )
    };
    let (one, two) = (domain("one"), domain("two"));
    let twice = refused(&[("a.yaml", &one), ("deep/er/b.yml", &one), ("c.yaml", "x: 1")]);
    assert!(twice.contains("/deep/er/b.yml:1:9: duplicate domain 'one' in config file"), "{twice}");
    assert!(twice.contains("/c.yaml:1:1: unknown field `x`"), "{twice}");
    let nothing = refused(&[("readme.txt", "hello")]);
    assert!(nothing.contains("no *.yaml or *.yml file"), "{nothing}");
    let gone = run(&["serve", "--envoy-config", "/does/not/exist"]);
    assert!(gone.code == Some(1) && gone.stderr.contains("/does/not/exist: cannot be read"));

    // As Kubernetes mounts a ConfigMap: every file is a link through `..data`, and is read only once.
    let rules = Rules::new(&[("..2026/one.yaml", &one), ("deep/two.yaml", &two)]);
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, format!("{}/{name}", rules.path())).unwrap();
    };
    link("..2026", "..data");
    link("..data/one.yaml", "one.yaml");
    let server = rules.serve(&[]);
    let policies = server.get("/v1/policies").json();
    assert!(policies["one/k"].is_object() && policies["two/k"].is_object(), "{policies}");
}

#[test]
fn an_override_is_reported_instead_of_the_rule() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let server = rules.serve(&["--envoy-headers"]);
    for (key, body) in [
        ("more", r#"{"limit":"100/h"}"#),
        ("free", r#"{"allow":true}"#),
        ("out", r#"{"block":true}"#),
    ] {
        let path = format!("/v1/overrides/edge%2Fburst/{key}");
        assert_eq!(server.send("PUT", &path, &[], body.as_bytes()).status, 204, "{key}");
    }
    let names = |answer: &Value| -> Vec<String> {
        let headers = answer["responseHeadersToAdd"].as_array().cloned().unwrap_or_default();
        headers.iter().map(|header| header["key"].as_str().unwrap().to_owned()).collect()
    };
    let limits = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
    let (_, more) = ask(&server, "burst=more");
    let hundred = json!({"name": "bursty", "requestsPerUnit": 100, "unit": "HOUR"});
    assert_eq!((&more["statuses"][0]["currentLimit"], seen(&more)), (&hundred, vec![("OK", 99)]));
    assert_eq!(names(&more), limits);
    let (_, free) = ask(&server, "burst=free");
    assert_eq!(free["statuses"][0], json!({"code": "OK", "limitRemaining": u32::MAX}));
    assert!(names(&free).is_empty(), "{free}");
    // A blocked key has no retry time, and neither has a request with one.
    let (status, out) = ask(&server, "burst=out");
    assert_eq!((status, &out["statuses"][0]), (429, &json!({"code": "OVER_LIMIT"})));
    assert!(names(&out).is_empty(), "{out}");
    assert_eq!(names(&ask(&server, "burst=out never=x").1), limits);
    assert_eq!(names(&ask(&server, "never=x").1)[0], "retry-after");
}
