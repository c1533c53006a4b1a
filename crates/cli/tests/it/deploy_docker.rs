//! `deploy/docker`. The tests run without Docker, so the image is not built here. They check the files that it copies,
//! and run its command and health check.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::Value;

use crate::deploy::{document, ran, text, tool, versions};
use crate::programs::root;
use crate::support::{Folder, Server, run_with, tidegate};

/// The last instruction of this name, with continued lines joined.
fn instruction(name: &str) -> String {
    let file = text("docker/Dockerfile").replace("\\\n", " ");
    let found = file.lines().rev().find_map(|line| line.trim().strip_prefix(name)).expect(name);
    found.trim().to_owned()
}

/// The words of an instruction in JSON form.
fn words(name: &str) -> Vec<String> {
    let text = instruction(name);
    serde_json::from_str(&text[text.find('[').unwrap()..]).unwrap()
}

fn ports_of(config: &Value) -> BTreeSet<String> {
    let doors = config["listen"].as_object().unwrap().values();
    doors.map(|it| it.as_str().unwrap().rsplit(':').next().unwrap().to_owned()).collect()
}

#[test]
fn hadolint_finds_no_problem() {
    let path = root().join("deploy/docker/Dockerfile");
    ran(tool("deploy", "bin/hadolint").arg(path)).unwrap();
    let folder = Folder::new();
    let bad = text("docker/Dockerfile").replace("COPY Cargo", "ADD Cargo");
    let bad = folder.write("Dockerfile", bad);
    assert!(ran(tool("deploy", "bin/hadolint").arg(bad)).is_err());
}

#[test]
fn the_image_copies_existing_files() {
    let (version, rust) = versions();
    let file = text("docker/Dockerfile");
    assert!(file.contains(&format!("ARG RUST_VERSION={rust}\n")), "{rust}");
    assert!(file.contains(&format!("image.version=\"{version}\"")), "{version}");
    let ignored = std::fs::read_to_string(root().join(".dockerignore")).unwrap();
    assert!(ignored.lines().any(|line| line == "*"));
    let copied = file.lines().filter_map(|line| line.strip_prefix("COPY "));
    for line in copied.filter(|line| !line.starts_with("--from")) {
        let paths: Vec<_> = line.split(' ').collect();
        for path in &paths[..paths.len() - 1] {
            assert!(root().join(path).exists(), "{path}");
            assert!(ignored.lines().any(|line| line == format!("!{path}")), "{path} is not sent");
        }
    }
    // A numeric user: a scratch image has no list of users, and Kubernetes has to see that it is not root.
    assert_eq!(instruction("USER"), "65532:65532");
}

/// The configuration file of the image.
const CONFIG: &str = "/etc/tidegate/tidegate.yaml";

#[test]
fn the_images_command_and_health_check_work() {
    let config = root().join("deploy/docker/config/tidegate.yaml");
    let config = config.to_str().unwrap();
    assert_eq!(instruction("COPY deploy"), "/docker/config /etc/tidegate");
    assert_eq!(words("ENTRYPOINT"), ["/usr/local/bin/tidegate"]);
    let output = words("CMD ");
    let args: Vec<_> = output.iter().map(|arg| if arg == CONFIG { config } else { arg }).collect();
    let free = ["--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let server = Server::launched(&mut tidegate(&[&args[..], &free].concat()));
    assert_eq!(server.post("/v1/check", r#"{"policy":"api","key":"ann"}"#).json()["allowed"], true);
    let health = words("HEALTHCHECK");
    assert_eq!(health[0], words("ENTRYPOINT")[0]);
    let asked: Vec<_> = health[1..].iter().map(String::as_str).collect();
    let url = server.url();
    assert_eq!(run_with(&[&asked[..], &["--server", &url]].concat(), &[]).code, Some(0));
    // The health check uses the address that the image listens on.
    let output = run_with(&["ready", "--help"], &[]).stdout;
    let output: Vec<_> = output.split_whitespace().collect();
    assert!(output.join(" ").contains("[default: http://127.0.0.1:8080]"), "{output:?}");
    let exposed = instruction("EXPOSE").split(' ').map(str::to_owned).collect();
    assert_eq!(ports_of(&document("docker/config/tidegate.yaml")), exposed);
}

/// Checks a Compose file by the specification.
fn composed(file: &str) -> Result<String, String> {
    let script = root().join("crates/cli/tests/clients/compose_check.py");
    ran(tool("deploy", "bin/python").arg(script).arg(file))
}

#[test]
fn the_compose_schema_accepts_the_files() {
    let (folder, compose) = (Folder::new(), text("docker/compose.yaml"));
    composed(&folder.write("compose.yaml", &compose)).unwrap();
    for (from, to) in [
        ("read_only:", "readonly:"),
        ("networks: [store]", "networks: [nowhere]"),
        ("stop_grace_period: 20s", "stop_grace_period: soon"),
    ] {
        assert!(compose.contains(from), "{from}");
        let bad = folder.write("bad.yaml", compose.replace(from, to));
        assert!(composed(&bad).is_err(), "{to}");
    }
}

/// The store that a Compose file gives to tidegate, with `hunter2` for each password. It is checked on the way: the schema
/// accepts the file, what it mounts exists, and its passwords are asked for.
pub(crate) fn composed_store(folder: &str) -> String {
    let path = root().join("deploy").join(folder);
    composed(path.join("compose.yaml").to_str().unwrap()).unwrap();
    let compose = document(&format!("{folder}/compose.yaml"));
    let services = compose["services"].as_object().unwrap();
    let mounts = services.values().filter_map(|it| it["volumes"].as_array()).flatten();
    for mount in mounts.map(|mount| mount.as_str().unwrap()) {
        let parts: Vec<_> = mount.split(':').collect();
        if parts[0].starts_with('.') {
            assert!(path.join(parts[0]).exists() && parts[2] == "ro", "{folder}: {mount}");
        } else {
            assert!(compose["volumes"][parts[0]].is_object(), "{folder}: {mount}");
        }
    }
    let (example, asked) =
        (text(&format!("{folder}/.env.example")), text(&format!("{folder}/compose.yaml")));
    for variable in asked.split("${").skip(1).map(|it| it.split(":?").next().unwrap()) {
        assert!(example.contains(&format!("\n{variable}=\n")), "{folder}: {variable}");
    }
    let store = services["tidegate"]["environment"]["TIDEGATE_STORE"].as_str().unwrap();
    let (before, after) = store.split_once("${").unwrap();
    format!("{before}hunter2{}", after.split_once('}').unwrap().1)
}

/// The server with the configuration of a folder of `deploy/` and this store.
pub(crate) fn composed_server(folder: &str, store: &str) -> Server {
    let config = root().join("deploy").join(folder).join("config/tidegate.yaml");
    let args = ["serve", "-c", config.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    Server::launched(tidegate(&args).env("TIDEGATE_STORE", store).stderr(Stdio::null()))
}

#[test]
fn compose_mounts_existing_files_and_requires_every_password() {
    let compose = document("docker/compose.yaml");
    let services = compose["services"].as_object().unwrap();
    let here = root().join("deploy/docker");
    let mounts = services.values().flat_map(|it| it["volumes"].as_array().unwrap());
    let mut mounted = 0;
    for mount in mounts.map(|mount| mount.as_str().unwrap()) {
        let parts: Vec<_> = mount.split(':').collect();
        if !parts[0].starts_with('.') {
            assert!(compose["volumes"][parts[0]].is_object(), "{mount}");
            continue;
        }
        assert!(here.join(parts[0]).exists(), "{mount}");
        assert_eq!(parts[2], "ro", "{mount}");
        mounted += 1;
    }
    assert_eq!(mounted, 5);
    assert!(compose.to_string().contains(&format!("tidegate:{}", versions().0)));
    let example = text("docker/.env.example");
    let asked = text("docker/compose.yaml");
    for variable in asked.split("${").skip(1).map(|it| it.split(":?").next().unwrap()) {
        assert!(example.contains(&format!("\n{variable}=\n")), "{variable}");
    }
    // `deploy_redis.rs` runs the start script of Redis; this checks where it is mounted.
    assert_eq!(services["redis"]["entrypoint"][0], "/etc/redis/start.sh");
    let store = services["tidegate"]["environment"]["TIDEGATE_STORE"].as_str().unwrap();
    let (before, after) = store.split_once("${").unwrap();
    let store = format!("{before}hunter2{}", after.split_once('}').unwrap().1);
    let config = root().join("deploy/docker/config/tidegate.yaml");
    let output = run_with(&["validate", config.to_str().unwrap()], &[("TIDEGATE_STORE", &store)]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let stop = services["tidegate"]["stop_grace_period"].as_str().unwrap();
    // `drain`, idle connections, requests in flight, leases.
    assert!(stop.trim_end_matches('s').parse::<u64>().unwrap() > 1 + 1 + 10);
}

#[test]
fn prometheus_in_compose_finds_its_files() {
    let compose = document("docker/compose.yaml");
    let command = &compose["services"]["prometheus"]["command"][0];
    assert_eq!(command, "--config.file=/etc/prometheus/prometheus.yaml");
    let discovery =
        &document("prometheus/prometheus.yaml")["scrape_configs"][0]["dns_sd_configs"][0];
    assert_eq!((&discovery["names"][0], &discovery["port"]), (&"tidegate".into(), &8080.into()));
}
