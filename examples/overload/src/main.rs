//! `./dev demo overload`: an app under three times its capacity, first directly, then through tidegate.
//!
//! The app is this program in another process, in front of a real PostgreSQL; this process generates the load.
//! `QUICK=1` only shows that everything works.

mod app;
mod database;
mod demo;
mod load;
mod report;
mod service;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use demo::{Demo, Effort};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: overload-demo [--json] [--tidegate PROGRAM] [--config FILE]";

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
    let Some((demo, is_json)) = parse(args) else {
        eprintln!("{USAGE}");
        return Ok(ExitCode::from(64));
    };
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // All processes end when the demo is dropped, also when it is interrupted.
    let report = tokio::select! {
        report = demo.run() => report?,
        _ = interrupt.recv() => return Ok(ExitCode::from(130)),
        _ = terminate.recv() => return Ok(ExitCode::from(143)),
    };
    if is_json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    let is_met = demo.effort.is_quick || report.verdict.is_met();
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(args: Vec<String>) -> Option<(Demo, bool)> {
    let mut demo = Demo {
        tidegate: PathBuf::from("target/dist/tidegate"),
        config: PathBuf::from("examples/overload/tidegate.yaml"),
        effort: Effort::from_env(),
    };
    let mut is_json = false;
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => is_json = true,
            "--tidegate" => demo.tidegate = args.next()?.into(),
            "--config" => demo.config = args.next()?.into(),
            _ => return None,
        }
    }
    Some((demo, is_json))
}
