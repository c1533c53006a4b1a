//! The resources of a process: a private directory and a free port.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Below 32768, where the ephemeral ports begin. A client that keeps connecting to a stopped server on an ephemeral
/// port would eventually get that port itself and connect to itself.
const PORTS: Range<u16> = 10_000..20_000;

/// The offset of the cluster bus port. It is outside `PORTS`, so that no other server gets it.
const BUS_OFFSET: u16 = 10_000;

const PORT_TRIES: usize = 1_000;
const DIRECTORY_TRIES: usize = 100;

/// A directory in the system's temporary directory. Dropping it removes it with its content.
#[derive(Debug)]
pub(super) struct PrivateDir(PathBuf);

impl PrivateDir {
    pub(super) fn new() -> Self {
        for _ in 0..DIRECTORY_TRIES {
            // Short: the path of a Unix socket has at most 107 bytes.
            let path = std::env::temp_dir().join(format!("tidegate-{:016x}", random()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Self(path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot make {}: {error}", path.display()),
            }
        }
        panic!("no free name for a directory in {DIRECTORY_TRIES} tries")
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A loopback port that is free, as is its bus port. Returned only once in this process, so that a server that is
/// stopped for a while can be restarted on it. Another process may still take it.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let is_new = |port| GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port);
    let spread = u64::from(PORTS.end - PORTS.start);
    (0..PORT_TRIES)
        .map(|_| PORTS.start + u16::try_from(random() % spread).unwrap())
        .find(|&port| is_new(port) && is_free(port) && is_free(port + BUS_OFFSET))
        .unwrap_or_else(|| panic!("no free port in {PORTS:?} in {PORT_TRIES} tries"))
}

/// Differs in every process: the standard library seeds its hashes from the system.
fn random() -> u64 {
    RandomState::new().hash_one(())
}
