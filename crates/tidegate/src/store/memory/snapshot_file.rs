//! The file of a snapshot: written beside the old one and renamed over it, so that there is always a whole one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tidegate_core::Timestamp;

use super::{MemoryStore, SnapshotError};

/// A file that a [`MemoryStore`] is saved to, and restored from after a restart. No other process uses it meanwhile.
///
/// ```
/// use tidegate::{Clock, Limiter, Restored, SnapshotFile, SystemClock};
///
/// # let folder = std::env::temp_dir().join(format!("tidegate-snapshot-file-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let file = SnapshotFile::open(folder.join("counters"))?;
/// let (store, restored) = file.restore(64 << 20, SystemClock.now())?;
/// assert!(matches!(restored, Restored::Nothing)); // the first start
/// let limiter = Limiter::builder("sliding-log 5/h").store(store).build()?;
/// let _ = limiter.check_n("user-42", 5);
/// file.save(limiter.store(), SystemClock.now())?; // from a thread that may wait for the disk
/// # drop(file);
///
/// let file = SnapshotFile::open(folder.join("counters"))?;
/// let (store, restored) = file.restore(64 << 20, SystemClock.now())?;
/// assert!(matches!(restored, Restored::Whole));
/// let restarted = Limiter::builder("sliding-log 5/h").store(store).build()?;
/// assert!(!restarted.check("user-42").allowed());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SnapshotFile {
    path: PathBuf,
    /// Locked for as long as this process uses the snapshot: two that wrote it in turn would forget half of everything.
    _lock: File,
    /// One save at a time: they share the temporary file.
    saving: Mutex<()>,
}

/// What there was to restore.
///
/// ```
/// use tidegate::{Restored, SnapshotError};
///
/// let bad = Restored::SetAside { to: "counters.bad".into(), why: SnapshotError::Truncated };
/// assert!(matches!(bad, Restored::SetAside { why: SnapshotError::Truncated, .. }));
/// ```
#[derive(Debug)]
pub enum Restored {
    /// There was no file.
    Nothing,
    /// All of it.
    Whole,
    /// The file is no snapshot that can be read. The store starts empty, and the file has another name now.
    SetAside {
        /// Where it is.
        to: PathBuf,
        /// What is wrong with it.
        why: SnapshotError,
    },
}

impl SnapshotFile {
    /// Makes sure that snapshots can be written there, and that no other process does. An error names the file.
    ///
    /// ```
    /// # use tidegate::SnapshotFile;
    /// let error = SnapshotFile::open("/no/such/folder/counters").unwrap_err().to_string();
    /// assert!(error.starts_with("cannot write /no/such/folder/counters.lock: "), "{error}");
    /// ```
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let not_a_file = fs::metadata(&path).is_ok_and(|it| !it.is_file());
        if path.file_name().is_none() || not_a_file {
            let why = format!("{} is not a file: name one that can be written", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let beside = with_ending(&path, ".lock");
        let lock = private().create(true).truncate(false).open(&beside);
        let lock = lock.map_err(|error| failed("write", &beside, &error))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let why = format!(
                    "{} is in use by another process: each needs a snapshot of its own",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
            }
            // A file system without locks: then nobody can tell.
            Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Unsupported => {
                return Err(failed("lock", &beside, &error));
            }
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        Ok(Self { path, _lock: lock, saving: Mutex::default() })
    }

    /// The store of the last snapshot, less what has become idle by `now`; an empty one if there is none. A file that is
    /// damaged or not a snapshot is renamed to `FILE.bad`. An error means that the file could not be read or renamed.
    pub fn restore(&self, max_bytes: usize, now: Timestamp) -> io::Result<(MemoryStore, Restored)> {
        let empty = || MemoryStore::with_max_bytes(max_bytes);
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((empty(), Restored::Nothing));
            }
            Err(error) => return Err(failed("read", &self.path, &error)),
        };
        match MemoryStore::restore(&mut BufReader::new(file), max_bytes, now) {
            Ok(store) => Ok((store, Restored::Whole)),
            // The disk failed, not what is written on it.
            Err(SnapshotError::Io(error)) => Err(failed("read", &self.path, &error)),
            Err(why) => {
                let to = self.set_aside(now)?;
                Ok((empty(), Restored::SetAside { to, why }))
            }
        }
    }

    /// Writes a new snapshot in place of the last one, and returns its length in bytes. Waits for the disk. If it fails,
    /// the last one is as it was.
    ///
    /// ```
    /// # use tidegate::{MemoryStore, SnapshotFile, Timestamp};
    /// # let folder = std::env::temp_dir().join(format!("tidegate-snapshot-save-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let file = SnapshotFile::open(folder.join("counters"))?;
    /// let bytes = file.save(&MemoryStore::default(), Timestamp::EPOCH)?;
    /// assert_eq!(std::fs::metadata(folder.join("counters"))?.len(), bytes);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn save(&self, store: &MemoryStore, now: Timestamp) -> io::Result<u64> {
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let beside = with_ending(&self.path, ".tmp");
        let written = write(&beside, store, now).map_err(|error| failed("write", &beside, &error));
        let renamed = written.and_then(|bytes| {
            fs::rename(&beside, &self.path).map_err(|error| failed("write", &self.path, &error))?;
            sync_folder(&self.path).map_err(|error| failed("sync", &self.path, &error))?;
            Ok(bytes)
        });
        if renamed.is_err() {
            let _ = fs::remove_file(&beside); // a full disk has a little more room then
        }
        renamed
    }

    /// Renames the file, and returns its new name, which no other file had.
    fn set_aside(&self, now: Timestamp) -> io::Result<PathBuf> {
        let mut to = with_ending(&self.path, ".bad");
        if to.exists() {
            to = with_ending(&self.path, &format!(".{}.bad", now.as_micros()));
        }
        fs::rename(&self.path, &to).map_err(|error| failed("rename", &self.path, &error))?;
        Ok(to)
    }

    /// The file's name.
    ///
    /// ```
    /// # use tidegate::SnapshotFile;
    /// # let path = std::env::temp_dir().join(format!("tidegate-snapshot-path-{}", std::process::id()));
    /// assert_eq!(SnapshotFile::open(&path)?.path(), path);
    /// # std::fs::remove_file(path.with_extension("lock"))?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn write(path: &Path, store: &MemoryStore, now: Timestamp) -> io::Result<u64> {
    // One that a crash left, or that somebody put there to be written to.
    let _ = fs::remove_file(path);
    let file = private().create_new(true).open(path)?;
    let mut out = BufWriter::with_capacity(64 << 10, &file);
    store.snapshot(&mut out, now)?;
    out.flush()?;
    drop(out);
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// A file for nobody else: a snapshot holds the seed of the key hash.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes the rename durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(()); // a folder cannot be opened there
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

fn failed(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} {}: {error}", path.display()))
}
