//! Whether a file is still the one that was read, without reading it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What differs when a file is written, replaced or linked elsewhere. Kubernetes puts a new file in place by pointing the
/// link `..data` at another directory: then the path behind all links differs, whatever the times say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    resolved: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: (i64, i64),
    changed_ns: (i64, i64),
}

impl Identity {
    /// `None` while there is no file.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let resolved = fs::canonicalize(path).ok()?;
        let found = fs::metadata(&resolved).ok()?;
        Some(Self {
            resolved,
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified_ns: (found.mtime(), found.mtime_nsec()),
            changed_ns: (found.ctime(), found.ctime_nsec()),
        })
    }
}
