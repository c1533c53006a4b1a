//! TLS at every door, with third-party clients: trusted certificates on both sides.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::fleet::question;
use crate::processes::{DEADLINE, wait_until};
use crate::programs::{Program, curl, free_port, try_curl, wait_for_port};
use crate::support::{Folder, tidegate};

const CHECK: &str = r#"{"policy":"api","key":"ann"}"#;
const POLICIES: &str = "policies: { api: { limit: 100/min, burst: 20 } }\n";
const VERSION: [&str; 2] = ["-w", "\n%{http_version} %{http_code}"];

/// A certificate authority.
pub(crate) struct Authority(pub(crate) CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// The name has to be unique, because clients find an issuer by its name.
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a signed certificate and its key, and returns their paths.
    pub(crate) fn sign(&self, folder: &Folder, whose: &str, name: &str) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let cert = params.signed_by(&key, &self.0).unwrap();
        [
            folder.write(&format!("{whose}.pem"), cert.pem()),
            folder.write(&format!("{whose}.key"), key.serialize_pem()),
        ]
    }
}

/// A server with TLS, its port, and the path of its authority for curl.
fn with_tls(folder: &Folder, authority: &Authority) -> (Program, u16, String) {
    let [cert, key] = authority.sign(folder, "server", "first");
    let ca = folder.write("ca.pem", authority.0.pem());
    let port = free_port();
    let config = format!(
        "{POLICIES}listen: {{ http: {{ address: 127.0.0.1:{port}, tls: {{ cert: {cert}, key: {key} }} }} }}\n"
    );
    let path = folder.write("tidegate.yaml", &config);
    let program = Program::start(&mut tidegate(&["serve", "-c", &path]), folder);
    wait_for_port(port);
    (program, port, ca)
}

#[test]
fn tls_serves_both_http_versions_and_reloads_certificates() {
    let (folder, authority) = (Folder::new(), Authority::new("authority"));
    let (_program, port, ca) = with_tls(&folder, &authority);
    let url = format!("https://localhost:{port}/v1/check");
    for (args, version) in [(&["--http1.1"][..], "1.1"), (&["--http2"], "2")] {
        let output = curl(&[args, &VERSION, &["--cacert", &ca, "-d", CHECK, &url]].concat());
        assert!(output.ends_with(&format!("\n{version} 200")), "{output}");
    }
    let shown = || {
        let ran = Command::new("curl")
            .args(["-sSv", "--cacert", &ca, "--max-time", "20", "-d", CHECK, &url])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stderr).into_owned()
    };
    assert!(shown().contains("CN=first"), "{}", shown());
    // With only half of a new pair, the old pair stays in use.
    fs::write(folder.path("server.pem"), "nonsense").unwrap();
    wait_until("the bad file is noticed", DEADLINE, || {
        assert!(shown().contains("CN=first"));
        let log = fs::read_to_string(folder.path("program.log")).unwrap();
        log.contains("kept the old certificate")
    });
    authority.sign(&folder, "server", "second");
    wait_until("the new certificate is used", DEADLINE, || shown().contains("CN=second"));
}

#[test]
fn a_client_without_tls_is_disconnected_and_delays_no_other() {
    let (folder, authority) = (Folder::new(), Authority::new("authority"));
    let (_program, port, ca) = with_tls(&folder, &authority);
    let silent: Vec<_> =
        (0..20).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let mut plain = TcpStream::connect(("127.0.0.1", port)).unwrap();
    plain.set_read_timeout(Some(DEADLINE)).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    let url = format!("https://localhost:{port}/healthz");
    assert_eq!(curl(&["--cacert", &ca, &url]), "ok\n");
    drop(silent);
}

/// A server with TLS at every door.
struct TlsServer {
    _program: Program,
    folder: Folder,
    ports: [u16; 3],
}

/// The authority that a client trusts, and its own certificate.
struct Client<'a> {
    ca: &'a str,
    own: Option<&'a [String; 2]>,
}

impl TlsServer {
    /// Starts a server. With `clients`, that authority must have signed the certificates of clients.
    fn start(authority: &Authority, clients: Option<&Authority>) -> Self {
        let (folder, ports) = (Folder::new(), [free_port(), free_port(), free_port()]);
        let [cert, key] = authority.sign(&folder, "server", "server");
        let clients = clients.map(|clients| folder.write("clients.pem", clients.0.pem()));
        let client_ca = clients.map(|path| format!(", client_ca: {path}")).unwrap_or_default();
        let door = |name: &str, port: u16| {
            format!(
                "  {name}: {{ address: 127.0.0.1:{port}, tls: {{ cert: {cert}, key: {key}{client_ca} }} }}\n"
            )
        };
        let [http, grpc, resp] = ports;
        let doors = [door("http", http), door("grpc", grpc), door("resp", resp)].concat();
        let path = folder.write("tidegate.yaml", format!("{POLICIES}listen:\n{doors}"));
        let program = Program::start(&mut tidegate(&["serve", "-c", &path]), &folder);
        ports.into_iter().for_each(wait_for_port);
        folder.write("question", question());
        Self { _program: program, folder, ports }
    }

    /// Sends a check to every door. Returns the answers or errors.
    fn ask(&self, client: &Client<'_>) -> [Result<String, String>; 3] {
        [self.over_http(client), self.over_grpc(client), self.over_resp(client)]
    }

    fn over_http(&self, client: &Client<'_>) -> Result<String, String> {
        let url = format!("https://localhost:{}/v1/check", self.ports[0]);
        try_curl(&[&client.curl()[..], &["-d", CHECK, &url]].concat())
    }

    fn over_grpc(&self, client: &Client<'_>) -> Result<String, String> {
        let method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        let url = format!("https://localhost:{}/{method}", self.ports[1]);
        let (data, answer) =
            (format!("@{}", self.folder.path("question")), self.folder.path("answer"));
        let head = ["--http2", "-H", "content-type: application/grpc", "-H", "te: trailers"];
        let rest = ["--data-binary", &data, "-o", &answer, "-w", "%{http_code}", &url];
        try_curl(&[&client.curl()[..], &head, &rest].concat())
    }

    fn over_resp(&self, client: &Client<'_>) -> Result<String, String> {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.ports[2].to_string(), "--tls", "--cacert", client.ca]);
        if let Some([cert, key]) = client.own {
            command.args(["--cert", cert, "--key", key]);
        }
        let output = command.args(["TG.CHECK", "api", "ann"]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // redis-cli exits with 0 also if the connection was closed before the reply, and prints that.
        let answer = text(&output.stdout);
        if output.status.success() && answer.starts_with("0\n20\n") {
            return Ok(answer);
        }
        Err(answer + &text(&output.stderr))
    }
}

impl<'a> Client<'a> {
    fn curl(&self) -> Vec<&'a str> {
        let mut args = vec!["--cacert", self.ca];
        if let Some([cert, key]) = self.own {
            args.extend(["--cert", cert, "--key", key]);
        }
        args
    }
}

#[test]
fn every_door_serves_tls_and_clients_trust_only_their_authority() {
    let (authority, other) = (Authority::new("authority"), Authority::new("another"));
    let server = TlsServer::start(&authority, None);
    let [ca, wrong] = [("ca.pem", &authority), ("wrong.pem", &other)]
        .map(|(name, authority)| server.folder.write(name, authority.0.pem()));
    for output in server.ask(&Client { ca: &wrong, own: None }) {
        assert!(output.as_ref().is_err_and(|why| why.contains("certificate")), "{output:?}");
    }
    let [http, grpc, resp] = server.ask(&Client { ca: &ca, own: None });
    assert!(http.as_ref().is_ok_and(|output| output.contains(r#""remaining":19"#)), "{http:?}");
    assert_eq!(grpc.as_deref(), Ok("200"));
    assert!(resp.as_ref().is_ok_and(|output| output.starts_with("0\n20\n18\n")), "{resp:?}");
}

#[test]
fn mutual_tls_refuses_other_clients() {
    let (authority, clients) = (Authority::new("authority"), Authority::new("of clients"));
    let server = TlsServer::start(&authority, Some(&clients));
    let ca = server.folder.write("ca.pem", authority.0.pem());
    // The authority of the server is not trusted for clients.
    let untrusted = authority.sign(&server.folder, "untrusted", "ann");
    for own in [None, Some(&untrusted)] {
        for output in server.ask(&Client { ca: &ca, own }) {
            assert!(output.is_err(), "{output:?}");
        }
    }
    let known = clients.sign(&server.folder, "known", "ann");
    let output = server.ask(&Client { ca: &ca, own: Some(&known) });
    // Refused clients were not charged.
    assert!(
        matches!(&output, [Ok(http), Ok(_), Ok(_)] if http.contains(r#""remaining":19"#)),
        "{output:?}"
    );
}

#[test]
fn a_reload_cannot_remove_the_token_of_a_public_door() {
    let (folder, authority) = (Folder::new(), Authority::new("authority"));
    let [cert, key] = authority.sign(&folder, "server", "first");
    let ca = folder.write("ca.pem", authority.0.pem());
    let port = free_port();
    let write = |limit: &str, admin: &str| {
        let tls = format!("tls: {{ cert: {cert}, key: {key} }}");
        let listen = format!("listen: {{ http: {{ address: 0.0.0.0:{port}, {tls} }} }}");
        folder.write(
            "tidegate.yaml",
            format!("policies: {{ api: {limit} }}\n{listen}\ndrain: 0s\n{admin}"),
        )
    };
    let token = |last: &str| format!("admin: {{ token: s3cret-token-of-{last} }}\n");
    let path = write("3/day", &token("ours"));
    let _program = Program::start(&mut tidegate(&["serve", "-c", &path]), &folder);
    wait_for_port(port);
    let limit = || {
        let url = format!("https://localhost:{port}/v1/policies");
        let output = curl(&["--cacert", &ca, &url]);
        serde_json::from_str::<serde_json::Value>(&output).unwrap()["api"]["limit"].clone()
    };
    assert_eq!(limit(), 3);
    write("4/day", "");
    let output =
        |part: &str| fs::read_to_string(folder.path("program.log")).unwrap().contains(part);
    wait_until("the file is refused", DEADLINE, || {
        output(&format!("will not listen on 0.0.0.0:{port}: other machines can reach it"))
            && output("it has no authentication")
            && output("the old configuration stays in force")
    });
    assert_eq!(limit(), 3);
    // A reload with another token is accepted.
    write("5/day", &token("theirs"));
    wait_until("the next file is accepted", DEADLINE, || limit() == 5);
}
