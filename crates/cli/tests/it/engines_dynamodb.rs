//! The binary over DynamoDB: two imitations of it, with the credentials of the environment.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::deploy::{ran, tool};
use crate::engines_exactly::{POLICIES, eight_started_servers_admit_exactly};
use crate::processes::{AGREEMENT_DEADLINE, DynamoDbServer, Imitation, wait_until};
use crate::programs::root;
use crate::support::{CommandOutput, Folder, Server, run, run_with, tidegate};
use crate::vectors::{golden, replay};

/// Credentials that an imitation takes; and no looking for others on a network.
const USER: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "AKIATESTS"),
    ("AWS_SECRET_ACCESS_KEY", "canary-secret"),
    ("AWS_EC2_METADATA_DISABLED", "true"),
];

fn doctor(url: &str, more: &[&str]) -> CommandOutput {
    run_with(&[&["doctor", "--store", url], more].concat(), &USER)
}

/// Whether something is wrong, other than the time that the imitation takes on a busy machine.
fn has_fault(output: &CommandOutput) -> bool {
    let is_slow = |line: &str| line.starts_with("fault script-time");
    let mut lines = output.stdout.lines();
    lines.any(|line| line.starts_with("fault ") && !is_slow(line)) || !output.stderr.is_empty()
}

#[track_caller]
fn assert_no_fault(output: &CommandOutput) {
    assert!(!has_fault(output), "{}{}", output.stdout, output.stderr);
}

/// A server whose table is made.
fn with_table(imitation: Imitation) -> (DynamoDbServer, String) {
    let server = DynamoDbServer::start(imitation);
    let url = server.url("tidegate");
    let output = doctor(&url, &["--create"]);
    assert_no_fault(&output);
    (server, url)
}

/// A long deadline: the imitations are slow, and the machine may be busy.
fn serve(folder: &Folder, url: &str) -> Server {
    serve_policies(folder, url, "policies: { login: sliding-log 5/h }\n")
}

fn serve_policies(folder: &Folder, url: &str, policies: &str) -> Server {
    let store = format!("store: {{ url: \"{url}\", deadline: 30s, breaker: false }}\n");
    let config = store + policies;
    let file = folder.write("tidegate.yaml", config);
    let args = ["serve", "--config", &file, "--listen", "127.0.0.1:0"];
    Server::launched(tidegate(&args).envs(USER).stderr(Stdio::null()))
}

#[test]
fn eight_servers_on_dynamodb_admit_exactly_the_limit() {
    let (_dynamodb, url) = with_table(Imitation::Dynalite);
    eight_started_servers_admit_exactly(|folder| serve_policies(folder, &url, POLICIES));
}

#[test]
fn two_servers_share_one_limit_over_each_imitation() {
    for imitation in [Imitation::Moto, Imitation::Dynalite] {
        let (_dynamodb, url) = with_table(imitation);
        let folders = [Folder::new(), Folder::new()];
        let servers = folders.each_ref().map(|folder| serve(folder, &url));
        let check = |server: &Server| {
            let reply = server.post("/v1/check", r#"{"policy":"login","key":"user-42"}"#).json();
            let allowed = reply["allowed"].as_bool().unwrap();
            assert!(!allowed || reply["source"] == "store", "{reply}");
            allowed
        };
        let admitted = (0..8).filter(|turn| check(&servers[turn % 2])).count();
        assert_eq!(admitted, 5);
        assert!(servers[0].metric("tidegate_store_calls_total").is_some_and(|calls| calls > 0.0));
    }
}

#[test]
fn dynamodb_passes_every_golden_case() {
    let in_memory = replay(&golden(), &[]).stdout;
    let (_dynamodb, url) = with_table(Imitation::Dynalite);
    let files = golden();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let output = run_with(&[&["vectors"], &files[..], &["--store", &url]].concat(), &USER);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout == in_memory);
}

#[test]
fn the_doctor_makes_the_table_and_then_finds_no_fault() {
    let server = DynamoDbServer::start(Imitation::Moto);
    let url = server.url("tidegate");
    let before = doctor(&url, &[]);
    assert_eq!(before.code, Some(1), "{}{}", before.stdout, before.stderr);
    assert!(before.stdout.contains("there is no table `tidegate`"), "{}", before.stdout);
    for made in ["made the table `tidegate`, billed on demand", "is there already"] {
        let output = doctor(&url, &["--create"]);
        assert_no_fault(&output);
        for words in [
            made,
            "ok credentials",
            "`tidegate` is active",
            "ok key: `key`, text",
            "items expire by `expires`",
            "ok billing: on demand",
            "a read takes",
            "every algorithm has run",
        ] {
            assert!(output.stdout.contains(words), "{words}: {}", output.stdout);
        }
        assert!(!(output.stdout + &output.stderr).contains("canary"), "a secret is repeated");
    }
}

/// dynalite cannot let items expire: the doctor has to notice.
#[test]
fn the_doctor_notices_a_table_that_keeps_everything() {
    let (_dynamodb, url) = with_table(Imitation::Dynalite);
    let output = doctor(&url, &[]);
    assert_no_fault(&output);
    assert!(output.stdout.contains("warning expiry: items do not expire"), "{}", output.stdout);
    assert!(output.stdout.contains("aws dynamodb update-time-to-live"), "{}", output.stdout);
}

#[test]
fn missing_credentials_and_servers_are_told_with_their_remedy() {
    let server = DynamoDbServer::start(Imitation::Dynalite);
    let url = server.url("tidegate");
    let nobody = [("AWS_EC2_METADATA_DISABLED", "true"), ("HOME", "/nonexistent")];
    let output = run_with(&["doctor", "--store", &url], &nobody);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains("fault credentials"), "{}", output.stdout);
    assert!(output.stdout.contains("AWS_ACCESS_KEY_ID"), "{}", output.stdout);
    server.kill();
    let output = doctor(&url, &[]);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains("fault reach"), "{}", output.stdout);
}

#[test]
fn for_other_engines_nothing_is_to_be_made() {
    let output = run(&["doctor", "--store", "memory:", "--create"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stdout.contains("ok create: nothing is needed"), "{}", output.stdout);
}

/// The Terraform file as data.
fn terraform() -> Value {
    let script = root().join("crates/cli/tests/clients/terraform_read.py");
    let mut read = tool("dynamodb", "bin/python");
    let text = ran(read.arg(script).arg(root().join("deploy/dynamodb/main.tf"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The block of a kind, like `resource`, and of a type.
fn block<'a>(terraform: &'a Value, kind: &str, of: &str) -> &'a Value {
    let blocks = terraform[kind].as_array().unwrap();
    let found = blocks.iter().find_map(|block| block.get(of)).unwrap_or_else(|| panic!("{of}"));
    &found["tidegate"]
}

#[test]
fn the_table_of_terraform_is_the_one_that_the_doctor_makes() {
    let terraform = terraform();
    let table = block(&terraform, "resource", "aws_dynamodb_table");
    assert_eq!(table["billing_mode"], "PAY_PER_REQUEST");
    assert_eq!(table["hash_key"], "key");
    assert_eq!(table["attribute"], json!([{ "name": "key", "type": "S" }]));
    assert_eq!(table["ttl"], json!([{ "attribute_name": "expires", "enabled": true }]));
    let known = ["billing_mode", "hash_key", "attribute", "ttl", "name"];
    assert!(table.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{table}");
}

/// The actions that the policy of Terraform allows, all on the table.
fn actions() -> Vec<String> {
    let terraform = terraform();
    let policy = block(&terraform, "data", "aws_iam_policy_document");
    let statements = policy["statement"].as_array().unwrap();
    let of = |statement: &Value| {
        assert_eq!(statement["resources"], json!(["${aws_dynamodb_table.tidegate.arn}"]));
        let actions = statement["actions"].as_array().unwrap().clone();
        actions.into_iter().map(|it| it.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    statements.iter().flat_map(of).collect()
}

/// Starts moto with a user who may do these things, and runs the doctor as that user.
fn doctor_with(actions: &[String]) -> CommandOutput {
    let allow = |actions: &Value| json!({ "Effect": "Allow", "Action": actions, "Resource": "*" });
    // Somebody else makes the table. For a transaction AWS wants the rights of its writes; moto one of its own.
    let set_up =
        ["dynamodb:CreateTable", "dynamodb:UpdateTimeToLive", "dynamodb:TransactWriteItems"];
    let statements = [allow(&json!(actions)), allow(&json!(set_up))];
    let policy = json!({ "Version": "2012-10-17", "Statement": statements }).to_string();
    let server = DynamoDbServer::start(Imitation::MotoWithPolicy(policy));
    let (key, secret) = server.user();
    let user = [("AWS_ACCESS_KEY_ID", key.as_str()), ("AWS_SECRET_ACCESS_KEY", secret.as_str())];
    run_with(&["doctor", "--store", &server.url("tidegate"), "--create"], &user)
}

#[test]
fn the_rights_of_terraform_are_enough_and_none_is_too_much() {
    let all = actions();
    assert_eq!(all.len(), 5, "{all:?}");
    let output = doctor_with(&all);
    assert_no_fault(&output);
    assert!(output.stdout.contains("every algorithm has run"), "{}", output.stdout);
    assert!(!output.stdout.contains("not permitted"), "{}", output.stdout);
    for missing in &all {
        let rest: Vec<_> = all.iter().filter(|it| *it != missing).cloned().collect();
        let output = doctor_with(&rest);
        let noticed = has_fault(&output) || output.stdout.contains("not permitted");
        assert!(noticed, "{missing} is not needed: {}", output.stdout);
    }
}

#[test]
fn a_server_without_its_store_decides_locally_and_finds_it_again() {
    let (dynamodb, url) = with_table(Imitation::Dynalite);
    let folder = Folder::new();
    let config = format!("store: {{ url: \"{url}\", deadline: 2s }}\npolicies: {{ api: 100/h }}\n");
    let file = folder.write("tidegate.yaml", config);
    let args = ["serve", "--config", &file, "--listen", "127.0.0.1:0"];
    let server = Server::launched(tidegate(&args).envs(USER).stderr(Stdio::null()));
    let source = || {
        let reply = server.post("/v1/check", r#"{"policy":"api","key":"probe","cost":0}"#).json();
        reply["source"].as_str().unwrap_or_default().to_owned()
    };
    wait_until("it counts in its store", AGREEMENT_DEADLINE, || source() == "store");
    dynamodb.kill();
    wait_until("it decides locally", AGREEMENT_DEADLINE, || source() == "local");
    dynamodb.restart();
    wait_until("it counts in its store again", AGREEMENT_DEADLINE, || source() == "store");
}
