//! One file per algorithm, each a pure function of limit, state, now and cost.

mod concurrency;
mod divisor;
mod fixed_window;
mod gcra;
mod leaky_bucket;
mod pace;
mod quota;
mod sliding_log;
mod sliding_window;
mod window;

pub use concurrency::Concurrency;
pub use fixed_window::FixedWindow;
pub use gcra::{Gcra, WholeArrival};
pub use leaky_bucket::LeakyBucket;
pub use quota::Quota;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
