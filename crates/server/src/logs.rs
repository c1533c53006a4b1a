//! Logs: to stderr, as text on a terminal and as JSON lines otherwise.

mod events;
mod lines;
pub(crate) mod trace;

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) use self::events::Events;
pub(crate) use self::lines::Lines;

/// Starts logging. `RUST_LOG` says what is logged, `info` unless set. Nothing is logged where no thread can be had.
pub(crate) fn start() -> Option<Lines> {
    let writer = Lines::start().ok()?;
    let lines = fmt::layer().with_writer(writer.clone()).with_target(false);
    let layer = if io::stderr().is_terminal() {
        lines.with_ansi(wants_color()).boxed()
    } else {
        lines.json().flatten_event(true).boxed()
    };
    // Fails only where a logger runs already, and then that one is as good.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter())).try_init();
    Some(writer)
}

/// <https://no-color.org>: set and not empty turns colours off.
pub(crate) fn wants_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn filter() -> Targets {
    let wanted = std::env::var("RUST_LOG").ok();
    wanted
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO))
}
