//! Atomic file output: a file is written completely or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that could not be written. `Display` names it.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", .path.display())]
pub struct OutputError {
    /// The file, as the caller named it.
    pub path: PathBuf,
    /// What went wrong.
    #[source]
    pub error: io::Error,
}

/// Replaces the file at `path` by one with these `contents`, or creates it.
///
/// The contents are written to a temporary file in the same folder, synchronized to the disk, and
/// renamed to `path`. So a reader sees the old file or the new one, never a part, also after a
/// crash or if the disk is full. A symbolic link stays a link; the file it points to is replaced. A
/// pipe or a terminal such as `/dev/stdout` is written to directly.
///
/// # Errors
/// If the folder does not exist or cannot be written to, or if the disk is full. An older file is
/// then unchanged.
pub fn write_atomically(path: &Path, contents: &[u8]) -> Result<(), OutputError> {
    write(path, contents).map_err(|error| OutputError { path: path.to_owned(), error })
}

/// Checks that a file can be written at `path`, as far as possible without writing it. Leaves
/// nothing behind.
///
/// # Errors
/// The errors of [`write_atomically`], but for a disk that is full.
pub fn check(path: &Path) -> Result<(), OutputError> {
    let checked = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            fs::canonicalize(path).and_then(|path| temporary(&path).map(drop))
        }
        Ok(metadata) if metadata.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        // A pipe may have no reader yet.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => temporary(path).map(drop),
        Err(error) => Err(error),
    };
    checked.map_err(|error| OutputError { path: path.to_owned(), error })
}

fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => replace(&fs::canonicalize(path)?, contents),
        Ok(metadata) if metadata.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(_) => OpenOptions::new().write(true).open(path)?.write_all(contents),
        Err(error) if error.kind() == io::ErrorKind::NotFound => replace(path, contents),
        Err(error) => Err(error),
    }
}

fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = temporary(path)?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A temporary file in the folder of `path`. Dropping it deletes it, unless it was renamed to
/// `path`.
fn temporary(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    // The parent of a bare name is the empty path, which no system call understands.
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The usual mistake is a folder that does not exist: return the system's error for it.
    fs::metadata(folder)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".rmm-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // What `File::create` asks for; the process's mask still applies. The default is private to
        // the user.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder).map_err(|error| without_temporary_name(&error))
}

/// `tempfile` adds the random name of its file to the error; the caller names the file that was
/// asked for.
fn without_temporary_name(error: &io::Error) -> io::Error {
    let inner = error
        .get_ref()
        .and_then(|wrapper| wrapper.source()?.downcast_ref::<io::Error>())
        .unwrap_or(error);
    match inner.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::from(error.kind()),
    }
}
