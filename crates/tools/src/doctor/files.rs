//! The files that a server reads and writes when it starts: the secret of the hashes, and the snapshot.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tidegate::driver::Finding;
use tidegate_config::{SecretSource, StoreChoice};

const HASH_KEY: &str = "hash-key";
const SNAPSHOT: &str = "snapshot";
const NO_START: &str = "the server does not start";

/// `is_local`: no store is outside of the process.
pub(super) fn findings(store: &StoreChoice, is_local: bool) -> Vec<Finding> {
    let secret = match &store.hash_key {
        Some(source) => Some(hash_key(store, source)),
        None => (!is_local).then(built_in_secret),
    };
    let snapshot = store.memory.snapshot.as_deref().map(snapshot);
    secret.into_iter().chain(snapshot).collect()
}

fn hash_key(store: &StoreChoice, source: &SecretSource) -> Finding {
    match store.hasher() {
        Err(why) => Finding::fault(HASH_KEY, why)
            .risk(NO_START)
            .remedy("openssl rand -hex 16 > FILE && chmod 600 FILE, the same file for all nodes"),
        Ok(_) if can_others_read(source) => {
            Finding::warning(HASH_KEY, format!("every user of this machine can read {source}"))
                .risk("with the secret one can find out whose hashes are in the store and the log")
                .remedy(format!("chmod o-rwx {source}"))
        }
        Ok(_) => Finding::ok(HASH_KEY, format!("{source} has a secret")),
    }
}

fn built_in_secret() -> Finding {
    Finding::warning(HASH_KEY, "identifiers that are long or no plain text are hashed under a built-in secret")
        .risk("everybody knows it: who reads the store can try out whose they are, who calls can make some that share a counter")
        .remedy("store.hash_key_file: a file of `openssl rand -hex 16`, the same for all nodes; counters of such identifiers then start from zero")
}

fn can_others_read(source: &SecretSource) -> bool {
    let SecretSource::File(path) = source else { return false };
    fs::metadata(path).is_ok_and(|it| it.permissions().mode() & 0o004 != 0)
}

fn snapshot(path: &Path) -> Finding {
    let shown = path.display();
    match try_snapshot(path) {
        Ok(()) => Finding::ok(SNAPSHOT, format!("{shown} can be written and read")),
        Err(why) => Finding::fault(SNAPSHOT, format!("store.snapshot: {why}"))
            .risk(NO_START)
            .remedy("make the folder, and let the user of the server write there"),
    }
}

/// What a server does with its files, and leaves them as they are: one that runs may use them.
fn try_snapshot(path: &Path) -> Result<(), String> {
    if path.exists() && !path.is_file() {
        return Err(format!("{} is not a file", path.display()));
    }
    let (lock, probe) = (with_ending(path, ".lock"), with_ending(path, ".doctor"));
    if_there(File::open(path)).map_err(|error| cannot("read", path, &error))?;
    let locked = OpenOptions::new().write(true).open(&lock);
    if_there(locked).map_err(|error| cannot("write", &lock, &error))?;
    let probed = OpenOptions::new().write(true).create(true).truncate(true).open(&probe);
    let probed = probed.and_then(|_| fs::remove_file(&probe));
    probed.map_err(|error| cannot("write", &probe, &error))
}

/// A file that is not there yet is no error.
fn if_there(opened: io::Result<File>) -> io::Result<()> {
    match opened {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}
