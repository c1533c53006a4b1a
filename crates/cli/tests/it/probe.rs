//! An HTTP server that answers probes with what a test sets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::support::DEADLINE;

/// The server, on its own port, stopped when dropped.
pub(crate) struct Probe {
    addr: SocketAddr,
    answer: Arc<Mutex<String>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    /// Starts a server that answers with this pressure.
    pub(crate) fn with_pressure(pressure: f64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (answer, is_over) = (Arc::<Mutex<String>>::default(), Arc::<AtomicBool>::default());
        let thread = {
            let (answer, is_over) = (answer.clone(), is_over.clone());
            std::thread::spawn(move || serve(&listener, &answer, &is_over))
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
        *self.answer.lock().unwrap() = format!(
            "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
    }
}

fn serve(listener: &TcpListener, answer: &Mutex<String>, is_over: &AtomicBool) {
    for stream in listener.incoming() {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(mut stream) = stream else { continue };
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut asked = Vec::new();
        let mut bytes = [0; 1024];
        while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut bytes) {
                Ok(count) if count > 0 => asked.extend_from_slice(&bytes[..count]),
                _ => break,
            }
        }
        let answer = answer.lock().unwrap().clone();
        // The client may have timed out.
        let _ = stream.write_all(answer.as_bytes());
    }
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
