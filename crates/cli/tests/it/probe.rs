//! Something that is asked how it does, and says what the test wants it to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::support::DEADLINE;

/// An HTTP server on a port of its own, ended when dropped.
pub(crate) struct Probe {
    addr: SocketAddr,
    answer: Arc<Mutex<String>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    /// One that says this pressure.
    pub(crate) fn saying(pressure: f64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (answer, is_over) = (Arc::<Mutex<String>>::default(), Arc::<AtomicBool>::default());
        let thread = {
            let (answer, is_over) = (answer.clone(), is_over.clone());
            std::thread::spawn(move || serve(&listener, &answer, &is_over))
        };
        let probe = Self { addr, answer, is_over, thread: Some(thread) };
        probe.says(pressure);
        probe
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Says another pressure from now on.
    pub(crate) fn says(&self, pressure: f64) {
        self.answers(200, &format!(r#"{{"pressure":{pressure}}}"#));
    }

    /// Answers this from now on.
    pub(crate) fn answers(&self, status: u16, body: &str) {
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
        // Who has given up is not told.
        let _ = stream.write_all(answer.as_bytes());
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // So that it looks.
        drop(TcpStream::connect(self.addr));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
