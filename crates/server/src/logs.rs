//! Logs: to stderr, as text on a terminal and as JSON lines otherwise.

mod events;
mod labels;
mod lines;
mod request_id;
pub(crate) mod trace;

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) use self::events::{CheckLine, Events, RequestLine, line_limiter};
pub(crate) use self::labels::{KeyLabels, readable};
pub use self::lines::Lines;
pub(crate) use self::request_id::{REQUEST_ID, RequestId};

/// Starts logging. `RUST_LOG` sets the level; the default is `info`. Returns `None` if the writer thread cannot start.
pub fn start(with_color: bool) -> Option<Lines> {
    let writer = Lines::start().ok()?;
    let lines = fmt::layer().with_writer(writer.clone()).with_target(false);
    let layer = if io::stderr().is_terminal() {
        lines.with_ansi(with_color).boxed()
    } else {
        lines.json().flatten_event(true).boxed()
    };
    // Fails only if a logger runs already.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter())).try_init();
    Some(writer)
}

fn filter() -> Targets {
    let wanted = std::env::var("RUST_LOG").ok();
    wanted
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO))
}
