//! The socket of an owner: one owner for each name, and only its user connects.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rmm_core::{fork, peer};
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::address;
use crate::unforked::Unforked;

pub(super) struct Socket {
    listener: Unforked<UnixListener>,
    path: PathBuf,
    /// What identifies the socket's file.
    file: FileId,
    /// Locked for as long as the owner lives.
    _lock: Unforked<File>,
}

/// The device and the number of a file.
#[derive(PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        fs::symlink_metadata(path).map(|found| Self(found.dev(), found.ino()))
    }
}

impl Socket {
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        let address = address::of(path)?;
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = Unforked::open(|| options.open(name))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error != Errno::WOULDBLOCK {
                return error.into();
            }
            let text = format!("another owner serves {}", path.display());
            io::Error::new(io::ErrorKind::AddrInUse, text)
        })?;
        remove_left_behind(path)?;
        let listener = Unforked::<UnixListener>::socket()?;
        // Linux makes the name with the mode of the socket, so no other user can connect between.
        fchmod(&listener, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&listener, &address)?;
        rustix::net::listen(&listener, 128)?;
        let (path, file) = (std::path::absolute(path)?, FileId::of(path)?);
        Ok(Self { listener, path, file, _lock: lock })
    }

    /// A connection of this process's user, and the number of the process that made it, if it has
    /// one in this namespace.
    pub(super) fn accept(&self) -> io::Result<Option<(Unforked<UnixStream>, Option<u32>)>> {
        let accept = || self.listener.accept().map(|(stream, _)| stream);
        let stream = match Unforked::open(accept) {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(peer) = peer::of(&stream) else { return Ok(None) };
        Ok((peer.user == geteuid().as_raw()).then_some((stream, peer.process)))
    }
}

/// Removes the socket of an owner that was killed, if there is one.
///
/// # Errors
/// If the name is that of something else, or of a socket that someone serves.
fn remove_left_behind(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        let text = format!("{} is there, and is no socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    let socket = Unforked::<UnixStream>::socket()?;
    match rustix::net::connect(&socket, &address::of(path)?) {
        Err(Errno::CONNREFUSED) => {}
        // As many as may wait for it already do.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => {
            let text = format!("another program serves {}", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        Err(error) => return Err(error.into()),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // In a child that was forked the socket is the parent's; one that was made after the name
        // was removed is another owner's.
        let is_own = || FileId::of(&self.path).is_ok_and(|found| found == self.file);
        if fork::check().is_ok() && is_own() {
            let _ignored = fs::remove_file(&self.path);
        }
    }
}
