//! How long a decision over a network may take: the default, and the bounds of every setting.

use std::time::Duration;

/// The deadline of a decision unless another is set.
///
/// ```
/// assert_eq!(tidegate::deadline::DEFAULT.as_millis(), 20);
/// ```
pub const DEFAULT: Duration = Duration::from_millis(20);

/// The shortest deadline.
///
/// ```
/// assert_eq!(tidegate::deadline::MIN.as_millis(), 1);
/// ```
pub const MIN: Duration = Duration::from_millis(1);

/// The longest deadline.
///
/// ```
/// assert_eq!(tidegate::deadline::MAX.as_secs(), 60);
/// ```
pub const MAX: Duration = Duration::from_mins(1);
