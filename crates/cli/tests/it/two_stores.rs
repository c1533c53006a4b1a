//! A main store and a quorum: each outage names its store, its cause and the policies that it touches.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{Clock, SystemClock};
use tidegate_core::text::rfc3339;

use crate::engines::{quorum, wait_for_store};
use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::support::{Folder, Server, run};

/// A server over both, with its log in a file.
struct TwoStores {
    main: RedisServer,
    servers: [RedisServer; 3],
    server: Server,
    folder: Folder,
}

impl TwoStores {
    fn start(policies: &str) -> Self {
        let (main, folder, (servers, url)) = (RedisServer::start(), Folder::new(), quorum());
        // With a long deadline, because the machine may be slow.
        let config = format!(
            "store: {{ url: \"{}\", quorum: \"{url}\", deadline: 2s }}\npolicies:\n{policies}",
            main.url()
        );
        let file = folder.write("tidegate.yaml", config);
        let args = ["serve", "-c", &file, "--listen", "127.0.0.1:0"];
        let server = Server::start_logged(&args, &folder.path("log"));
        let stores = Self { main, servers, server, folder };
        wait_for_store(&stores.server, "api");
        wait_for_store(&stores.server, "payout");
        stores
    }

    fn outages(&self) -> Vec<Value> {
        self.server.get("/v1/status").json()["outages"].as_array().unwrap().clone()
    }

    /// Waits for just these outages, and returns them.
    fn wait_for(&self, stores: &[&str]) -> Vec<Value> {
        let is_so = || {
            let outages = self.outages();
            outages.iter().map(|outage| &outage["store"]).eq(stores.iter())
        };
        wait_until(&format!("outages of {stores:?}"), DEADLINE, is_so);
        self.outages()
    }

    /// The log lines whose message begins so.
    fn lines(&self, message: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.folder.path("log")).unwrap();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_it = |line: &Value| line["message"].as_str().unwrap_or("").starts_with(message);
        lines.filter(is_it).collect()
    }

    fn wait_for_line(&self, message: &str, about: &str) -> Value {
        let found =
            || self.lines(message).into_iter().find(|line| line.to_string().contains(about));
        wait_until(&format!("a line: {message} {about}"), DEADLINE, || found().is_some());
        found().unwrap()
    }

    fn outage_metric(&self, store: &str, kind: &str) -> Option<f64> {
        self.server.metric(&format!("tidegate_store_outage{{store=\"{store}\",kind=\"{kind}\"}}"))
    }

    /// How many servers of the quorum are `serving`, `recovering` and `away`.
    fn server_counts(&self) -> [Option<f64>; 3] {
        ["serving", "recovering", "away"].map(|state| {
            self.server.metric(&format!("tidegate_quorum_servers{{state=\"{state}\"}}"))
        })
    }

    fn wait_for_counts(&self, expected: [f64; 3]) {
        let expected = expected.map(Some);
        wait_until(&format!("servers {expected:?}"), DEADLINE, || self.server_counts() == expected);
    }
}

const POLICIES: &str = "  api: 5/h
  login: { limit: 5/h, on_store_error: deny }
  payout: { algorithm: fixed-window, limit: 2/day, quorum: true, on_store_error: deny }
  sms: { limit: 5/h, quorum: true, on_store_error: allow }
";

/// The policies that an outage touches: those that deny, allow and decide locally.
fn touched(outage: &Value) -> Value {
    ["deny", "allow", "local"].map(|how| outage["policies"][how]["names"].clone()).into()
}

#[test]
fn each_outage_names_its_store_its_cause_and_just_the_policies_that_it_touches() {
    let stores = TwoStores::start(POLICIES);
    assert_eq!(stores.outages(), [Value::Null; 0]);
    let ready = |path: &str| stores.server.get(path).json();
    assert_eq!(ready("/readyz")["store"], json!({"kind": "redis", "state": "ok"}));
    assert_eq!(ready("/readyz")["quorum"], json!({"kind": "quorum", "state": "ok"}));

    stores.main.kill();
    let outage = &stores.wait_for(&["store"])[0];
    assert_eq!(touched(outage), json!([["login"], [], ["api"]]), "{outage}");
    assert_eq!(outage["url"], format!("redis://{}", stores.main.address()));
    assert!(outage["error"].as_str().unwrap().contains(&stores.main.address()), "{outage}");
    assert_eq!(stores.outage_metric("store", outage["kind"].as_str().unwrap()), Some(1.0));
    assert_eq!(stores.outage_metric("quorum", "unreachable"), Some(0.0));
    let line = stores.wait_for_line("the store does not serve", "\"store\":\"store\"");
    assert_eq!((&line["policies_local"], &line["policies_deny"]), (&"api".into(), &"login".into()));
    assert_eq!((&line["level"], &line["policies_allow"]), (&"WARN".into(), &Value::Null));
    wait_until("only the main store is bad", DEADLINE, || {
        ready("/readyz")["store"]["state"] != "ok"
    });
    assert_eq!(ready("/readyz")["quorum"]["state"], "ok");
    let strict = stores.server.get("/readyz?strict");
    assert_eq!((strict.status, &strict.json()["quorum"]["state"]), (503, &"ok".into()));

    // Both, each by itself.
    stores.servers[1..].iter().for_each(RedisServer::kill);
    let both = stores.wait_for(&["store", "quorum"]);
    assert_eq!(touched(&both[1]), json!([["payout"], ["sms"], []]), "{}", both[1]);
    let error = both[1]["error"].as_str().unwrap();
    assert!(error.contains("no majority of 3 servers"), "{error}");
    assert!(both[1]["url"].as_str().unwrap().starts_with("redis+quorum://"), "{}", both[1]);
    let line = stores.wait_for_line("the store does not serve", "\"store\":\"quorum\"");
    assert_eq!(
        (&line["policies_allow"], &line["policies_deny"]),
        (&"sms".into(), &"payout".into())
    );
    // A check without the store says why its own store does not serve.
    let check = r#"{"policy":"payout","key":"ann"}"#;
    assert_eq!(stores.server.post("/v1/check", check).status, 503);
    let line = stores.wait_for_line("decided without the store", "\"policy\":\"payout\"");
    assert!(line["cause"].as_str().unwrap().contains("no majority of 3"), "{line}");

    stores.main.restart();
    stores.wait_for(&["quorum"]);
    let line = stores.wait_for_line("the store serves again", "\"store\":\"store\"");
    assert_eq!(line["url"], format!("redis://{}", stores.main.address()));
}

#[test]
fn a_quorum_that_has_forgotten_too_much_is_an_outage_of_the_policies_with_long_windows() {
    let short = "  codes: { algorithm: fixed-window, limit: 5/s, quorum: true }\n";
    let stores = TwoStores::start(&(POLICIES.to_owned() + short));
    // The third has lost its data, and without the first one it would have to count.
    stores.servers[2].restart();
    stores.wait_for_counts([2.0, 1.0, 0.0]);
    stores.servers[0].kill();
    let outage = || stores.outages().into_iter().find(|outage| outage["store"] == "quorum");
    // At first it does not count for any policy; later for those with short windows.
    let long_only = json!([["payout"], ["sms"], []]);
    wait_until("an outage of long windows", DEADLINE * 2, || {
        outage().is_some_and(|it| it["kind"] == "recovering" && touched(&it) == long_only)
    });
    let outage = outage().unwrap();
    let error = outage["error"].as_str().unwrap();
    assert!(
        error.contains(&format!("{} has lost its data", stores.servers[2].address())),
        "{error}"
    );
    assert_eq!(stores.outage_metric("quorum", "recovering"), Some(1.0));
    let line = stores.wait_for_line("the store does not serve", "\"store\":\"quorum\"");
    assert!(line["error"].as_str().unwrap().starts_with("recovering: "), "{line}");
    assert_eq!(stores.outages().len(), 1, "the main store serves");
    let peek = |policy: &str| {
        let question = format!(r#"{{"policy":"{policy}","key":"probe"}}"#);
        stores.server.post("/v1/peek", &question).status
    };
    assert_eq!((peek("codes"), peek("payout")), (200, 503));
}

#[test]
fn a_lost_or_empty_server_of_a_quorum_is_logged_once_and_counted() {
    let stores = TwoStores::start(POLICIES);
    stores.wait_for_counts([3.0, 0.0, 0.0]);
    let (away, back) = ("a server of the quorum does not answer", "a server of the quorum serves");
    assert_eq!((stores.lines(away).len(), stores.lines(back).len()), (0, 0));
    let hung = &stores.servers[1];
    hung.pause();
    stores.wait_for_counts([2.0, 0.0, 1.0]);
    let line = stores.wait_for_line(away, &hung.address());
    assert_eq!((&line["level"], &line["store"]), (&"WARN".into(), &"quorum".into()), "{line}");
    hung.resume();
    stores.wait_for_counts([3.0, 0.0, 0.0]);
    let line = stores.wait_for_line(back, &hung.address());
    assert_eq!(line["level"], "INFO");

    let empty = &stores.servers[2];
    empty.restart();
    stores.wait_for_counts([2.0, 1.0, 0.0]);
    let line = stores.wait_for_line("a server of the quorum has lost its data", &empty.address());
    assert_eq!(line["level"], "WARN");
    let until = line["serves_again"].as_str().unwrap();
    assert!(until.ends_with('Z') && until.contains('T'), "{until}");
    assert_eq!(stores.lines(away).len(), 1, "the hung one, once");
    assert_eq!(stores.outages(), [Value::Null; 0], "two of three serve");
}

#[test]
fn the_doctor_says_when_an_empty_server_counts_again_for_each_policy_of_its_store() {
    let stores = TwoStores::start(POLICIES);
    let file = stores.folder.path("tidegate.yaml");
    let doctor = || run(&["doctor", "-c", &file]);
    assert!(!doctor().stdout.contains("counts again for"), "{}", doctor().stdout);
    let empty = &stores.servers[2];
    empty.restart();
    stores.wait_for_counts([2.0, 1.0, 0.0]);
    let output = doctor();
    let found = output.stdout.replace(['\n', ' '], "");
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    let (_, times) = found.split_once("countsagainforpayoutfrom").expect(&output.stdout);
    let (payout, rest) = times.split_once(",smsfrom").expect(&output.stdout);
    // In a day and the margin, as the log says too. As text, times are in their order.
    let line = stores.wait_for_line("a server of the quorum has lost its data", &empty.address());
    let hours = |hours| rfc3339(SystemClock.now() + Duration::from_hours(hours));
    for at in [payout, line["serves_again"].as_str().unwrap()] {
        assert!(*hours(23) < *at && *at < *hours(25), "{at}");
    }
    assert!(rest.starts_with('2') && *rest < *payout, "an hour ends before a day: {rest}");
    assert!(!found.contains("apifrom") && !found.contains("loginfrom"), "{}", output.stdout);
}
