//! The measurements: the capacity of the app, then three times that load, without and with tidegate in front.

use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::Fallible;
use crate::app::{POOL, Stats};
use crate::database::Database;
use crate::load::{self, Client, Figures, Run};
use crate::report::{Report, Verdict};
use crate::service::Service;

/// The load, as a multiple of the app's capacity.
const OVERLOAD: f64 = 3.0;

/// A tenth above the app's capacity; and a limit so high that only the in-flight cap binds.
const LIMIT: &str = "440/s";
const NO_LIMIT: &str = "1000000/s";

/// The light load, as a multiple of the app's capacity.
const LIGHT: f64 = 0.2;

pub(crate) struct Demo {
    pub(crate) tidegate: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) effort: Effort,
}

/// How long to measure.
pub(crate) struct Effort {
    pub(crate) is_quick: bool,
    short: Duration,
    long: Duration,
}

impl Effort {
    pub(crate) fn from_env() -> Self {
        let is_quick = std::env::var_os("QUICK").is_some();
        let (short_ms, long_ms) = if is_quick { (500, 1000) } else { (8_000, 20_000) };
        Self {
            is_quick,
            short: Duration::from_millis(short_ms),
            long: Duration::from_millis(long_ms),
        }
    }
}

impl Demo {
    pub(crate) async fn run(&self) -> Fallible<Report> {
        eprintln!("starting PostgreSQL and the app");
        let database = Database::start().await?;
        let app = Site::app(&database).await?;
        load::closed(&app.client, POOL, Duration::from_millis(500)).await;

        eprintln!("looking for what the app can carry");
        let best = app.measured(load::closed(&app.client, 2 * POOL, self.effort.short)).await?;
        let carried = best.goodput_per_s;
        let unloaded = self.light(&app, &app.client, carried).await?;
        eprintln!("sending {OVERLOAD} × as much");
        let direct = self.overload(&app, &app.client, carried).await?;

        eprintln!("the same through tidegate");
        let proxy = self.adaptive_proxy(&app, LIMIT).await?;
        let client = Client::new(&proxy.url);
        let unloaded_behind = self.light(&app, &client, carried).await?;
        let behind = self.overload(&app, &client, carried).await?;
        drop(proxy);

        eprintln!("what its parts do alone");
        let limit = self.static_proxy(&app).await?;
        let limit_alone = self.part(&app, &limit, carried).await?;
        drop(limit);
        let cap = self.adaptive_proxy(&app, NO_LIMIT).await?;
        let cap_alone = self.part(&app, &cap, carried).await?;
        let verdict = Verdict::new(&best, &unloaded, &direct, &behind);
        Ok(Report {
            best,
            unloaded,
            direct,
            unloaded_behind,
            behind,
            limit_alone,
            cap_alone,
            verdict,
        })
    }

    async fn part(&self, app: &Site, proxy: &Service, carried: f64) -> Fallible<Figures> {
        let client = Client::new(&proxy.url);
        app.measured(load::open(&client, carried * OVERLOAD, self.effort.short)).await
    }

    async fn light(&self, app: &Site, client: &Client, carried: f64) -> Fallible<Figures> {
        app.measured(load::open(client, carried * LIGHT, self.effort.short)).await
    }

    async fn overload(&self, app: &Site, client: &Client, carried: f64) -> Fallible<Figures> {
        app.measured(load::open(client, carried * OVERLOAD, self.effort.long)).await
    }

    async fn adaptive_proxy(&self, app: &Site, limit: &str) -> Fallible<Service> {
        let mut tidegate = Command::new(&self.tidegate);
        tidegate.args(["serve", "-c"]).arg(&self.config).env("RUST_LOG", "error");
        tidegate.env("APP_URL", &app.service.url).env("LIMIT", limit);
        Service::start(&mut tidegate, "passes requests on from ").await
    }

    /// A proxy with the same limit, not adaptive and without a cap. All clients have one address here.
    async fn static_proxy(&self, app: &Site) -> Fallible<Service> {
        let mut tidegate = Command::new(&self.tidegate);
        tidegate.args(["proxy", "--listen", "127.0.0.1:0", "--limit", LIMIT]);
        tidegate.args(["--upstream", &app.service.url]).env("RUST_LOG", "error");
        Service::start(&mut tidegate, "passes requests on from ").await
    }
}

/// The app, and a client that connects to it directly.
struct Site {
    service: Service,
    client: Client,
}

impl Site {
    async fn app(database: &Database) -> Fallible<Self> {
        let mut app = Command::new(std::env::current_exe()?);
        app.arg("app").arg(&database.folder);
        let service = Service::start(&mut app, "the app answers on ").await?;
        let client = Client::new(&service.url);
        Ok(Self { service, client })
    }

    /// Runs a load, and returns its figures with the number of errors in the app.
    async fn measured(&self, load: impl Future<Output = Run>) -> Fallible<Figures> {
        let before = self.at_rest().await?.failed;
        let run = load.await;
        let after = self.at_rest().await?.failed;
        Ok(run.figures(after - before))
    }

    /// The counters of the app, once it has no request in flight.
    async fn at_rest(&self) -> Fallible<Stats> {
        let start = Instant::now();
        loop {
            let stats: Stats = self.client.json("/stats").await?;
            if stats.under_way == 0 {
                return Ok(stats);
            }
            if start.elapsed() > Duration::from_secs(20) {
                return Err(format!("the app still has requests in flight: {stats:?}").into());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}
