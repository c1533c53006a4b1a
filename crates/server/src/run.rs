//! Opens the doors over a store, as a configuration says, and closes them when told to stop.

mod store_watch;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tidegate::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::store_watch::Watched;
use crate::adaptive::Follower;
use crate::config::{Config, Listen, Listens, SecretSource};
use crate::dashboard::Sampler;
use crate::doors;
use crate::doors::http::{HttpBounds, HttpDoor};
use crate::doors::proxy::{self, ProxyDoor};
use crate::doors::resp::{Password, RespBounds, RespDoor};
use crate::doors::rls::{GrpcBounds, GrpcDoor, Service};
use crate::exposure::Exposure;
use crate::gate::{Draft, Gate};
use crate::listen::{Address, Listener, Peer, Stream};
use crate::metrics::{DoorName, Metrics};
use crate::reload::{self, Reloader, Source};
use crate::server::{self, Bounds, Door, Ending};
use crate::store::{self, Purpose};
use crate::systemd::{Notifier, Sockets};
#[cfg(feature = "otlp")]
use crate::telemetry::Telemetry;
use crate::text::printable;
use crate::threshold::Threshold;
use crate::tls;

/// Why a server did not start, for people.
#[derive(Debug)]
pub struct ServeError(String);

impl ServeError {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServeError {}

/// Serves what a source says, until told to stop.
pub fn serve(source: Source, insecure_bind: bool) -> Result<(), ServeError> {
    // Before there is a second thread: it takes what it reads out of the environment.
    let sockets = Sockets::from_env().map_err(ServeError::new)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ServeError::new(format!("cannot start: {error}")))?;
    let served = runtime.block_on(until_stopped(source, insecure_bind, sockets));
    // What is still under way waits for a file or a name that hangs, and nobody for what comes of it.
    runtime.shutdown_background();
    served
}

async fn until_stopped(
    source: Source,
    insecure_bind: bool,
    mut sockets: Sockets,
) -> Result<(), ServeError> {
    // Before the file is read, so that no change is missed.
    let identity = reload::identity(&source);
    let config = (source.read)().map_err(|lines| ServeError::new(told(&lines)))?;
    let (draft, store) = built(&config)?;
    let password = config.listen.resp.as_ref().map(password_of).transpose()?.flatten();
    let Listens { http, grpc, resp, proxy: passing } = &config.listen;
    let gate = Gate::new(draft);
    let may_be_open =
        |exposure: &Exposure| match exposure.allow(has_secret(exposure.door, &config, &gate)) {
            Err(why) if !insecure_bind => Err(ServeError::new(why)),
            _ => Ok(()),
        };
    for (name, door) in DoorName::ALL.into_iter().zip([http, grpc, resp, passing]) {
        door.as_ref().map_or(Ok(()), |door| may_be_open(&exposure_of(name, door)))?;
    }
    // Before anybody can know that we run, so that no signal finds us unprepared.
    let (interrupt, terminate) = (on(SignalKind::interrupt())?, on(SignalKind::terminate())?);
    let hangup = on(SignalKind::hangup())?;
    // All addresses are bound before the first connection is accepted: the server starts whole or not at all.
    let (http, grpc, resp, passing) = (
        open(DoorName::Http, http.as_ref(), tls::HTTP, &gate, &mut sockets).await?,
        open(DoorName::Grpc, grpc.as_ref(), tls::GRPC, &gate, &mut sockets).await?,
        open(DoorName::Resp, resp.as_ref(), &[], &gate, &mut sockets).await?,
        open(DoorName::Proxy, passing.as_ref(), tls::HTTP, &gate, &mut sockets).await?,
    );
    // Once more, for sockets that were handed over: those are where somebody else has put them.
    for (name, place) in DoorName::ALL.into_iter().zip([&http, &grpc, &resp, &passing]) {
        place.as_ref().map_or(Ok(()), |place| may_be_open(&place.exposure(name)?))?;
    }
    // Of all secrets the token alone can be taken away while its door is open.
    let exposed = http.as_ref().filter(|_| !insecure_bind);
    let exposed = exposed.map(|place| place.exposure(DoorName::Http)).transpose()?;
    gate.metrics().watches(store.view.clone());
    #[cfg(feature = "otlp")]
    let telemetry = config.collector.as_ref().map(|url| Telemetry::start(url, &gate));
    #[cfg(feature = "otlp")]
    let telemetry = telemetry.transpose().map_err(ServeError::new)?;
    let mut house = House::new(gate.metrics().clone());
    let (mut sampler, has_grpc) = (None, grpc.is_some());
    if let Some(place) = http {
        sampler = Some(tokio::spawn(Sampler::new(gate.clone()).run()));
        welcome(&place, config.policies.keys().next());
        let http = HttpDoor::new(doors::http::router(gate.clone()), HttpBounds::default());
        house.open(DoorName::Http, place, http.with_checks(gate.clone()));
    }
    if let Some(place) = resp {
        welcome_resp(&place.listener, config.policies.keys().next());
        let resp = RespDoor::new(gate.clone(), password, RespBounds::default());
        house.open(DoorName::Resp, place, resp);
    }
    if let Some(place) = grpc {
        welcome_grpc(&place.listener);
        let service = Service::new(gate.clone());
        let service = service.map_err(|error| ServeError::new(error.to_string()))?;
        house.open(DoorName::Grpc, place, GrpcDoor::new(service, GrpcBounds::default()));
    }
    if !has_grpc && !config.rls.policies().is_empty() {
        tracing::warn!(
            "rules for Envoy, and no door that it can ask at: say --grpc 127.0.0.1:8081"
        );
    }
    let mut keeper = None;
    if let Some(place) = passing {
        welcome_proxy(&place, config.proxy.as_ref());
        // Whoever may see what is behind may come: there is nothing to administer.
        house.open(DoorName::Proxy, place, ProxyDoor::new(gate.clone(), HttpBounds::default()));
        keeper = Some(tokio::spawn(proxy::keep(gate.clone())));
    }
    let watcher = tokio::spawn(store_watch::watch(gate.clone(), store));
    let deadline = config.store.deadline;
    let reloader = Reloader::new(source, gate.clone(), config, identity, exposed);
    let reloader = tokio::spawn(reloader.run(hangup));
    let systemd = Notifier::from_env();
    systemd.ready();
    let signal = systemd.alive_during(stop(interrupt, terminate)).await;
    gate.drains();
    systemd.stopping();
    reloader.abort();
    watcher.abort();
    if let Some(sampler) = sampler {
        sampler.abort();
    }
    let notice = match signal {
        // Who sits at the terminal waits for it, and nobody sends clients there.
        Stop::Interrupt => Duration::ZERO,
        Stop::Terminate => gate.now().rules.drain,
    };
    systemd.alive_during(house.close(notice)).await;
    if let Some(keeper) = keeper {
        keeper.abort();
    }
    give_back(&gate.now().engine, deadline).await;
    #[cfg(feature = "otlp")]
    if let Some(telemetry) = telemetry {
        telemetry.close().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Opens the store, and builds what is asked over it.
fn built(config: &Config) -> Result<(Draft, Watched), ServeError> {
    let choice = &config.store;
    let url = choice.url.read().map_err(|why| ServeError::new(format!("store.url_file: {why}")))?;
    let purpose = Purpose {
        key_prefix: config.key_prefix.clone(),
        deadline: choice.deadline,
        breaker: choice.breaker.clone(),
        ..Purpose::serving()
    };
    let view = store::open_in_view(&url.0, purpose).map_err(ServeError::new)?;
    let builder = Engine::builder().store(view.store());
    let builder = match choice.nodes {
        Some(nodes) => builder.nodes(nodes),
        None => builder,
    };
    let follower = match view.redis() {
        Some(_) => Follower::shared_over(view.store()),
        None => Follower::default(),
    };
    let draft = Draft::build(config, builder, follower.into(), None).map_err(ServeError::new)?;
    Ok((draft, Watched { view, name: store::shown(&url.0) }))
}

fn told(lines: &[String]) -> String {
    format!("the configuration is wrong:\n{}", lines.join("\n"))
}

fn bounds_of(door: &Listen) -> Bounds {
    let usual = Bounds::default();
    let connections_max = door.connections_max.unwrap_or(usual.connections_max);
    Bounds { connections_max, ..usual }
}

/// What clients of the Redis protocol have to know.
fn password_of(door: &Listen) -> Result<Option<Password>, ServeError> {
    let password = door.password.as_ref().map(|source| match source {
        SecretSource::File(path) => Password::read(path),
        SecretSource::Given(secret) => Ok(Password::new(&secret.0)),
    });
    password.transpose().map_err(ServeError::new)
}

/// Whether a door asks for a secret: gRPC for none but the certificates of its clients.
fn has_secret(door: DoorName, config: &Config, gate: &Gate) -> bool {
    let Listens { grpc, resp, .. } = &config.listen;
    match door {
        DoorName::Http => gate.now().http.admin.has_token(),
        DoorName::Grpc => {
            let tls = grpc.as_ref().and_then(|door| door.tls.as_ref());
            tls.is_some_and(|tls| tls.client_ca.is_some())
        }
        DoorName::Resp => resp.as_ref().is_some_and(|door| door.password.is_some()),
        DoorName::Proxy => false,
    }
}

fn exposure_of(name: DoorName, door: &Listen) -> Exposure {
    Exposure { door: name, address: door.address.clone(), has_tls: door.tls.is_some() }
}

/// Where a door is to be, and what is in front of it.
struct DoorPlace {
    listener: Listener,
    bounds: Bounds,
    proxy_protocol: Option<Arc<Gate>>,
    tls: Option<Arc<tls::Acceptor>>,
}

impl DoorPlace {
    fn exposure(&self, door: DoorName) -> Result<Exposure, ServeError> {
        let address = self.listener.address();
        let address = address.map_err(|error| of_socket(door, &error))?;
        Ok(Exposure { door, address, has_tls: self.tls.is_some() })
    }
}

/// The doors that are open.
#[derive(Debug)]
struct House {
    metrics: Arc<Metrics>,
    /// Once they are to close: for how long newcomers are served until then.
    stop: watch::Sender<Option<Duration>>,
    servers: JoinSet<()>,
}

impl House {
    fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, stop: watch::Sender::default(), servers: JoinSet::new() }
    }

    fn open(&mut self, name: DoorName, place: DoorPlace, door: impl Door + Sync) {
        let DoorPlace { listener, bounds, proxy_protocol, tls } = place;
        let door = Threshold { proxy_protocol, tls, door };
        let door = Counted { door, name, metrics: self.metrics.clone() };
        let mut stopped = self.stop.subscribe();
        self.servers.spawn(async move {
            // An error means that the house is gone.
            let stop = async {
                let notice = stopped.wait_for(Option::is_some).await;
                notice.ok().and_then(|notice| *notice).unwrap_or_default()
            };
            server::run(listener, door, bounds, stop).await;
        });
    }

    /// All at once, and waits for the last request of each.
    async fn close(mut self, notice: Duration) {
        self.stop.send_replace(Some(notice));
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

/// The place of a door that is to be open: the socket that was handed over for it, or a new one; and what it speaks over
/// TLS.
async fn open(
    name: DoorName,
    door: Option<&Listen>,
    protocols: &'static [&'static [u8]],
    gate: &Arc<Gate>,
    sockets: &mut Sockets,
) -> Result<Option<DoorPlace>, ServeError> {
    let handed = sockets.take(name.as_str()).transpose();
    let handed = handed.map_err(|error| of_socket(name, &error))?;
    let Some(door) = door else {
        let bare = |listener| DoorPlace {
            listener,
            bounds: Bounds::default(),
            proxy_protocol: None,
            tls: None,
        };
        return Ok(handed.map(bare));
    };
    let tls = door.tls.as_ref().map(|files| tls::Acceptor::new(files.clone(), protocols));
    let tls = tls.transpose().map_err(ServeError::new)?;
    let proxy_protocol = door.proxy_protocol.then(|| gate.clone());
    let listener = if let Some(listener) = handed {
        listener
    } else {
        let bound = Listener::bind(&door.address).await;
        bound.map_err(|error| not_bound(&door.address, &error))?
    };
    Ok(Some(DoorPlace { listener, bounds: bounds_of(door), proxy_protocol, tls }))
}

fn of_socket(name: DoorName, error: &io::Error) -> ServeError {
    ServeError::new(format!("the socket for `{}`: {error}", name.as_str()))
}

/// Who has told the process to stop.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// Somebody at a terminal.
    Interrupt,
    /// Whatever manages services.
    Terminate,
}

/// Ready when the process is told to stop.
async fn stop(mut interrupt: Signal, mut terminate: Signal) -> Stop {
    let stop = tokio::select! {
        _ = interrupt.recv() => Stop::Interrupt,
        _ = terminate.recv() => Stop::Terminate,
    };
    tracing::info!("stopping: finishing the requests in flight");
    stop
}

fn on(kind: SignalKind) -> Result<Signal, ServeError> {
    signal(kind).map_err(|error| ServeError::new(format!("cannot watch for signals: {error}")))
}

fn welcome(place: &DoorPlace, policy: Option<&String>) {
    let Ok(addr) = place.listener.address() else { return };
    tracing::info!(%addr, "listening");
    let scheme = if place.tls.is_some() { "https" } else { "http" };
    // Where there is no policy yet, what there will be can be looked at.
    let check = policy.map_or_else(
        || "/v1/policies".to_owned(),
        |policy| {
            format!("/v1/check -d '{{\"policy\":\"{}\",\"key\":\"user-42\"}}'", printable(policy))
        },
    );
    let text = match &addr {
        Address::Unix(path) => format!(
            "tidegate listens on {addr}\n\
             try it:  curl -s --unix-socket {} http://tidegate{check}\n\
             Ctrl-C stops it\n",
            path.display()
        ),
        Address::Tcp(addr) => format!(
            "tidegate listens on {scheme}://{addr}\n\
             try it:  curl -s {scheme}://{addr}{check}\n\
             or open  {scheme}://{addr}/ in a browser; Ctrl-C stops it\n"
        ),
    };
    say(&text);
}

fn say(text: &str) {
    // Nobody has to read it.
    let _ = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
}

fn welcome_resp(listener: &Listener, policy: Option<&String>) {
    let Ok(addr) = listener.address() else { return };
    tracing::info!(%addr, "listening for the Redis protocol");
    // A limit of its own needs no policy.
    let ask = policy.map_or_else(
        || "CL.THROTTLE user-42 15 30 60".to_owned(),
        |policy| format!("TG.CHECK {} user-42", printable(policy)),
    );
    let place = match &addr {
        Address::Unix(path) => format!("-s {}", path.display()),
        Address::Tcp(addr) => format!("-h {} -p {}", addr.ip(), addr.port()),
    };
    say(&format!("and the Redis protocol on {addr}:  redis-cli {place} {ask}\n"));
}

fn welcome_grpc(listener: &Listener) {
    let Ok(addr) = listener.address() else { return };
    tracing::info!(%addr, "listening for gRPC");
    say(&format!("for Envoy: gRPC on {addr}\n"));
}

fn welcome_proxy(place: &DoorPlace, settings: Option<&tidegate_config::proxy::Settings>) {
    let Ok(addr) = place.listener.address() else { return };
    tracing::info!(%addr, "listening for requests to pass on");
    let scheme = if place.tls.is_some() { "https" } else { "http" };
    let upstreams = settings.iter().flat_map(|settings| &settings.upstreams);
    let upstreams: Vec<_> = upstreams.map(ToString::to_string).collect();
    let place = match &addr {
        Address::Unix(_) => addr.to_string(),
        Address::Tcp(addr) => format!("{scheme}://{addr}"),
    };
    say(&format!("tidegate passes requests on from {place} to {}\n", upstreams.join(", ")));
}

fn not_bound(addr: &Address, error: &io::Error) -> ServeError {
    ServeError::new(match error.kind() {
        io::ErrorKind::AddrInUse if matches!(addr, Address::Unix(_)) => format!(
            "cannot listen on {addr}: something is there already, a program that listens (`ss -lx` shows which) or a file that is no socket. Stop it, or take another path"
        ),
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {addr}: another program listens there already (`ss -ltnp` shows which). Stop it, or take any free port with --listen 127.0.0.1:0"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "cannot listen on {addr}: {error}. Ports below 1024 need a privilege; take another with --listen"
        ),
        _ => format!("cannot listen on {addr}: {error}"),
    })
}
