//! Upstreams of the proxy: several, unhealthy ones, over TLS, on a Unix socket; and the shutdown of the proxy.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use socket2::{Domain, Socket, Type};

use crate::drain::{Target, ends_without_a_failure};
use crate::processes::wait_until;
use crate::programs::{Program, curl, free_port, wait_for_port};
use crate::proxy_support::{Origin, Proxy, received};
use crate::support::Folder;
use crate::support::{DEADLINE, tidegate};

#[test]
fn several_upstreams_share_the_load() {
    let (folder, origins) = (Folder::new(), [Origin::mirror(), Origin::mirror(), Origin::mirror()]);
    let urls: Vec<_> = origins.iter().map(Origin::url).collect();
    for balance in ["round-robin", "least-loaded"] {
        let before = origins.each_ref().map(Origin::requests);
        let upstreams = format!("[{}]", urls.join(", "));
        let proxy = Proxy::start(&folder, &upstreams, &format!(", balance: {balance}"), "");
        for _ in 0..30 {
            assert_eq!(proxy.server.get("/").status, 200);
        }
        for (origin, before) in origins.iter().zip(before) {
            assert_eq!(origin.requests() - before, 10, "{balance}");
        }
    }
}

#[test]
fn a_stopped_upstream_fails_no_request_and_is_used_again_later() {
    let (folder, here, port) = (Folder::new(), Origin::mirror(), free_port());
    let upstreams = format!("[http://127.0.0.1:{port}, {}]", here.url());
    let proxy = Proxy::start(&folder, &upstreams, ", balance: round-robin", "");
    let gone = format!(r#"tidegate_upstream_up{{upstream="http://127.0.0.1:{port}"}}"#);
    assert_eq!(proxy.metric(&gone), Some(1.0));
    let mut sent = 0;
    wait_until("the upstream is ejected", DEADLINE, || {
        assert_eq!(proxy.server.get("/").status, 200);
        sent += 1;
        proxy.metric(&gone) == Some(0.0)
    });
    assert_eq!(here.requests(), sent, "every request reaches the other upstream once");
    let missed = format!(
        r#"tidegate_upstream_requests_total{{upstream="http://127.0.0.1:{port}",status="unreached"}}"#
    );
    assert_eq!(proxy.metric(&missed), Some(3.0), "no more than needed are tried");
    let counted = proxy.metric(r#"request_count_by_url{url="/"}"#);
    assert_eq!(counted, Some(f64::from(u32::try_from(sent).unwrap())), "each is one request");
    let back = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = back.accept().unwrap();
        crate::proxy_support::read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nback").unwrap();
    });
    wait_until("it is back", DEADLINE, || proxy.server.get("/").body == "back");
    server.join().unwrap();
    assert_eq!(proxy.metric(&gone), Some(1.0));
}

#[test]
fn an_upstream_that_accepts_no_connections_fails_no_request() {
    let (folder, here) = (Folder::new(), Origin::mirror());
    let (silent, _queue) = full();
    let upstreams = format!("[http://{silent}, {}]", here.url());
    let options = ", balance: round-robin, connect_timeout: 2s, host: upstream";
    let proxy = Proxy::start(&folder, &upstreams, options, "");
    for number in 0..2 {
        let seen = proxy.mirrored("POST", "/", &[], b"a body");
        assert_eq!(seen["body"], "a body", "{number}");
        assert_eq!(received(&seen, "host"), [here.addr.to_string()], "{number}");
    }
}

/// An address whose accept queue is full, for as long as the sockets are held.
fn full() -> (SocketAddr, Vec<Socket>) {
    let open = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let listener = open();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut queue = vec![listener];
    for _ in 0..4 {
        let socket = open();
        socket.set_nonblocking(true).unwrap();
        // Does not wait for the handshake.
        let _ = socket.connect(&addr);
        queue.push(socket);
    }
    (addr.as_socket().unwrap(), queue)
}

#[test]
fn without_a_reachable_upstream_the_client_gets_502() {
    let folder = Folder::new();
    let upstreams = [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
    let proxy = Proxy::start(&folder, &format!("[{}]", upstreams.join(", ")), "", "");
    for number in 1..=3 {
        assert_eq!(proxy.server.get("/").status, 502);
        for upstream in &upstreams {
            let missed = format!(
                r#"tidegate_upstream_requests_total{{upstream="{upstream}",status="unreached"}}"#
            );
            assert_eq!(proxy.metric(&missed), Some(f64::from(number)), "each was tried once");
        }
    }
}

#[test]
fn an_unhealthy_upstream_gets_no_requests() {
    let (folder, other) = (Folder::new(), Origin::mirror());
    let is_well = Arc::new(AtomicBool::new(true));
    let asked = is_well.clone();
    let origin = Origin::start(move |request: Request<Incoming>| {
        let is_well = asked.load(SeqCst);
        async move {
            let mut response = Response::new(Body::from("moody"));
            if request.uri().path() == "/healthz" && !is_well {
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            }
            response
        }
    });
    let upstreams = format!("[{}, {}]", origin.url(), other.url());
    let options = ", balance: round-robin, health: { path: /healthz, every: 1s }";
    let proxy = Proxy::start(&folder, &upstreams, options, "");
    let gets_any = || (0..4).any(|_| proxy.server.get("/").body == "moody");
    assert!(gets_any());
    is_well.store(false, SeqCst);
    wait_until("the upstream gets no requests", DEADLINE, || !gets_any());
    is_well.store(true, SeqCst);
    wait_until("the upstream gets its share again", DEADLINE, gets_any);
}

#[test]
fn an_upstream_can_be_a_unix_socket() {
    let folder = Folder::new();
    let socket = folder.path("app.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut bytes = [0; 4096];
            let _ = std::io::Read::read(&mut stream, &mut bytes);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsocket");
        }
    });
    let proxy = Proxy::start(&folder, &format!("unix:{socket}"), "", "");
    assert_eq!(proxy.server.get("/").body, "socket");
}

/// The files of a certificate authority, and of a certificate for this machine.
fn certificates(folder: &Folder) -> [String; 3] {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "tidegate test authority");
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let cert = CertificateParams::new(names).unwrap().signed_by(&key, &ca).unwrap();
    let files = [("ca.pem", ca.pem()), ("tls.pem", cert.pem()), ("tls.key", key.serialize_pem())];
    files.map(|(name, pem)| folder.write(name, &pem))
}

#[test]
fn both_sides_can_use_tls() {
    let (folder, origin, port) = (Folder::new(), Origin::mirror(), free_port());
    let [ca, cert, key] = certificates(&folder);
    let root = folder.path("");
    let root = root.as_str();
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {root}{what}; "))
        .concat();
    let config = format!(
        "daemon off; master_process off; pid {root}nginx.pid; error_log stderr notice;\nevents {{}}\n\
         http {{ access_log off; {paths} server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {cert};\n\
         ssl_certificate_key {key}; location / {{ proxy_pass {}; proxy_set_header Host $host; }} }} }}",
        origin.url()
    );
    let config = folder.write("nginx.conf", &config);
    let mut command = Command::new("/usr/sbin/nginx");
    command.args(["-p", root, "-c", &config]).stdin(Stdio::null());
    let _nginx = Program::start(&mut command, &folder);
    wait_for_port(port);
    let start = |trusted: &str| {
        let config = format!(
            "listen:\n  http: 127.0.0.1:0\n  \
             proxy: {{ address: 127.0.0.1:0, tls: {{ cert: {cert}, key: {key} }} }}\n\
             proxy: {{ upstream: \"https://localhost:{port}\"{trusted} }}\n"
        );
        Proxy::with_config(&folder, &config)
    };
    let proxy = start(&format!(", ca_file: {ca}"));
    for (version, expected) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let url = format!("https://localhost:{}/a", proxy.server.addr.port());
        let output = curl(&["--cacert", &ca, version, "-w", "\n%{http_version}", &url]);
        let (body, spoken) = output.rsplit_once('\n').unwrap();
        let seen: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((spoken, &seen["uri"]), (expected, &"/a".into()));
        assert_eq!(received(&seen, "x-forwarded-proto"), ["https"]);
    }
    let strict = start("");
    let url = format!("https://localhost:{}/a", strict.server.addr.port());
    let status = curl(&["--cacert", &ca, "-o", "/dev/null", "-w", "%{http_code}", &url]);
    assert_eq!(status, "502", "an upstream with an untrusted certificate");
}

#[test]
fn a_shutdown_of_the_proxy_fails_no_accepted_request() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    for _ in 0..3 {
        let proxy = Proxy::start(&folder, &origin.url(), "", "");
        let target = Target::Tcp(proxy.server.addr);
        ends_without_a_failure(proxy.server.into_child(), &target, 1000);
    }
}

#[test]
fn an_upstream_that_closes_idle_connections_fails_no_request() {
    let folder = Folder::new();
    // Closes after each answer without `connection: close`.
    let origin = crate::proxy_support::by_hand(|mut stream| {
        if !crate::proxy_support::read_head(&mut stream).is_empty() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    let proxy = Proxy::start(&folder, &format!("http://{origin}"), "", "");
    let idle = format!(r#"tidegate_upstream_idle_connections{{upstream="http://{origin}"}}"#);
    for number in 0..3 {
        // Once the proxy has noticed the close, it does not reuse the connection.
        wait_until("the connection was dropped", DEADLINE, || proxy.metric(&idle) == Some(0.0));
        let reply = proxy.server.get("/");
        assert_eq!(reply.status, 200, "request {number}: {}", reply.body);
    }
}

#[test]
fn invalid_proxy_configurations_are_explained() {
    let folder = Folder::new();
    for (config, expected) in [
        ("proxy: { upstream: http://a }", "proxy: has no address: set `listen.proxy`"),
        ("listen: { proxy: 127.0.0.1:0 }", "listen.proxy: has no upstream"),
        (
            "listen: { proxy: 127.0.0.1:0 }\nproxy: { upstream: [] }",
            "proxy.upstream: expected 1 to 64 upstreams",
        ),
        (
            "listen: { proxy: 127.0.0.1:0 }\nproxy: { upstream: [http://a, ftp://b] }",
            "2:31: proxy.upstream[1]: `ftp://b` is not an http:// or https:// URL",
        ),
        (
            "listen: { proxy: 127.0.0.1:0 }\nproxy: { upstream: http://a, shed_status: 500 }",
            "proxy.shed_status: expected 429 or 503",
        ),
        (
            "listen: { proxy: 127.0.0.1:0 }\nproxy: { upstream: http://a, connect_timeout: 2h }",
            "proxy.connect_timeout: expected 1ms to 1min",
        ),
        (
            "listen: { proxy: 127.0.0.1:0 }\nproxy: { upstream: http://a, health: { path: healthz } }",
            "proxy.health.path: expected a path like /healthz",
        ),
        (
            "listen: { proxy: { address: 127.0.0.1:0, password: x } }\nproxy: { upstream: http://a }",
            "listen.proxy: has no password",
        ),
    ] {
        let path = folder.write("bad.yaml", config);
        let ran = tidegate(&["validate", &path]).output().unwrap();
        let output = String::from_utf8_lossy(&ran.stderr) + String::from_utf8_lossy(&ran.stdout);
        assert_eq!(ran.status.code(), Some(1), "{config}: {output}");
        assert!(output.contains(expected), "{config}: {output}");
    }
}
