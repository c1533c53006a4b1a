//! Limits: the algorithms, how a limit is written, and what can be a key.
//!
//! A [`Limit`](crate::Limit) is read from text, written as a [`Rate`], or built from an algorithm:
//!
//! ```
//! use std::time::Duration;
//! use tidegate::{Limit, Limiter, SlidingLog};
//!
//! let text = Limiter::new("sliding-log 5/h")?;
//! let built = Limiter::new(SlidingLog::new(5, Duration::from_secs(3600))?)?;
//! let rate = Limiter::new(Limit::per_hour(5).burst(1))?; // GCRA, the default
//! assert_eq!(text.limit(), built.limit());
//! # assert_eq!(rate.limit().ceiling(), 1);
//! # Ok::<(), tidegate::LimitError>(())
//! ```

pub use crate::builder::Builder;
pub use crate::key::AsKey;
#[cfg(feature = "tokio")]
pub use crate::wait::NeverReady;
#[cfg(feature = "time-zones")]
pub use crate::zone::{UnknownZone, zone};
#[doc(inline)]
pub use tidegate_core::{
    Concurrency, Every, FixedWindow, Gcra, LeakyBucket, LimitError, Mode, Quota, Rate, Reservation,
    SlidingLog, SlidingWindow, Zone, parse_duration,
};
