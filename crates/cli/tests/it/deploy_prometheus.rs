//! `deploy/prometheus`: the rules are valid, use existing metrics, and every alert is tested to fire.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::deploy::{document, known_metrics, metrics_of, ran, text};
use crate::programs::root;
use crate::support::Folder;

fn promtool(args: &[&str]) -> Result<String, String> {
    ran(Command::new("promtool").args(args).current_dir(root().join("deploy/prometheus")))
}

fn alerts() -> Vec<Value> {
    let rules = &document("prometheus/alerts.yaml")["groups"][0]["rules"];
    rules.as_array().expect("rules").clone()
}

#[test]
fn promtool_accepts_the_rules_and_the_configuration() {
    promtool(&["check", "rules", "alerts.yaml"]).unwrap();
    promtool(&["check", "config", "prometheus.yaml"]).unwrap();
}

#[test]
fn every_alert_fires_when_it_should_and_not_before() {
    promtool(&["test", "rules", "alerts.test.yaml"]).unwrap();
    // The tests notice a rule that never fires, and one that always does.
    let folder = Folder::new();
    let rules = text("prometheus/alerts.yaml");
    let tests = folder.write("alerts.test.yaml", text("prometheus/alerts.test.yaml"));
    for (from, to) in [
        ("_state) > 0", "_state) > 2"),
        ("> 0.1\n", ">= 0\n"),
        ("job=~\"tidegate.*\"} == 0", "job=\"x\"} == 0"),
    ] {
        assert!(rules.contains(from), "{from}");
        folder.write("alerts.yaml", rules.replace(from, to));
        assert!(promtool(&["test", "rules", &tests]).is_err(), "{to}");
    }
}

#[test]
fn every_alert_is_tested_firing_and_not_firing() {
    let cases = document("prometheus/alerts.test.yaml");
    let tests = cases["tests"].as_array().unwrap();
    let tested = tests.iter().flat_map(|test| test["alert_rule_test"].as_array().unwrap());
    let expected: BTreeSet<(String, bool)> = tested
        .map(|test| {
            let fires = !test["exp_alerts"].as_array().unwrap().is_empty();
            (test["alertname"].as_str().unwrap().to_owned(), fires)
        })
        .collect();
    let named = alerts().into_iter().map(|alert| alert["alert"].as_str().unwrap().to_owned());
    let all = named.flat_map(|name| [(name.clone(), false), (name, true)]).collect();
    assert_eq!(expected, all);
}

#[test]
fn every_alert_has_a_severity_and_a_runbook() {
    for alert in alerts() {
        let name = &alert["alert"];
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{name}");
        let notes = &alert["annotations"];
        for note in ["summary", "description"] {
            assert!(notes[note].as_str().is_some_and(|text| text.len() > 15), "{name} {note}");
        }
        // `links.rs` checks that the section exists.
        let section = notes["runbook_url"].as_str().unwrap();
        assert!(section.starts_with("docs/runbook.md#"), "{name}");
    }
}

#[test]
fn the_page_lists_every_alert() {
    let page = std::fs::read_to_string(root().join("docs/deploy.md")).unwrap();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        let row = page.lines().find(|line| line.contains(&format!("`{name}`"))).expect(name);
        // A row may name several alerts; `(critical)` follows the critical ones.
        let is_critical =
            row.split("(critical)").next().unwrap().contains(name) && row.contains("(critical)");
        assert_eq!(alert["labels"]["severity"] == "critical", is_critical, "{name}");
    }
}

#[test]
fn alerts_use_existing_metrics() {
    let known = known_metrics();
    for alert in alerts() {
        let names = metrics_of(alert["expr"].as_str().unwrap());
        assert!(!names.is_empty() && names.is_subset(&known), "{names:?}");
    }
}
