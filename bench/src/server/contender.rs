//! The measured servers, each in its own process on the first processor.

use std::process::Command;

use tidegate_bench::{Process, free_port, pinned};

use crate::load::{PLENTY, Wire};

const TIDEGATE: &str = "target/dist/tidegate";
/// The configuration of tidegate. Requests to the other servers contain the limit.
const CONFIG: &str = "target/bench-server.yaml";
/// Names another build of tidegate, for instance the version before a change.
const BEFORE: &str = "BEFORE";
const THROTTLECRAB: &str = "target/peers/bin/throttlecrab-server";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Tidegate,
    /// The one that `BEFORE` names.
    Before,
    Throttlecrab,
    /// The minimum cost of a door: one process per protocol.
    Floor(&'static str),
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::Before => "tidegate before",
            Self::Throttlecrab => "throttlecrab-server 0.4",
            Self::Floor("resp") => "floor: tokio",
            Self::Floor("resp-library") => "floor: tokio and redis-protocol",
            Self::Floor("http") => "floor: hyper",
            Self::Floor(_) => "floor: tonic",
        }
    }
}

pub(crate) struct Contender {
    kind: Kind,
    process: Process,
    resp: Option<u16>,
    http: Option<u16>,
    grpc: Option<u16>,
}

impl Contender {
    pub(crate) fn all() -> Vec<Kind> {
        let before = std::env::var_os(BEFORE).map(|_| Kind::Before);
        let floors = ["resp", "resp-library", "http", "grpc"].map(Kind::Floor);
        let ours = [Kind::Tidegate].into_iter().chain(before);
        ours.chain([Kind::Throttlecrab]).chain(floors).collect()
    }

    pub(crate) fn start(kind: Kind) -> Self {
        let (mut resp, mut http, mut grpc) = (None, None, None);
        let mut args: Vec<String> = Vec::new();
        let mut open = |door: &mut Option<u16>, flag: &dyn Fn(u16) -> Vec<String>| {
            let port = free_port();
            *door = Some(port);
            args.extend(flag(port));
        };
        let program = match kind {
            Kind::Tidegate | Kind::Before => {
                let program = match kind {
                    Kind::Before => std::env::var(BEFORE).expect("a path"),
                    _ => TIDEGATE.to_owned(),
                };
                let help = Command::new(&program).args(["serve", "--help"]).output();
                let help = help.unwrap_or_else(|error| panic!("{program}: {error}"));
                let help = String::from_utf8_lossy(&help.stdout).into_owned();
                let at = |flag: &str, port| vec![flag.to_owned(), format!("127.0.0.1:{port}")];
                let [burst, units, seconds] = PLENTY;
                let policy = format!("policies: {{ api: {units}/{seconds}s burst {burst} }}\n");
                std::fs::write(CONFIG, policy).expect("a file in target");
                let serve = ["serve", "-c", CONFIG].map(str::to_owned);
                open(&mut http, &|port| [&serve[..], &at("--listen", port)].concat());
                for (door, flag) in [(&mut resp, "--resp"), (&mut grpc, "--grpc")] {
                    if help.contains(&format!("{flag} ")) {
                        open(door, &|port| at(flag, port));
                    }
                }
                program
            }
            Kind::Throttlecrab => {
                for (door, name) in [(&mut resp, "redis"), (&mut http, "http"), (&mut grpc, "grpc")]
                {
                    open(door, &|port| {
                        let flags =
                            [format!("--{name}"), format!("--{name}-host"), "127.0.0.1".to_owned()];
                        [&flags[..], &[format!("--{name}-port"), port.to_string()]].concat()
                    });
                }
                THROTTLECRAB.to_owned()
            }
            Kind::Floor(wire) => {
                let door = match wire {
                    "resp" | "resp-library" => &mut resp,
                    "http" => &mut http,
                    _ => &mut grpc,
                };
                open(door, &|port| ["floor", wire, &port.to_string()].map(str::to_owned).to_vec());
                std::env::current_exe().expect("this program").display().to_string()
            }
        };
        let ports: Vec<u16> = [resp, http, grpc].into_iter().flatten().collect();
        let process = Process::start(pinned(&program).args(args), &ports);
        Self { kind, process, resp, http, grpc }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.kind.name()
    }

    pub(crate) fn is_throttlecrab(&self) -> bool {
        self.kind == Kind::Throttlecrab
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// The port of a protocol, if the server has it.
    pub(crate) const fn port(&self, wire: Wire) -> Option<u16> {
        match wire {
            Wire::Resp(_) => self.resp,
            Wire::Http => self.http,
            Wire::Grpc => self.grpc,
        }
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }
}
