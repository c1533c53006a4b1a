//! Kubernetes manifests: checks that they are consistent, and that the binary runs with them.

use std::process::Stdio;

use serde_json::Value;

use crate::deploy::{documents, ran, tool};
use crate::processes::{DEADLINE, wait_until};
use crate::programs::{Program, curl};
use crate::support::{CommandOutput, Folder, Server, run, tidegate};

/// Validates manifests by the schemas of a Kubernetes version. Custom resources have no schema.
pub(crate) fn against_schemas(text: &str, version: &str) -> Result<String, String> {
    let folder = Folder::new();
    let file = folder.write("manifests.yaml", text);
    let mut validate = tool("deploy", "bin/kubernetes-validate");
    ran(validate.args(["--strict", "--quiet", "--no-warn", "-k", version, &file]))
}

/// Manifests that are applied together.
pub(crate) struct Manifests(Vec<Value>);

impl Manifests {
    pub(crate) fn new(text: &str) -> Self {
        Self(documents(text))
    }

    pub(crate) fn all(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|it| it["kind"] == kind).collect()
    }

    pub(crate) fn only(&self, kind: &str) -> &Value {
        let [it] = self.all(kind)[..] else { panic!("not exactly one {kind}") };
        it
    }

    /// The pod template.
    pub(crate) fn pod(&self) -> &Value {
        &self.only("Deployment")["spec"]["template"]["spec"]
    }

    fn labels(&self) -> &Value {
        &self.only("Deployment")["spec"]["template"]["metadata"]["labels"]
    }

    /// The container that runs tidegate: a sidecar, or the only one.
    fn container(&self) -> &Value {
        let pod = self.pod();
        let all = [&pod["initContainers"], &pod["containers"]];
        let mut all = all.into_iter().filter_map(Value::as_array).flatten();
        all.find(|it| it["name"] == "tidegate").expect("tidegate")
    }

    pub(crate) fn image(&self) -> &str {
        self.container()["image"].as_str().unwrap()
    }

    fn config_text(&self) -> &str {
        self.only("ConfigMap")["data"]["tidegate.yaml"].as_str().unwrap()
    }

    pub(crate) fn config(&self) -> Value {
        documents(self.config_text()).remove(0)
    }

    fn port(&self, name: &Value) -> u64 {
        let ports = self.container()["ports"].as_array().unwrap();
        let port = ports.iter().find(|port| port["name"] == *name);
        port.unwrap_or_else(|| panic!("no port {name}"))["containerPort"].as_u64().unwrap()
    }

    fn selects(&self, labels: &Value) {
        let labels = labels.as_object().expect("labels");
        assert!(!labels.is_empty());
        assert!(labels.iter().all(|(name, value)| self.labels()[name] == *value), "{labels:?}");
    }

    /// Pods have minimal privileges, and every mount has its volume.
    pub(crate) fn check_pods(&self) {
        self.selects(&self.only("Deployment")["spec"]["selector"]["matchLabels"]);
        let pod = self.pod();
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let volumes = pod["volumes"].as_array().unwrap();
        let all = [&pod["initContainers"], &pod["containers"]];
        for container in all.into_iter().filter_map(Value::as_array).flatten() {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false);
            assert_eq!(context["readOnlyRootFilesystem"], true);
            assert_eq!(context["capabilities"]["drop"][0], "ALL");
            assert!(container["resources"]["limits"]["memory"].is_string());
            assert!(container["resources"]["requests"]["cpu"].is_string());
            for mount in container["volumeMounts"].as_array().unwrap() {
                assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount}");
                // Kubernetes never updates a mount of a single file.
                assert!(mount["subPath"].is_null());
            }
        }
        // Keys are capped at 256 MiB, in memory or during a Redis outage: a flood of keys must not kill the process.
        let memory = self.container()["resources"]["limits"]["memory"].as_str().unwrap();
        let memory_mib = memory.strip_suffix("Mi").and_then(|mib| mib.parse::<u64>().ok());
        assert!(memory_mib >= Some(256 + 64), "{memory}");
        let map = volumes.iter().find_map(|volume| volume["configMap"]["name"].as_str());
        assert_eq!(map, self.only("ConfigMap")["metadata"]["name"].as_str());
    }

    /// Services, disruption budget, autoscaler and topology spread select these pods, and ports are those of the doors.
    pub(crate) fn check_service(&self) {
        let config = self.config();
        let doors = config["listen"].as_object().unwrap();
        for (door, address) in doors {
            let port = self.port(&door.as_str().into());
            assert_eq!(*address, format!("0.0.0.0:{port}"), "{door}");
        }
        for service in self.all("Service") {
            self.selects(&service["spec"]["selector"]);
            for port in service["spec"]["ports"].as_array().unwrap() {
                assert_eq!(port["port"], self.port(&port["targetPort"]));
            }
        }
        self.selects(&self.only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]);
        for spread in self.pod()["topologySpreadConstraints"].as_array().unwrap() {
            self.selects(&spread["labelSelector"]["matchLabels"]);
        }
    }

    /// Only the autoscaler sets the number of pods, and the network policy is closed.
    pub(crate) fn check_scaling_and_network(&self) {
        let deployment = self.only("Deployment");
        assert!(deployment["spec"]["replicas"].is_null());
        let scaled = &self.only("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"];
        assert_eq!(scaled["name"], deployment["metadata"]["name"]);
        let policy = &self.only("NetworkPolicy")["spec"];
        self.selects(&policy["podSelector"]["matchLabels"]);
        for rule in policy["ingress"].as_array().unwrap() {
            assert!(!rule["from"].as_array().unwrap().is_empty());
            for port in rule["ports"].as_array().unwrap() {
                self.port(&port["port"]);
            }
        }
    }

    /// The grace period is long enough for two health checks of a balancer and for the shutdown.
    pub(crate) fn check_stop(&self) {
        let drain_s = seconds(self.config()["drain"].as_str().unwrap_or("1s"));
        let grace_s = self.pod()["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(grace_s >= drain_s + 20, "{drain_s} {grace_s}");
        if let Some(period_s) = self.container()["readinessProbe"]["periodSeconds"].as_u64() {
            let checks = self.container()["readinessProbe"]["failureThreshold"].as_u64().unwrap();
            assert!(drain_s >= checks * period_s, "{drain_s} {period_s} {checks}");
        }
    }

    /// `monitor` selects one Service with its port.
    pub(crate) fn check_monitor(&self, monitor: &Value) {
        let selector = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
        let port = &monitor["spec"]["endpoints"][0]["port"];
        let services = self.all("Service").into_iter().filter(|service| {
            let labels = &service["metadata"]["labels"];
            let ports = service["spec"]["ports"].as_array().unwrap();
            selector.iter().all(|(name, value)| labels[name] == *value)
                && ports.iter().any(|it| it["name"] == *port)
        });
        let found: Vec<_> = services.collect();
        assert_eq!(found.len(), 1, "{found:?}");
        let job = monitor["spec"]["jobLabel"].as_str().unwrap();
        assert_eq!(found[0]["metadata"]["labels"][job], "tidegate");
    }

    /// Starts the real binary as the pod does, on other ports and without its Redis, and runs its probes.
    pub(crate) fn run_and_probe(&self) {
        let folder = Folder::new();
        folder.write("url", "memory:");
        let here = folder.path("");
        let with_test_paths = |text: &str| {
            let text = text.replace("/run/secrets/tidegate/", &here);
            text.replace("/run/tidegate/", &here)
        };
        let config = folder.write("tidegate.yaml", with_test_paths(self.config_text()));
        assert_eq!(run(&["validate", &config]).code, Some(0), "{}", self.config_text());
        let container = self.container();
        let args = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        let args: Vec<_> = args
            .map(|arg| if arg == "/etc/tidegate/tidegate.yaml" { &config } else { arg })
            .collect();
        if let Some(socket) =
            self.config()["listen"]["http"].as_str().unwrap().strip_prefix("unix:")
        {
            let socket = with_test_paths(socket);
            let _program = Program::start(&mut tidegate(&args), &folder);
            wait_until("the startup probe succeeds", DEADLINE, || {
                probed(&container["startupProbe"], &with_test_paths).code == Some(0)
            });
            assert_eq!(probed(&container["livenessProbe"], &with_test_paths).code, Some(0));
            let asked = [
                "--unix-socket",
                &socket,
                "http://x/v1/check",
                "-d",
                r#"{"policy":"api","key":"a"}"#,
            ];
            assert!(curl(&asked).contains(r#""allowed":true"#));
            return;
        }
        let free = ["--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
        let mut command = tidegate(&[&args[..], &free].concat());
        let server = Server::launched(command.stderr(Stdio::null()));
        for (probe, path) in [("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")] {
            let asked = &container[probe]["httpGet"];
            assert_eq!(asked["path"], path);
            assert_eq!(
                self.config()["listen"]["http"],
                format!("0.0.0.0:{}", self.port(&asked["port"]))
            );
            assert_eq!(server.get(path).status, 200, "{path}");
        }
        let reply = server.post("/v1/check", r#"{"policy":"api","key":"ann"}"#);
        assert_eq!(reply.json()["allowed"], true, "{reply:?}");
    }
}

/// Runs the command of a probe.
fn probed(probe: &Value, with_test_paths: &impl Fn(&str) -> String) -> CommandOutput {
    let command = probe["exec"]["command"].as_array().unwrap();
    assert_eq!(command[0], "/usr/local/bin/tidegate");
    let args: Vec<_> =
        command[1..].iter().map(|arg| with_test_paths(arg.as_str().unwrap())).collect();
    run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// `1min30s` in seconds.
fn seconds(text: &str) -> u64 {
    let (minutes, rest) = text.split_once("min").unwrap_or(("0", text));
    let seconds = rest.trim_end_matches('s');
    minutes.parse::<u64>().unwrap() * 60 + seconds.parse::<u64>().unwrap_or(0)
}
