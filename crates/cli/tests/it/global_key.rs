//! Limits on `global`: one budget of all callers, which nobody has to name.

use crate::proxy_support::{Origin, Proxy};
use crate::support::{Folder, Server};

const POLICIES: &str = "policies:
  both:
    all:
      - { name: user, algorithm: sliding-log, limit: 5/h }
      - { name: everybody, key: global, algorithm: sliding-log, limit: 2/h }
  named:
    all:
      - { name: client, key: client_ip, algorithm: sliding-log, limit: 5/h }
      - { name: everybody, key: global, algorithm: sliding-log, limit: 2/h }
  only: { all: [{ name: everybody, key: global, algorithm: sliding-log, limit: 2/h }] }
";

#[test]
fn no_caller_has_to_send_the_global_key() {
    let folder = Folder::new();
    let file = folder.write("tidegate.yaml", POLICIES);
    let server = Server::start_with(&["serve", "-c", &file, "--listen", "127.0.0.1:0"]);
    for (bodies, policy) in [
        ([r#""key":"ann""#, r#""key":"bob""#, r#""key":"cid""#], "both"),
        (
            [
                r#""keys":{"client_ip":"192.0.2.1"}"#,
                r#""keys":{"client_ip":"192.0.2.2"}"#,
                r#""keys":{"client_ip":"192.0.2.3"}"#,
            ],
            "named",
        ),
        // Also to policies that need nothing else.
        ([r#""cost":1"#, r#""key":"ann""#, r#""cost":1"#], "only"),
    ] {
        let asked = bodies.map(|rest| {
            let reply = server.post("/v1/check", &format!(r#"{{"policy":"{policy}",{rest}}}"#));
            assert_eq!(reply.status, 200, "{policy} {rest}: {}", reply.body);
            let answer = reply.json();
            (answer["allowed"] == true, answer["binding"].as_str().unwrap().to_owned())
        });
        assert_eq!(asked.each_ref().map(|it| it.0), [true, true, false], "{policy}");
        assert_eq!(asked[2].1, "everybody", "{policy}");
    }
    // Sending it anyway does not help: there is one budget.
    for keys in [r#"{"global":"mine","user":"dan"}"#, r#"{"global":"mine"}"#] {
        let reply = server.post("/v1/check", &format!(r#"{{"policy":"both","keys":{keys}}}"#));
        assert_eq!(reply.json()["allowed"], false, "{keys}: {}", reply.body);
    }
    // The control: what a caller has to send is still asked for.
    let missing = server.post("/v1/check", r#"{"policy":"both"}"#);
    assert_eq!((missing.status, missing.json()["field"].clone()), (400, "key".into()));
    let missing = server.post("/v1/check", r#"{"policy":"named"}"#);
    assert_eq!((missing.status, missing.json()["field"].clone()), (400, "keys.client_ip".into()));
}

#[test]
fn the_redis_protocol_and_the_proxy_count_by_the_global_key_too() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let file = folder.write("tidegate.yaml", POLICIES);
    let args = ["serve", "-c", &file, "--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0"];
    let server = Server::start_with(&args);
    let limited =
        ["ann", "bob", "cid"].map(|key| server.cell_reply(&format!("TG.CHECK both {key}"))[0]);
    assert_eq!(limited, [0, 0, 1]);
    let more = format!("{POLICIES}routes: [{{ policy: named }}]");
    let proxy = Proxy::start(&folder, &origin.url(), "", &more);
    assert_eq!([(); 3].map(|()| proxy.server.get("/").status), [200, 200, 429]);
}
