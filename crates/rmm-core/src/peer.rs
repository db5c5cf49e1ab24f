//! The process at the other end of a Unix socket.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

/// A process that made or accepted a connection, as the system says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its effective user, as a number of this process's user namespace.
    pub user: u32,
    /// Its number. None for a process of another PID namespace, such as that of another container,
    /// which has no number here.
    pub process: Option<u32>,
}

/// A file that can be read once the process at the other end of a connected Unix socket has ended:
/// also where others that it forked have the connection, and where it has no number in this PID
/// namespace.
///
/// # Errors
/// Before Linux 6.5, and where the process had ended already (`ESRCH`).
pub fn end_of(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut end: c_int = -1;
    let mut length = libc::socklen_t::try_from(size_of_val(&end)).unwrap_or(0);
    let file = socket.as_fd().as_raw_fd();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERPIDFD);
    let place = (&raw mut end).cast();
    // SAFETY: the file is open during the call; `length` bytes may be written to at the place.
    if unsafe { libc::getsockopt(file, level, name, place, &raw mut length) } != 0 {
        return Err(error_of_end(io::Error::last_os_error()));
    }
    // SAFETY: the system opened it for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(end) })
}

/// Linux 6.5 to 6.15 say of a process that is gone that the argument is invalid.
fn error_of_end(error: io::Error) -> io::Error {
    let is_gone = error.raw_os_error() == Some(libc::EINVAL);
    if is_gone { io::Error::from_raw_os_error(libc::ESRCH) } else { error }
}

/// The process at the other end of a connected Unix socket: that which connected or listened.
///
/// # Errors
/// If it is no socket, or the system refuses.
pub fn of(socket: impl AsFd) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of_val(&credentials)).unwrap_or(0);
    let file = socket.as_fd().as_raw_fd();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let place = (&raw mut credentials).cast();
    // SAFETY: the file is open during the call; `length` bytes may be written to at the place, and
    // integers may have any bits.
    if unsafe { libc::getsockopt(file, level, name, place, &raw mut length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let process = u32::try_from(credentials.pid).ok().filter(|&process| process != 0);
    Ok(Peer { user: credentials.uid, process })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_gone_is_told_from_an_older_system() {
        let seen = |code| error_of_end(io::Error::from_raw_os_error(code)).raw_os_error();
        assert_eq!(seen(libc::EINVAL), Some(libc::ESRCH));
        assert_eq!(seen(libc::ESRCH), Some(libc::ESRCH));
        assert_eq!(seen(libc::ENOPROTOOPT), Some(libc::ENOPROTOOPT));
    }
}
