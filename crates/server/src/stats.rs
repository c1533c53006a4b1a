//! Response times and errors of the services behind, as clients and the proxy report them.

mod targets;
mod urls;

pub(crate) use self::targets::{Observed, Summary, TooManyTargets};
pub(crate) use self::urls::ByUrl;
