//! The measurements: the capacity of the app, then three times that load, without and with tidegate or a peer in front,
//! and at last mostly from bots.

use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;

use crate::Fallible;
use crate::app::POOL;
use crate::database::Database;
use crate::effort::Effort;
use crate::load::{self, BOTS, Client, Figures, PEOPLE};
use crate::peers::envoy::Envoy;
use crate::peers::nginx::{self, Rate};
use crate::peers::{Peer, Peers, Programs, Setup};
use crate::report::{Crowds, Report, Verdict};
use crate::service::Service;
use crate::site::Site;

/// The load, as a multiple of the app's capacity.
pub(crate) const OVERLOAD: f64 = 3.0;

/// A tenth above the app's capacity; a tenth below it; and a limit so high that only the in-flight cap binds.
const LIMIT: &str = "440/s";
const BELOW: &str = "360/s";
const NO_LIMIT: &str = "1000000/s";

/// The parts of people and bots, as multiples of the app's capacity: together the overload.
const PEOPLE_LOAD: f64 = 0.6;
const BOTS_LOAD: f64 = OVERLOAD - PEOPLE_LOAD;

/// How many requests Envoy passes on at once if it is not told a maximum.
const ENVOY_DEFAULT_MAX: u32 = 1000;

/// The bursts of nginx, in seconds of its rate: one that makes a short queue at most, and that of the example for a
/// whole server in its documentation.
const NGINX_BURSTS: [f64; 2] = [0.1, 1.0];

/// The light load, as a multiple of the app's capacity.
const LIGHT: f64 = 0.2;

/// Variables of tidegate's file.
type Variables<'a> = &'a [(&'a str, &'a str)];

pub(crate) struct Demo {
    pub(crate) tidegate: PathBuf,
    pub(crate) programs: Programs,
    /// The folder of the files of tidegate and its peers.
    pub(crate) example: PathBuf,
    pub(crate) effort: Effort,
}

impl Demo {
    pub(crate) async fn run(&self) -> Fallible<Report> {
        self.programs.check()?;
        eprintln!("starting PostgreSQL and the app");
        let database = Database::start().await?;
        let mut app = Command::new(std::env::current_exe()?);
        let app = Site::start(app.arg("app").arg(&database.folder)).await?;
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

        let peers = self.peers(&app, &database, carried).await?;

        eprintln!("what tidegate's parts do alone");
        let limit = self.static_proxy(&app).await?;
        let limit_alone = self.part(&app, &limit, carried).await?;
        drop(limit);
        let cap = self.adaptive_proxy(&app, NO_LIMIT).await?;
        let cap_alone = self.part(&app, &cap, carried).await?;
        drop(cap);

        eprintln!("people and bots, with one limit, and with shares of it");
        let one_limit = self.crowds(&app, &[("POLICY", "app"), ("LIMIT", BELOW)], carried).await?;
        let shares = self.crowds(&app, &[("POLICY", "tenants"), ("LIMIT", BELOW)], carried).await?;
        let shares_of_more =
            self.crowds(&app, &[("POLICY", "tenants"), ("LIMIT", LIMIT)], carried).await?;
        let verdict = Verdict::new(&best, &unloaded, &direct, &behind, [&one_limit, &shares]);
        Ok(Report {
            best,
            unloaded,
            direct,
            unloaded_behind,
            behind,
            peers,
            limit_alone,
            cap_alone,
            one_limit,
            shares,
            shares_of_more,
            verdict,
        })
    }

    async fn peers(&self, app: &Site, database: &Database, carried: f64) -> Fallible<Peers> {
        let app_url = &app.service.url;
        let setup = Setup { example: &self.example, folder: &database.folder, app_url };
        eprintln!("the same through Envoy");
        let [envoy, envoy_capped] = [
            self.behind_envoy(app, ENVOY_DEFAULT_MAX, &setup, carried).await?,
            self.behind_envoy(app, 2 * POOL, &setup, carried).await?,
        ];
        eprintln!("the same through nginx");
        let nginx_rate_per_s = (carried.round() as u64).max(1);
        let [small, large] = NGINX_BURSTS.map(|share| Rate::with_burst(nginx_rate_per_s, share));
        let [nginx_small_burst, nginx_large_burst] = [
            self.behind_nginx(app, small, &setup, carried).await?,
            self.behind_nginx(app, large, &setup, carried).await?,
        ];
        Ok(Peers { envoy, envoy_capped, nginx_rate_per_s, nginx_small_burst, nginx_large_burst })
    }

    async fn behind_envoy(
        &self,
        app: &Site,
        max: u32,
        setup: &Setup<'_>,
        carried: f64,
    ) -> Fallible<Peer> {
        let proxy = Envoy::start(&self.programs.envoy, max, setup).await?;
        let peer = self.peer(app, &proxy.service, carried).await?;
        Ok(Peer { gradient: Some(proxy.gradient().await?), ..peer })
    }

    async fn behind_nginx(
        &self,
        app: &Site,
        rate: Rate,
        setup: &Setup<'_>,
        carried: f64,
    ) -> Fallible<Peer> {
        let proxy = nginx::start(&self.programs.nginx, rate, setup).await?;
        self.peer(app, &proxy, carried).await
    }

    /// The same loads as through tidegate.
    async fn peer(&self, app: &Site, proxy: &Service, carried: f64) -> Fallible<Peer> {
        let client = Client::new(&proxy.url);
        Ok(Peer {
            unloaded: self.light(app, &client, carried).await?,
            overloaded: self.overload(app, &client, carried).await?,
            gradient: None,
        })
    }

    async fn part(&self, app: &Site, proxy: &Service, carried: f64) -> Fallible<Figures> {
        let client = Client::new(&proxy.url);
        app.measured(load::open(&client, carried * OVERLOAD, self.effort.short)).await
    }

    /// People and bots, through one proxy.
    async fn crowds(&self, app: &Site, variables: Variables<'_>, carried: f64) -> Fallible<Crowds> {
        let proxy = self.proxy(app, "bots.yaml", variables).await?;
        let [people, bots] = [PEOPLE, BOTS].map(|crowd| Client::of(crowd, &proxy.url));
        let load = async {
            let people = load::open(&people, carried * PEOPLE_LOAD, self.effort.long);
            tokio::join!(people, load::open(&bots, carried * BOTS_LOAD, self.effort.long))
        };
        let ((people, bots), counted) = app.counted(load).await?;
        Ok(Crowds { people: people.figures(counted), bots: bots.figures(counted) })
    }

    async fn light(&self, app: &Site, client: &Client, carried: f64) -> Fallible<Figures> {
        app.measured(load::open(client, carried * LIGHT, self.effort.short)).await
    }

    async fn overload(&self, app: &Site, client: &Client, carried: f64) -> Fallible<Figures> {
        app.measured(load::open(client, carried * OVERLOAD, self.effort.long)).await
    }

    async fn adaptive_proxy(&self, app: &Site, limit: &str) -> Fallible<Service> {
        self.proxy(app, "tidegate.yaml", &[("LIMIT", limit)]).await
    }

    async fn proxy(&self, app: &Site, file: &str, variables: Variables<'_>) -> Fallible<Service> {
        let mut tidegate = Command::new(&self.tidegate);
        tidegate.args(["serve", "-c"]).arg(self.example.join(file)).env("RUST_LOG", "error");
        tidegate.env("APP_URL", &app.service.url).envs(variables.iter().copied());
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
