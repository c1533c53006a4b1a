//! The page at `/` and its data.
//!
//! The page consists of the files in `web/`, embedded in the binary: no build step, nothing loaded from elsewhere. Its data
//! come from one event stream, `GET /v1/live` (docs/http-api.md): a [`Sampler`] reads the counters once a second and
//! sends the same text to all watchers. A decision costs nothing more for it.

mod assets;
mod feed;
mod sampler;
mod second_stats;
mod state;

pub(crate) use self::assets::{asset, page};
pub(crate) use self::feed::{EventStream, Feed, WATCHERS_MAX, WatchRefused};
pub(crate) use self::sampler::Sampler;
pub(crate) use self::state::LeaseJson;
