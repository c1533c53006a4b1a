//! Metrics and log lines of Envoy's checks.

use serde_json::{Value, json};

use crate::rls::{RULES, Rules, ask, ask_for, descriptor, seen};
use crate::support::{Folder, Server};

const STATUSES: [&str; 4] = ["allowed", "denied", "shadow_denied", "error"];

/// The checks of a policy by status; `None` if there is no such series.
fn counted(server: &Server, policy: &str) -> [Option<f64>; 4] {
    STATUSES.map(|status| {
        let series =
            format!("rate_limit_requests_total{{policy=\"{policy}\",status=\"{status}\"}}");
        server.metric(&series)
    })
}

/// The policies of the refusals in the log, in order.
fn refused_by(log: &str) -> Vec<String> {
    let lines = std::fs::read_to_string(log).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let refusals = lines.filter(|line| line["message"] == "refused");
    refusals.map(|line| line["policy"].as_str().unwrap().to_owned()).collect()
}

/// A descriptor with further fields.
fn with(text: &str, more: &Value) -> Value {
    let mut one = descriptor(text);
    one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    one
}

#[test]
fn every_refusal_is_counted_and_logged_also_of_peeks() {
    let (rules, folder) = (Rules::new(&[("edge.yaml", RULES)]), Folder::new());
    let log = folder.path("log");
    let args = ["serve", "--listen", "127.0.0.1:0", "--envoy-config", rules.path()];
    let mut server = Server::start_logged(&args, &log);
    let peek = |text: &str| with(text, &json!({"hitsAddend": 0}));
    let nothing = json!({"limit": {"requestsPerUnit": 0, "unit": "DAY"}});
    let (allowed, denied, shadow) = ([1., 0., 0., 0.], [0., 1., 0., 0.], [0., 0., 1., 0.]);
    // Each row uses different policies.
    for (asked, status, expected) in [
        (vec![peek("exact=a")], 200, vec![("edge/exact_a", [0.; 4])]),
        (vec![descriptor("tight=x")], 200, vec![("edge/tight", allowed)]),
        // A peek that refuses the request, and a descriptor that is only peeked for that reason.
        (
            vec![peek("tight=x"), descriptor("bare=x")],
            429,
            vec![("edge/tight", [1., 1., 0., 0.]), ("edge/bare", allowed)],
        ),
        (
            vec![descriptor("never=x"), descriptor("general=x")],
            429,
            vec![("edge/never", denied), ("edge/general", allowed)],
        ),
        (vec![descriptor("shadownever=x")], 200, vec![("edge/shadownever", shadow)]),
        (vec![with("bare=x", &nothing)], 429, vec![("edge//override", denied)]),
    ] {
        let request = json!({"domain": "edge", "descriptors": asked});
        assert_eq!(ask_for(&server, &request).0, status, "{request}");
        for (policy, expected) in expected {
            assert_eq!(counted(&server, policy), expected.map(Some), "{policy}: {STATUSES:?}");
        }
    }
    assert_eq!(server.stop("TERM").code(), Some(0));
    assert_eq!(refused_by(&log), ["edge/tight", "edge/never", "edge//override"]);
}

#[test]
fn corrections_after_a_decision_are_not_counted() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let drains = rules.serve(&["--envoy-atomic", "false"]);
    let six = json!({"domain": "edge", "descriptors": [descriptor("special=x")], "hitsAddend": 6});
    assert_eq!(ask_for(&drains, &six).0, 429);
    assert_eq!(drains.remaining("edge/special", "x"), 0, "the remaining units are taken");
    assert_eq!(counted(&drains, "edge/special"), [0., 1., 0., 0.].map(Some));
    let server = rules.serve(&[]);
    assert_eq!(ask(&server, "tight=x").0, 200);
    assert_eq!(ask(&server, "otherquota=x tight=x").0, 429);
    assert_eq!(server.remaining("edge/otherquota", "x"), 2, "the quota is refunded");
    assert_eq!(counted(&server, "edge/otherquota"), [1., 0., 0., 0.].map(Some));
}

#[test]
fn global_shadow_mode_refuses_nothing_and_counts_shadow_denials() {
    let (rules, folder) = (Rules::new(&[("edge.yaml", RULES)]), Folder::new());
    let (log, file) = (folder.path("log"), folder.path("t.yaml"));
    for (text, option, refuses_over_http) in [
        ("mode: shadow", "--envoy-headers", false),
        ("envoy: { mode: shadow }", "--envoy-headers", true),
        ("mode: enforce", "--envoy-shadow", true),
    ] {
        folder.write("t.yaml", text);
        let args = ["serve", "--listen", "127.0.0.1:0", "--envoy-config", rules.path()];
        let mut server = Server::start_logged(&[&args[..], &["-c", &file, option]].concat(), &log);
        let own = with("any=x", &json!({"limit": {"requestsPerUnit": 1, "unit": "DAY"}}));
        let asked = [descriptor("tight=x"), descriptor("shadow=x"), descriptor("quota=x"), own];
        let asked = json!({"domain": "edge", "descriptors": asked});
        let (status, answer) = ask_for(&server, &asked);
        assert_eq!((status, seen(&answer)), (200, vec![("OK", 0); 4]), "{text}");
        let over = ("OVER_LIMIT", 0);
        let (status, answer) = ask_for(&server, &asked);
        assert_eq!((status, seen(&answer)), (200, vec![over, ("OK", 0), over, over]), "{text}");
        let (status, answer) = ask(&server, "never=x");
        assert_eq!((status, seen(&answer)), (200, vec![over]), "{text}");
        for policy in ["edge/tight", "edge/shadow", "edge/quota", "edge//override"] {
            assert_eq!(counted(&server, policy), [1., 0., 1., 0.].map(Some), "{text}: {policy}");
        }
        assert_eq!(counted(&server, "edge/never"), [0., 0., 1., 0.].map(Some), "{text}");
        let check = server.post("/v1/check", r#"{"policy":"edge/tight","key":"x"}"#).json();
        assert_eq!(check["allowed"], !refuses_over_http, "{text}: {check}");
        assert_eq!(server.stop("TERM").code(), Some(0));
        let refused = refused_by(&log);
        assert_eq!(refused, ["edge/tight"][..usize::from(refuses_over_http)], "{text}");
    }
}
