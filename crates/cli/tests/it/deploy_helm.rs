//! `deploy/helm`: linted and rendered by the real Helm, then checked like `deploy/kubernetes`.

use crate::deploy::{document, ran, tool, versions};
use crate::manifests::{Manifests, against_schemas};
use crate::programs::root;
use crate::support::Folder;

fn helm(args: &[&str]) -> Result<String, String> {
    let folder = Folder::new();
    let mut helm = tool("helm", "bin/helm");
    // Helm keeps its files of the user here.
    helm.env("HOME", folder.path("")).current_dir(root().join("deploy/helm"));
    ran(helm.args(args))
}

fn rendered(more: &[&str]) -> String {
    helm(&[&["template", "edge", "tidegate"], more].concat()).unwrap()
}

/// All features of the chart.
const EVERYTHING: [&str; 18] = [
    "--set",
    "store.existingSecret=tidegate-store,serviceMonitor.enabled=true,serviceMonitor.labels.team=edge",
    "--set",
    "config.drain=1min30s,config.policies.login.limit=5/h,config.policies.login.on_store_error=deny",
    "--set",
    "store.ports={6379,26379},podAnnotations.a=b,nodeSelector.zone=a,priorityClassName=high",
    "--set",
    "tolerations[0].key=edge,tolerations[0].operator=Exists,imagePullSecrets[0].name=registry",
    "--set",
    "image.repository=registry.example/tidegate,image.tag=next,service.annotations.c=d",
    "--set-json",
    r#"affinity={"nodeAffinity":{}}"#,
    "--set-json",
    r#"networkPolicy.extraEgress=[{"ports":[{"port":9000}]}]"#,
    "--set-json",
    r#"extraVolumes=[{"name":"admin","secret":{"secretName":"tidegate-admin"}}]"#,
    "--set-json",
    r#"extraVolumeMounts=[{"name":"admin","mountPath":"/run/secrets/admin","readOnly":true}]"#,
];

/// The minimum: no Redis, no operator, a fixed number of pods, and access from every namespace.
const LEAST: [&str; 2] = ["--set", "autoscaling.enabled=false,networkPolicy.enabled=false"];

#[test]
fn helm_lints_the_chart() {
    let output = helm(&["lint", "--strict", "tidegate"]).unwrap();
    assert!(output.contains("1 chart(s) linted, 0 chart(s) failed"), "{output}");
}

#[test]
fn the_rendered_chart_matches_the_kubernetes_schemas() {
    for values in [&[][..], &EVERYTHING, &LEAST] {
        for version in ["1.29", "1.34"] {
            against_schemas(&rendered(values), version).unwrap();
        }
    }
}

#[test]
fn the_rendered_chart_is_consistent_and_runs() {
    for values in [&[][..], &EVERYTHING, &LEAST] {
        let manifests = Manifests::new(&rendered(values));
        manifests.check_pods();
        manifests.check_service();
        manifests.check_stop();
        manifests.run_and_probe();
    }
    for values in [&[][..], &EVERYTHING] {
        Manifests::new(&rendered(values)).check_scaling_and_network();
    }
    let everything = Manifests::new(&rendered(&EVERYTHING));
    assert_eq!(everything.image(), "registry.example/tidegate:next");
    assert_eq!(everything.pod()["terminationGracePeriodSeconds"], 90 + 20);
    assert_eq!(everything.config()["store"]["url_file"], "/run/secrets/tidegate/url");
    let egress = everything.only("NetworkPolicy")["spec"]["egress"].as_array().unwrap();
    assert_eq!(egress.last().unwrap()["ports"][0]["port"], 9000);
    let monitor = everything.only("ServiceMonitor");
    everything.check_monitor(monitor);
    let least = Manifests::new(&rendered(&LEAST));
    assert_eq!(least.only("Deployment")["spec"]["replicas"], 3);
    assert!(
        least.all("NetworkPolicy").is_empty() && least.all("HorizontalPodAutoscaler").is_empty()
    );
}

#[test]
fn invalid_values_are_refused() {
    for (value, expected) in [
        ("replicacount=2", "replicacount"),
        ("image.name=x", "name"),
        ("config.store=memory", "/config/store"),
        ("config.drain=soon", "/config/drain"),
        ("service.type=Public", "/service/type"),
        ("autoscaling.minReplicas=0", "/autoscaling/minReplicas"),
        ("replicaCount=three", "/replicaCount"),
        ("extraVolumes[0].secret.secretName=x", "name"),
    ] {
        let output = helm(&["template", "edge", "tidegate", "--set", value]).unwrap_err();
        assert!(output.contains(expected), "{value}: {output}");
    }
}

#[test]
fn the_chart_has_the_version_of_the_workspace() {
    let chart = document("helm/tidegate/Chart.yaml");
    assert_eq!(chart["appVersion"], versions().0);
    let manifests = Manifests::new(&rendered(&[]));
    assert_eq!(manifests.image(), format!("tidegate:{}", versions().0));
}

#[test]
fn the_values_of_the_page_work() {
    let page = std::fs::read_to_string(root().join("docs/deploy.md")).unwrap();
    let values = page.split("cat > values.yaml <<'END'\n").nth(1).unwrap();
    let folder = Folder::new();
    let values = folder.write("values.yaml", values.split("END\n").next().unwrap());
    let manifests = Manifests::new(&rendered(&["-f", &values]));
    manifests.run_and_probe();
    assert_eq!(manifests.config()["policies"]["login"]["on_store_error"], "deny");
    manifests.check_monitor(manifests.only("ServiceMonitor"));
}

#[test]
fn long_names_are_truncated_to_valid_ones() {
    let long = "a-release-whose-name-is-as-long-as-helm-lets-it-be";
    let text = helm(&["template", long, "tidegate"]).unwrap();
    for service in Manifests::new(&text).all("Service") {
        assert!(service["metadata"]["name"].as_str().unwrap().len() <= 63);
    }
}
