//! The page at `/` and what it lives on.
//!
//! The page is plain files of `web/`, in the binary as they are: no build step, nothing from elsewhere.

mod assets;

pub(crate) use self::assets::{asset, page};
