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
    let args = typed.map_err(|error| error.to_string())?.args;
    config(&args, limits::from_args(&args)?)
}

fn said(options: &[&str]) -> (Vec<String>, Vec<String>) {
    let command = ["proxy", "--upstream", "http://127.0.0.1:3000"];
    let typed = Typed::try_parse_from(command.iter().chain(options)).unwrap();
    let limits = limits::from_args(&typed.args).unwrap();
    (limits.notes, limits.warnings)
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
    // Beside a limit of each client none is the default.
    for plan in typed(&["--limit", "240/min", "--adaptive"]).unwrap().plans {
        let Follows::Urls { cap, .. } = plan.follows else { panic!() };
        assert_eq!(cap, UrlCap::None { least: 240 }, "{}", plan.policy);
    }
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
        (&["--adaptive", "--adaptive-max", "0"], "`0` would refuse every request: write none"),
        (&["--adaptive", "--adaptive-max", "00/min"], "or a rate like 600/min"),
        (&["--adaptive-max", "none"], "--adaptive-max is the cap of --adaptive: add --adaptive"),
        (&["--adaptive-max", "600/min", "--limit", "5/s"], "add --adaptive"),
        (&["--asset-limit", "none"], "--limit"),
        (&["--trusted-proxies", "example.org"], "example.org"),
    ] {
        let error = typed(options).map(drop).unwrap_err();
        assert!(error.contains(expected), "{options:?}: {error}");
    }
}

#[test]
fn the_limits_in_force_are_said_in_plain_lines() {
    let (notes, warnings) = said(&["--limit", "240/min", "--adaptive"]);
    assert_eq!(
        notes[..3],
        [
            "limit of each client: 240/min, for pages and API calls",
            "limit of each client for assets: ten times that",
            "limit of each URL, all clients together: no cap while healthy, less while it is slow",
        ]
    );
    assert!(notes[3].starts_with("`240/min` admits up to twice in the first period"), "{notes:?}");
    assert_eq!((notes.len(), warnings.len()), (4, 0));
    let (notes, _) = said(&["--limit", "5/s burst 2", "--asset-limit", "none"]);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(notes[1], "limit of each client for assets: none");
    assert_eq!(said(&[]), (Vec::new(), Vec::new()));
}

#[test]
fn a_cap_that_one_client_can_use_up_is_warned_of() {
    for (options, is_warned) in [
        (&["--adaptive"][..], true),
        (&["--adaptive", "--adaptive-max", "600/min"], true),
        (&["--adaptive", "--adaptive-max", "none"], false),
        (&["--adaptive", "--limit", "240/min"], false),
        (&["--adaptive", "--limit", "1/s", "--adaptive-max", "100/s"], false),
        // The asset limit, ten times as much, reaches it.
        (&["--adaptive", "--limit", "1/s", "--adaptive-max", "5/s"], true),
        (
            &["--adaptive", "--limit", "1/s", "--asset-limit", "none", "--adaptive-max", "100/s"],
            true,
        ),
        (&["--limit", "240/min"], false),
    ] {
        let (_, warnings) = said(options);
        assert_eq!(warnings.len(), usize::from(is_warned), "{options:?}: {warnings:?}");
    }
}
