//! The files of rules in a folder.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Error;

/// More than any hand-written file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// A bound for folders that contain themselves through a link.
const DEPTH_MAX: usize = 16;

/// The configuration files below a folder, in the order of their paths; or the one that was named.
///
/// Names that begin with a dot are skipped: Kubernetes keeps the files of a `ConfigMap` in a folder behind `..data`, with
/// a link for each.
pub fn below(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    collect(path, 0, &mut files)?;
    if files.is_empty() {
        return Err(Error::in_file(path, "no *.yaml or *.yml file in this folder or below it"));
    }
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    if depth == DEPTH_MAX {
        return Err(Error::in_file(folder, format!("more than {DEPTH_MAX} folders deep")));
    }
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let is_yaml = path.extension().is_some_and(|it| it == "yaml" || it == "yml");
        // Follows links: the files of a ConfigMap are links.
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => collect(&path, depth + 1, files)?,
            Ok(_) if is_yaml => files.push(path),
            Ok(_) => {}
            // A dangling link to some other file.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_yaml => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(())
}

/// The text of a file, within bounds.
pub(super) fn read(path: &Path) -> Result<String, Error> {
    let file = fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut text = String::new();
    // One byte more than allowed, to detect a file that is too long.
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    let bytes = read.map_err(|error| unreadable(path, &error))?;
    if bytes as u64 > FILE_BYTES_MAX {
        return Err(Error::in_file(path, format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::in_file(path, format!("cannot be read: {error}"))
}
