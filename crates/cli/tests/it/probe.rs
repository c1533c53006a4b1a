//! An HTTP server that answers probes with what a test sets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::DEADLINE;

/// What it answers, and how long that takes.
#[derive(Clone, Default)]
struct Answer {
    text: String,
    takes: Duration,
    /// Without this token in the request, it answers 401.
    token: Option<String>,
}

/// The server, on its own port, stopped when dropped.
pub(crate) struct Probe {
    addr: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    /// Starts a server that answers with this pressure.
    pub(crate) fn with_pressure(pressure: f64) -> Self {
        Self::start(pressure, None)
    }

    /// The same over TLS, with a certificate and its key in files.
    pub(crate) fn over_tls(pressure: f64, [cert, key]: &[String; 2]) -> Self {
        let certs = CertificateDer::pem_file_iter(cert).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certs, key)
            .unwrap();
        Self::start(pressure, Some(Arc::new(config)))
    }

    fn start(pressure: f64, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (answer, is_over) = (Arc::<Mutex<Answer>>::default(), Arc::<AtomicBool>::default());
        let thread = {
            let (answer, is_over) = (answer.clone(), is_over.clone());
            std::thread::spawn(move || serve(&listener, tls.as_ref(), &answer, &is_over))
        };
        let probe = Self { addr, answer, is_over, thread: Some(thread) };
        probe.set_pressure(pressure);
        probe
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Sets the pressure.
    pub(crate) fn set_pressure(&self, pressure: f64) {
        self.set_answer(200, &format!(r#"{{"pressure":{pressure}}}"#));
    }

    /// Sets the status and the body.
    pub(crate) fn set_answer(&self, status: u16, body: &str) {
        let length = body.len();
        self.set_raw_answer(&format!(
            "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ));
    }

    /// Sets all bytes of the answer. Over TLS the connection ends without `close_notify` after any.
    pub(crate) fn set_raw_answer(&self, text: &str) {
        text.clone_into(&mut self.answer.lock().unwrap().text);
    }

    /// Sets the token that requests need.
    pub(crate) fn set_token(&self, token: &str) {
        self.answer.lock().unwrap().token = Some(token.to_owned());
    }

    /// Its URL over TLS, by the name in its certificate.
    pub(crate) fn https_url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.addr.port())
    }

    /// Sets how long each answer takes.
    pub(crate) fn set_latency(&self, takes: Duration) {
        self.answer.lock().unwrap().takes = takes;
    }
}

fn serve(
    listener: &TcpListener,
    tls: Option<&Arc<ServerConfig>>,
    answer: &Mutex<Answer>,
    is_over: &AtomicBool,
) {
    for stream in listener.incoming() {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        match tls {
            None => respond(stream, answer),
            Some(config) => {
                let connection = ServerConnection::new(config.clone()).unwrap();
                respond(StreamOwned::new(connection, stream), answer);
            }
        }
    }
}

fn respond(mut stream: impl Read + Write, answer: &Mutex<Answer>) {
    let mut asked = Vec::new();
    let mut bytes = [0; 1024];
    while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut bytes) {
            Ok(count) if count > 0 => asked.extend_from_slice(&bytes[..count]),
            _ => break,
        }
    }
    let mut answer = answer.lock().unwrap().clone();
    let asked = String::from_utf8_lossy(&asked).to_lowercase();
    let has = |token: String| asked.contains(&format!("\r\nauthorization: bearer {token}\r\n"));
    if answer.token.take().is_some_and(|token| !has(token)) {
        answer.text =
            String::from("HTTP/1.1 401 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    std::thread::sleep(answer.takes);
    // The client may have timed out.
    let _ = stream.write_all(answer.text.as_bytes());
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the accept loop, so that it checks the flag.
        drop(TcpStream::connect(self.addr));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
