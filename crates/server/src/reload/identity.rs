//! Whether files are still those that were read, without reading them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::envoy;

/// What differs when a file is written, replaced, added, taken away or linked elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity(Vec<FileIdentity>);

/// Kubernetes puts a new file in place by pointing the link `..data` at another directory: then the path behind all
/// links differs, whatever the times say.
#[derive(Clone, PartialEq, Eq, Debug)]
struct FileIdentity {
    resolved: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: (i64, i64),
    changed_ns: (i64, i64),
}

impl Identity {
    /// Of files, and of all rules of Envoy in folders. `None` while one of them is not there.
    pub(crate) fn of(paths: &[PathBuf]) -> Option<Self> {
        let mut all = Vec::new();
        for path in paths {
            if path.is_dir() {
                let files = envoy::files_below(path).ok()?;
                all.extend(files.iter().filter_map(|file| FileIdentity::of(file)));
            } else {
                all.push(FileIdentity::of(path)?);
            }
        }
        (!paths.is_empty()).then_some(Self(all))
    }
}

impl FileIdentity {
    fn of(path: &Path) -> Option<Self> {
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
