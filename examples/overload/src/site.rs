//! An app under load, with the counters that it serves.

use std::time::Duration;

use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::Fallible;
use crate::app::Stats;
use crate::load::{Client, Figures, Run};
use crate::service::Service;

/// The app, and a client that connects to it directly.
pub(crate) struct Site {
    pub(crate) service: Service,
    pub(crate) client: Client,
}

impl Site {
    pub(crate) async fn start(app: &mut Command) -> Fallible<Self> {
        let service = Service::start(app, "the app answers on ").await?;
        let client = Client::new(&service.url);
        Ok(Self { service, client })
    }

    /// Runs a load, and returns its figures with what the app has counted.
    pub(crate) async fn measured(&self, load: impl Future<Output = Run>) -> Fallible<Figures> {
        let (run, counted) = self.counted(load).await?;
        Ok(run.figures(counted))
    }

    /// Runs a load, and returns its result with what the app has counted.
    pub(crate) async fn counted<T>(&self, load: impl Future<Output = T>) -> Fallible<(T, Stats)> {
        let before = self.at_rest().await?;
        let result = load.await;
        Ok((result, self.at_rest().await?.since(before)))
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
