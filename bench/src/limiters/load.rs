//! Visitors of the site behind a proxy: each has an address and a connection of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_bench::load::Client;
use tidegate_bench::wire::http;
use tokio::net::{TcpSocket, TcpStream};

/// As many as addresses.
const VISITORS: u8 = 50;
/// Bytes of the site's page.
const PAGE: usize = 200;

pub(crate) struct Visitor {
    stream: TcpStream,
    request: String,
    bytes: Vec<u8>,
    refused: Arc<AtomicUsize>,
}

impl Client for Visitor {
    async fn exchange(&mut self, _: usize) -> usize {
        let answer = http::answer(&mut self.stream, &self.request, &mut self.bytes).await;
        match answer.expect("an answer") {
            (200, _) => {}
            (429, _) => _ = self.refused.fetch_add(1, Ordering::Relaxed),
            (status, _) => panic!("status {status}"),
        }
        1
    }
}

impl Visitor {
    async fn open(address: Ipv4Addr, port: u16, refused: Arc<AtomicUsize>) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from((address, 0))).expect("an address of this machine");
        let stream = socket.connect(SocketAddr::from(([127, 0, 0, 1], port)));
        let stream = stream.await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let request = format!(
            "GET /{PAGE} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\nAccept: */*\r\n\
             Accept-Encoding: gzip\r\nCookie: session=0123456789abcdef\r\n\r\n"
        );
        Self { stream, request, bytes: vec![0; 4 << 10], refused }
    }
}

/// All visitors, and how many of their requests were refused.
pub(crate) async fn visitors(port: u16) -> (Vec<Visitor>, Arc<AtomicUsize>) {
    let refused = Arc::new(AtomicUsize::new(0));
    let mut visitors = Vec::new();
    for number in 1..=VISITORS {
        let address = Ipv4Addr::new(127, 0, 2, number);
        visitors.push(Visitor::open(address, port, refused.clone()).await);
    }
    (visitors, refused)
}

/// Waits until a visitor who is not measured gets the page: a proxy may listen before its routes are ready.
pub(crate) async fn ready(port: u16) {
    let start = Instant::now();
    loop {
        let mut visitor = Visitor::open(Ipv4Addr::LOCALHOST, port, Arc::default()).await;
        let answer = http::answer(&mut visitor.stream, &visitor.request, &mut visitor.bytes).await;
        if answer.as_ref().is_ok_and(|(status, _)| *status == 200) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the page does not come: {answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
