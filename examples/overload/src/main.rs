//! `./dev demo overload` and `./dev demo loop`: an app under three times its capacity, without and with tidegate.
//!
//! In the first, the app is this program in another process, and tidegate or a peer a proxy in front of it. In the second, the app
//! is a Fastify server, and tidegate a sidecar. The database is a real PostgreSQL; this process generates the load.

mod app;
mod database;
mod demo;
mod effort;
mod feedback;
mod load;
mod peers;
mod report;
mod service;
mod site;

use std::error::Error;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use effort::Effort;
use peers::Programs;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "\
usage: overload-demo [--json] [--tidegate PROGRAM] [--envoy PROGRAM] [--nginx PROGRAM] [--example FOLDER]
       overload-demo loop [--json] [--svg FILE] [--tidegate PROGRAM] [--example FOLDER]";

#[tokio::main]
async fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Vec<String>) -> Fallible<ExitCode> {
    if let [role, folder] = &args[..]
        && role == "app"
    {
        app::serve(folder.as_ref()).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_loop = args.first().is_some_and(|it| it == "loop");
    let Some(options) = parse(args.into_iter().skip(usize::from(is_loop)), is_loop) else {
        eprintln!("{USAGE}");
        return Ok(ExitCode::from(64));
    };
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // All processes end when the demo is dropped, also when it is interrupted.
    tokio::select! {
        is_met = options.run(is_loop) => Ok(ExitCode::from(u8::from(!is_met?))),
        _ = interrupt.recv() => Ok(ExitCode::from(130)),
        _ = terminate.recv() => Ok(ExitCode::from(143)),
    }
}

struct Options {
    is_json: bool,
    svg: Option<PathBuf>,
    tidegate: PathBuf,
    programs: Programs,
    example: PathBuf,
}

impl Options {
    /// Runs a demo, prints its report, and returns whether its requirements are met.
    async fn run(self, is_loop: bool) -> Fallible<bool> {
        let Self { is_json, svg, tidegate, programs, example } = self;
        if !is_loop {
            let effort = Effort::from_env([8_000, 8_000, 20_000], [500, 500, 1000]);
            let is_quick = effort.is_quick;
            let report = demo::Demo { tidegate, programs, example, effort }.run().await?;
            print(&report, is_json)?;
            return Ok(is_quick || report.verdict.is_met());
        }
        let effort = Effort::from_env([2_000, 5_000, 12_000], [200, 500, 1000]);
        let is_quick = effort.is_quick;
        let report = feedback::Demo { tidegate, example, effort }.run().await?;
        print(&report, is_json)?;
        if let Some(file) = svg {
            std::fs::write(file, report.svg())?;
        }
        Ok(is_quick || report.verdict.is_met())
    }
}

fn print(report: &(impl Serialize + Display), is_json: bool) -> Fallible<()> {
    if is_json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}

fn parse(mut args: impl Iterator<Item = String>, is_loop: bool) -> Option<Options> {
    let mut options = Options {
        is_json: false,
        svg: None,
        tidegate: PathBuf::from("target/dist/tidegate"),
        programs: Programs {
            envoy: PathBuf::from("target/clients/envoy/bin/envoy"),
            nginx: PathBuf::from("/usr/sbin/nginx"),
        },
        example: PathBuf::from(if is_loop { "examples/loop" } else { "examples/overload" }),
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => options.is_json = true,
            "--svg" if is_loop => options.svg = Some(args.next()?.into()),
            "--envoy" if !is_loop => options.programs.envoy = args.next()?.into(),
            "--nginx" if !is_loop => options.programs.nginx = args.next()?.into(),
            "--tidegate" => options.tidegate = args.next()?.into(),
            "--example" => options.example = args.next()?.into(),
            _ => return None,
        }
    }
    Some(options)
}
