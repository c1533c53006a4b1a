//! `./dev demo loop`: a Fastify app that a sidecar protects, without a proxy. The app's plugin reports how long the
//! database takes, and the sidecar's limit follows.

mod picture;
mod report;
mod sidecar;

use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::sleep;

use crate::Fallible;
use crate::app::POOL;
use crate::database::{self, Database};
use crate::demo::OVERLOAD;
use crate::effort::Effort;
use crate::load::{self, Figures};
use crate::site::Site;
pub(crate) use report::Report;
use report::{Followed, Verdict};
use sidecar::{Changes, Sidecar};

/// Open loads without a limiter, as multiples of what the app answered at best in a closed loop.
const SWEEP: [f64; 3] = [0.8, 0.9, 1.0];

/// The light load under which the sidecar learns how long an answer takes, as a multiple of the app's capacity.
const LIGHT: f64 = 0.2;

/// The parts of the policy alone. A number of places so large that none is ever missing, and a limit likewise.
const FOLLOWING_LIMIT: Changes = &[("PLACES", "1000000")];
const STATIC_LIMIT: Changes = &[("PLACES", "1000000"), ("MODE", "shadow")];
const PLACES: Changes = &[("RATE", "1000000/s")];

/// The limit moves once a second: the least time in which it learns how long an answer takes, and in which it falls.
const LEARN: Duration = Duration::from_millis(1500);
const FALL: Duration = Duration::from_secs(4);

/// How long the limit may take to open after the load: it is held for 3 s first. On a machine that others use, even light
/// requests take longer than usual for a while.
const RECOVERY_S: u32 = 60;

pub(crate) struct Demo {
    pub(crate) tidegate: PathBuf,
    /// The folder of the app and of the sidecar's file.
    pub(crate) example: PathBuf,
    pub(crate) effort: Effort,
}

/// The app and its sidecar.
struct Protected {
    app: Site,
    sidecar: Sidecar,
}

impl Demo {
    pub(crate) async fn run(&self) -> Fallible<Report> {
        eprintln!("starting PostgreSQL and the app");
        let database = Database::start().await?;
        let app = Site::start(&mut self.app(&database)).await?;
        load::closed(&app.client, POOL, Duration::from_millis(500)).await;

        let Effort { brief, short, long, .. } = self.effort;
        eprintln!("looking for what the app can carry");
        let mut unlimited = vec![app.measured(load::closed(&app.client, 2 * POOL, short)).await?];
        let carried = unlimited[0].goodput_per_s;
        for share in SWEEP {
            let load = load::open(&app.client, carried * share, brief);
            unlimited.push(app.measured(load).await?);
        }
        let load = carried * OVERLOAD;
        eprintln!("sending {OVERLOAD} × as much");
        let direct = app.measured(load::open(&app.client, load, long)).await?;
        drop(app);

        eprintln!("the same with the loop");
        let protected = self.protected(&database, "loop", &[], carried).await?;
        let with_loop = protected.overload(load, long).await?;
        eprintln!("the same, and the sidecar is killed halfway");
        let sidecar_killed = protected.overload_without_sidecar(load, short).await?;

        eprintln!("what the parts do alone");
        let protected = self.protected(&database, "limit", FOLLOWING_LIMIT, carried).await?;
        load::open(&protected.app.client, carried * LIGHT, LEARN.saturating_sub(brief)).await;
        let limit_alone = protected.overload(load, long.max(FALL)).await?;
        let recovered = protected.recovered(carried * LIGHT, &limit_alone).await?;
        let protected = self.protected(&database, "static", STATIC_LIMIT, carried).await?;
        let static_limit = protected.overload(load, long).await?.figures;
        let protected = self.protected(&database, "places", PLACES, carried).await?;
        let places_alone = protected.overload(load, short).await?.figures;
        let verdict = Verdict::new(&unlimited, &direct, &with_loop.figures);
        Ok(Report {
            unlimited,
            direct,
            with_loop,
            sidecar_killed,
            limit_alone,
            recovered,
            static_limit,
            places_alone,
            verdict,
        })
    }

    fn app(&self, database: &Database) -> Command {
        let mut node = Command::new("node");
        node.arg(self.example.join("app.mjs")).env("PORT", "0").env("NODE_ENV", "production");
        node.env("PGHOST", &database.folder).env("PGUSER", database::USER);
        node.env("PGDATABASE", database::NAME);
        node
    }

    /// Starts both, and sends a light load until the sidecar knows how long an answer takes.
    async fn protected(
        &self,
        database: &Database,
        name: &str,
        changes: Changes,
        carried: f64,
    ) -> Fallible<Protected> {
        let socket = database.folder.join(format!("{name}.sock"));
        let config = self.example.join("tidegate.yaml");
        let sidecar = Sidecar::start(&self.tidegate, &config, socket, changes).await?;
        let app = Site::start(self.app(database).env("TIDEGATE_SOCKET", &sidecar.socket)).await?;
        load::open(&app.client, carried * LIGHT, self.effort.brief).await;
        Ok(Protected { app, sidecar })
    }
}

impl Protected {
    async fn overload(&self, rate: f64, span: Duration) -> Fallible<Followed> {
        let measured = self.app.measured(load::open(&self.app.client, rate, span));
        let seconds = span.as_secs().max(1) as u32;
        let (figures, limit_by_second) = tokio::join!(measured, self.sidecar.limits(seconds));
        Ok(Followed { figures: figures?, limit_by_second: limit_by_second? })
    }

    async fn overload_without_sidecar(self, rate: f64, span: Duration) -> Fallible<Figures> {
        let Self { app, sidecar } = self;
        let killed = async {
            sleep(span / 2).await;
            drop(sidecar);
        };
        let measured = app.measured(load::open(&app.client, rate, span));
        tokio::join!(measured, killed).0
    }

    /// The limit in force after the load has gone, as soon as it is above the lowest: it opens slowly.
    async fn recovered(&self, light: f64, overloaded: &Followed) -> Fallible<u64> {
        let lowest = overloaded.limit_by_second.iter().copied().min().unwrap_or(0);
        for _ in 0..RECOVERY_S {
            load::open(&self.app.client, light, Duration::from_secs(1)).await;
            let limit = self.sidecar.limit().await?;
            if limit > lowest {
                return Ok(limit);
            }
        }
        Err(format!("the limit stays at {lowest}/s without load").into())
    }
}
