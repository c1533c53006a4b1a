//! Limits that follow the health of what they protect.
//!
//! Rate limiting is flow control: a limit is right while the service behind it is healthy, and has to shrink when it
//! is not. Once per tick, about a second, the readings of a target become one limit:
//!
//! ```text
//! reading → sanitise → smooth → hysteresis → ramp ─┐
//! reading → sanitise → smooth → hysteresis → ramp ─┴ smallest → warm-up → floor → limit in force
//! ```
//!
//! - [`Observed`] is the window over observed requests: latencies and errors become [`Reading`]s. [`Urls`] is the
//!   same for each URL by itself.
//! - A [`Chain`] is one signal with its [`Ramp`], its [`Smoothing`] and what happens while it is silent
//!   ([`Absence`]). [`Settings`] are the chains of one limit, and what they share.
//! - [`Controller::step`] takes a reading for each chain and returns what is in force: an [`Output`]. A
//!   decision about a request only reads that.
//! - [`Cap`] bounds the requests in flight, and [`InFlight`] counts them: a rate alone cannot keep a queue short.
//! - [`FleetReadings`] combines the readings of many nodes into one.
//!
//! Numbers are floats here, and never NaN. What comes out is an integer: no admission is decided by a float.
//!
//! ```
//! use std::time::Duration;
//! use tidegate_core::Timestamp;
//! use tidegate_core::adaptive::{Chain, Controller, Reading, Settings};
//!
//! // 1000 a second while the database is well, and less as its pressure rises.
//! let mut controller = Controller::new(Settings::from_chains([Chain::pressure("db")])?, 1000)?;
//! let mut now = Timestamp::from_micros(1_700_000_000_000_000);
//! assert_eq!(controller.step(&[Reading::Value(0.0)], now).limit, 1000);
//! for _ in 0..10 {
//!     now = now + Duration::from_secs(1);
//!     controller.step(&[Reading::Value(0.4)], now);
//! }
//! assert_eq!(controller.output().limit, 600);
//! assert_eq!(controller.output().binding, Some(0));
//! # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
//! ```

mod baseline;
mod cap;
mod chain;
mod controller;
mod error;
mod fleet;
mod number;
mod observed;
mod output;
mod places;
mod ramp;
mod settings;
mod signal;
mod smoothing;
mod state;
mod urls;
mod warm_up;

pub use cap::{Cap, CapSample, InFlight, InFlightGuard};
pub use chain::Chain;
pub use controller::Controller;
pub use error::AdaptiveError;
pub use fleet::{FleetReadings, NodeReading};
pub use observed::{Observed, TickSummary};
pub use output::{Output, Priority};
pub use places::{Entry, Place, Places};
pub use ramp::{Ends, Ramp};
pub use settings::{Mode, Settings};
pub use signal::{Absence, Reading, Signal};
pub use smoothing::{Hysteresis, Oscillation, Smoothing};
pub use state::State;
pub use urls::{UrlRequest, UrlSummary, Urls};
pub use warm_up::WarmUp;
