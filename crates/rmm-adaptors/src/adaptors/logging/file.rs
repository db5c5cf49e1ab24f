//! A log file, whose errors name it.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

pub(super) struct LogFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl LogFile {
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        let file = File::create(&path).map_err(|error| named(&path, &error))?;
        Ok(Self { path, file: BufWriter::new(file) })
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| named(&self.path, &error))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes).map_err(|error| named(&self.path, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| named(&self.path, &error))
    }
}

/// Adds the name of the file to an error, and keeps its kind.
pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("log file {}: {error}", path.display()))
}
