//! Connections to one server, which runs on one core: requests a second, latency and memory. Each connection asks again
//! as soon as it was answered, so that all of them always wait: latency then grows with their number.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_bench::keys::key;
use tidegate_bench::report::{Figure, Table};
use tidegate_bench::{Process, free_port, is_quick, pinned};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::LocalSet;

use crate::{TIDEGATE, points, size};

const CONNECTIONS: [usize; 5] = [1, 10, 100, 1_000, 10_000];
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(2);
const CONFIG: &str = "target/bench-growth.yaml";

/// Thousand requests a second, the 99th percentile of the latency in ms, and the server's memory in MB.
type Figures = [f64; 3];

pub fn measure() -> Table {
    let rounds = if is_quick() { 1 } else { ROUNDS };
    let columns = ["thousand requests/s", "p99, ms", "server's memory, MB"];
    let mut table = Table::new("connections", "connections", columns)
        .drawn("Thousand requests a second by number of connections", &columns[..1]);
    for connections in points(&CONNECTIONS) {
        let rounds: Vec<Figures> = (0..rounds).map(|_| round(*connections)).collect();
        let [rates, p99_ms, mb] =
            std::array::from_fn(|index| rounds.iter().map(|it| it[index]).collect::<Vec<_>>());
        let cells = [
            Figure::more("", &rates).into(),
            Figure::less("", &p99_ms).into(),
            Figure::less("", &mb).into(),
        ];
        table.row(size(*connections), cells);
    }
    table
}

/// A new server, and so many clients.
fn round(connections: usize) -> Figures {
    let (http, resp) = (free_port(), free_port());
    let room = connections + 10;
    let config = format!(
        "listen:\n  http: 127.0.0.1:{http}\n  \
         resp: {{ address: 127.0.0.1:{resp}, max_connections: {room}, per_client: {room} }}\n\
         policies: {{ api: 1000000/s burst 4000000000 }}\n"
    );
    std::fs::write(CONFIG, config).expect("a file in target");
    let server = Process::start(pinned(TIDEGATE).args(["serve", "-c", CONFIG]), &[resp]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (per_second, p99_ms) =
        LocalSet::new().block_on(&runtime.expect("a runtime"), load(connections, resp));
    [per_second / 1e3, p99_ms, server.resident_mb()]
}

async fn load(connections: usize, port: u16) -> (f64, f64) {
    let start = Rc::new((Barrier::new(connections), OnceCell::new()));
    let clients: Vec<_> = (0..connections)
        .map(|number| tokio::task::spawn_local(client(number, port, start.clone())))
        .collect();
    let mut latencies_ms = vec![];
    for client in clients {
        latencies_ms.extend(client.await.expect("no panic"));
    }
    latencies_ms.sort_by(f32::total_cmp);
    let p99_ms = latencies_ms[(latencies_ms.len() - 1) * 99 / 100];
    // The last answer of each client came after the round.
    let in_round = latencies_ms.len() - connections;
    (in_round as f64 / ROUND.as_secs_f64(), p99_ms.into())
}

/// The latency of each answer to a request of the round, in ms. The round begins for all with the first client.
async fn client(number: usize, port: u16, start: Rc<(Barrier, OnceCell<Instant>)>) -> Vec<f32> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let command = format!("*3\r\n$8\r\nTG.CHECK\r\n$3\r\napi\r\n$24\r\n{}\r\n", key(number));
    let mut answer = [0; 256];
    // Once before, so that the server has accepted every connection.
    ask(&mut stream, &command, &mut answer).await;
    start.0.wait().await;
    let (begun, mut latencies_ms) = (start.1.get_or_init(Instant::now), vec![]);
    loop {
        let asked = Instant::now();
        ask(&mut stream, &command, &mut answer).await;
        latencies_ms.push(asked.elapsed().as_secs_f32() * 1e3);
        if begun.elapsed() > ROUND {
            return latencies_ms;
        }
    }
}

/// An answer is shorter than a segment, and comes whole.
async fn ask(stream: &mut TcpStream, command: &str, answer: &mut [u8]) {
    stream.write_all(command.as_bytes()).await.expect("a server that reads");
    let count = stream.read(answer).await.expect("an answer");
    let answer = &answer[..count];
    assert!(answer.starts_with(b"*"), "{:?}", String::from_utf8_lossy(answer));
}
