//! Other processes of the test: programs that run the same test again, and descriptors that are
//! sent between them.

use std::ffi::c_int;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Duration;

/// A process that runs a test in a role, and the socket to it.
pub(crate) struct Peer {
    child: Child,
    socket: UnixStream,
}

/// The role of this process, if it was started by [`Peer::start`].
pub(crate) fn role() -> Option<String> {
    std::env::var("RMM_SIM_ROLE").ok()
}

impl Peer {
    /// Starts a process that runs the test of this name in a role.
    pub(crate) fn start(test: &str, role: &str, environment: &[(&str, &str)]) -> Self {
        let (socket, theirs) = UnixStream::pair().expect("the system has sockets");
        let program = std::env::current_exe().expect("the system provides it");
        let child = Command::new(program)
            .args([test, "--exact", "--nocapture"])
            .env("RMM_SIM_ROLE", role)
            .envs(environment.iter().copied())
            .stdin(OwnedFd::from(theirs))
            .spawn();
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        Self { child: child.expect("the test's own program starts"), socket }
    }

    /// Sends a number, and a descriptor.
    pub(crate) fn send_to(&mut self, number: u64, file: Option<&OwnedFd>) {
        send(&self.socket, number, file);
    }

    /// Waits for a number, and a descriptor.
    pub(crate) fn hear(&mut self) -> (u64, Option<OwnedFd>) {
        receive(&self.socket)
    }

    /// Ends the process by signal 9.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was started here");
    }

    /// Waits for the process, which ends well.
    pub(crate) fn end(mut self) {
        assert!(self.child.wait().expect("it was started here").success());
    }
}

/// The socket to the process that started this one.
pub(crate) fn parent() -> UnixStream {
    // SAFETY: the standard input is the socket that `Peer::start` passed, and nothing else reads
    // it.
    unsafe { UnixStream::from_raw_fd(0) }
}

/// Room for a control message with one descriptor, aligned as its header is.
type Control = [u64; 4];

pub(crate) fn send(mut socket: &UnixStream, number: u64, file: Option<&OwnedFd>) {
    let Some(file) = file else {
        socket.write_all(&number.to_ne_bytes()).expect("the peer lives");
        return;
    };
    let mut bytes = number.to_ne_bytes();
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control: Control = [0; 4];
    // SAFETY: zeros are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: it only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
    // SAFETY: the message has room for a header.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: as above; nothing else refers to it.
    let header = unsafe { &mut *header };
    header.cmsg_level = libc::SOL_SOCKET;
    header.cmsg_type = libc::SCM_RIGHTS;
    // SAFETY: it only computes.
    header.cmsg_len = unsafe { libc::CMSG_LEN(4) } as _;
    // SAFETY: it only computes.
    let place = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: the message has room for one descriptor.
    unsafe { place.cast::<[u8; 4]>().write(file.as_raw_fd().to_ne_bytes()) };
    // SAFETY: the message and what it names live until the call returns.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) };
    assert_eq!(sent, 8, "{}", std::io::Error::last_os_error());
}

pub(crate) fn receive(mut socket: &UnixStream) -> (u64, Option<OwnedFd>) {
    let mut bytes = [0_u8; 8];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control: Control = [0; 4];
    // SAFETY: zeros are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: it only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
    // SAFETY: the message and what it names live until the call returns.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let received = usize::try_from(received).expect("the peer lives");
    assert_ne!(received, 0, "the peer has ended");
    socket.read_exact(&mut bytes[received..]).expect("the peer lives");
    // SAFETY: the message was filled by the system.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    let file = (!header.is_null()).then(|| {
        // SAFETY: it only computes.
        let place = unsafe { libc::CMSG_DATA(header) };
        // SAFETY: the system wrote one descriptor.
        let file = unsafe { place.cast::<[u8; 4]>().read() };
        // SAFETY: it is this process's from now on.
        unsafe { OwnedFd::from_raw_fd(c_int::from_ne_bytes(file)) }
    });
    (u64::from_ne_bytes(bytes), file)
}
