//! Files that a configuration names.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Opens a file to read it, if it is a regular one: a pipe or a device could keep its reader waiting for ever, and with it
/// a start or a reload.
///
/// ```
/// use std::io::ErrorKind;
/// use std::path::Path;
/// use tidegate::store_kit::open_file;
///
/// let error = open_file(Path::new("/dev/null")).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// assert!(open_file(&std::env::current_exe()?).is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_file(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        let why = "expected a regular file, no pipe, device or folder";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    File::open(path)
}
