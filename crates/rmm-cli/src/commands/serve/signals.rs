//! The signals that end a server, as a file that can be waited for.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// A file that can be read once this process was sent SIGTERM or SIGINT, which do nothing else from
/// now on to threads that this one starts.
pub(super) fn ends() -> io::Result<OwnedFd> {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set may be written to.
    if unsafe { libc::sigemptyset(signals.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the set was initialized above, and both are signals.
        if unsafe { libc::sigaddset(signals.as_mut_ptr(), signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: the set may be read, and the former one is not asked for.
    let code =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), std::ptr::null_mut()) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    // SAFETY: -1 asks for a new file; the set may be read.
    let file = unsafe { libc::signalfd(-1, signals.as_ptr(), libc::SFD_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has opened the file for this call.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}
