//! `tidegate serve`: the HTTP API over a store.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tidegate::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Failure, OK};
use crate::doors::http::{HttpBounds, HttpDoor};
use crate::gate::{Gate, Snapshot};
use crate::listen::{Address, Listener, Peer, Stream};
use crate::metrics::{DoorName, Metrics};
use crate::server::{self, Bounds, Door, Ending};
use crate::store::{self, Purpose};
use crate::systemd::{Notifier, Sockets};
use crate::{demo, doors};

const EXAMPLES: &str = "\
Examples:
  tidegate serve                          a demo on http://127.0.0.1:8080
  tidegate serve --listen 127.0.0.1:0     on any free port; the URL is printed
  tidegate serve --listen '[::1]:8080'    on IPv6
  tidegate serve --store redis://127.0.0.1:6379   limits shared by every process on that Redis

Then: curl -s http://127.0.0.1:8080/v1/check -d '{\"policy\":\"api\",\"key\":\"user-42\"}'
Ctrl-C or SIGTERM: /readyz says 503, requests in flight are finished, then it exits with 0.";

/// Serve the HTTP API, with a few demo policies (the default command).
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The address to listen on, or `unix:/run/tidegate.sock`; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = str::parse::<Address>)]
    listen: Address,
    /// Where to count: in this process, or in a Redis that a fleet shares, like <redis://127.0.0.1:6379>
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
    /// Listen on an address that others can reach, without TLS and without authentication
    #[arg(long)]
    insecure_bind: bool,
}

/// Serves until told to stop.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    // Before there is a second thread: it takes what it reads out of the environment.
    let sockets = Sockets::from_env().map_err(Failure::new)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(serve(args, sockets))?;
    Ok(ExitCode::from(OK))
}

async fn serve(args: &Args, mut sockets: Sockets) -> Result<(), Failure> {
    let purpose = Purpose::serving();
    let deadline = purpose.deadline;
    let store = store::open_in_view(&args.store, purpose).map_err(Failure::new)?;
    let engine = demo::engine(store.store()).map_err(|error| Failure::new(error.to_string()))?;
    // Before anybody can know that we run, so that no signal finds us unprepared.
    let (interrupt, terminate) = (on(SignalKind::interrupt())?, on(SignalKind::terminate())?);
    // All addresses are bound before the first connection is accepted: the server starts whole or not at all.
    let http = open("http", &args.listen, args.insecure_bind, &mut sockets).await?;
    let addr = http.address().map_err(|error| not_bound(&args.listen, &error))?;
    tracing::info!(%addr, "listening");
    welcome(&addr);
    let gate = Gate::new(Snapshot { engine });
    gate.metrics().watches(store);
    let mut house = House::new(gate.metrics().clone());
    let router = doors::http::router(gate.clone());
    house.open(DoorName::Http, http, HttpDoor::new(router, HttpBounds::default()));
    let systemd = Notifier::from_env();
    systemd.ready();
    tokio::select! {
        () = stop(interrupt, terminate) => {}
        () = systemd.keep_alive() => {}
    }
    gate.drains();
    systemd.stopping();
    house.close().await;
    give_back(&gate.now().engine, deadline).await;
    tracing::info!("stopped");
    Ok(())
}

/// The doors that are open.
#[derive(Debug)]
struct House {
    metrics: Arc<Metrics>,
    stop: watch::Sender<bool>,
    servers: JoinSet<()>,
}

impl House {
    fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, stop: watch::Sender::default(), servers: JoinSet::new() }
    }

    fn open(&mut self, name: DoorName, listener: Listener, door: impl Door + Sync) {
        let door = Counted { door, name, metrics: self.metrics.clone() };
        let mut stopped = self.stop.subscribe();
        self.servers.spawn(async move {
            // An error means that the house is gone.
            let stop = async { drop(stopped.wait_for(|stopped| *stopped).await) };
            server::run(listener, door, Bounds::default(), stop).await;
        });
    }

    /// All at once, and waits for the last request of each.
    async fn close(mut self) {
        self.stop.send_replace(true);
        while self.servers.join_next().await.is_some() {}
    }
}

/// A door whose connections are counted.
#[derive(Clone, Debug)]
struct Counted<D> {
    door: D,
    name: DoorName,
    metrics: Arc<Metrics>,
}

impl<D: Door + Sync> Door for Counted<D> {
    async fn serve(self, stream: Stream, peer: Peer, ending: Ending) {
        let _connected = self.metrics.connected(self.name);
        self.door.serve(stream, peer, ending).await;
    }
}

/// Gives leases back, so that others can have what is left of them. What is not on its way within a deadline of the
/// store never will be: leases end by themselves.
async fn give_back(engine: &Engine, deadline: Duration) {
    if engine.lease_stats().keys > 0 {
        engine.release_leases();
        tokio::time::sleep(deadline).await;
    }
}

/// The listener of a door: the socket that was handed over for it, or a new one.
async fn open(
    door: &str,
    address: &Address,
    insecure: bool,
    sockets: &mut Sockets,
) -> Result<Listener, Failure> {
    let handed = sockets.take(door).transpose();
    let handed =
        handed.map_err(|error| Failure::new(format!("the socket for `{door}`: {error}")))?;
    let public = match &handed {
        Some(listener) => listener.address().ok().filter(|address| !address.is_private()),
        None => Some(address.clone()).filter(|address| !address.is_private()),
    };
    match (public, handed) {
        (Some(address), _) if !insecure => Err(refused(&address)),
        (_, Some(listener)) => Ok(listener),
        (_, None) => Listener::bind(address).await.map_err(|error| not_bound(address, &error)),
    }
}

/// Ready when the process is told to stop.
async fn stop(mut interrupt: Signal, mut terminate: Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!("stopping: finishing the requests in flight");
}

fn on(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))
}

fn welcome(addr: &Address) {
    let check = "/v1/check -d '{\"policy\":\"api\",\"key\":\"user-42\"}'";
    let text = match addr {
        Address::Unix(path) => format!(
            "tidegate listens on {addr}\n\
             try it:  curl -s --unix-socket {} http://tidegate{check}\n\
             Ctrl-C stops it\n",
            path.display()
        ),
        Address::Tcp(addr) => format!(
            "tidegate listens on http://{addr}\n\
             try it:  curl -s http://{addr}{check}\n\
             or open  http://{addr}/ in a browser; Ctrl-C stops it\n"
        ),
    };
    // Nobody has to read it.
    let _ = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
}

fn refused(addr: &Address) -> Failure {
    Failure::new(format!(
        "will not listen on {addr}: others could reach it, and there is neither TLS nor authentication, so \
         whoever can connect could spend everybody's limits. Listen on 127.0.0.1 behind a proxy, or \
         say --insecure-bind if the network around it is trusted"
    ))
}

fn not_bound(addr: &Address, error: &io::Error) -> Failure {
    Failure::new(match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {addr}: another program listens there already (`ss -lxtnp` shows which). Stop it, or take any free port with --listen 127.0.0.1:0"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "cannot listen on {addr}: {error}. Ports below 1024 need a privilege; take another with --listen"
        ),
        _ => format!("cannot listen on {addr}: {error}"),
    })
}
