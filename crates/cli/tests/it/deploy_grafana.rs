//! `deploy/grafana`: the dashboard matches Grafana's types, and a real Prometheus answers every query about real servers.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::deploy::{document, known_metrics, metrics_of, ran, text, tool};
use crate::engines::quorum;
use crate::processes::{AGREEMENT_DEADLINE, RedisServer, wait_for};
use crate::programs::root;
use crate::prometheus::Prometheus;
use crate::proxy_support::{Origin, Proxy};
use crate::support::{Folder, Server};

fn dashboard() -> Value {
    serde_json::from_str(&text("grafana/tidegate.json")).unwrap()
}

fn panels() -> Vec<Value> {
    dashboard()["panels"].as_array().unwrap().clone()
}

/// Every query of every panel, with the title of its panel.
fn queries() -> Vec<(String, String)> {
    let of_panel = |panel: Value| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |it| (title.clone(), it["expr"].as_str().unwrap().to_owned()))
    };
    panels().into_iter().flat_map(of_panel).collect()
}

/// Type-checks the dashboard as a `Dashboard` with TypeScript.
fn typed(dashboard: &str) -> Result<String, String> {
    const TYPES: &str = "import type { Dashboard, Panel, RowPanel } from '@grafana/schema';
type Written<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Written<T[K]> } : T;
type Needed = Pick<Panel, 'id' | 'type' | 'gridPos' | 'title' | 'datasource' | 'targets'>;
type Whole = Partial<Omit<Dashboard, 'panels'>> & { panels: (Partial<Panel> & Needed | RowPanel)[] };
";
    let folder = Folder::new();
    symlink(root().join("target/clients/node/node_modules"), folder.path("node_modules")).unwrap();
    let program =
        format!("{TYPES}export const it = {} satisfies Written<Whole>;\n", dashboard.trim());
    let program = folder.write("dashboard.ts", program);
    let mut tsc = tool("node", "node_modules/.bin/tsc");
    tsc.args(["--noEmit", "--strict", "--skipLibCheck", "--ignoreConfig", "--module", "esnext"]);
    ran(tsc.args(["--moduleResolution", "bundler", "--target", "es2022", &program]))
}

#[test]
fn the_dashboard_matches_the_types_of_grafana() {
    let dashboard = text("grafana/tidegate.json");
    typed(&dashboard).unwrap();
    for (from, to) in [
        (r#""fieldConfig""#, r#""fieldsConfig""#),
        (r#""mode": "absolute""#, r#""mode": "absolut""#),
        (r#""h": 1"#, r#""h": "1""#),
    ] {
        assert!(dashboard.contains(from), "{from}");
        assert!(typed(&dashboard.replacen(from, to, 1)).is_err(), "{to}");
    }
}

#[test]
fn panels_have_unique_ids_and_do_not_overlap() {
    let mut numbers = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels() {
        let title = &panel["title"];
        assert!(numbers.insert(panel["id"].as_u64().unwrap()), "{title}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|it| panel["gridPos"][it].as_u64().unwrap());
        assert!(x + w <= 24, "{title}");
        for place in (x..x + w).flat_map(|column| (y..y + h).map(move |line| (column, line))) {
            assert!(taken.insert(place), "{title} overlaps another panel at {place:?}");
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}

#[test]
fn queries_use_existing_metrics_and_cover_all_important_ones() {
    // Covered by other metrics, or not useful in a graph.
    const UNSEEN: [&str; 3] =
        ["process_threads", "tidegate_breaker_opened_total", "tidegate_redis_refreshes_total"];
    let named: BTreeSet<_> = queries().iter().flat_map(|(_, query)| metrics_of(query)).collect();
    let known = known_metrics();
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let is_part = |name: &str| name.ends_with("_sum") || name.ends_with("_count");
    let unseen: Vec<_> = known.difference(&named).filter(|name| !is_part(name)).collect();
    let unseen: Vec<_> =
        unseen.into_iter().filter(|name| !UNSEEN.contains(&name.as_str())).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}

#[test]
fn every_query_filters_by_job() {
    let list = dashboard()["templating"]["list"].as_array().unwrap().clone();
    let names: Vec<_> = list.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "job", "policy"]);
    for (title, query) in queries() {
        assert!(query.contains(r#"job=~"$job""#), "{title}: {query}");
    }
    // "All" means all jobs of tidegate: other jobs have `up` and process metrics, too.
    assert!(list[1]["allValue"].is_null());
    assert_eq!(list[1]["query"]["query"], "label_values(tidegate_build_info, job)");
}

#[test]
fn provisioned_files_exist() {
    let source = &document("grafana/provisioning/datasources/prometheus.yaml")["datasources"][0];
    assert_eq!(source["url"], "http://prometheus:9090");
    let compose = document("docker/compose.yaml");
    assert!(compose["services"]["prometheus"].is_object());
    let provider = &document("grafana/provisioning/dashboards/tidegate.yaml")["providers"][0];
    let folder = provider["options"]["path"].as_str().unwrap();
    let mounts = compose["services"]["grafana"]["volumes"].as_array().unwrap();
    assert!(mounts.contains(&format!("../grafana/tidegate.json:{folder}/tidegate.json:ro").into()));
}

/// A query as Grafana sends it, with the variables set to all.
fn filled_in(query: &str) -> String {
    let query = query.replace("$__rate_interval", "1m");
    let query = query.replace("$job", "tidegate").replace("$policy", ".*");
    assert!(!query.contains('$'), "{query}");
    query
}

#[test]
fn a_real_prometheus_answers_every_query_about_real_servers() {
    let (folder, origin, redis) = (Folder::new(), Origin::mirror(), RedisServer::start());
    let (_servers, quorum) = quorum();
    let config = format!(
        "store: {{ url: \"{}\", quorum: \"{quorum}\" }}
listen: {{ http: '127.0.0.1:0', proxy: '127.0.0.1:0' }}
policies:
  api: {{ limit: 100/s, burst: 2, lease: true }}
  site: {{ limit: 1000/s, adaptive: {{ source: {{ latency: {} }}, ramp: latency }} }}
  probed: {{ limit: 1000/s, adaptive: {{ source: {{ probe: {} }} }} }}
  tried: {{ limit: 1/h, mode: shadow }}
  payout: {{ limit: 5/h, quorum: true }}
  total: {{ limit: 1000/s, key: global }}
  tenants: {{ share: {{ of: total, by: tenant }} }}
routes: [{{ policy: site }}]
proxy: {{ upstream: {}, in_flight: {{ max: 100 }} }}
",
        redis.url(),
        origin.url(),
        origin.url(),
        origin.url()
    );
    let proxy = Proxy::with_config(&folder, &config);
    let kept = Folder::new();
    let snapshot = kept.path("counters");
    let config =
        format!("store: {{ snapshot: {snapshot}, every: 1s }}\npolicies: {{ login: 5/min }}\n");
    let (memory, api) = (Server::with_config(&kept, &config), proxy.api);
    let prometheus = Prometheus::start(&[memory.addr, api]);
    let busy = || {
        proxy.server.get("/shop/cart");
        for policy in ["api", "site", "tried", "tenants"] {
            let body = format!(r#"{{"policy":"{policy}","key":"ann"}}"#);
            crate::programs::curl(&[&format!("http://{api}/v1/check"), "-d", &body]);
        }
        memory.post("/v1/check", r#"{"policy":"login","key":"ann"}"#);
    };
    for (title, query) in queries() {
        // A query with ` > 0` is empty without events: the value is compared without it.
        let query = filled_in(query.trim_end_matches(" > 0"));
        wait_for(&format!("{title}: {query}"), AGREEMENT_DEADLINE, || {
            busy();
            prometheus.value(&query)
        });
    }
    // An invalid query is never answered.
    assert_eq!(prometheus.value("sum(rate(up[1m])"), None);
}
