//! The file of a snapshot: always a whole one, never two writers, and nothing lost that cannot be read.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::{Clock, Limiter, MemoryStore, Restored, SnapshotError, SnapshotFile, SystemClock};

/// A folder of its own, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("tidegate-snapshot-{name}-{}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).unwrap();
        folder
    }

    fn file(&self) -> PathBuf {
        self.0.join("counters")
    }

    fn names(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = fs::read_dir(&self.0).unwrap().map(name);
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn spend(store: MemoryStore) -> Limiter {
    let limiter = Limiter::builder("sliding-log 5/h").store(store).build().unwrap();
    let _ = limiter.check_n("ann", 5);
    limiter
}

fn restore(file: &SnapshotFile) -> (MemoryStore, Restored) {
    file.restore(1 << 20, SystemClock.now()).unwrap()
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_was_saved_is_restored_and_nobody_else_can_read_it() {
    let folder = Folder::new("saved");
    let file = SnapshotFile::open(folder.file()).unwrap();
    let limiter = spend(restore(&file).0);
    fs::write(folder.0.join("counters.tmp"), "left by a crash, readable by all").unwrap();
    for _ in 0..3 {
        file.save(limiter.store(), SystemClock.now()).unwrap();
    }
    assert_eq!(folder.names(), ["counters", "counters.lock"]);
    #[cfg(unix)]
    assert_eq!([mode(&folder.file()), mode(&folder.0.join("counters.lock"))], [0o600; 2]);
    let (store, restored) = restore(&file);
    assert!(matches!(restored, Restored::Whole), "{restored:?}");
    assert!(!spend(store).check("ann").allowed());
}

#[test]
fn a_file_that_cannot_be_used_is_kept_under_another_name() {
    let folder = Folder::new("aside");
    let file = SnapshotFile::open(folder.file()).unwrap();
    file.save(spend(MemoryStore::default()).store(), SystemClock.now()).unwrap();
    let whole = fs::read(folder.file()).unwrap();
    let mut flipped = whole.clone();
    flipped[30] ^= 1;
    let newer = [&b"tidegate memory3"[..], &whole[16..]].concat();
    let mut kept = Vec::new();
    for (bytes, expected) in [
        (&whole[..whole.len() / 2], "Truncated"),
        (&flipped, "Corrupt"),
        (&newer, "OtherFormat"),
        (b"policies: { api: 5/h }", "NotASnapshot"),
        (b"", "NotASnapshot"),
    ] {
        fs::write(folder.file(), bytes).unwrap();
        let (store, restored) = restore(&file);
        let Restored::SetAside { to, why } = restored else { panic!("{restored:?}") };
        assert_eq!(format!("{why:?}"), expected);
        assert_eq!(store.stats().keys, 0);
        kept.push((to, bytes.to_vec()));
        assert!(matches!(restore(&file).1, Restored::Nothing), "it is out of the way");
    }
    assert_eq!(kept[0].0, folder.0.join("counters.bad"));
    for (path, bytes) in kept {
        assert_eq!(fs::read(&path).unwrap(), bytes, "{}", path.display());
    }
}

#[test]
fn a_save_that_fails_leaves_the_last_snapshot_as_it_was() {
    let folder = Folder::new("fails");
    let file = SnapshotFile::open(folder.file()).unwrap();
    file.save(spend(MemoryStore::default()).store(), SystemClock.now()).unwrap();
    let before = fs::read(folder.file()).unwrap();
    fs::create_dir(folder.0.join("counters.tmp")).unwrap();
    let error = file.save(&MemoryStore::default(), SystemClock.now()).unwrap_err().to_string();
    assert!(error.starts_with("cannot write ") && error.contains("counters.tmp: "), "{error}");
    assert_eq!(fs::read(folder.file()).unwrap(), before);
}

#[test]
fn a_file_has_one_user_at_a_time() {
    let folder = Folder::new("user");
    let first = SnapshotFile::open(folder.file()).unwrap();
    let error = SnapshotFile::open(folder.file()).unwrap_err().to_string();
    assert!(error.contains("is in use by another process"), "{error}");
    drop(first);
    assert!(SnapshotFile::open(folder.file()).is_ok());
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = Folder::new("place");
    fs::write(folder.0.join("plain"), "").unwrap();
    let inside = |name: &str| folder.0.join(name);
    for (path, expected) in [
        (inside("missing/counters"), "missing/counters.lock: No such file or directory"),
        (inside("plain/counters"), "plain/counters.lock: Not a directory"),
        (PathBuf::from("/proc/counters"), "cannot write /proc/counters.lock: "),
        (folder.0.clone(), "is not a file: name one that can be written"),
        (PathBuf::from("/dev/null"), "/dev/null is not a file"),
    ] {
        let error = SnapshotFile::open(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{}: {error}", path.display());
    }
}

#[test]
fn what_is_wrong_is_said_in_words() {
    for (error, expected) in [
        (SnapshotError::OtherFormat, "newer"),
        (SnapshotError::TooLarge, "larger than max_bytes"),
        (SnapshotError::Truncated, "ends early"),
    ] {
        assert!(error.to_string().contains(expected), "{error}");
    }
}
