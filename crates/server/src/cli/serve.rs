//! `tidegate serve`: the HTTP API over a store.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Failure, OK};
use crate::doors::http::{HttpBounds, HttpDoor};
use crate::doors::resp::{Password, RespBounds, RespDoor};
use crate::gate::{Gate, Snapshot};
use crate::listen::{Address, Listener};
use crate::server::{self, Bounds, Door};
use crate::store::{self, Purpose};
use crate::{demo, doors};

const EXAMPLES: &str = "\
Examples:
  tidegate serve                          a demo on http://127.0.0.1:8080
  tidegate serve --listen 127.0.0.1:0     on any free port; the URL is printed
  tidegate serve --listen '[::1]:8080'    on IPv6
  tidegate serve --store redis://127.0.0.1:6379   limits shared by every process on that Redis

Then: curl -s http://127.0.0.1:8080/v1/check -d '{\"policy\":\"api\",\"key\":\"user-42\"}'
Ctrl-C or SIGTERM: requests in flight are finished, then it exits with 0.";

/// Serve the HTTP API, with a few demo policies (the default command).
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The address to listen on, or `unix:/run/tidegate.sock`; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = str::parse::<Address>)]
    listen: Address,
    /// Also speak the Redis protocol on this address: CL.THROTTLE and TG.CHECK
    #[arg(long, value_name = "ADDR", value_parser = str::parse::<Address>)]
    resp: Option<Address>,
    /// Clients of the Redis protocol have to know the password on the first line of this file
    #[arg(long, value_name = "FILE", requires = "resp")]
    resp_password_file: Option<PathBuf>,
    /// Where to count: in this process, or in a Redis that a fleet shares, like <redis://127.0.0.1:6379>
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
    /// Listen on an address that others can reach, without TLS and without authentication
    #[arg(long)]
    insecure_bind: bool,
}

/// Serves until told to stop.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let public = |address: &&Address| !address.is_private() && !args.insecure_bind;
    if let Some(address) =
        [Some(&args.listen), args.resp.as_ref()].into_iter().flatten().find(public)
    {
        return Err(refused(address));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(serve(args))?;
    Ok(ExitCode::from(OK))
}

async fn serve(args: &Args) -> Result<(), Failure> {
    let store = store::open(&args.store, Purpose::serving()).map_err(Failure::new)?;
    let engine = demo::engine(store).map_err(|error| Failure::new(error.to_string()))?;
    // Before anybody can know that we run, so that no signal finds us unprepared.
    let (interrupt, terminate) = (on(SignalKind::interrupt())?, on(SignalKind::terminate())?);
    // All addresses are bound before the first connection is accepted: the server starts whole or not at all.
    let http = bind(&args.listen).await?;
    let resp = match &args.resp {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let password = args.resp_password_file.as_deref().map(Password::read).transpose();
    let password = password.map_err(Failure::new)?;
    let addr = http.address().map_err(|error| not_bound(&args.listen, &error))?;
    tracing::info!(%addr, "listening");
    welcome(&addr);
    let gate = Gate::new(Snapshot { engine });
    let mut house = House::default();
    if let Some(resp) = resp {
        if let Ok(addr) = resp.address() {
            tracing::info!(%addr, "listening for the Redis protocol");
            welcome_resp(&addr);
        }
        house.open(resp, RespDoor::new(gate.clone(), password, RespBounds::default()));
    }
    house.open(http, HttpDoor::new(doors::http::router(gate), HttpBounds::default()));
    stop(interrupt, terminate).await;
    house.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// The doors that are open.
#[derive(Debug, Default)]
struct House {
    stop: watch::Sender<bool>,
    servers: JoinSet<()>,
}

impl House {
    fn open(&mut self, listener: Listener, door: impl Door + Sync) {
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

async fn bind(address: &Address) -> Result<Listener, Failure> {
    Listener::bind(address).await.map_err(|error| not_bound(address, &error))
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

fn welcome_resp(addr: &Address) {
    let text = match addr {
        Address::Unix(path) => format!("redis-cli -s {} TG.CHECK api user-42\n", path.display()),
        Address::Tcp(addr) => {
            format!("redis-cli -h {} -p {} TG.CHECK api user-42\n", addr.ip(), addr.port())
        }
    };
    let text = format!("and the Redis protocol on {addr}:  {text}");
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
