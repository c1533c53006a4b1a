//! The proxy and its upstreams: an app in this process, or a hand-written server.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::body::Body;
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::programs::curl;
use crate::support::Folder;
use crate::support::{DEADLINE, Reply, Server, tidegate};

/// An app, stopped when dropped.
pub(crate) struct Origin {
    pub(crate) addr: SocketAddr,
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl Origin {
    pub(crate) fn start<F, A>(answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response<Body>> + Send + 'static,
    {
        Self::start_at(([127, 0, 0, 1], 0).into(), answer)
    }

    fn start_at<F, A>(place: SocketAddr, answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response<Body>> + Send + 'static,
    {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind(place).unwrap();
        let addr = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let (requests, connections) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counts = (requests.clone(), connections.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counts.1.fetch_add(1, SeqCst);
                let (answer, requests) = (answer.clone(), counts.0.clone());
                let service = service_fn(move |request| {
                    requests.fetch_add(1, SeqCst);
                    let answered = answer(request);
                    async move { Ok::<_, Infallible>(answered.await) }
                });
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving.with_upgrades());
            }
        });
        Self { addr, requests, connections, _runtime: runtime }
    }

    /// An app that answers with the received request as JSON.
    pub(crate) fn mirror() -> Self {
        Self::start(mirrored)
    }

    /// The same at a given address.
    pub(crate) fn mirror_at(place: SocketAddr) -> Self {
        Self::start_at(place, mirrored)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

/// The received request as JSON, with headers as pairs sorted by name.
pub(crate) async fn mirrored(request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let collected = body.collect().await.unwrap();
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let pairs = |headers: &axum::http::HeaderMap| {
        let mut pairs: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
            .collect();
        pairs.sort();
        pairs
    };
    let mirror = json!({
        "method": parts.method.as_str(),
        "uri": parts.uri.to_string(),
        "headers": pairs(&parts.headers),
        "trailers": pairs(&trailers),
        "body": String::from_utf8_lossy(&collected.to_bytes()),
    });
    Response::new(Body::from(mirror.to_string()))
}

/// The values of a header in a mirrored request.
pub(crate) fn received<'a>(mirror: &'a Value, name: &str) -> Vec<&'a str> {
    let pairs = mirror["headers"].as_array().unwrap().iter();
    let named = pairs.filter(|pair| pair[0] == name);
    named.map(|pair| pair[1].as_str().unwrap()).collect()
}

/// A hand-written upstream: `answer` serves each connection in its own thread.
pub(crate) fn by_hand(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    addr
}

/// Reads a request head.
pub(crate) fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// The proxy, and the address of its API.
pub(crate) struct Proxy {
    /// Requests to this address go to the proxy door.
    pub(crate) server: Server,
    pub(crate) api: SocketAddr,
}

impl Proxy {
    /// Starts a proxy with these upstreams. `options` are further keys of `proxy:`, `more` is the rest of the
    /// configuration.
    pub(crate) fn start(folder: &Folder, upstream: &str, options: &str, more: &str) -> Self {
        let config = format!(
            "listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}\n\
             proxy: {{ upstream: {upstream}{options} }}\n{more}\n"
        );
        Self::with_config(folder, &config)
    }

    pub(crate) fn with_config(folder: &Folder, config: &str) -> Self {
        let path = folder.write("proxy.yaml", config);
        Self::launched(&mut tidegate(&["serve", "-c", &path]))
    }

    /// Starts a proxy with a command, with or without an API.
    pub(crate) fn launched(command: &mut Command) -> Self {
        Self::with_log(command, Stdio::null())
    }

    /// The same with its log in a file.
    pub(crate) fn logged(command: &mut Command, log: &str) -> Self {
        Self::with_log(command, std::fs::File::create(log).unwrap().into())
    }

    fn with_log(command: &mut Command, log: Stdio) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(log).spawn();
        let nowhere = "127.0.0.1:1".parse().unwrap();
        let mut server = Server::of(child.unwrap(), nowhere, String::new());
        let mut api = nowhere;
        for line in BufReader::new(server.stdout()).lines().map_while(Result::ok) {
            server.welcome.push_str(&line);
            server.welcome.push('\n');
            if let Some(url) = line.strip_prefix("tidegate listens on http://") {
                api = url.parse().unwrap();
            }
            let passes = line.strip_prefix("tidegate passes requests on from ");
            if let Some(place) = passes.and_then(|rest| rest.split(" to ").next()) {
                server.addr = place.split("://").nth(1).unwrap().parse().unwrap();
                return Self { server, api };
            }
        }
        panic!("it did not start: {}", server.welcome);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.addr)
    }

    /// Sends a request, and returns what the mirror received.
    pub(crate) fn mirrored(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Value {
        let reply = self.server.send(method, path, headers, body);
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    }

    /// Sends raw bytes over a new connection, and reads until it is closed.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.server.connect();
        // The connection may be closed before everything is sent.
        let _ = stream.write_all(bytes);
        let mut answers = Vec::new();
        let _ = stream.read_to_end(&mut answers);
        String::from_utf8_lossy(&answers).into_owned()
    }

    /// The value of a series in `/metrics`.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let page = curl(&[&format!("http://{}/metrics", self.api)]);
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(line.parse().expect(series))
    }

    /// What `/v1/status` says.
    pub(crate) fn status(&self) -> serde_json::Value {
        serde_json::from_str(&curl(&[&format!("http://{}/v1/status", self.api)])).unwrap()
    }

    /// The resident memory in MiB: the current value and the peak.
    pub(crate) fn resident_mib(&self) -> (u64, u64) {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let of = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
        };
        (of("VmRSS:"), of("VmHWM:"))
    }
}

/// Reads one answer with a `Content-Length` from a connection that stays open.
pub(crate) fn read_answer(stream: &mut TcpStream) -> Reply {
    let head = read_head(stream);
    assert!(head.starts_with("HTTP/1.1 "), "{head:?}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    Reply::read(&format!("{head}{}", String::from_utf8(body).unwrap()))
}
