//! A session in the child of a fork of a process that has not used the driver, and an owner in that
//! of one that has. It is the only test of its process.
#![cfg(target_os = "linux")]

use std::ffi::c_int;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use rmm_core::Device;
use rmm_lease::protocol::{Granted, Lock, Message, encode};
use rmm_lease::{Lease, Server, ServerOptions};
use rustix::process::{Pid, WaitOptions, waitpid};

unsafe extern "C" {
    fn fork() -> c_int;
    fn _exit(status: c_int) -> !;
}

fn read_frame(stream: &mut UnixStream) -> Option<()> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let length = usize::try_from(u32::from_be_bytes(header)).ok()?;
    stream.read_exact(&mut vec![0; length]).ok()
}

/// Whether a call fails in a child because of the fork.
fn is_refused_in_child(call: impl FnOnce() -> Option<String>) -> bool {
    // SAFETY: the child makes one call, which takes no lock of another thread, and ends.
    let child = unsafe { fork() };
    if child == 0 {
        let is_refused = call().is_some_and(|error| error.contains("fork"));
        // SAFETY: it ends this process alone.
        unsafe { _exit(c_int::from(!is_refused)) };
    }
    let child = Pid::from_raw(child).expect("there are processes");
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).expect("it is ours").expect("it");
    status.exit_status() == Some(0)
}

#[test]
fn a_child_makes_no_request_of_its_parents_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("owner.sock");
    let listener = UnixListener::bind(&socket).expect("a new socket");
    let owner = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let (server_nonce, gpu_uuid) = (String::new(), String::new());
        let granted =
            Message::HandshakeResponse { lock_type: Granted::Write, server_nonce, gpu_uuid };
        let list = Message::ListAllocationsResponse { allocations: Vec::new() };
        let mut answers = 0;
        let mut next = granted;
        while read_frame(&mut stream).is_some() {
            stream.write_all(&encode(&next).expect("it is small")).expect("a client");
            (next, answers) = (list.clone(), answers + 1);
        }
        answers
    });
    let mut lease = Lease::connect(&socket, Lock::Write, None).expect("it is granted");
    lease.set_answer_time(Duration::from_secs(5));
    assert!(is_refused_in_child(|| lease.list().err().map(|error| error.to_string())));
    assert_eq!(lease.list().expect("the session goes on"), []);
    drop(lease);
    assert_eq!(owner.join().expect("it does not panic"), 2);

    let _machine = rmm_sim::enter();
    let socket = folder.path().join("other.sock");
    let device = Device::new(0).expect("the software device has one");
    let mut server = Server::bind(&socket, device, ServerOptions::default()).expect("it is new");
    let (stop, other) = UnixStream::pair().expect("the system has sockets");
    drop(stop);
    assert!(is_refused_in_child(|| server.run(&other).err().map(|error| error.to_string())));
    server.run(&other).expect("it is told to end");
}
