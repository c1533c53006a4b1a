//! `deploy/prometheus`: the rules are valid, use existing metrics, and every alert is tested to fire.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::deploy::{document, known_metrics, metrics_of, ran, text};
use crate::processes::{DEADLINE, wait_until};
use crate::programs::{Program, curl, free_port, root, wait_for_port};
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
        ("_outage) == 1", "_outage) == 2"),
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
    let runbook = std::fs::read_to_string(root().join("docs/runbook.md")).unwrap();
    let prometheus = document("prometheus/prometheus.yaml");
    let base = prometheus["global"]["external_labels"]["runbook"].as_str().unwrap();
    assert!(base.starts_with("https://") && base.ends_with('/'), "{base}");
    for alert in alerts() {
        let name = &alert["alert"];
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{name}");
        let notes = &alert["annotations"];
        for note in ["summary", "description"] {
            assert!(notes[note].as_str().is_some_and(|text| text.len() > 15), "{name} {note}");
        }
        let link = notes["runbook_url"].as_str().unwrap();
        let section = link.strip_prefix("{{ $externalLabels.runbook }}docs/runbook.md#");
        let section = section.unwrap_or_else(|| panic!("{name}: {link}"));
        let anchor = |line: &str| {
            let heading = line.strip_prefix("## ")?.to_lowercase().replace(' ', "-");
            Some(heading.replace(',', ""))
        };
        assert!(runbook.lines().filter_map(anchor).any(|it| it == section), "{section}");
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

/// The labels that an alert of this name has.
fn labels(name: &str) -> Value {
    let labels = alerts().into_iter().find(|alert| alert["alert"] == name).expect(name);
    let mut labels = labels["labels"].clone();
    labels["alertname"] = name.into();
    labels["job"] = "tidegate".into();
    labels
}

/// The alerts that a real Alertmanager would send while these fire.
fn sent(firing: &[&str]) -> Vec<String> {
    let (folder, port) = (Folder::new(), free_port());
    let config = root().join("deploy/prometheus/alertmanager.yaml");
    let mut command = Command::new("prometheus-alertmanager");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.path={}", folder.path("data")));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}")).arg("--cluster.listen-address=");
    let _alertmanager = Program::start(&mut command, &folder);
    wait_for_port(port);
    let url = format!("http://127.0.0.1:{port}/api/v2/alerts");
    let all: Vec<_> = firing.iter().map(|name| json!({"labels": labels(name)})).collect();
    let body = Value::from(all).to_string();
    curl(&["-f", "-H", "content-type: application/json", "-d", &body, &url]);
    let query = |filter: &str| -> Vec<String> {
        let found = curl(&["-f", &format!("{url}?{filter}")]);
        let found: Vec<Value> = serde_json::from_str(&found).unwrap();
        let name = |it: &Value| it["labels"]["alertname"].as_str().unwrap().to_owned();
        let mut names: Vec<_> = found.iter().map(name).collect();
        names.sort();
        names
    };
    let mut expected: Vec<_> = firing.iter().map(|name| (*name).to_owned()).collect();
    expected.sort();
    wait_until("all alerts are there", DEADLINE, || query("") == expected);
    query("inhibited=false")
}

#[test]
fn one_cause_fires_one_page() {
    let outage = [
        "TidegateStoreDown",
        "TidegateBreakerOpen",
        "TidegateFailsOpen",
        "TidegateFailsClosed",
        "TidegateStoreErrors",
        "TidegateConnectsFail",
    ];
    assert_eq!(sent(&outage), ["TidegateStoreDown"]);
    // What does not follow from the cause is sent, and so is a consequence without it.
    assert_eq!(
        sent(&["TidegateStoreDown", "TidegateConfigReloadFailed"]),
        ["TidegateConfigReloadFailed", "TidegateStoreDown"]
    );
    assert_eq!(sent(&["TidegateFailsClosed"]), ["TidegateFailsClosed"]);
}

#[test]
fn the_inhibit_rules_name_existing_alerts() {
    ran(Command::new("amtool")
        .args(["check-config", "alertmanager.yaml"])
        .current_dir(root().join("deploy/prometheus")))
    .unwrap();
    let named: BTreeSet<String> =
        alerts().iter().map(|alert| alert["alert"].as_str().unwrap().to_owned()).collect();
    let rules = document("prometheus/alertmanager.yaml")["inhibit_rules"].clone();
    for rule in rules.as_array().unwrap() {
        for side in ["source_matchers", "target_matchers"] {
            let matcher = rule[side][0].as_str().unwrap();
            for name in matcher.split('"').nth(1).unwrap().split('|') {
                assert!(named.contains(name), "{name}");
            }
        }
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
