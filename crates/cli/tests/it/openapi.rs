//! Runs every example of `openapi.json` against the real server.

use serde_json::Value;

use crate::support::{Folder, Server};

/// The real answer has all fields of the example, with the same types.
pub(crate) fn same_shape(example: &Value, real: &Value, path: &str) {
    match (example, real) {
        (Value::Object(example), Value::Object(real)) => {
            for (name, value) in example {
                let found =
                    real.get(name).unwrap_or_else(|| panic!("{path}: no {name} in {real:?}"));
                same_shape(value, found, &format!("{path}.{name}"));
            }
        }
        (Value::Array(example), Value::Array(real)) => {
            assert_eq!(example.len(), real.len(), "{path}");
            for (example, real) in example.iter().zip(real) {
                same_shape(example, real, path);
            }
        }
        _ => assert_eq!(
            std::mem::discriminant(example),
            std::mem::discriminant(real),
            "{path}: {example} and {real}"
        ),
    }
}

fn path_with_examples(path: &str, operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    parameters.iter().filter(|parameter| parameter["in"] == "path").fold(
        path.to_owned(),
        |path, parameter| {
            let name = format!("{{{}}}", parameter["name"].as_str().unwrap());
            path.replace(&name, parameter["example"].as_str().unwrap())
        },
    )
}

/// Whether the answer is a stream without an end.
fn is_endless(operation: &Value) -> bool {
    !operation["responses"]["200"]["content"]["text/event-stream"].is_null()
}

#[test]
fn every_example_works() {
    // The demo, and a limit that follows the target of the examples.
    let folder = Folder::new();
    let demo = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../config/src/demo.yaml"));
    let policies =
        "policies:\n  follower: { limit: 100/s, adaptive: { source: { observe: db } } }\n";
    let file = folder.write("c.yaml", demo.replace("policies:\n", policies));
    let server = Server::start_with(&["serve", "-c", &file, "--listen", "127.0.0.1:0"]);
    let document = server.get("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut count = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        // PUT and POST come first: they create what GET shows and DELETE removes.
        let mut operations: Vec<_> = operations.as_object().unwrap().iter().collect();
        operations.retain(|(_, operation)| !is_endless(operation));
        operations.sort_by_key(|(method, _)| {
            ["put", "post", "get"].iter().position(|it| it == method).unwrap_or(3)
        });
        for (method, operation) in operations {
            let target = path_with_examples(path, operation);
            let sent = &operation["requestBody"]["content"]["application/json"]["example"];
            let body = if sent.is_null() { String::new() } else { sent.to_string() };
            let method = method.to_uppercase();
            let reply = server.send(&method, &target, &[], body.as_bytes());
            let responses = operation["responses"].as_object().unwrap();
            let status = reply.status.to_string();
            let documented = responses.get(&status);
            let documented =
                documented.unwrap_or_else(|| panic!("{method} {target}: {status} {}", reply.body));
            assert!(reply.status < 300, "{method} {target} {body}: {}", reply.body);
            let example = &documented["content"]["application/json"]["example"];
            if !example.is_null() {
                same_shape(example, &reply.json(), &target);
                count += 1;
            }
        }
    }
    assert!(count >= 12, "only {count} examples");
}

#[test]
fn only_documented_methods_are_answered() {
    let server = Server::start();
    let document = server.get("/openapi.json").json();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let documented = |method: &str| operations.get(method.to_lowercase());
        let ends = |method: &&str| !documented(method).is_some_and(is_endless);
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"].into_iter().filter(ends) {
            let any = operations.as_object().unwrap().values().next().unwrap();
            let target = path_with_examples(path, documented(method).unwrap_or(any));
            let is_there = server.send(method, &target, &[], b"").status != 405;
            assert_eq!(is_there, documented(method).is_some(), "{method} {target}");
        }
    }
}
