//! Shell scripts that replace programs in tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Starting a process copies the descriptors of this one, and a script that any process holds open
/// for writing cannot be run: so one test at a time writes and runs scripts.
static TURN: Mutex<()> = Mutex::new(());

/// A folder for scripts, while no other test has one.
pub(crate) struct Scripts {
    dir: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self { dir: tempfile::tempdir().unwrap(), _turn: turn }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a script; its name and where it is.
    pub(crate) fn write(&self, name: &str, body: &str) -> (String, PathBuf) {
        let path = self.folder().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (name.to_owned(), path)
    }
}
