//! `deploy/kubernetes`: rendered by the real kubectl, checked against the schemas of Kubernetes and for consistency, and
//! run: the real binary with the configuration and arguments of a pod, with the requests of its probes.

use crate::deploy::{documents, ran, text, tool, versions};
use crate::manifests::{Manifests, against_schemas};
use crate::programs::root;

fn rendered(folder: &str) -> String {
    let path = root().join("deploy/kubernetes").join(folder);
    ran(tool("helm", "bin/kubectl").arg("kustomize").arg(path)).unwrap()
}

#[test]
fn the_manifests_match_the_kubernetes_schemas() {
    for folder in ["central", "sidecar"] {
        let text = rendered(folder);
        for version in ["1.29", "1.34"] {
            against_schemas(&text, version).unwrap();
        }
        for (from, to) in [
            ("runAsNonRoot: true", "runAsNonRoot: 'yes'"),
            ("volumeMounts:", "volumesMounts:"),
            ("runAsUser:", "runasUser:"),
        ] {
            assert!(text.contains(from), "{from}");
            assert!(against_schemas(&text.replacen(from, to, 1), "1.34").is_err(), "{folder} {to}");
        }
    }
}

#[test]
fn the_central_manifests_are_consistent_and_run() {
    let manifests = Manifests::new(&rendered("central"));
    manifests.check_pods();
    manifests.check_service();
    manifests.check_scaling_and_network();
    manifests.check_stop();
    manifests.run_and_probe();
    assert_eq!(manifests.image(), format!("tidegate:{}", versions().0));
}

#[test]
fn the_sidecar_shares_a_socket_with_its_application_and_runs() {
    let manifests = Manifests::new(&rendered("sidecar"));
    manifests.check_pods();
    manifests.check_stop();
    manifests.run_and_probe();
    assert_eq!(manifests.image(), format!("tidegate:{}", versions().0));
    let pod = manifests.pod();
    assert_eq!(pod["initContainers"][0]["restartPolicy"], "Always");
    let mounts = |container: &serde_json::Value| {
        let mounts = container["volumeMounts"].as_array().unwrap().clone();
        mounts.into_iter().find(|mount| mount["name"] == "socket").expect("the socket")
    };
    let [sidecar, app] = [&pod["initContainers"][0], &pod["containers"][0]].map(mounts);
    assert_eq!(sidecar["mountPath"], app["mountPath"]);
    let listens = manifests.config()["listen"]["http"].as_str().unwrap().to_owned();
    let folder = sidecar["mountPath"].as_str().unwrap();
    assert!(listens.starts_with(&format!("unix:{folder}/")), "{listens}");
    // Only the user that owns the socket can connect.
    assert!(pod["securityContext"]["runAsUser"].is_u64());
    assert!(pod["containers"][0]["securityContext"]["runAsUser"].is_null());
    let asked = pod["containers"][0]["args"][0].as_str().unwrap();
    assert!(asked.contains(listens.trim_start_matches("unix:")), "{asked}");
}

#[test]
fn the_monitor_selects_the_service_that_has_metrics() {
    let manifests = Manifests::new(&rendered("central"));
    let monitor = &documents(&text("kubernetes/central/monitor.yaml"))[0];
    manifests.check_monitor(monitor);
}
