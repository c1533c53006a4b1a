//! Latencies and errors of the protected services, as clients and the proxy report them.

mod targets;
mod urls;

pub(crate) use self::targets::{TargetStats, TargetSummary, TooManyTargets};
pub(crate) use self::urls::UrlStats;
