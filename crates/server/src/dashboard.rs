//! The page at `/` and what it lives on.
//!
//! The page is plain files of `web/`, in the binary as they are: no build step, nothing from elsewhere. It lives on one
//! stream of events, `GET /v1/live`, told in docs/http-api.md: a [`Sampler`] input at the counters once a second, makes
//! one text of it and hands that to all who watch. A decision costs nothing more for it; a refusal leaves its key, if
//! it is one of those that are looked at.

mod assets;
mod feed;
mod sampler;
mod second_stats;
mod state;

pub(crate) use self::assets::{asset, page};
pub(crate) use self::feed::{Feed, WATCHERS_MAX, WatchRefused};
pub(crate) use self::sampler::Sampler;
