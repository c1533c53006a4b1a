//! Detects changed files by their metadata, without reading them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tidegate_config::envoy;

/// Changes when a file is written, replaced, added, removed or linked elsewhere.
///
/// An error is part of it, so that a file that becomes unreadable causes a reload, which logs the error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity(Vec<Result<FileIdentity, String>>);

/// Kubernetes replaces a file by pointing the link `..data` at another directory: then the resolved path differs, even
/// if the times do not.
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
    /// Reads the metadata of files, and of all of Envoy's rule files in folders.
    pub(crate) fn read(paths: &[PathBuf]) -> Self {
        let mut all = Vec::new();
        for path in paths {
            if path.is_dir() {
                match envoy::files_below(path) {
                    Ok(files) => all.extend(files.iter().map(|file| FileIdentity::read(file))),
                    Err(error) => all.push(Err(error.to_string())),
                }
            } else {
                all.push(FileIdentity::read(path));
            }
        }
        Self(all)
    }
}

impl FileIdentity {
    fn read(path: &Path) -> Result<Self, String> {
        Self::look_at(path).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn look_at(path: &Path) -> io::Result<Self> {
        let resolved = fs::canonicalize(path)?;
        let found = fs::metadata(&resolved)?;
        Ok(Self {
            resolved,
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified_ns: (found.mtime(), found.mtime_nsec()),
            changed_ns: (found.ctime(), found.ctime_nsec()),
        })
    }
}
