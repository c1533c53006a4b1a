//! Tenants share one limit through the doors of the binary, by weights that the caller or a trusted proxy names.

use crate::proxy_support::{Origin, Proxy};
use crate::support::{Folder, Server, run};

const SHARES: &str = r#"
policies:
  total: { limit: 60/s, burst: 6, key: global }
  named: { share: { of: total, by: tenant, weights: { by: plan, gold: 4, else: 1 } } }
  routed:
    share: { of: total, by: "header:x-tenant", weights: { by: "header:x-plan", gold: 4, else: 1 } }
routes: [{ policy: routed }]
client_ip: { trusted_proxies: [127.0.0.1] }
"#;

/// What a tenant of the plan `gold` and another one get, of 100 units, once the share is known to be contended. Both ask as
/// fast as they can.
fn divided(
    metric: impl Fn(&str) -> Option<f64>,
    policy: &str,
    ask: impl Fn(&str, &str) -> bool,
) -> (u32, u32) {
    let contended = format!(r#"tidegate_share_contended{{policy="{policy}"}}"#);
    let (mut known, mut gold, mut other, mut rounds) = (false, 0, 0, 0);
    while gold + other < 100 {
        assert!(rounds < 50_000, "{policy}: {gold} and {other}");
        let admitted = [ask("acme", "gold"), ask("zeta", "silver")].map(u32::from);
        if known {
            (gold, other) = (gold + admitted[0], other + admitted[1]);
        } else if rounds % 50 == 0 {
            known = metric(&contended) == Some(1.0);
        }
        rounds += 1;
    }
    (gold, other)
}

#[test]
fn callers_of_the_api_name_tenant_and_plan() {
    let server = Server::with_config(&Folder::new(), SHARES);
    let ask = |tenant: &str, plan: &str| {
        let keys = format!(r#"{{"tenant":"{tenant}","plan":"{plan}"}}"#);
        let reply = server.post("/v1/check", &format!(r#"{{"policy":"named","keys":{keys}}}"#));
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()["allowed"] == true
    };
    let (gold, other) = divided(|series| server.metric(series), "named", ask);
    assert!((68..=92).contains(&gold), "{gold} and {other}");
    let refused = (0..100).find_map(|_| {
        let body = r#"{"policy":"named","keys":{"tenant":"zeta"}}"#;
        let answer = server.post("/v1/check", body).json();
        (answer["allowed"] == false).then(|| answer["binding"].clone())
    });
    assert!(refused.as_ref().is_some_and(|it| it == "named" || it == "total"), "{refused:?}");
    // One key is the tenant.
    assert_eq!(server.post("/v1/check", r#"{"policy":"named","key":"ann"}"#).status, 200);
    let missing = server.post("/v1/check", r#"{"policy":"named","keys":{"plan":"gold"}}"#);
    assert_eq!((missing.status, missing.json()["field"].clone()), (400, "keys.tenant".into()));
    let shown = server.get("/v1/policies").json()["named"].clone();
    assert_eq!(shown["share"]["active"].as_u64().map(|active| active > 0), Some(true), "{shown}");
    assert_eq!((&shown["share"]["of"], &shown["share"]["by"]), (&"total".into(), &"tenant".into()));
    assert_eq!(
        (&shown["members"][0]["name"], &shown["members"][1]["key"]),
        (&"total".into(), &"tenant".into())
    );
    assert_eq!(shown["members"][1]["rate"], "60/s", "{shown}");
}

/// By the entry that `by` names: others do not stand for it, and who names none is no tenant.
#[test]
fn envoy_and_the_redis_protocol_name_the_tenant() {
    let server = Server::with_config(&Folder::new(), SHARES);
    let ask = |entries: &[[&str; 2]]| {
        let entries: Vec<_> = [["policy", "named"]]
            .iter()
            .chain(entries)
            .map(|[key, value]| serde_json::json!({"key": key, "value": value}))
            .collect();
        let body = serde_json::json!({"domain": "tidegate", "descriptors": [{"entries": entries}]});
        server.post("/json", &body.to_string())
    };
    for (entries, status) in [
        (&[["tenant", "acme"]][..], 200),
        (&[["tenant", "acme"], ["plan", "gold"]], 200),
        (&[["key", "acme"]], 400),
        (&[["plan", "gold"]], 400),
        (&[], 400),
    ] {
        let reply = ask(entries);
        assert_eq!(reply.status, status, "{entries:?}: {}", reply.body);
        assert!(status == 200 || reply.body.contains("tenant"), "{entries:?}: {}", reply.body);
    }
}

#[test]
fn a_trusted_proxy_names_the_plan_at_both_doors() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let server = Server::with_config(&folder, SHARES);
    let proxy = Proxy::start(&folder, &origin.url(), "", SHARES);
    let auth = |tenant: &str, plan: &str| {
        let headers = [("x-forwarded-uri", "/"), ("x-tenant", tenant), ("x-plan", plan)];
        server.send("GET", "/v1/auth", &headers, b"").status == 200
    };
    let (gold, other) = divided(|series| server.metric(series), "routed", auth);
    assert!((68..=92).contains(&gold), "forward-auth: {gold} and {other}");
    let direct = |tenant: &str, plan: &str| {
        let headers = [("x-tenant", tenant), ("x-plan", plan)];
        proxy.server.send("GET", "/", &headers, b"").status == 200
    };
    let (gold, other) = divided(|series| proxy.metric(series), "routed", direct);
    assert!((68..=92).contains(&gold), "proxy: {gold} and {other}");
}

#[test]
fn a_plan_that_nobody_answers_for_does_not_count() {
    let config = SHARES.replace("[127.0.0.1]", "[192.0.2.250]");
    let server = Server::with_config(&Folder::new(), &config);
    let auth = |tenant: &str, plan: &str| {
        let headers = [("x-tenant", tenant), ("x-plan", plan)];
        server.send("GET", "/v1/auth/routed", &headers, b"").status == 200
    };
    let (gold, other) = divided(|series| server.metric(series), "routed", auth);
    assert!((40..=60).contains(&gold), "{gold} and {other}");
}

/// The remedy for limits on several identifiers, the same key, is none for a share.
#[test]
fn a_share_on_a_store_that_cannot_count_it_says_which_stores_can() {
    let folder = Folder::new();
    let shares = "  api: { share: { of: total, by: tenant } }\n";
    let total = |more: &str| format!("policies:\n  total: {{ limit: 9/s, key: global{more} }}\n");
    let quorum = "redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3";
    for (store, more, is_fault) in [
        ("memcached://127.0.0.1:11211", "", true),
        (quorum, "", true),
        (&format!("{{ url: \"memory:\", quorum: \"{quorum}\" }}"), ", quorum: true", true),
        ("redis://127.0.0.1:6379", "", false),
        ("postgres://tidegate@127.0.0.1/limits", "", false),
    ] {
        let config = format!("store: {store}\n{}{shares}", total(more));
        let output = run(&["validate", &folder.write("tidegate.yaml", config)]);
        let told = format!("{}{}", output.stdout, output.stderr);
        let expected = "policies.api.share: needs memory, Redis, PostgreSQL or DynamoDB";
        assert_eq!(told.contains(expected), is_fault, "{store}: {told}");
        assert_eq!(output.code, Some(i32::from(is_fault)), "{store}: {told}");
        assert!(!told.contains("the same `key`"), "{store}: {told}");
    }
}

/// Without Redis: what the shared policy refuses is refused through the share, too.
#[test]
fn a_share_of_a_policy_that_denies_without_its_store_denies() {
    let policies = "store: redis://127.0.0.1:1\npolicies:\n  \
         total: { limit: 9/s, key: global, on_store_error: deny }\n  \
         api: { share: { of: total, by: tenant } }\n  \
         open: { share: { of: total, by: tenant }, on_store_error: allow }\n";
    let server = Server::with_config(&Folder::new(), policies);
    for (policy, status) in [("total", 503), ("api", 503), ("open", 200)] {
        let body = format!(r#"{{"policy":"{policy}","key":"acme"}}"#);
        let reply = server.post("/v1/check", &body);
        assert_eq!(reply.status, status, "{policy}: {}", reply.body);
    }
}
