//! A wall clock that can be shifted while the server runs.
//!
//! `libfaketime` does not work here: Debian's Redis has jemalloc as a shared library, which reads the time before
//! `libfaketime` is initialised, and the server never starts. `clock.c` works without initialisation.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::scratch::PrivateDir;

/// The library to preload, and the file that it maps.
#[derive(Debug)]
pub(super) struct ShiftableClock {
    library: PathBuf,
    shift: PathBuf,
}

impl ShiftableClock {
    /// Compiles the library with the C compiler that Rust links with.
    pub(super) fn build(dir: &PrivateDir) -> Self {
        let clock = Self { library: dir.file("clock.so"), shift: dir.file("clock.shift") };
        fs::write(&clock.shift, 0_i64.to_ne_bytes()).unwrap();
        let mut compiler = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-x", "c", "-", "-o"])
            .arg(&clock.library)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start the C compiler, cc: {error}"));
        compiler.stdin.take().unwrap().write_all(include_bytes!("clock.c")).unwrap();
        assert!(compiler.wait().unwrap().success(), "clock.c does not compile");
        clock
    }

    pub(super) fn preload(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("CLOCK_SHIFT_FILE", &self.shift);
    }

    /// Writes all eight bytes in place with one call, so that the server reads either the old shift or the new one.
    pub(super) fn shift_us(&self, us: i64) {
        let mut file = OpenOptions::new().write(true).open(&self.shift).unwrap();
        file.write_all(&us.to_ne_bytes()).unwrap();
    }
}
