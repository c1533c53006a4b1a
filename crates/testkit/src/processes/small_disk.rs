//! A disk that can be filled: a small file system in memory. Mounting one takes root, as which CI runs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::scratch::PrivateDir;

/// Written to fill the disk.
const CHUNK: usize = 4096;

/// A file system of a few megabytes. Dropping it unmounts it.
#[derive(Debug)]
pub struct SmallDisk {
    dir: PrivateDir,
}

impl SmallDisk {
    pub fn mount(megabytes: u32) -> Self {
        let dir = PrivateDir::new();
        let size = format!("size={megabytes}m,mode=0777");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tidegate-test"]).arg(dir.path());
        let mounted = mount.output().unwrap();
        let why = String::from_utf8_lossy(&mounted.stderr);
        assert!(mounted.status.success(), "a small disk takes root: {why}");
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Takes all room that is left.
    pub fn fill(&self) {
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(self.filler()).unwrap();
        while file.write(&[0; CHUNK]).is_ok_and(|count| count > 0) {}
    }

    /// Gives it back.
    pub fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.dir.file("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Detached at once, and gone when its last file is closed.
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}
