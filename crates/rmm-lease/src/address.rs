//! The names of sockets, which are shorter than those of other files.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

/// How many bytes the system takes of a socket's name.
const MOST: usize = 107;

/// A name as the system takes it.
///
/// # Errors
/// If it is too long, which the error says.
pub(crate) fn of(path: &Path) -> io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|error| match error {
        Errno::NAMETOOLONG => {
            let bytes = path.as_os_str().len();
            let text = format!(
                "its name has {bytes} bytes, and that of a socket has at most {MOST}: a relative \
                 one is shorter"
            );
            io::Error::new(io::ErrorKind::InvalidFilename, text)
        }
        error => error.into(),
    })
}

/// A name to connect to; one that is too long by its folder, which is open for as long.
pub(crate) fn reachable(path: &Path) -> io::Result<(SocketAddrUnix, Option<OwnedFd>)> {
    let (folder, name) = match (of(path), path.parent(), path.file_name()) {
        (Err(error), Some(folder), Some(name))
            if error.kind() == io::ErrorKind::InvalidFilename =>
        {
            (folder, name)
        }
        (address, ..) => return Ok((address?, None)),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    let opened = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    Ok((of(&opened.join(name))?, Some(folder)))
}
