//! The memory of devices that several processes share.
//!
//! The ledger is a file and a folder beside it, with a file for each process and one for each
//! exported piece of memory. The file is locked while anything is counted. Whatever a process holds
//! here goes back when it ends, however it ends, since the system ends its locks:
//!
//! ```text
//! NAME                     locked while a process counts
//! NAME.d/p-PID-N           bytes of a process's own by device; locked while the process lives
//! NAME.d/m-DEVICE-BYTES-N  exported memory; a shared lock for each descriptor and mapping
//! ```
//!
//! A process's locks (`F_SETLK`) are not inherited by a child that it forks. Locks of exported
//! memory (`flock`) belong to the open file, which a descriptor keeps on its way to another process
//! and a mapping keeps once the descriptor is closed.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A machine's part in a ledger.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: PathBuf,
    folder: PathBuf,
    /// The machine's number, since a process may have several.
    machine: u32,
}

/// The files of ledgers that this process has open. They are never opened twice: when a process
/// closes a file, all its locks on it end.
#[derive(Default)]
struct OpenFiles {
    /// The ledgers themselves, by path.
    ledgers: BTreeMap<PathBuf, File>,
    /// The files of this process's machines, by path, and the process that made them.
    own: BTreeMap<PathBuf, (u32, File)>,
    last_name: u64,
}

static OPEN: Mutex<OpenFiles> =
    Mutex::new(OpenFiles { ledgers: BTreeMap::new(), own: BTreeMap::new(), last_name: 0 });

/// The ledger while it is locked.
struct Locked<'a> {
    ledger: &'a Ledger,
    open: MutexGuard<'static, OpenFiles>,
}

impl Ledger {
    /// Opens a ledger, or makes it.
    pub(crate) fn open(file: &Path, machine: u32) -> io::Result<Self> {
        let file = std::path::absolute(file)?;
        let mut folder = file.clone().into_os_string();
        folder.push(".d");
        let ledger = Self { file, folder: folder.into(), machine };
        fs::create_dir_all(&ledger.folder)?;
        ledger.lock().map(drop)?;
        Ok(ledger)
    }

    fn lock(&self) -> io::Result<Locked<'_>> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.ledgers.contains_key(&self.file) {
            let file = writable().create(true).open(&self.file)?;
            open.ledgers.insert(self.file.clone(), file);
        }
        set_lock(&open.ledgers[&self.file], libc::F_WRLCK, libc::F_SETLKW)?;
        Ok(Locked { ledger: self, open })
    }

    /// Counts memory as this process's; `false` if there is not as much.
    pub(crate) fn take(&self, device: usize, bytes: usize, total: usize) -> bool {
        let taken = || -> io::Result<bool> {
            let mut locked = self.lock()?;
            let fits = |used: usize| used.checked_add(bytes).is_some_and(|sum| sum <= total);
            // Memory of which there is no descriptor left is only looked for if it matters.
            if !fits(locked.used(device, false)?) && !fits(locked.used(device, true)?) {
                return Ok(false);
            }
            locked.count(device, |own| own + bytes as u64)?;
            Ok(true)
        };
        taken().unwrap_or(false)
    }

    /// Ends the count of memory as this process's.
    pub(crate) fn give(&self, device: usize, bytes: usize) {
        let given =
            |mut locked: Locked<'_>| locked.count(device, |own| own.saturating_sub(bytes as u64));
        // What cannot be written is counted until the process ends.
        let _ignored = self.lock().and_then(given);
    }

    /// The bytes of a device that are in use by any process.
    pub(crate) fn used(&self, device: usize) -> Option<usize> {
        self.lock().and_then(|mut locked| locked.used(device, true)).ok()
    }

    /// Makes a file for memory that is counted as this process's, `write`s it, and counts it by the
    /// file from then on.
    pub(crate) fn share(
        &self,
        device: usize,
        bytes: usize,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<(File, PathBuf)> {
        let mut locked = self.lock()?;
        let (path, file) = locked.create(&format!("m-{device}-{bytes}"))?;
        let shared = lock_open_file(&file, libc::LOCK_SH).and_then(|()| write(&file));
        if let Err(error) = shared {
            let _ignored = fs::remove_file(&path);
            return Err(error);
        }
        locked.count(device, |own| own.saturating_sub(bytes as u64))?;
        Ok((file, path))
    }

    /// Opens a file of shared memory again.
    pub(crate) fn reopen(&self, path: &Path) -> io::Result<File> {
        let _locked = self.lock()?;
        let file = writable().open(path)?;
        lock_open_file(&file, libc::LOCK_SH)?;
        Ok(file)
    }

    /// The path of a file of shared memory, if it is one of this ledger's.
    pub(crate) fn path_of(&self, file: &File) -> Option<PathBuf> {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        path.starts_with(&self.folder).then_some(path)
    }

    /// Removes the file of shared memory if it has no descriptor and no mapping left.
    pub(crate) fn end(&self, path: &Path) {
        // It is looked for again when memory runs out.
        let _ignored = self.lock().and_then(|_locked| end_if_unused(path));
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let Ok(mut locked) = self.lock() else { return };
        let path = locked.own_path();
        if locked.open.own.remove(&path).is_some() {
            let _ignored = fs::remove_file(path);
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.open.ledgers.get(&self.ledger.file) {
            // A lock that the system does not end now ends with the process.
            let _ignored = set_lock(file, libc::F_UNLCK, libc::F_SETLK);
        }
    }
}

impl Locked<'_> {
    fn own_path(&self) -> PathBuf {
        self.ledger.folder.join(format!("p-{}-{}", std::process::id(), self.ledger.machine))
    }

    /// Makes a file whose name begins so.
    fn create(&mut self, name: &str) -> io::Result<(PathBuf, File)> {
        loop {
            self.open.last_name += 1;
            let number = self.open.last_name;
            let path = self.ledger.folder.join(format!("{name}-{}.{number}", std::process::id()));
            match writable().create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => return Ok((path, opened?)),
            }
        }
    }

    /// Changes the bytes of a device that are this process's.
    fn count(&mut self, device: usize, change: impl FnOnce(u64) -> u64) -> io::Result<()> {
        let path = self.own_path();
        let process = std::process::id();
        if self.open.own.get(&path).is_none_or(|&(made_by, _)| made_by != process) {
            let file = writable().create(true).truncate(true).open(&path)?;
            set_lock(&file, libc::F_WRLCK, libc::F_SETLK)?;
            self.open.own.insert(path.clone(), (process, file));
        }
        let (_, file) = &self.open.own[&path];
        file.write_all_at(&change(count_in(file, device)).to_ne_bytes(), 8 * device as u64)
    }

    /// The bytes of a device that are in use. Removes what was left by processes that have ended
    /// and, if asked for, memory that no process can name any more.
    fn used(&mut self, device: usize, exactly: bool) -> io::Result<usize> {
        let mut used = 0;
        for entry in fs::read_dir(&self.ledger.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let path = entry.path();
            let mut parts = name.split('-');
            match (parts.next(), parts.next(), parts.next()) {
                (Some("p"), ..) => used += self.count_of(&path, device)?,
                (Some("m"), Some(of), Some(bytes))
                    if of.parse() == Ok(device) && !(exactly && end_if_unused(&path)?) =>
                {
                    used += bytes.parse::<usize>().unwrap_or(0);
                }
                _ => {}
            }
        }
        Ok(used)
    }

    /// What a process's file says; nothing if the process has ended.
    fn count_of(&self, path: &Path, device: usize) -> io::Result<usize> {
        let bytes = |file: &File| usize::try_from(count_in(file, device)).unwrap_or(usize::MAX);
        let own = self.open.own.get(path);
        if let Some((_, file)) = own.filter(|&&(made_by, _)| made_by == std::process::id()) {
            return Ok(bytes(file));
        }
        let file = writable().open(path)?;
        if set_lock(&file, libc::F_WRLCK, libc::F_SETLK).is_err() {
            return Ok(bytes(&file));
        }
        fs::remove_file(path).map(|()| 0)
    }
}

fn writable() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).truncate(false);
    options
}

fn count_in(file: &File, device: usize) -> u64 {
    let mut bytes = [0; 8];
    // A place that was never written counts nothing.
    let read = file.read_exact_at(&mut bytes, 8 * device as u64);
    read.map_or(0, |()| u64::from_ne_bytes(bytes))
}

/// Removes the file of shared memory unless it has a descriptor or a mapping; returns whether it
/// is gone.
fn end_if_unused(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        opened => opened?,
    };
    match lock_open_file(&file, libc::LOCK_EX) {
        Ok(()) => fs::remove_file(path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks an open file until its last descriptor and mapping are gone, without a wait.
fn lock_open_file(file: &File, kind: c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    let status = unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets or ends the process's lock on a whole file.
fn set_lock(file: &File, kind: c_int, command: c_int) -> io::Result<()> {
    loop {
        let lock = libc::flock {
            l_type: kind.try_into().map_err(io::Error::other)?,
            l_whence: 0, // SEEK_SET
            l_start: 0,
            l_len: 0,
            l_pid: 0,
            #[cfg(target_os = "freebsd")]
            l_sysid: 0,
        };
        // SAFETY: the descriptor is open, and the call reads a live `flock`.
        let status = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) };
        if status == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
