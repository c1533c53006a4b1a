//! `./dev bench dashboard`: what open dashboards cost a server, at 50,000 decisions a second.
//!
//! The server runs on one processor, the load and the watchers on the others. Rounds without and with three watchers
//! alternate; a figure is CPU time per decision, and the ratio is the median of the rounds' ratios. Measured with all
//! checks allowed, and with nearly all refused: refused keys are recorded with or without watchers. The cost of the
//! watchers alone is measured without load, which would hide it.

mod load;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use load::Load;
use tidegate_bench::report::{Figure, Report, Table};
use tidegate_bench::{Process, free_port, is_quick, pinned};

const TIDEGATE: &str = "target/dist/tidegate";
const WATCHERS: usize = 3;
const WATCHED: &str = "3 watchers";
const ROUNDS: usize = 6;
const CONFIG: &str = "policies:
  open: { limit: 1000000/s }
  shut: { limit: 1/h }
  login: { algorithm: sliding-log, limit: 5/h }
  search: { algorithm: sliding-window, limit: 240/min }
  plan: { all: [{ name: second, limit: 10/s }, { name: day, limit: 10000/day }] }
";

fn main() {
    if std::env::args().nth(1).as_deref() != Some("measure") {
        tidegate_bench::rerun_off_first_processor();
    }
    let config = std::env::temp_dir().join(format!("bench-dashboard-{}.yaml", std::process::id()));
    std::fs::write(&config, CONFIG).expect("a file");
    let (http, resp) = (free_port(), free_port());
    let binary = std::env::var("TIDEGATE").unwrap_or_else(|_| TIDEGATE.to_owned());
    let mut command: Command = pinned(&binary);
    command.arg("serve").arg("-c").arg(&config);
    command.args(["--listen", &format!("127.0.0.1:{http}")]);
    command.args(["--resp", &format!("127.0.0.1:{resp}")]);
    let server = Process::start(&mut command, &[http, resp]);
    let alone = idle(&server);
    let watchers = watch(http);
    let watched = idle(&server);
    watchers.into_iter().for_each(Watcher::close);
    let mut report = Report::new("dashboard");
    let columns = ["no watchers", WATCHED, "watched / alone"];
    let mut table = Table::new("rest", "CPU at rest, of a second", columns);
    let ratio = Figure::cost_ratio(&[watched], &[alone]).into();
    let cells = [Figure::less("ms", &[alone]).into(), Figure::less("ms", &[watched]).into(), ratio];
    table.row("without load", cells);
    report.add(&table);
    let columns = ["decisions/s", "no watchers", WATCHED, "watched / alone"];
    let mut table = Table::new("load", "CPU per decision", columns);
    for (policy, name) in [("open", "all allowed"), ("shut", "nearly all refused")] {
        let mut load = Load::open(resp, policy);
        // Creates all keys, and lets the CPU clock settle.
        measure(&server, &mut load);
        let (mut without, mut with, mut rates) = (vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            let (alone, rate) = measure(&server, &mut load);
            let watchers = watch(http);
            let (watched, _) = measure(&server, &mut load);
            watchers.into_iter().for_each(Watcher::close);
            without.push(alone * 1e6);
            with.push(watched * 1e6);
            rates.push(rate);
        }
        let cells = [
            Figure::neither("", &rates).into(),
            Figure::less("µs", &without).into(),
            Figure::less("µs", &with).into(),
            Figure::cost_ratio(&with, &without).into(),
        ];
        table.row(name, cells);
    }
    report.add(&table);
    let _ = std::fs::remove_file(config);
}

fn round() -> Duration {
    Duration::from_millis(if is_quick() { 200 } else { 2000 })
}

/// Milliseconds of CPU time per second without load.
fn idle(server: &Process) -> f64 {
    let (before, seconds) = (server.on_cpu_s(), 2.0 * round().as_secs_f64());
    std::thread::sleep(Duration::from_secs_f64(seconds));
    (server.on_cpu_s() - before) * 1e3 / seconds
}

fn watch(port: u16) -> Vec<Watcher> {
    (0..WATCHERS).map(|_| Watcher::open(port)).collect()
}

/// CPU time per decision in seconds, and decisions a second, of one round.
fn measure(server: &Process, load: &mut Load) -> (f64, f64) {
    let before = server.on_cpu_s();
    let (decisions, took) = load.run(round());
    ((server.on_cpu_s() - before) / decisions, decisions / took.as_secs_f64())
}

/// A dashboard client that reads all events.
struct Watcher(TcpStream, JoinHandle<usize>);

impl Watcher {
    fn open(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        write!(stream, "GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a question");
        let mut reader = stream.try_clone().expect("a second handle");
        let reads = std::thread::spawn(move || {
            let (mut buffer, mut total) = (vec![0; 64 << 10], 0);
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                total += read;
            }
            total
        });
        Self(stream, reads)
    }

    fn close(self) {
        let _ = self.0.shutdown(Shutdown::Both);
        let total = self.1.join().expect("a reader");
        assert!(total > 1000, "a watcher received nothing");
    }
}
