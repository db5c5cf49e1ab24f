//! Files that the children of a fork do not have. A socket that a child keeps open seems to be
//! served when the process that made it has ended, and a lock of a file to be held.

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

struct Files {
    /// # Invariant
    /// Descriptors that this process has open.
    open: Vec<RawFd>,
    /// What these numbers are of in a child, whose copies of the files' objects close them: a
    /// socket that is connected to nothing.
    instead: Option<OwnedFd>,
}

/// Held while a file is opened or closed, and by a thread that forks: a leaf.
static FILES: Mutex<Files> = Mutex::new(Files { open: Vec::new(), instead: None });

thread_local! {
    /// The lock, from before a fork until after it. The same thread goes on in the child.
    static HELD: Cell<Option<ManuallyDrop<MutexGuard<'static, Files>>>> = const { Cell::new(None) };
}

fn lock() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is closed in the children of a fork. What is forked by other means than the C
/// library's `fork` keeps it until it ends, or calls `exec`.
pub(crate) struct Unforked<T: AsFd>(ManuallyDrop<T>);

impl<T: AsFd> Unforked<T> {
    /// What `open` opens; it does not wait.
    ///
    /// # Errors
    /// Those of `open`; or if the system has no file descriptor or memory left.
    pub(crate) fn open(open: impl FnOnce() -> io::Result<T>) -> io::Result<Self> {
        let mut files = lock();
        watch_forks()?;
        if files.instead.is_none() {
            files.instead = Some(UnixStream::pair()?.0.into());
        }
        let file = open()?;
        files.open.push(file.as_fd().as_raw_fd());
        Ok(Self(ManuallyDrop::new(file)))
    }
}

impl<T: AsFd + From<OwnedFd>> Unforked<T> {
    /// A new socket for a name in the file system, of which no call waits.
    ///
    /// # Errors
    /// If the system has no file descriptor or memory left.
    pub(crate) fn socket() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Self::open(|| {
            let socket =
                rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            Ok(T::from(socket))
        })
    }
}

impl<T: AsFd> Deref for Unforked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: AsFd> AsFd for Unforked<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl<T: AsFd> Drop for Unforked<T> {
    fn drop(&mut self) {
        let mut files = lock();
        let number = self.as_fd().as_raw_fd();
        // In a child it is not among them any more.
        if let Some(place) = files.open.iter().position(|&open| open == number) {
            files.open.swap_remove(place);
        }
        // SAFETY: dropped once, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

/// # Errors
/// If the system has no memory left.
fn watch_forks() -> io::Result<()> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    // SAFETY: the handlers do between `fork` and `exec` what is allowed there, and do not unwind.
    let register =
        || unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    match REGISTERED.get_or_init(register) {
        0 => Ok(()),
        &error => Err(io::Error::from_raw_os_error(error)),
    }
}

extern "C" fn before_fork() {
    let files = ManuallyDrop::new(lock());
    let _ignored = HELD.try_with(|held| held.set(Some(files)));
}

extern "C" fn in_parent() {
    drop(take());
}

extern "C" fn in_child() {
    let Some(mut files) = take() else { return };
    let instead = files.instead.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    for &file in &files.open {
        // SAFETY: it closes the child's copy of a file of this module, whose number stays open.
        unsafe { libc::dup3(instead, file, libc::O_CLOEXEC) };
    }
    files.open.clear();
}

fn take() -> Option<MutexGuard<'static, Files>> {
    HELD.try_with(Cell::take).ok().flatten().map(ManuallyDrop::into_inner)
}
