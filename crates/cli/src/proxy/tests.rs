use clap::Parser;

use super::limits::{ASSETS, POLICY};
use super::*;
use tidegate_config::plan::{Follows, UNCAPPED_UNITS, UrlCap};

#[derive(clap::Parser)]
struct Typed {
    #[command(flatten)]
    args: ProxyArgs,
}

fn typed(options: &[&str]) -> Result<Config, String> {
    let command = ["proxy", "--upstream", "http://127.0.0.1:3000"];
    let typed = Typed::try_parse_from(command.iter().chain(options));
    config(&typed.map_err(|error| error.to_string())?.args)
}

#[test]
fn assets_have_ten_times_the_budget_of_documents() {
    for (options, policies, routes) in [
        (&["--limit", "240/min"][..], &[POLICY, ASSETS][..], 2),
        (&["--limit", "240/min", "--asset-limit", "none"], &[POLICY], 1),
        (&["--limit", "2/s", "--asset-limit", "none", "--adaptive"], &[POLICY, ASSETS], 2),
        (&["--limit", "leaky-bucket 2/s max-wait 5s"], &[POLICY, ASSETS], 2),
        (&["--adaptive"], &[POLICY], 1),
        (&[], &[], 0),
    ] {
        let config = typed(options).unwrap();
        assert!(config.policies.keys().eq(policies), "{options:?}: {:?}", config.policies.keys());
        assert_eq!(config.doors.routes.len(), routes, "{options:?}");
    }
    let rate = |options: &[&str]| {
        let config = typed(options).unwrap();
        let engine = tidegate::Engine::builder().policy("it", config.policies[ASSETS].clone());
        let engine = engine.build().unwrap();
        let policy = engine.policy_ref("it").unwrap();
        let limit = policy.members().next().unwrap().limit.clone();
        (limit.units(), limit.as_gcra().map(tidegate::Gcra::burst))
    };
    assert_eq!(rate(&["--limit", "240/min burst 20"]), (2400, Some(200)));
    assert_eq!(rate(&["--limit", "240/min", "--asset-limit", "sliding-window 50/s"]), (50, None));
}

#[test]
fn adaptive_limits_each_url_from_the_given_rate_or_from_none() {
    let plan = |max: &str| {
        let config = typed(&["--adaptive", "--adaptive-max", max]).unwrap();
        let Follows::Urls { ramp, cap, .. } = config.plans[0].follows.clone() else { panic!() };
        (config.plans[0].units, ramp.limit(18_000.0, config.plans[0].units), cap)
    };
    assert_eq!(plan("240/min"), (240, 4, UrlCap::Units));
    assert_eq!(plan("100/s"), (6000, 4, UrlCap::Units));
    assert_eq!(plan("36000/h"), (600, 4, UrlCap::Units));
    assert_eq!(plan("none").2, UrlCap::None { least: 240 });
    assert_eq!(typed(&["--adaptive"]).unwrap().plans[0].units, 240);
    assert_eq!(plan("none").0, UNCAPPED_UNITS);
    // One plan for documents and one for assets.
    assert_eq!(typed(&["--limit", "5/s", "--adaptive"]).unwrap().plans.len(), 2);
}

#[test]
fn trusted_proxies_name_the_client() {
    let config = typed(&["--limit", "5/s", "--trusted-proxies", "10.0.0.0/8,127.0.0.1"]).unwrap();
    assert_eq!(config.doors.trusted_proxies.len(), 2);
    assert!(config.doors.client_ip.trusts([10, 1, 2, 3].into()));
    assert!(!config.doors.client_ip.trusts([11, 1, 2, 3].into()));
}

#[test]
fn invalid_limits_are_explained() {
    for (options, expected) in [
        (&["--limit", "240"][..], "--limit: `240` has no time unit: write 240/min"),
        (
            &["--limit", "2/s", "--asset-limit", "7"],
            "--asset-limit: `7` has no time unit: write 7/min",
        ),
        (&["--limit", "leaky-bucket 2/s max-wait 5s", "--adaptive"], "a leaky bucket delays"),
        (
            &["--adaptive", "--adaptive-max", "240"],
            "--adaptive-max: `240` has no time unit: write 240/min",
        ),
        (&["--adaptive", "--adaptive-max", "1/h"], "--adaptive-max: expected 1/min to"),
        (&["--adaptive-max", "none"], "--adaptive"),
        (&["--asset-limit", "none"], "--limit"),
        (&["--trusted-proxies", "example.org"], "example.org"),
    ] {
        let error = typed(options).map(drop).unwrap_err();
        assert!(error.contains(expected), "{options:?}: {error}");
    }
}
