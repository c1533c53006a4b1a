//! One file per algorithm, each a pure function of limit, state, now and cost.

pub(crate) mod concurrency;
mod divisor;
pub(crate) mod fixed_window;
pub(crate) mod gcra;
pub(crate) mod leaky_bucket;
mod pace;
pub(crate) mod quota;
pub(crate) mod sliding_log;
pub(crate) mod sliding_window;
mod window;

pub use concurrency::Concurrency;
pub use fixed_window::FixedWindow;
pub use gcra::{Gcra, WholeArrival};
pub use leaky_bucket::LeakyBucket;
pub use quota::Quota;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
