//! Shared by the tests of both demos.

use std::path::{Path, PathBuf};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The binary in `TIDEGATE`, or the debug build of the workspace.
pub fn tidegate() -> PathBuf {
    let built = || root().join("target/debug/tidegate");
    std::env::var_os("TIDEGATE").map_or_else(built, PathBuf::from)
}
